//! One step of a trainer and one of a worker: two checkpoints into a patch, the patch and the first into the second.
//!
//! `cargo run -p pulse-encoder --example step [BASE TARGET]`; without arguments two small checkpoints of this repository's tests are used.

use pulse_encoder::{EncodeOptions, Silent, apply_file, encode_file, verify_file};
use pulse_format::Step;
use std::path::PathBuf;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let vectors = PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/vectors/v1"));
    let mut arguments = std::env::args().skip(1).map(PathBuf::from);
    let base = arguments.next().unwrap_or_else(|| vectors.join("mixed.base.safetensors"));
    let target = arguments.next().unwrap_or_else(|| vectors.join("mixed.target.safetensors"));
    let folder = tempfile::tempdir()?;
    let (patch, rebuilt) = (folder.path().join("26.pulse"), folder.path().join("rebuilt"));

    let options = EncodeOptions { base_step: Step(25), target_step: Step(26), ..EncodeOptions::default() };
    let header = encode_file(&base, &target, &patch, &options, &Silent)?;
    println!("{} of {} cells changed, {} bytes", header.changes(), header.cells(), header.patch_bytes());

    apply_file(&patch, &base, &rebuilt, &Silent)?;
    verify_file(&patch, &base, Some(&target), &Silent)?;
    println!("applied to the base: it is the target, bit for bit");
    Ok(())
}
