//! `pulse encode`.

use crate::report::{Report, timed, with_outside};
use crate::terminal::Terminal;
use clap::{Args, ValueEnum};
use pulse_encoder::{Cast, EncodeOptions, Error, ProfileChoice, encode_file, weights_outside};
use pulse_format::Step;
use std::path::PathBuf;
use std::time::Instant;

#[derive(Debug, Args)]
pub(crate) struct EncodeArgs {
    /// The checkpoint that receivers hold
    base: PathBuf,
    /// The checkpoint that they are to hold
    target: PathBuf,
    /// The patch to write; - is standard output
    #[arg(short, long, value_name = "PATCH")]
    pub(crate) output: PathBuf,
    /// How to code what changed
    #[arg(long, value_enum, default_value = "auto")]
    profile: ProfileArg,
    /// Cast FP32 and FP16 tensors before comparing, rounding to nearest even
    #[arg(long, value_enum)]
    cast: Option<CastArg>,
    /// Number of the base
    #[arg(long, default_value_t = 0, value_name = "STEP")]
    base_step: u64,
    /// Number of the target [default: one after the base]
    #[arg(long, value_name = "STEP")]
    target_step: Option<u64>,
    /// Names the training run in the header
    #[arg(long, default_value = "", value_name = "TEXT")]
    run_id: String,
    /// Seed of the fingerprints
    #[arg(long, default_value_t = 0)]
    seed: u64,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum ProfileArg {
    /// Each part in the fewest bytes; the receiver must hold the base
    Auto,
    /// BF16, F16 and FP8 by ranks and ULP steps; the receiver must hold the base
    Contextual,
    /// About three times larger after training; may be applied to anything, twice
    Absolute,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
pub(crate) enum CastArg {
    /// To BF16
    Bf16,
}

impl From<CastArg> for Cast {
    fn from(CastArg::Bf16: CastArg) -> Self {
        Self::Bf16
    }
}

pub(crate) fn run(args: &EncodeArgs, terminal: &Terminal) -> Result<Report, Error> {
    let started = Instant::now();
    let options = EncodeOptions {
        profile: match args.profile {
            ProfileArg::Auto => ProfileChoice::Auto,
            ProfileArg::Contextual => ProfileChoice::Contextual,
            ProfileArg::Absolute => ProfileChoice::Absolute,
        },
        cast: args.cast.map(Cast::from),
        run_id: args.run_id.clone(),
        base_step: Step(args.base_step),
        target_step: Step(args.target_step.unwrap_or(args.base_step.saturating_add(1))),
        seed: args.seed,
        ..EncodeOptions::default()
    };
    let header = encode_file(&args.base, &args.target, &args.output, &options, terminal)?;
    let report = timed(&header, "encoded", started.elapsed());
    Ok(if args.target.is_dir() { with_outside(report, &weights_outside(&args.target)?) } else { report })
}
