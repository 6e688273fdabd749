//! What encoding and applying take: `pulse` from the trainer's files to a receiver's.

use std::fs::{self, File};
use std::io::{BufReader, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, ensure};
use pulse_tests::fixtures::StepFile;
use serde_json::{Value, json};

use crate::process::{self, program};

/// One step's way from the trainer to the receiver.
pub(super) struct Row {
    step: u32,
    cells: u64,
    changes: u64,
    patch_bytes: u64,
    encode_seconds: f64,
    apply_seconds: f64,
    verified: bool,
}

impl Row {
    /// Encodes `base` → `target` into `patch`, applies that to the receiver's file and moves `receiver` on to the
    /// result, which is in `work`.
    pub(super) fn measure(
        pulse: &Path,
        (base, target): (&StepFile, &StepFile),
        patch: &Path,
        receiver: &mut PathBuf,
        work: &Path,
    ) -> Result<Self> {
        let received = work.join(format!("received_{:03}.safetensors", target.step));
        let mut encode = program_at(pulse);
        encode.arg("encode").args([&base.path, &target.path]).arg("-o").arg(patch);
        encode.args(["--base-step", &base.step.to_string(), "--target-step", &target.step.to_string()]);
        let (encoded, encode_seconds) = timed(&mut encode)?;
        let (_, apply_seconds) =
            timed(program_at(pulse).arg("apply").args([patch, receiver.as_path()]).arg("-o").arg(&received))?;

        let (cells, changes) = count(&base.path, &target.path)?;
        let claim_holds = encoded["changes"].as_u64().is_none_or(|claimed| claimed == changes);
        if !claim_holds {
            eprintln!("step {}: pulse reports {} changes, counted {changes}", target.step, encoded["changes"]);
        }
        let arrived = same_bytes(&received, &target.path)?;
        if !arrived {
            eprintln!("step {}: what the receiver holds is not {}", target.step, target.path.display());
        }
        // A whole chain would fill the disk; only what the receiver holds now is kept.
        if receiver.starts_with(work) && *receiver != base.path {
            fs::remove_file(&*receiver)?;
        }
        *receiver = received;
        let patch_bytes = fs::metadata(patch)?.len();
        let verified = claim_holds && arrived;
        Ok(Self { step: target.step, cells, changes, patch_bytes, encode_seconds, apply_seconds, verified })
    }

    pub(super) fn is_verified(&self) -> bool {
        self.verified
    }

    pub(super) fn patch_bytes(&self) -> u64 {
        self.patch_bytes
    }

    pub(super) fn to_json(&self) -> Value {
        json!({
            "step": self.step,
            "cells": self.cells,
            "changes": self.changes,
            "patchBytes": self.patch_bytes,
            "encodeSeconds": self.encode_seconds,
            "applySeconds": self.apply_seconds,
            "verified": self.verified,
        })
    }

    fn dense_bytes(&self) -> u64 {
        2 * self.cells
    }
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:>5} {:>11} {:>9} {:>9.3} {:>11} {:>8.3} {:>7.0}x {:>9.1} {:>8.1}  {}",
            self.step,
            self.cells,
            self.changes,
            100.0 * ratio(self.changes, self.cells),
            self.patch_bytes,
            ratio(self.patch_bytes, self.changes),
            ratio(self.dense_bytes(), self.patch_bytes),
            1e3 * self.encode_seconds,
            1e3 * self.apply_seconds,
            if self.verified { "yes" } else { "NO" },
        )
    }
}

pub(super) fn header() -> String {
    format!(
        "{:>5} {:>11} {:>9} {:>9} {:>11} {:>8} {:>8} {:>9} {:>8}  verified",
        "step", "cells", "changed", "density %", "patch bytes", "B/change", "vs dense", "encode ms", "apply ms"
    )
}

pub(super) fn total(rows: &[Row]) -> String {
    let sum = |of: fn(&Row) -> u64| rows.iter().map(of).sum::<u64>();
    let (dense, patches) = (sum(Row::dense_bytes), sum(|row| row.patch_bytes));
    format!(
        "{} steps: {dense} bytes dense, {patches} bytes of patches, {:.0}x fewer; {:.3} B/change",
        rows.len(),
        ratio(dense, patches),
        ratio(patches, sum(|row| row.changes)),
    )
}

fn ratio(numerator: u64, denominator: u64) -> f64 {
    numerator as f64 / denominator as f64
}

fn program_at(path: &Path) -> std::process::Command {
    program(&path.to_string_lossy())
}

