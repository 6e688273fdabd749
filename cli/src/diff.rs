//! `pulse diff`.

use crate::encode::CastArg;
use crate::report::{Report, bar, grouped, ratio};
use crate::terminal::Terminal;
use clap::Args;
use pulse_encoder::{Cast, Checkpoint, Diff, Error, FormatDiff, STEP_BUCKETS, diff, printable};
use pulse_format::FloatFormat;
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct DiffArgs {
    /// The checkpoint before
    base: PathBuf,
    /// The checkpoint after
    target: PathBuf,
    /// Cast FP32 and FP16 tensors before comparing, rounding to nearest even
    #[arg(long, value_enum)]
    cast: Option<CastArg>,
    /// Show this many tensors, those with the most changes first; 0 shows all
    #[arg(long, default_value_t = 20, value_name = "N")]
    top: usize,
}

pub(crate) fn run(args: &DiffArgs, terminal: &Terminal) -> Result<Report, Error> {
    let (base, target) = (Checkpoint::open(&args.base)?, Checkpoint::open(&args.target)?);
    let diff = diff(&base, &target, args.cast.map(Cast::from), terminal)?;
    Ok(Report { text: text(&diff, args.top), json: json(&diff) })
}

fn text(diff: &Diff, top: usize) -> String {
    let (cells, changes) = (diff.cells(), diff.changes());
    let mut text =
        format!("{} of {} cells changed ({:.3} %)\n", grouped(changes), grouped(cells), 100.0 * ratio(changes, cells));
    let mut tensors: Vec<_> = diff.tensors.iter().filter(|tensor| tensor.changes > 0).collect();
    tensors.sort_by_key(|tensor| std::cmp::Reverse(tensor.changes));
    let shown = if top == 0 { tensors.len() } else { top.min(tensors.len()) };
    let _ = writeln!(text, "\n   changes   density  tensor ({} of {} changed)", tensors.len(), diff.tensors.len());
    for tensor in &tensors[..shown] {
        let density = 100.0 * ratio(tensor.changes, tensor.cells);
        let _ = writeln!(
            text,
            "{:>10} {density:>8.3} %  {} {} {:?}",
            tensor.changes,
            printable(&tensor.name),
            tensor.dtype,
            tensor.shape
        );
    }
    if shown < tensors.len() {
        let _ = writeln!(text, "           and {} more (--top 0 shows all)", tensors.len() - shown);
    }
    for (dtype, FormatDiff { format, classes }) in &diff.formats {
        let _ = writeln!(text, "\n{dtype}: exponent       cells   changes  P(change)     up");
        for (class, counts) in (0..).zip(classes).filter(|(_, counts)| counts.cells > 0) {
            let probability = ratio(counts.changes, counts.cells);
            let plot = bar(counts.changes, counts.cells, 20);
            let up = 100.0 * ratio(counts.up, counts.changes);
            let _ = writeln!(
                text,
                "{:>15} {:>11} {:>9} {:>8.4} % {up:>4.0} %  {plot}",
                exponents(*format, class),
                counts.cells,
                counts.changes,
                100.0 * probability
            );
        }
    }
    let moved: u64 = diff.steps.iter().sum();
    if moved > 0 {
        let _ = writeln!(text, "\n      ULP step   changes");
        for (bucket, count) in diff.steps.iter().enumerate().filter(|(_, count)| **count > 0) {
            let _ = writeln!(
                text,
                "{:>14} {count:>9} {:>7.3} %  {}",
                step_range(bucket),
                100.0 * ratio(*count, moved),
                bar(*count, moved, 30)
            );
        }
    }
    text
}

/// The exponent fields of a class.
fn exponents(format: FloatFormat, class: u8) -> String {
    let range = format.exponents(class);
    if range.start() == range.end() { range.start().to_string() } else { format!("{}-{}", range.start(), range.end()) }
}

fn step_range(bucket: usize) -> String {
    let low = 1u32 << bucket;
    match bucket {
        0 => "1".into(),
        _ if bucket == STEP_BUCKETS - 1 => format!("{low}+"),
        _ => format!("{low}-{}", 2 * low - 1),
    }
}

fn json(diff: &Diff) -> serde_json::Value {
    let classes = diff.formats.iter().map(|(dtype, FormatDiff { format, classes })| {
        let class = |(class, counts): (u8, &pulse_encoder::ClassDiff)| {
            json!({ "exponents": exponents(*format, class), "cells": counts.cells, "changes": counts.changes, "up": counts.up })
        };
        let listed: Vec<_> = (0..).zip(classes).filter(|(_, counts)| counts.cells > 0).map(class).collect();
        ((*dtype).to_string(), listed.into())
    });
    let steps: Vec<_> = diff
        .steps
        .iter()
        .enumerate()
        .map(|(bucket, count)| json!({ "ulp": step_range(bucket), "changes": count }))
        .collect();
    json!({
        "cells": diff.cells(),
        "changes": diff.changes(),
        "density": ratio(diff.changes(), diff.cells()),
        "tensors": diff.tensors,
        "classes": classes.collect::<serde_json::Map<_, _>>(),
        "steps": steps,
    })
}
