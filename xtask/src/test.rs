//! `cargo xtask test`

use anyhow::Result;
use clap::ValueEnum;

use crate::checks::{self, Check};

/// Set up what is missing and run every check that CI runs
///
/// Installs, where they are missing, the Rust targets wasm32-unknown-unknown and i686-unknown-linux-gnu (rustup), 32-bit
/// linking (gcc-N-multilib, apt-get), what `runtimes` and `demo` install (npm ci, apt-get), and cargo-fuzz (cargo install).
/// A step that cannot install what it needs fails and says what to install.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Leave a step out; may be repeated
    #[arg(long, value_name = "STEP")]
    skip: Vec<Check>,
    /// Run the other steps after one has failed
    #[arg(long)]
    keep_going: bool,
    /// Seconds for each fuzz target
    #[arg(long, value_name = "N", default_value_t = 5)]
    fuzz_seconds: u64,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    checks::run_all(Check::value_variants(), args.keep_going, &args.skip, args.fuzz_seconds)
}
