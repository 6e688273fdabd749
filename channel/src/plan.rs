//! The path planner: the fewest bytes from what a receiver holds to a step.
//!
//! Steps are nodes, objects are edges that lead forward, and an anchor leads from nothing. The planner goes backward from the goal: it takes
//! entries by falling `to`, and when it takes one, the cost from its `to` to the goal is settled, for whatever leaves `to` leads to a later
//! step and has been taken. So one pass is exact, and it stops as soon as no open step can still be part of a cheaper path; pages are asked
//! for one by one, and of a run of 100,000 steps a joiner mostly needs none.

use crate::entry::{Entry, Kind};
use crate::error::Error;
use crate::head::Head;
use crate::layout::MAX_OPEN_STEPS;
use crate::page::{Page, PageRef};
use pulse_format::Fingerprint;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What a receiver holds: the cells of a step, ready to be patched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Held {
    /// Its number.
    pub step: u64,
    /// Of its cells, under seed 0.
    #[serde(with = "crate::entry::fingerprint")]
    pub fingerprint: Fingerprint,
}

/// A way from what is held to the goal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// What to apply, in this order; none if the goal is held already.
    pub entries: Vec<Entry>,
    /// Bytes to fetch: without what is there already.
    pub bytes: u64,
    /// The step that it leads to.
    pub goal: u64,
}

impl Path {
    /// Whether the path begins from nothing.
    pub fn joins(&self) -> bool {
        self.entries.first().is_some_and(|entry| entry.kind == Kind::Anchor)
    }
}

/// What the planner wants next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Next {
    /// This page: hand it to [`Planner::page`].
    Page(PageRef),
    /// Nothing: [`Planner::finish`] has the answer.
    Done,
}

/// An edge that a best path takes.
type Hop = (Entry, u64);

/// What a path costs, in the order in which paths are compared: bytes, then objects.
type Cost = (u64, usize);

/// Plans one path.
///
/// `missing` says how many bytes of an object are still to be fetched: all of them, fewer after a download that was cut, none if it is cached.
pub struct Planner<'a> {
    missing: &'a dyn Fn(&Entry) -> u64,
    held: Option<Held>,
    goal: u64,
    since: u64,
    run: String,
    /// Cost to the goal of each step from which it can be reached.
    open: BTreeMap<u64, Cost>,
    /// The next hop from each of them.
    hops: BTreeMap<u64, Hop>,
    best: Option<(Cost, Start)>,
    seen_goal: bool,
    fork: bool,
    next: Option<PageRef>,
}

#[derive(Debug, Clone)]
enum Start {
    Held,
    Anchor(Entry),
}

impl<'a> Planner<'a> {
    /// Begins at the newest step, or at `goal`.
    ///
    /// # Errors
    /// [`Error::NoPath`] for a goal that is not in the channel.
    pub fn new(
        head: &Head,
        goal: Option<u64>,
        held: Option<Held>,
        missing: &'a dyn Fn(&Entry) -> u64,
    ) -> Result<Self, Error> {
        let goal = goal.unwrap_or(head.step);
        if goal > head.step {
            return Err(Error::NoPath { step: goal, why: format!("the newest step is {}", head.step) });
        }
        if goal < head.since {
            return Err(Error::NoPath { step: goal, why: format!("only steps from {} on are kept", head.since) });
        }
        let mut planner = Self {
            missing,
            held,
            goal,
            since: head.since,
            run: head.run.clone(),
            open: BTreeMap::from([(goal, (0, 0))]),
            hops: BTreeMap::new(),
            best: None,
            seen_goal: false,
            fork: false,
            next: head.history,
        };
        planner.take(&head.entries)?;
        Ok(planner)
    }

    /// What is needed to go on.
    pub fn next(&self) -> Next {
        match self.next {
            Some(page) if page.to >= self.since && self.could_improve(page.to) => Next::Page(page),
            _ => Next::Done,
        }
    }

    /// Whether entries that lead to `newest` and older steps could be part of a better path, or tell whether the goal exists.
    fn could_improve(&self, newest: u64) -> bool {
        let open = self.open.range(..=newest).map(|(_, cost)| *cost).min();
        open.is_some_and(|open| self.best.as_ref().is_none_or(|(best, _)| open < *best))
    }

