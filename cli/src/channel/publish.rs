//! `pulse publish`.

use super::state::PublisherArgs;
use crate::encode::CastArg;
use crate::report::{Report, grouped};
use crate::terminal::Terminal;
use clap::Args;
use pulse_channel::Entry;
use pulse_channel::store::{Error, Prepared, PublishOptions, Publisher};
use pulse_encoder::{Cast, Progress};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// How steps are published: of `publish` and `watch`.
#[derive(Debug, Args)]
pub(crate) struct StepArgs {
    /// Names the training run; needed once, for the first step
    #[arg(long, value_name = "NAME")]
    run: Option<String>,
    /// Cast FP32 and FP16 tensors first, rounding to nearest even
    #[arg(long, value_enum)]
    cast: Option<CastArg>,
    /// An anchor at least every so many steps
    #[arg(long, default_value_t = 100, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    anchor_every: u64,
    /// Make no folded patches
    #[arg(long)]
    no_fold: bool,
    #[command(flatten)]
    pub(crate) publisher: PublisherArgs,
}

#[derive(Debug, Args)]
pub(crate) struct PublishArgs {
    /// The channel: a folder, s3://, gs://, az:// or abfs://; credentials come from the environment
    channel: String,
    /// The checkpoint: a .safetensors file or a folder
    checkpoint: PathBuf,
    /// Its number
    #[arg(long)]
    step: u64,
    /// Give up the steps after --step's predecessor first: the run went back
    #[arg(long)]
    rewind: bool,
    #[command(flatten)]
    steps: StepArgs,
}

impl StepArgs {
    pub(crate) fn open(&self, channel: &str) -> Result<Publisher, Error> {
        let options = PublishOptions {
            run: self.run.clone(),
            cast: self.cast.map(Cast::from),
            anchor_every: self.anchor_every,
            ..self.publisher.options(channel)?
        };
        Publisher::open(channel, self.publisher.secret()?, options)
    }

    /// Publishes one step, and then what folds over it.
    pub(crate) fn publish(
        &self,
        publisher: &Publisher,
        checkpoint: &Path,
        step: u64,
        progress: &dyn Progress,
    ) -> Result<Published, Error> {
        let began = Instant::now();
        let prepared = publisher.prepare(checkpoint, step, progress)?;
        publisher.commit(&prepared, progress)?;
        let seconds = began.elapsed().as_secs_f64();
        // Receivers have the step by now; folds are for those who come later.
        let folds = if self.no_fold { 0 } else { publisher.fold(progress)? };
        Ok(Published { prepared, folds, seconds })
    }
}

/// A step that is in the channel.
pub(crate) struct Published {
    prepared: Prepared,
    folds: usize,
    seconds: f64,
}

impl Published {
    pub(crate) fn report(&self) -> Report {
        let Self { prepared: Prepared { step, entries, done, .. }, folds, seconds } = self;
        let mut text = String::new();
        if *done {
            let _ = writeln!(text, "step {step} was published before, with the same weights");
        }
        for Entry { kind, from, to, bytes, .. } in entries {
            let way = from.map_or_else(|| format!("of step {to}"), |from| format!("from step {from} to {to}"));
            let _ = writeln!(text, "{kind} {way}: {} bytes", grouped(*bytes));
        }
        if *folds > 0 {
            let _ = writeln!(text, "and {folds} folded over earlier steps");
        }
        if !done {
            let _ = writeln!(text, "published in {seconds:.2} s");
        }
        let json = json!({ "event": "published", "step": step, "entries": entries, "done": done, "folds": folds, "seconds": seconds });
        Report { text, json }
    }
}

pub(crate) fn run(args: &PublishArgs, terminal: &Terminal) -> Result<Report, Error> {
    let publisher = args.steps.open(&args.channel)?;
    if args.rewind {
        publisher.rewind_before(args.step, terminal)?;
    }
    Ok(args.steps.publish(&publisher, &args.checkpoint, args.step, terminal)?.report())
}
