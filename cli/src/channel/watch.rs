//! `pulse watch`.

use super::publish::StepArgs;
use crate::report::{Report, event};
use crate::terminal::Terminal;
use clap::Args;
use pulse_channel::store::{Error, Publisher, Watch, now};
use pulse_encoder::Progress;
use serde_json::json;
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(Debug, Args)]
pub(crate) struct WatchArgs {
    /// Where the trainer writes checkpoints: folders or .safetensors files whose names end with the step, as checkpoint-500 or step_000500
    folder: PathBuf,
    /// The channel: a folder, s3://, gs://, az:// or abfs://
    channel: String,
    /// Look every so many seconds; a checkpoint that two looks find complete and unchanged is published
    #[arg(long, default_value_t = 2.0, value_name = "SECONDS")]
    interval: f64,
    /// Publish what is complete now, and end
    #[arg(long)]
    once: bool,
    #[command(flatten)]
    steps: StepArgs,
}

pub(crate) fn run(args: &WatchArgs, as_json: bool, terminal: &Terminal) -> Result<Report, Error> {
    let publisher = args.steps.open(&args.channel)?;
    let mut watch = Watch::new(args.folder.clone());
    let interval = Duration::from_secs_f64(args.interval.clamp(0.01, 86_400.0));
    let (mut quiet_looks, mut published, mut last_error) = (0, 0u64, None);
    loop {
        let result = look(args, &publisher, &mut watch, as_json, terminal);
        terminal.finish();
        match result {
            Ok(true) => (quiet_looks, published, last_error) = (0, published + 1, None),
            Ok(false) => quiet_looks += 1,
            // Nothing that waiting would heal.
            Err(error)
                if ["went_back", "published", "wrong_run", "key", "usage", "interrupted"].contains(&error.code()) =>
            {
                return Err(error);
            }
            Err(error) if args.once => return Err(error),
            Err(error) => {
                let message = error.to_string();
                if last_error.as_ref() != Some(&message) {
                    event(
                        as_json,
                        &format!("{message}\n"),
                        &json!({ "event": "error", "code": error.code(), "message": message }),
                    )?;
                }
                last_error = Some(message);
            }
        }
        // The second look settles what the first one saw.
        if terminal.is_cancelled() || (args.once && quiet_looks >= 2) {
            let text = format!("{published} steps published\n");
            return Ok(Report { text, json: json!({ "event": "ended", "published": published }) });
        }
        wait(interval, terminal);
    }
}

fn look(
    args: &WatchArgs,
    publisher: &Publisher,
    watch: &mut Watch,
    as_json: bool,
    terminal: &Terminal,
) -> Result<bool, Error> {
    let newest = publisher.newest()?;
    if let Some(head) = &newest
        && now().0 + args.steps.publisher.expires * 1800 > head.expires.0
    {
        // Half of its time is over: nobody is to become stale only because the trainer is slow.
        let expires = publisher.renew(terminal)?;
        event(as_json, "", &json!({ "event": "renewed", "expires": expires }))?;
    }
    let newest = newest.map(|head| (head.step, head.published));
    let Some(candidate) = watch.look(newest)? else { return Ok(false) };
    let published = args.steps.publish(publisher, &candidate.path, candidate.step, terminal)?.report();
    event(as_json, &published.text, &published.json)?;
    Ok(true)
}

fn wait(interval: Duration, terminal: &Terminal) {
    let until = Instant::now() + interval;
    while Instant::now() < until && !terminal.is_cancelled() {
        std::thread::sleep(Duration::from_millis(50).min(until.saturating_duration_since(Instant::now())));
    }
}
