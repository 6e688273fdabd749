//! `pulse verify`.

use crate::report::{Report, timed};
use crate::terminal::Terminal;
use clap::Args;
use pulse_encoder::{Error, verify_anchor_file, verify_file};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct VerifyArgs {
    /// The patch; - is standard input
    patch: PathBuf,
    /// The checkpoint that it starts from; an anchor has none
    #[arg(long)]
    base: Option<PathBuf>,
    /// The checkpoint that it should lead to, compared bit for bit
    #[arg(long)]
    target: Option<PathBuf>,
}

pub(crate) fn run(args: &VerifyArgs, terminal: &Terminal) -> Result<Report, Error> {
    let started = Instant::now();
    let target = args.target.as_deref();
    let header = match &args.base {
        Some(base) => verify_file(&args.patch, base, target, terminal)?,
        None => verify_anchor_file(&args.patch, target, terminal)?,
    };
    let what = if args.target.is_some() { "verified, and equal to the target," } else { "verified" };
    Ok(timed(&header, what, started.elapsed()))
}
