//! `pulse follow`.

use super::hooks::{News, exec, post};
use super::state::{PinnedKey, reading};
use super::status::duration;
use crate::report::{Report, event, grouped};
use crate::terminal::Terminal;
use clap::Args;
use pulse_channel::store::{Error, FollowOptions, Follower, Update, now};
use pulse_encoder::Progress;
use serde_json::json;
use std::path::PathBuf;
use std::time::Duration;

#[derive(Debug, Args)]
pub(crate) struct FollowArgs {
    /// The channel: a folder, http(s)://, s3://, gs://, az:// or abfs://
    channel: String,
    /// The folder whose checkpoint is kept current
    folder: PathBuf,
    /// The publisher's public key, or a file that holds it; needed the first time
    #[arg(long, value_name = "KEY")]
    key: Option<PinnedKey>,
    /// What the checkpoint is called
    #[arg(long, default_value = "model.safetensors", value_name = "NAME")]
    file: String,
    /// Look once and end
    #[arg(long)]
    once: bool,
    /// Stay at this step instead of the newest
    #[arg(long)]
    step: Option<u64>,
    /// Look about every so many seconds
    #[arg(long, default_value_t = 10.0, value_name = "SECONDS", value_parser = interval)]
    interval: f64,
    /// Run this by the shell after each new step; PULSE_STEP and PULSE_FILE say which. It is run again until it succeeds
    #[arg(long, value_name = "COMMAND")]
    exec: Option<String>,
    /// Post {"step", "file", "channel"} there after each new step, again until the server takes it
    #[arg(long, value_name = "URL")]
    post: Option<String>,
    /// Replace a checkpoint of that name that pulse did not write
    #[arg(long)]
    overwrite: bool,
}

fn interval(text: &str) -> Result<f64, String> {
    match text.parse() {
        Ok(seconds) if (0.1..=86_400.0).contains(&seconds) => Ok(seconds),
        _ => Err("not between 0.1 and 86400 seconds".into()),
    }
}

/// What was said last, so that it is not said at every look.
#[derive(Default)]
struct Said(Option<String>);

impl Said {
    fn is_new(&mut self, text: &str) -> bool {
        let new = self.0.as_deref() != Some(text);
        self.0 = Some(text.to_string());
        new
    }
}

pub(crate) fn run(args: &FollowArgs, as_json: bool, terminal: &Terminal) -> Result<Report, Error> {
    let pinned = match args.key {
        Some(PinnedKey(key)) => Some(key),
        None => Follower::pinned_in(&args.folder)?,
    };
    let pinned = pinned.ok_or_else(|| Error::Usage("name the publisher's public key: --key KEY".into()))?;
    let options =
        FollowOptions { file: args.file.clone(), goal: args.step, overwrite: args.overwrite, store: reading() };
    let mut follower = Follower::open(&args.channel, pinned, &args.folder, options)?;
    let (mut said, mut failures) = (Said::default(), 0u32);
    loop {
        let result = look(&mut follower, args, as_json, terminal);
        terminal.finish();
        match result {
            Err(error) if args.once || matches!(error.code(), "interrupted" | "usage") => return Err(error),
            _ if terminal.is_cancelled() => {
                return Ok(Report { text: String::new(), json: json!({ "event": "ended" }) });
            }
            Ok(report) if args.once => return Ok(report),
            Ok(_) => (said, failures) = (Said::default(), 0),
            Err(error) => {
                failures += 1;
                let (code, message) = (error.code(), error.to_string());
                if said.is_new(&message) {
                    let kind = if code == "expired" { "stale" } else { "error" };
                    event(
                        as_json,
                        &format!("{message}\n"),
                        &json!({ "event": kind, "code": code, "message": message }),
                    )?;
                }
            }
        }
        let wait = args.interval * f64::from(1u32 << failures.min(4));
        follower.wait(Duration::from_secs_f64(wait.min(args.interval.max(60.0))), terminal);
    }
}

/// One look, and what follows from it.
fn look(follower: &mut Follower, args: &FollowArgs, as_json: bool, terminal: &Terminal) -> Result<Report, Error> {
    let updated = follower.update(terminal);
    // Hooks that failed are tried again, also where the channel cannot be reached.
    let (report, updated) = match updated {
        Ok(Some(update)) => (Some(told(&update, follower)), Ok(())),
        Ok(None) => (None, Ok(())),
        Err(error) => (None, Err(error)),
    };
    if let Some(report) = report.as_ref().filter(|_| !args.once) {
        event(as_json, &report.text, &report.json)?;
    }
    if let Some(step) = follower.untold()? {
        let file = std::path::absolute(follower.file()).unwrap_or_else(|_| follower.file().to_path_buf());
        let news = News { step, file: &file, channel: follower.shown() };
        args.exec.as_ref().map_or(Ok(()), |command| exec(command, &news))?;
        args.post.as_ref().map_or(Ok(()), |url| post(url, &news))?;
        follower.tell(step)?;
    }
    updated?;
    match report {
        Some(report) => Ok(report),
        None => {
            let step = follower.standing()?.held;
            let text = step.map_or_else(String::new, |step| format!("step {step} is the newest, and held\n"));
            Ok(Report { text, json: json!({ "event": "current", "step": step }) })
        }
    }
}

fn told(update: &Update, follower: &Follower) -> Report {
    let Update { from, step, published, objects, bytes, fetching, applying } = update;
    let lag = now().0.saturating_sub(published.0);
    let way = from.map_or_else(|| format!("joined at step {step}"), |from| format!("step {from} -> {step}"));
    let text = format!(
        "{way}: {} bytes in {objects} objects, fetched in {:.2} s, applied in {:.2} s, {} after it was published\n",
        grouped(*bytes),
        fetching.as_secs_f64(),
        applying.as_secs_f64(),
        duration(lag)
    );
    let json = json!({
        "event": "updated",
        "from": from,
        "step": step,
        "file": follower.file(),
        "bytes": bytes,
        "objects": objects,
        "fetch_seconds": fetching.as_secs_f64(),
        "apply_seconds": applying.as_secs_f64(),
        "published": published,
        "lag_seconds": lag,
    });
    Report { text, json }
}
