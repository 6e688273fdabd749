//! The tool `pulse`: where builds leave it.

use std::env::consts::EXE_SUFFIX;
use std::path::PathBuf;

use anyhow::{Result, ensure};

use crate::process::{cargo, run};
use crate::workspace;

/// Builds `pulse` as the README says, for this machine.
pub(crate) fn build() -> Result<PathBuf> {
    run(cargo().args(["build", "--release", "--locked", "--package", "pulse-cli"]))?;
    built("", EXE_SUFFIX)
}

/// What a release build for the Rust target `triple` has left; an empty one is this machine's.
pub(crate) fn built(triple: &str, suffix: &str) -> Result<PathBuf> {
    let pulse = workspace::target_dir().join(triple).join("release").join(format!("pulse{suffix}"));
    ensure!(pulse.is_file(), "the build left no {}", pulse.display());
    Ok(pulse)
}
