//! What a command prints: text for people, one JSON object for programs.

use crate::failure::Failure;
use pulse_encoder::{OtherFiles, printable};
use pulse_format::{Header, Step};
use serde_json::{Value, json};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// Both forms of a result.
pub(crate) struct Report {
    pub(crate) text: String,
    pub(crate) json: Value,
}

impl Report {
    /// Prints to standard output, or to standard error where the result itself `took` that.
    pub(crate) fn print(&self, as_json: bool, took: bool) -> ExitCode {
        let text = if as_json { format!("{}\n", self.json) } else { visible(&self.text) };
        printed(write(&text, !took), ExitCode::SUCCESS)
    }
}

/// Prints something that happened while a command goes on: a line of text, or of JSON. A reader that closed the pipe ends the command.
pub(crate) fn event(as_json: bool, text: &str, json: &Value) -> Result<(), pulse_channel::store::Error> {
    let line = if as_json { format!("{json}\n") } else { visible(text) };
    write(&line, true).map_err(|source| pulse_channel::store::Error::Io {
        action: "cannot write to",
        path: "standard output".into(),
        source,
    })
}

/// The exit code after printing: that of the work, but a failure where something could not be printed. A reader that closed the pipe has
/// had enough, which is none.
pub(crate) fn printed(printed: std::io::Result<()>, code: ExitCode) -> ExitCode {
    match printed {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            let _ = write(&format!("pulse: cannot write to standard output: {error}\n"), false);
            ExitCode::FAILURE
        }
        _ => code,
    }
}

pub(crate) fn print_error(error: &dyn Failure, as_json: bool, took: bool) {
    let (descriptor, text) = if as_json { error_json(error) } else { error_text(error) };
    // What standard output does not take goes to standard error; what nobody can see leaves the exit code to tell.
    if write(&text, descriptor == 1 && !took).is_err() {
        let _ = write(&text, false);
    }
}

/// An error for people, and the descriptor that it goes to.
pub(crate) fn error_text(error: &dyn Failure) -> (i32, String) {
    (2, format!("pulse: {}\n", visible(&error.to_string())))
}

/// The same for programs.
pub(crate) fn error_json(error: &dyn Failure) -> (i32, String) {
    (1, format!("{}\n", json!({ "error": { "code": error.code(), "message": error.to_string() } })))
}

fn write(text: &str, to_output: bool) -> std::io::Result<()> {
    if to_output {
        let mut output = std::io::stdout().lock();
        output.write_all(text.as_bytes()).and_then(|()| output.flush())
    } else {
        std::io::stderr().lock().write_all(text.as_bytes())
    }
}

/// The same without control characters other than line ends: names are escaped where they are put in, and this is for those forgotten.
fn visible(text: &str) -> String {
    let visible = |character: char| {
        if character.is_control() && character != '\n' { char::REPLACEMENT_CHARACTER } else { character }
    };
    text.chars().map(visible).collect()
}

/// Bytes of the whole checkpoint that a patch is for.
pub(crate) fn dense_bytes(header: &Header) -> u64 {
    let bytes =
        header.tensors.iter().map(|tensor| tensor.cells().unwrap_or_default().get() * tensor.dtype.cell_bytes() as u64);
    bytes.sum()
}

/// What every command about a patch says of it.
pub(crate) fn patch_json(header: &Header) -> Value {
    let (cells, changes, bytes) = (header.cells().get(), header.changes().get(), header.patch_bytes().get());
    json!({
        "run_id": header.run_id,
        "base_step": header.base_step.map(Step::get),
        "target_step": header.target_step.get(),
        "tensors": header.tensors.len(),
        "segments": header.segments.len(),
        "cells": cells,
        "changes": changes,
        "density": ratio(changes, cells),
        "dense_bytes": dense_bytes(header),
        "patch_bytes": bytes,
        "header_bytes": header.payload_start.get(),
        "bytes_per_change": ratio(bytes, changes),
        "base_fingerprint": (!header.is_anchor()).then(|| header.base_fingerprint().to_string()),
        "target_fingerprint": header.target_fingerprint().to_string(),
    })
}

