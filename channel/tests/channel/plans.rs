//! Paths against brute force.

use crate::support::{Made, anchor, fingerprint, head, made, patch};
use proptest::prelude::*;
use pulse_channel::{Entry, Error, Held, Kind, Path, hash, plan};
use std::collections::BTreeMap;

fn held(step: u64) -> Held {
    Held { step, fingerprint: fingerprint(step) }
}

fn path(made: &Made, goal: Option<u64>, from: Option<Held>, missing: &dyn Fn(&Entry) -> u64) -> Result<Path, Error> {
    plan(&made.head, goal, from, missing, |page| Ok(made.pages[&page.hash].clone()))
}

/// The fewest bytes by relaxing every edge until nothing changes, from the start forward: another way than the planner's.
fn brute_force(entries: &[Entry], goal: u64, from: Option<u64>, missing: &dyn Fn(&Entry) -> u64) -> Option<u64> {
    let mut cost: BTreeMap<u64, u64> = from.into_iter().map(|step| (step, 0)).collect();
    loop {
        let before = cost.clone();
        for entry in entries {
            let start = entry.from.map_or(Some(0), |from| cost.get(&from).copied());
            if let Some(through) = start.map(|start| start + missing(entry)) {
                let known = cost.entry(entry.to).or_insert(through);
                *known = through.min(*known);
            }
        }
        if cost == before {
            return cost.get(&goal).copied();
        }
    }
}

/// The path leads from what is held to the goal, without a gap, and costs what it says.
fn check_path(path: &Path, from: Option<Held>, goal: u64, missing: &dyn Fn(&Entry) -> u64) {
    let mut at = from.map(|held| held.step).filter(|_| !path.joins());
    for entry in &path.entries {
        assert_eq!(entry.from, if entry.kind == Kind::Anchor { None } else { at });
        at = Some(entry.to);
    }
    assert_eq!(at, Some(goal));
    assert_eq!(path.bytes, path.entries.iter().map(missing).sum::<u64>());
}

fn any_entries() -> impl Strategy<Value = Vec<Entry>> {
    let edge = (0u64..60, 1u64..12, 1u64..200).prop_map(|(from, span, bytes)| patch(from, from + span, bytes));
    let begin = (0u64..60, 1u64..2000).prop_map(|(to, bytes)| anchor(to, bytes));
    (prop::collection::vec(edge, 0..200), prop::collection::vec(begin, 1..8))
        .prop_map(|(edges, begins)| edges.into_iter().chain(begins).collect())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_path_is_cheaper(entries in any_entries(), from in prop::option::of(0u64..72), goal in 0u64..72, salt: u8) {
        let mut made = made(entries.clone());
        made.head.step = 100;
        let goal = goal.min(made.head.step);
        // Some are cached, some half fetched.
        let missing = |entry: &Entry| match hash(&[&entry.hash.0[..], &[salt]].concat()).0[0] {
            0..40 => 0,
            40..90 => entry.bytes / 2,
            _ => entry.bytes,
        };
        let best = brute_force(&entries, goal, from, &missing);
        match path(&made, Some(goal), from.map(held), &missing) {
            Ok(path) => {
                check_path(&path, from.map(held), goal, &missing);
                prop_assert_eq!(Some(path.bytes), best);
            }
            Err(error) => {
                prop_assert_eq!(error.code(), "no_path");
                prop_assert_eq!(best, None);
            }
        }
    }
}

/// A run as a publisher makes it: anchors every 500 steps, folds at every power of two.
fn long_run(steps: u64) -> Vec<Entry> {
    let mut entries = vec![anchor(0, 1_000_000)];
    for step in 1..=steps {
        entries.push(patch(step - 1, step, 4_000 + hash(&step.to_le_bytes()).0[0] as u64));
        for fold in [2, 4, 8, 16, 32].into_iter().filter(|fold| step % fold == 0) {
            entries.push(patch(step - fold, step, 4_000 * fold * 6 / 10));
        }
        if step % 500 == 0 {
            entries.push(anchor(step, 1_000_000));
        }
    }
    entries
}