    /// Takes the bytes of the page that [`Planner::next`] asked for.
    ///
    /// # Errors
    /// [`Error::Page`] and what else is wrong with it; [`Error::Limit`] if more steps are open than a receiver can keep in mind.
    pub fn page(&mut self, bytes: &[u8]) -> Result<(), Error> {
        let Some(reference) = self.next else { return Ok(()) };
        let page = Page::parse(bytes, &reference, &self.run)?;
        self.next = page.before;
        self.take(&page.entries)
    }

    fn take(&mut self, entries: &[Entry]) -> Result<(), Error> {
        for entry in entries.iter().rev() {
            self.seen_goal |= entry.to == self.goal;
            self.settle_held(entry);
            let known = matches!(entry.kind, Kind::Anchor | Kind::Patch);
            if known && entry.to >= self.since && entry.from.is_none_or(|from| from >= self.since) {
                self.relax(entry);
            }
        }
        let open = self.open.len() as u64;
        if open > MAX_OPEN_STEPS as u64 {
            return Err(Error::Limit {
                what: "the number of steps to plan over",
                found: open,
                limit: MAX_OPEN_STEPS as u64,
            });
        }
        // Of a held step that nothing leads to any more, the fingerprint is not known here; the patch from it checks it.
        self.arrive_held();
        Ok(())
    }

    /// A held step under another fingerprint than the channel's is of no use.
    fn settle_held(&mut self, entry: &Entry) {
        if self.held.is_some_and(|held| held.step == entry.to && held.fingerprint != entry.fingerprint) {
            self.held = None;
            self.fork = true;
        }
    }

    fn relax(&mut self, entry: &Entry) {
        let Some((bytes, objects)) = self.open.get(&entry.to).copied() else { return };
        let cost = (bytes.saturating_add((self.missing)(entry)), objects + 1);
        if self.best.as_ref().is_some_and(|(best, _)| cost >= *best) {
            return;
        }
        match entry.from {
            None => self.best = Some((cost, Start::Anchor(entry.clone()))),
            Some(from) if self.open.get(&from).is_none_or(|known| cost < *known) => {
                self.open.insert(from, cost);
                self.hops.insert(from, (entry.clone(), entry.to));
            }
            Some(_) => {}
        }
    }

    fn arrive_held(&mut self) {
        let cost = self.held.and_then(|held| self.open.get(&held.step).copied());
        if let Some(cost) = cost.filter(|cost| self.best.as_ref().is_none_or(|(best, _)| cost < best)) {
            self.best = Some((cost, Start::Held));
        }
    }

    /// Whether the step that is held has another fingerprint in the channel: either side may be the one that went astray.
    pub fn held_differs(&self) -> bool {
        self.fork
    }

    /// The path.
    ///
    /// # Errors
    /// [`Error::NoPath`] if nothing leads to the goal.
    pub fn finish(self) -> Result<Path, Error> {
        let Some(((bytes, _), start)) = self.best else {
            let why = if self.seen_goal {
                "no anchor leads to it, nor anything from what is held"
            } else {
                "it was never published"
            };
            return Err(Error::NoPath { step: self.goal, why: why.to_string() });
        };
        let mut entries = Vec::new();
        let mut at = match start {
            Start::Held => self.held.map_or(self.goal, |held| held.step),
            Start::Anchor(anchor) => {
                let to = anchor.to;
                entries.push(anchor);
                to
            }
        };
        while at != self.goal {
            let Some((entry, to)) = self.hops.get(&at) else { break };
            entries.push(entry.clone());
            at = *to;
        }
        Ok(Path { entries, bytes, goal: self.goal })
    }
}

/// Plans with pages that can be had at once.
///
/// # Errors
/// Those of the planner, and of `fetch`.
pub fn plan<E: From<Error>>(
    head: &Head,
    goal: Option<u64>,
    held: Option<Held>,
    missing: &dyn Fn(&Entry) -> u64,
    mut fetch: impl FnMut(&PageRef) -> Result<Vec<u8>, E>,
) -> Result<Path, E> {
    let mut planner = Planner::new(head, goal, held, missing)?;
    while let Next::Page(page) = planner.next() {
        planner.page(&fetch(&page)?)?;
    }
    Ok(planner.finish()?)
}
