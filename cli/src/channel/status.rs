//! `pulse status`.

use super::state::{PinnedKey, reading};
use crate::report::{Report, bar, grouped};
use clap::Args;
use pulse_channel::store::{Error, Listing, Store, now, verify};
use pulse_channel::{Costs, Entry, Head, Kind, SignedHead, costs};
use serde_json::{Value, json};
use std::fmt::Write as _;

#[derive(Debug, Args)]
pub(crate) struct StatusArgs {
    /// The channel: a folder, http(s)://, s3://, gs://, az:// or abfs://
    channel: String,
    /// The publisher's public key, or a file that holds it; without it nobody's signature is checked
    #[arg(long, value_name = "KEY")]
    key: Option<PinnedKey>,
    /// Show so many of the newest steps
    #[arg(long, default_value_t = 20, value_name = "N")]
    steps: usize,
}

pub(crate) fn run(args: &StatusArgs) -> Result<Report, Error> {
    let store = Store::open(&args.channel, reading())?;
    let served = store.head()?.ok_or_else(|| Error::NoHead { place: store.shown().to_string() })?;
    let signed = SignedHead::parse(served.bytes())?;
    let head = match args.key {
        Some(PinnedKey(key)) => signed.verify(&key, verify)?.head,
        None => signed.unverified().clone(),
    };
    let Listing { entries, .. } = store.listing(&head, head.since)?;
    let costs = costs(&entries, head.step, head.since);
    let text = text(&head, &entries, &costs, args);
    Ok(Report { text, json: json(&head, &entries, &costs, args) })
}

/// The steps that are to be shown, the newest last.
fn steps(entries: &[Entry], shown: usize) -> Vec<u64> {
    let mut steps: Vec<u64> = entries.iter().map(|entry| entry.to).collect();
    steps.dedup();
    steps.split_off(steps.len().saturating_sub(shown))
}

/// The patch that leads to `step` from the step before, and its bytes.
fn patch_to(entries: &[Entry], step: u64) -> Option<&Entry> {
    entries.iter().filter(|entry| entry.to == step && entry.kind == Kind::Patch).min_by_key(|entry| entry.span())
}

fn text(head: &Head, entries: &[Entry], costs: &Costs, args: &StatusArgs) -> String {
    let mut text = String::new();
    let checked = if args.key.is_some() { "signed by" } else { "says that it is signed by (not checked: --key)" };
    let _ = writeln!(text, "run {:?}, step {}, head number {}", head.run, head.step, head.sequence);
    let _ = writeln!(text, "{checked} {}", head.key);
    let (time, age) = (now(), now().0.saturating_sub(head.created.0));
    let _ = writeln!(text, "made at {}, {} ago; {}", head.created, duration(age), expiry(head));
    let total: u64 = entries.iter().map(|entry| entry.bytes).sum();
    let count = |kind: &Kind| entries.iter().filter(|entry| entry.kind == *kind).count();
    let _ = writeln!(
        text,
        "{} anchors, {} patches, {} bytes; steps from {} on are promised",
        count(&Kind::Anchor),
        count(&Kind::Patch),
        grouped(total),
        head.since
    );
    let joining = costs.joining.map_or_else(|| "no way".to_string(), |bytes| format!("{} bytes", grouped(bytes)));
    let _ = writeln!(text, "a joiner fetches {joining}\n");
    let rows = steps(entries, args.steps);
    let largest = rows.iter().filter_map(|step| patch_to(entries, *step)).map(|entry| entry.bytes).max().unwrap_or(0);
    let _ = writeln!(text, "{:>10} {:>14} {:>14} {:>16}  patch", "step", "patch", "anchor", "from there");
    for step in rows {
        let patch = patch_to(entries, step).map(|entry| entry.bytes);
        let anchor = entries.iter().find(|entry| entry.to == step && entry.kind == Kind::Anchor);
        let number = |bytes: Option<u64>| bytes.map_or_else(String::new, grouped);
        let plot = bar(patch.unwrap_or(0), largest, 24);
        let (anchor, from) = (number(anchor.map(|entry| entry.bytes)), number(costs.held.get(&step).copied()));
        let _ = writeln!(text, "{step:>10} {:>14} {anchor:>14} {from:>16}  {plot}", number(patch));
    }
    if head.expires < time {
        let _ = writeln!(text, "\nthe head has expired: receivers say that they are stale; publish, or `pulse renew`");
    }
    text
}

fn expiry(head: &Head) -> String {
    let left = head.expires.0.saturating_sub(now().0);
    match left {
        0 => format!("expired since {}", head.expires),
        left => format!("expires in {}", duration(left)),
    }
}

/// Seconds for people.
pub(crate) fn duration(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        7200..172_800 => format!("{} h", seconds / 3600),
        _ => format!("{} days", seconds / 86_400),
    }
}

fn json(head: &Head, entries: &[Entry], costs: &Costs, args: &StatusArgs) -> Value {
    let rows: Vec<Value> = steps(entries, args.steps)
        .into_iter()
        .map(|step| {
            let anchor = entries.iter().find(|entry| entry.to == step && entry.kind == Kind::Anchor);
            json!({
                "step": step,
                "patch_bytes": patch_to(entries, step).map(|entry| entry.bytes),
                "anchor_bytes": anchor.map(|entry| entry.bytes),
                "cost_from_there": costs.held.get(&step),
            })
        })
        .collect();
    json!({
        "run": head.run,
        "step": head.step,
        "sequence": head.sequence,
        "verified": args.key.is_some(),
        "key": head.key,
        "created": head.created,
        "expires": head.expires,
        "expired": head.expires < now(),
        "since": head.since,
        "entries": entries.len(),
        "bytes": entries.iter().map(|entry| entry.bytes).sum::<u64>(),
        "joining_bytes": costs.joining,
        "steps": rows,
    })
}