/// Runs a `pulse` command with `--json`: its report, and the seconds it reports, or else took from start to end.
fn timed(command: &mut std::process::Command) -> Result<(Value, f64)> {
    let start = Instant::now();
    let text = process::output(command.arg("--json"))?;
    let wall = start.elapsed().as_secs_f64();
    let report: Value = serde_json::from_str(&text).with_context(|| format!("pulse --json wrote: {text}"))?;
    let seconds = report["seconds"].as_f64().unwrap_or(wall);
    Ok((report, seconds))
}

/// How many cells two BF16 files of the same tensors have, and how many of them differ.
fn count(base: &Path, target: &Path) -> Result<(u64, u64)> {
    let (mut base, mut target) = (tensor_bytes(base)?, tensor_bytes(target)?);
    let (mut cells, mut changes) = (0, 0);
    let (mut old, mut new) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let len = read_full(&mut base, &mut old)?;
        ensure!(len == read_full(&mut target, &mut new)?, "two steps of the chain differ in length");
        if len == 0 {
            return Ok((cells, changes));
        }
        cells += len as u64 / 2;
        let pairs = old[..len].chunks_exact(2).zip(new[..len].chunks_exact(2));
        changes += pairs.filter(|(old, new)| old != new).count() as u64;
    }
}

/// A safetensors file from the end of its header on.
fn tensor_bytes(path: &Path) -> Result<impl Read + use<>> {
    let mut file = BufReader::new(File::open(path)?);
    let mut header_len = [0; 8];
    file.read_exact(&mut header_len)?;
    file.seek_relative(i64::from_le_bytes(header_len))?;
    Ok(file)
}

fn same_bytes(one: &Path, other: &Path) -> Result<bool> {
    let (mut one, mut other) = (File::open(one)?, File::open(other)?);
    let (mut left, mut right) = (vec![0; 1 << 20], vec![0; 1 << 20]);
    loop {
        let len = read_full(&mut one, &mut left)?;
        if len != read_full(&mut other, &mut right)? || left[..len] != right[..len] {
            return Ok(false);
        }
        if len == 0 {
            return Ok(true);
        }
    }
}

/// Reads until the buffer is full or the input ends.
fn read_full(input: &mut impl Read, buffer: &mut [u8]) -> Result<usize> {
    let mut len = 0;
    while len < buffer.len() {
        match input.read(&mut buffer[len..])? {
            0 => break,
            read => len += read,
        }
    }
    Ok(len)
}

#[cfg(test)]
mod tests {
    use pulse_tests::fixtures::{ChainName, ExcerptChain};

    use super::*;

    #[test]
    fn changes_are_counted_as_the_fixtures_say() {
        let dir = tempfile::tempdir().unwrap();
        let chain = ExcerptChain::load(ChainName::Mature);
        let (base, target) = (chain.materialise(25, dir.path()), chain.materialise(26, dir.path()));
        let (cells, changes) = count(&base.path, &target.path).unwrap();
        assert_eq!(cells, chain.cells() as u64);
        assert_eq!(Some(changes), chain.changed(26).map(|changed| changed as u64));
    }

    #[test]
    fn one_byte_makes_files_different() {
        let dir = tempfile::tempdir().unwrap();
        let (one, other) = (dir.path().join("one"), dir.path().join("other"));
        let mut bytes = vec![7; (1 << 20) + 5];
        fs::write(&one, &bytes).unwrap();
        fs::write(&other, &bytes).unwrap();
        assert!(same_bytes(&one, &other).unwrap());
        bytes[1 << 20] = 8;
        fs::write(&other, &bytes).unwrap();
        assert!(!same_bytes(&one, &other).unwrap());
        fs::write(&other, &bytes[..1 << 20]).unwrap();
        assert!(!same_bytes(&one, &other).unwrap());
    }

    #[test]
    fn columns_line_up_with_their_heads() {
        let row = Row {
            step: 26,
            cells: 134_515_008,
            changes: 739_926,
            patch_bytes: 680_000,
            encode_seconds: 0.5,
            apply_seconds: 0.25,
            verified: true,
        };
        let line = row.to_string();
        let expected = ["26", "134515008", "739926", "0.550", "680000", "0.919", "396x", "500.0", "250.0", "yes"];
        assert_eq!(line.split_whitespace().collect::<Vec<_>>(), expected);
        assert_eq!(line.find(" yes"), header().find(" verified"));
        assert_eq!(
            total(&[row]),
            "1 steps: 269030016 bytes dense, 680000 bytes of patches, 396x fewer; 0.919 B/change"
        );
    }
}
