//! `pulse pack` and `pulse unpack`.

use crate::encode::CastArg;
use crate::report::{Report, timed};
use crate::terminal::Terminal;
use clap::Args;
use pulse_encoder::{Cast, Error, PackOptions, pack_file, unpack_file};
use pulse_format::Step;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct PackArgs {
    /// The checkpoint
    checkpoint: PathBuf,
    /// The anchor to write; - is standard output
    #[arg(short, long, value_name = "ANCHOR")]
    pub(crate) output: PathBuf,
    /// Cast FP32 and FP16 tensors first, rounding to nearest even
    #[arg(long, value_enum)]
    cast: Option<CastArg>,
    /// Number of the checkpoint, which the patches that follow start from
    #[arg(long)]
    step: u64,
    /// Names the training run in the header
    #[arg(long, default_value = "", value_name = "TEXT")]
    run_id: String,
    /// Seed of the fingerprints
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Args)]
pub(crate) struct UnpackArgs {
    /// The anchor; - is standard input
    anchor: PathBuf,
    /// The .safetensors file to write; - is standard output
    #[arg(short, long, value_name = "CHECKPOINT")]
    pub(crate) output: PathBuf,
}

pub(crate) fn pack(args: &PackArgs, terminal: &Terminal) -> Result<Report, Error> {
    let started = Instant::now();
    let options = PackOptions {
        cast: args.cast.map(Cast::from),
        run_id: args.run_id.clone(),
        step: Step(args.step),
        seed: args.seed,
        ..PackOptions::default()
    };
    let header = pack_file(&args.checkpoint, &args.output, &options, terminal)?;
    Ok(timed(&header, "packed", started.elapsed()))
}

pub(crate) fn unpack(args: &UnpackArgs, terminal: &Terminal) -> Result<Report, Error> {
    let started = Instant::now();
    let header = unpack_file(&args.anchor, &args.output, terminal)?;
    Ok(timed(&header, "unpacked and verified", started.elapsed()))
}