/// The same in one or two lines.
pub(crate) fn patch_text(header: &Header) -> String {
    let (cells, changes, bytes) = (header.cells().get(), header.changes().get(), header.patch_bytes().get());
    let Some(base_step) = header.base_step else {
        let dense = dense_bytes(header);
        return format!(
            "anchor of step {}: {} cells\n{} bytes, {:.3} of {}",
            header.target_step,
            grouped(cells),
            grouped(bytes),
            ratio(bytes, dense),
            grouped(dense)
        );
    };
    let mut text =
        format!("step {base_step} -> {}: {} of {} cells changed", header.target_step, grouped(changes), grouped(cells));
    if changes > 0 {
        let (density, dense) = (100.0 * ratio(changes, cells), dense_bytes(header));
        let _ = write!(
            text,
            " ({density:.3} %)\n{} bytes, {:.3} a change, {:.0}x smaller than {}",
            grouped(bytes),
            ratio(bytes, changes),
            ratio(dense, bytes),
            grouped(dense)
        );
    } else {
        let _ = write!(text, "\n{} bytes", grouped(bytes));
    }
    text
}

/// Adds how long it took to both forms.
pub(crate) fn timed(header: &Header, verb: &str, elapsed: Duration) -> Report {
    let mut json = patch_json(header);
    json["seconds"] = elapsed.as_secs_f64().into();
    let text = format!("{}\n{verb} in {:.2} s\n", patch_text(header), elapsed.as_secs_f64());
    Report { text, json }
}

/// Adds what became of a folder's other files to both forms.
pub(crate) fn with_others(mut report: Report, others: &OtherFiles) -> Report {
    let name = |path: &PathBuf| printable(&path.to_string_lossy()).into_owned();
    let lists = [
        ("copied", others.copied.iter().map(name).collect::<Vec<_>>()),
        (UNPATCHED, others.unpatched.iter().map(name).collect()),
        ("left out, stale copies of the weights", others.stale.iter().map(name).collect()),
        ("left out", others.left_out.iter().map(|(path, why)| format!("{} ({why})", name(path))).collect()),
    ];
    lists.iter().for_each(|(title, names)| add_names(&mut report.text, title, names));
    let left_out = others.left_out.iter().map(|(path, why)| json!({ "path": path.to_string_lossy(), "reason": why }));
    report.json["copied"] = paths_json(&others.copied);
    report.json["unpatched"] = paths_json(&others.unpatched);
    report.json["stale"] = paths_json(&others.stale);
    report.json["left_out"] = left_out.collect::<Vec<_>>().into();
    report
}

/// Adds the weights that lie beside a checkpoint and are not in its patch to both forms.
pub(crate) fn with_outside(mut report: Report, outside: &[PathBuf]) -> Report {
    let names: Vec<_> = outside.iter().map(|path| printable(&path.to_string_lossy()).into_owned()).collect();
    add_names(&mut report.text, "not in the patch, for they are not part of the checkpoint", &names);
    report.json["outside"] = paths_json(outside);
    report
}

const UNPATCHED: &str = "copied as they are, though they hold weights that the patch does not";

/// A line with a title and the first few names, if there are any.
fn add_names(text: &mut String, title: &str, names: &[String]) {
    const SHOWN: usize = 8;
    if names.is_empty() {
        return;
    }
    let shown = names.iter().take(SHOWN).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = names.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let _ = writeln!(text, "{title}: {shown}{more}");
}

fn paths_json(paths: &[PathBuf]) -> Value {
    paths.iter().map(|path| path.to_string_lossy()).collect()
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

/// 1234567 as 1,234,567.
pub(crate) fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (place, digit) in digits.chars().enumerate() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// A bar of up to `width` characters for `part` of `whole`.
pub(crate) fn bar(part: u64, whole: u64, width: usize) -> String {
    let eighths = (ratio(part, whole) * 8.0 * width as f64).round() as usize;
    let mut bar = "█".repeat(eighths / 8);
    if !eighths.is_multiple_of(8) {
        bar.push(['▏', '▎', '▍', '▌', '▋', '▊', '▉'][eighths % 8 - 1]);
    }
    bar
}
