//! `cargo xtask lint`

use anyhow::Result;

use crate::checks::{self, Check};

/// Check formatting, clippy and documentation only
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Run the other steps after one has failed
    #[arg(long)]
    keep_going: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    checks::run_all(&[Check::Fmt, Check::Clippy, Check::Doc], args.keep_going, &[], 0)
}
