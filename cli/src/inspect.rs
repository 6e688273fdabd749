//! `pulse inspect`.

use crate::report::{Report, bar, grouped, patch_json, patch_text, ratio};
use clap::Args;
use pulse_encoder::{Error, PatchFile, printable};
use pulse_format::{Header, Profile};
use serde_json::json;
use std::fmt::Write as _;
use std::path::PathBuf;

#[derive(Debug, Args)]
pub(crate) struct InspectArgs {
    /// The patch; - is standard input
    patch: PathBuf,
    /// List every tensor
    #[arg(long)]
    tensors: bool,
}

pub(crate) fn run(args: &InspectArgs) -> Result<Report, Error> {
    let patch = PatchFile::open(&args.patch)?;
    let header = patch.header();
    Ok(Report { text: text(header, args.tensors), json: json(header) })
}

fn text(header: &Header, tensors: bool) -> String {
    let mut text = patch_text(header);
    let _ = write!(
        text,
        "\nheader {} bytes ({:.2} %), {} tensors, {} models, {} segments",
        grouped(header.payload_start.get()),
        100.0 * ratio(header.payload_start.get(), header.patch_bytes().get()),
        header.tensors.len(),
        header.models.len(),
        header.segments.len()
    );
    if !header.run_id.is_empty() {
        let _ = write!(text, "\nrun {}", printable(&header.run_id));
    }
    let base = if header.is_anchor() { "none".into() } else { header.base_fingerprint().to_string() };
    let _ = writeln!(text, "\nbase   {base}\ntarget {}", header.target_fingerprint());
    if tensors {
        for tensor in &header.tensors {
            let _ = writeln!(text, "  {:<8} {:?} {}", tensor.dtype.name(), tensor.shape, printable(&tensor.name));
        }
    }
    let _ = writeln!(text, "\nsegment profile         cells   changes    bytes B/change  density");
    let densest =
        header.segments.iter().map(|segment| ratio(segment.changes.into(), segment.cells.into())).fold(0.0, f64::max);
    for (index, segment) in header.segments.iter().enumerate() {
        let (changes, cells, bytes) = (segment.changes.into(), segment.cells.into(), segment.bytes.into());
        let density = ratio(changes, cells);
        let plot = if densest > 0.0 { bar((density / densest * 1e6) as u64, 1_000_000, 20) } else { String::new() };
        let first = header.tensors.get(segment.tensor).map(|tensor| printable(&tensor.name)).unwrap_or_default();
        let _ = writeln!(
            text,
            "{index:>7} {:<10} {cells:>10} {changes:>9} {bytes:>8} {:>8.3} {:>7.3} % {plot:<20} {first}",
            segment.profile.name(),
            ratio(bytes, changes),
            100.0 * density
        );
    }
    text
}

fn json(header: &Header) -> serde_json::Value {
    let mut json = patch_json(header);
    json["seed"] = header.seed.into();
    json["models"] = header.models.len().into();
    let tensor = |tensor: &pulse_format::Tensor| json!({ "name": tensor.name, "dtype": tensor.dtype.name(), "shape": tensor.shape });
    json["tensor_table"] = header.tensors.iter().map(tensor).collect();
    let segment = |(index, segment): (usize, &pulse_format::Segment)| {
        let model = if let Profile::Contextual { model } = segment.profile { Some(model) } else { None };
        let hash: String = segment.hash.iter().map(|byte| format!("{byte:02x}")).collect();
        let piece = |piece: pulse_format::Piece| json!({ "tensor": piece.tensor, "first_cell": piece.first_cell.get(), "cells": piece.cells });
        json!({
            "profile": segment.profile.name(),
            "model": model,
            "cells": segment.cells,
            "changes": segment.changes,
            "offset": segment.offset.get(),
            "bytes": segment.bytes,
            "blake3": if segment.bytes > 0 { Some(hash) } else { None },
            "base_fingerprint": (!header.is_anchor()).then(|| segment.base.to_string()),
            "target_fingerprint": segment.target.to_string(),
            "pieces": header.pieces(index).into_iter().map(piece).collect::<Vec<_>>(),
        })
    };
    json["segment_table"] = header.segments.iter().enumerate().map(segment).collect();
    json
}