#[test]
fn joiners_any_number_of_steps_behind_fetch_the_cheapest_path() {
    let entries = long_run(1200);
    let made = made(entries.clone());
    for behind in [0, 1, 5, 12, 31, 100, 1000, 1200] {
        let from = held(1200 - behind);
        let all = |entry: &Entry| entry.bytes;
        let path = path(&made, None, Some(from), &all).unwrap();
        check_path(&path, Some(from), 1200, &all);
        assert_eq!(Some(path.bytes), brute_force(&entries, 1200, Some(from.step), &all), "{behind} behind");
    }
}

#[test]
fn a_run_of_100_000_steps_is_planned_from_a_few_pages() {
    let made = made(long_run(100_000));
    let mut fetched = 0;
    for from in [None, Some(held(3)), Some(held(99_990)), Some(held(99_000))] {
        let path = plan(&made.head, None, from, &|entry| entry.bytes, |page| {
            fetched += 1;
            Ok::<_, Error>(made.pages[&page.hash].clone())
        })
        .unwrap();
        check_path(&path, from, 100_000, &|entry| entry.bytes);
        assert!(fetched <= 4, "{fetched} pages from {from:?}");
        fetched = 0;
    }
    assert!(made.pages.len() > 190);
}

#[test]
fn of_paths_that_cost_the_same_the_one_with_fewer_objects_wins() {
    let made = made(vec![anchor(0, 100), patch(0, 1, 5), patch(1, 2, 5), patch(0, 2, 10)]);
    let path = path(&made, None, Some(held(0)), &|entry| entry.bytes).unwrap();
    assert_eq!(path.entries, [patch(0, 2, 10)]);
}

#[test]
fn what_is_held_under_another_fingerprint_counts_for_nothing() {
    let made = made(vec![anchor(0, 100), patch(0, 1, 5), patch(1, 2, 5)]);
    let strange = Held { step: 1, fingerprint: fingerprint(99) };
    let path = path(&made, None, Some(strange), &|entry| entry.bytes).unwrap();
    assert!(path.joins());
    assert_eq!(path.bytes, 110);
}

#[test]
fn nothing_is_fetched_for_what_is_held() {
    let made = made(vec![anchor(0, 100), patch(0, 1, 5)]);
    let path = path(&made, None, Some(held(1)), &|entry| entry.bytes).unwrap();
    assert_eq!((path.entries.len(), path.bytes), (0, 0));
}

#[test]
fn entries_that_touch_steps_before_since_are_not_taken() {
    let mut head = head(vec![anchor(0, 1), patch(0, 4, 1), anchor(3, 1000), patch(3, 4, 1)]);
    head.since = 3;
    let made = Made { head, pages: std::collections::HashMap::new() };
    let taken = path(&made, None, Some(held(0)), &|entry| entry.bytes).unwrap();
    assert_eq!(taken.entries, [anchor(3, 1000), patch(3, 4, 1)]);
    let error = path(&made, Some(2), None, &|entry| entry.bytes).unwrap_err();
    assert!(error.to_string().contains("only steps from 3 on"), "{error}");
}

#[test]
fn a_step_that_is_not_there_is_named() {
    let made = made(vec![anchor(0, 100), patch(0, 2, 5)]);
    for (goal, why) in [(3, "the newest step is 2"), (1, "never published")] {
        let error = path(&made, Some(goal), None, &|entry| entry.bytes).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever is deleted after a new `since`, everything promised stays, from nothing and from every step.
    #[test]
    fn retention_keeps_every_promised_path(keep in 1u64..200, every in 1u64..60, steps in 1u64..150) {
        let mut entries = long_run(steps);
        entries.extend((1..=steps).filter(|step| step % every == 0).map(|step| anchor(step, 900_000)));
        let retention = pulse_channel::Retention { steps: keep };
        let since = pulse_channel::new_since(entries.iter(), 0, retention);
        prop_assert!(since <= steps.saturating_sub(keep - 1));
        let kept: Vec<_> = entries.into_iter().filter(|entry| pulse_channel::is_promised(entry, since)).collect();
        for step in since..=steps {
            prop_assert!(brute_force(&kept, step, None, &|entry| entry.bytes).is_some(), "{step} from nothing");
            prop_assert!(brute_force(&kept, steps, Some(step), &|entry| entry.bytes).is_some(), "from {step}");
        }
    }
}
