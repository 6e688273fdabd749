//! `pulse apply`.

use crate::report::{Report, timed, with_others};
use crate::terminal::Terminal;
use clap::Args;
use pulse_encoder::{Error, apply_file};
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct ApplyArgs {
    /// The patch; - is standard input
    patch: PathBuf,
    /// The checkpoint that it starts from
    base: PathBuf,
    /// The checkpoint to write, laid out as the base is: a file for a file, a folder for a folder
    #[arg(short, long, value_name = "TARGET")]
    pub(crate) output: PathBuf,
}

pub(crate) fn run(args: &ApplyArgs, terminal: &Terminal) -> Result<Report, Error> {
    let started = Instant::now();
    let rebuilt = apply_file(&args.patch, &args.base, &args.output, terminal)?;
    let report = timed(&rebuilt.header, "applied and verified", started.elapsed());
    Ok(if args.base.is_dir() { with_others(report, &rebuilt.others) } else { report })
}
