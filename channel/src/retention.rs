//! What may be deleted: nothing that a promised step needs.
//!
//! A promise is one number, `since`: every step from there on can be reached from nothing, and the newest from every one of them. It holds if
//! `since` is the step of an anchor, and if everything that neither leads to an earlier step nor starts from one is kept: steps before an
//! anchor are not on any way from it.

use crate::entry::{Entry, Kind};

/// How much of a run stays.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// Promise at least so many of the newest published steps.
    pub steps: u64,
}

/// The `since` to promise from now on: the newest anchor that leaves `retention.steps` steps to be reached, never less than `since`.
///
/// `entries` are those of the head and of all its pages, in any order.
pub fn new_since<'a>(entries: impl Iterator<Item = &'a Entry> + Clone, since: u64, retention: Retention) -> u64 {
    let mut steps: Vec<u64> = entries.clone().filter(|entry| is_path(entry)).map(|entry| entry.to).collect();
    steps.sort_unstable();
    steps.dedup();
    let oldest = steps.len().saturating_sub(usize::try_from(retention.steps.max(1)).unwrap_or(usize::MAX));
    let oldest = steps.get(oldest).copied().unwrap_or(0);
    let anchors = entries.filter(|entry| entry.kind == Kind::Anchor && entry.to <= oldest).map(|entry| entry.to);
    anchors.max().unwrap_or(since).max(since)
}

/// Whether an entry belongs to what `since` promises.
pub fn is_promised(entry: &Entry, since: u64) -> bool {
    entry.to >= since && entry.from.is_none_or(|from| from >= since)
}

fn is_path(entry: &Entry) -> bool {
    matches!(entry.kind, Kind::Anchor | Kind::Patch)
}
