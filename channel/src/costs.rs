//! What every receiver would fetch.

use crate::entry::{Entry, Kind};
use crate::retention::is_promised;
use std::collections::BTreeMap;

/// Bytes from each step to a goal, and from nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Costs {
    /// Of a receiver that holds the step.
    pub held: BTreeMap<u64, u64>,
    /// Of one that holds nothing; `None` if no anchor leads to the goal.
    pub joining: Option<u64>,
}

/// The costs to `goal` by `entries`, all those of a channel by `to`, of which those that `since` promises count.
pub fn costs(entries: &[Entry], goal: u64, since: u64) -> Costs {
    let mut costs = Costs { held: BTreeMap::from([(goal, 0)]), joining: None };
    // By falling `to`, as the planner goes: when an entry is taken, the cost from its `to` is settled.
    for entry in entries.iter().rev().filter(|entry| is_promised(entry, since)) {
        let Some(cost) = costs.held.get(&entry.to).map(|cost| cost.saturating_add(entry.bytes)) else { continue };
        match (&entry.kind, entry.from) {
            (Kind::Anchor, _) => costs.joining = Some(costs.joining.map_or(cost, |best| best.min(cost))),
            (Kind::Patch, Some(from)) => {
                costs.held.entry(from).and_modify(|best| *best = cost.min(*best)).or_insert(cost);
            }
            _ => {}
        }
    }
    costs
}
