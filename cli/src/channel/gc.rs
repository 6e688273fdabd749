//! `pulse gc`.

use super::state::PublisherArgs;
use crate::report::{Report, grouped};
use crate::terminal::Terminal;
use clap::Args;
use pulse_channel::Retention;
use pulse_channel::store::{Collected, Error};
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(crate) struct GcArgs {
    /// The channel
    channel: String,
    /// Keep at least so many of the newest steps reachable, from nothing and from one another
    #[arg(long, value_name = "STEPS", value_parser = clap::value_parser!(u64).range(1..))]
    keep: u64,
    /// Delete what nobody has needed for so many hours
    #[arg(long, default_value_t = 24, value_name = "HOURS")]
    grace: u64,
    /// Only say what would be deleted
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    publisher: PublisherArgs,
}

pub(crate) fn run(args: &GcArgs, terminal: &Terminal) -> Result<Report, Error> {
    let publisher = args.publisher.open(&args.channel)?;
    let grace = args.grace.saturating_mul(3600);
    let collected = publisher.collect(Retention { steps: args.keep }, grace, args.dry_run, terminal)?;
    let Collected { since, deleted, waiting, uploads } = &collected;
    let verb = if args.dry_run { "would delete" } else { "deleted" };
    let bytes = |files: &[(String, u64)]| files.iter().map(|(_, bytes)| bytes).sum::<u64>();
    let mut text = String::new();
    for (path, bytes) in deleted {
        let _ = writeln!(text, "{verb} {path}, {} bytes", grouped(*bytes));
    }
    for (path, bytes, begun) in uploads {
        let _ = writeln!(text, "{verb} the upload of {path} that began at {begun}, {} bytes", grouped(*bytes));
    }
    let _ = writeln!(text, "{verb} {} files, {} bytes", deleted.len(), grouped(bytes(deleted)));
    if !waiting.is_empty() {
        let (files, bytes) = (waiting.len(), grouped(bytes(waiting)));
        let _ =
            writeln!(text, "{files} files, {bytes} bytes, stay until nobody has needed them for {} hours", args.grace);
    }
    let _ = writeln!(text, "steps from {since} on are promised");
    let list = |files: &[(String, u64)]| -> Value {
        files.iter().map(|(path, bytes)| json!({ "path": path, "bytes": bytes })).collect()
    };
    let uploads: Value =
        uploads.iter().map(|(path, bytes, begun)| json!({ "path": path, "bytes": bytes, "begun": begun })).collect();
    let json = json!({ "dry_run": args.dry_run, "since": since, "deleted": list(deleted), "waiting": list(waiting), "uploads": uploads });
    Ok(Report { text, json })
}
