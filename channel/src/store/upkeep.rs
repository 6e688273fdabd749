//! What a channel needs besides steps: heads before they expire, another key, a run that went back, and an end to what nobody needs.

use super::clock::now;
use super::error::Error;
use super::folder::TEMPORARY;
use super::keys::SecretKey;
use super::listing::Listing;
use super::publisher::Publisher;
use super::state::{read_json, write_json};
use crate::layout::{HISTORY, MAX_ROTATIONS, OBJECTS};
use crate::{Entry, Hash, Retention, Rotation, Time, is_promised, new_since, parse_object_name};
use pulse_encoder::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What [`Publisher::collect`] did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    /// The oldest step that is promised now.
    pub since: u64,
    /// Objects and pages that are gone: path and bytes.
    pub deleted: Vec<(String, u64)>,
    /// Objects and pages that nobody needs any more, and that stay until the grace is over.
    pub waiting: Vec<(String, u64)>,
    /// This publisher's unfinished uploads, given up: path, bytes, when begun.
    pub uploads: Vec<(String, u64, Time)>,
}

/// The newest step of a channel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Newest {
    /// Its number.
    pub step: u64,
    /// When it was published.
    pub published: Time,
    /// When the head that says so expires.
    pub expires: Time,
}

/// Promises, and since when this publisher knows of them: what an old one needed stays for a while, for whoever is on the way by its head.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Promises(Vec<(u64, Time)>);

impl Promises {
    fn add(&mut self, since: u64) {
        if self.0.last().is_none_or(|(last, _)| *last < since) {
            self.0.push((since, now()));
        }
    }

    /// The step from which on everything stays: the newest promise that is older than the grace. `None` if none is.
    fn needed(&self, grace: u64) -> Option<u64> {
        self.0.iter().rfind(|(_, at)| at.after(grace) <= now()).map(|(since, _)| *since)
    }

    fn forget_before(&mut self, needed: Option<u64>) {
        self.0.retain(|(since, _)| needed.is_none_or(|needed| *since >= needed));
    }
}

/// A name that a publisher gave.
enum Ours {
    Object(u64),
    Page,
    Temporary,
}

impl Ours {
    /// `None` for names that are not: whoever put them there has use for them.
    fn of(path: &str) -> Option<Self> {
        let name = path.rsplit('/').next().unwrap_or(path);
        if name.starts_with(TEMPORARY) {
            return Some(Self::Temporary);
        }
        match path.strip_prefix(HISTORY) {
            Some(name) => name.strip_suffix(".json")?.parse::<Hash>().ok().map(|_| Self::Page),
            None => parse_object_name(path.strip_prefix(OBJECTS)?).map(|(to, ..)| Self::Object(to)),
        }
    }
}

impl Publisher {
    /// Replaces the head by one that says the same and expires later; when it expires.
    ///
    /// # Errors
    /// [`Error::NoHead`], [`Error::Conflict`], and those of the place.
    pub fn renew(&self, progress: &dyn Progress) -> Result<Time, Error> {
        let before = self.head()?.ok_or_else(|| self.no_head())?;
        let head = self.next_head(&before.1)?;
        let expires = head.expires;
        self.put_head(head, &self.key, Some(&before.0), progress).map(|()| expires)
    }

    /// Hands the channel over to the key `to`: receivers that pinned this publisher's key go on with `to` by themselves.
    ///
    /// # Errors
    /// As [`Publisher::renew`].
    pub fn rotate(&self, to: &SecretKey, progress: &dyn Progress) -> Result<(), Error> {
        let before = self.head()?.ok_or_else(|| self.no_head())?;
        let mut head = self.next_head(&before.1)?;
        let (from, new) = (self.key.public(), to.public());
        if from == new {
            return Err(Error::Usage("the new key is the one that the channel has".into()));
        }
        let signature = self.key.sign(&Rotation::message(&from, &new, head.sequence, &head.run));
        head.rotations.push(Rotation { from, to: new, sequence: head.sequence, signature });
        let old = head.rotations.len().saturating_sub(MAX_ROTATIONS);
        head.rotations.drain(..old);
        head.key = new;
        self.put_head(head, to, Some(&before.0), progress)
    }

    /// Gives up all steps after `step`, which is then the newest; the run goes on from there. Receivers that hold a later one join anew.
    ///
    /// # Errors
    /// [`Error::Usage`] if `step` is not published or not promised any more, else as [`Publisher::renew`].
    pub fn rewind(&self, step: u64, progress: &dyn Progress) -> Result<(), Error> {
        let before = self.head()?.ok_or_else(|| self.no_head())?;
        let mut head = self.next_head(&before.1)?;
        let mut entries = self.store.listing(&head, head.since)?.entries;
        entries.retain(|entry| entry.to <= step);
        let newest = entries.iter().rfind(|entry| entry.to == step && is_promised(entry, head.since));
        let Some(newest) = newest else {
            return Err(Error::Usage(format!(
                "step {step} is not in the channel: rewind to one that is (`pulse status`)"
            )));
        };
        (head.step, head.fingerprint, head.history) = (step, newest.fingerprint, None);
        head.entries = entries.split_off(entries.iter().position(|entry| entry.to == step).unwrap_or(0));
        if !entries.is_empty() {
            self.page_out(&mut head, entries, progress)?;
        }
        self.put_head(head, &self.key, Some(&before.0), progress)
    }

    /// Promises no more than `retention` asks for, and deletes what no promise has needed for `grace` seconds. A dry run only looks.
    ///
    /// Nothing is deleted unless everything was listed and every page was read. A head is put first, so that a publisher that was stopped
    /// between its uploads and its head finds that the channel has moved on, instead of naming what is gone.
    ///
    /// # Errors
    /// [`Error::NoHead`], [`Error::Conflict`], and those of the place.
    pub fn collect(
        &self,
        retention: Retention,
        grace: u64,
        dry_run: bool,
        progress: &dyn Progress,
    ) -> Result<Collected, Error> {
        let before = self.head()?.ok_or_else(|| self.no_head())?;
        let head = &before.1.head;
        let note = self.path("promises.json");
        let mut promises: Promises = read_json(&note)?.unwrap_or_default();
        promises.add(head.since);
        let Listing { entries, pages } = self.store.listing(head, promises.needed(grace).unwrap_or(head.since))?;
        let listed = [self.store.list(OBJECTS)?, self.store.list(HISTORY)?].concat();
        let since = new_since(entries.iter(), head.since, retention);
        promises.add(since);
        let needed = promises.needed(grace);
        if !dry_run {
            let mut next = self.next_head(&before.1)?;
            next.since = since;
            self.put_head(next, &self.key, Some(&before.0), progress)?;
            promises.forget_before(needed);
            write_json(&note, &promises)?;
        }
        let promised: BTreeSet<String> =
            entries.iter().filter(|entry| is_promised(entry, since)).map(Entry::path).collect();
        let mut collected = Collected { since, deleted: Vec::new(), waiting: Vec::new(), uploads: Vec::new() };
        for (path, bytes, modified) in listed {
            let young = modified.after(grace) > now();
            let waits = match Ours::of(&path) {
                None => continue,
                Some(_) if promised.contains(&path) => continue,
                // The newest pages are those of the head that was there, and perhaps of the one that is there now.
                Some(Ours::Page) if pages.get(&path).is_some_and(|to| *to >= since) => continue,
                Some(Ours::Page) => young || pages.contains_key(&path),
                Some(Ours::Object(to)) if to < since => needed.is_none_or(|needed| to >= needed),
                Some(Ours::Object(_) | Ours::Temporary) => young,
            };
            match waits {
                true => collected.waiting.push((path, bytes)),
                false => {
                    if !dry_run {
                        self.store.delete(&path)?;
                    }
                    collected.deleted.push((path, bytes));
                }
            }
        }
        // Those of a step that is prepared go on with its commit.
        if !self.path("prepared.json").is_file() {
            collected.uploads = self.store.abort_uploads(dry_run)?;
        }
        Ok(collected)
    }

    fn no_head(&self) -> Error {
        Error::NoHead { place: self.store.shown().to_string() }
    }

    /// What the channel says of its newest step; `None` before the first.
    ///
    /// # Errors
    /// Those of the place, and of a head that is not this publisher's.
    pub fn newest(&self) -> Result<Option<Newest>, Error> {
        Ok(self.head()?.map(|(_, head)| {
            let head = head.head;
            let published = head.entries.iter().find(|entry| entry.to == head.step).map(|entry| entry.created);
            Newest { step: head.step, published: published.unwrap_or(head.created), expires: head.expires }
        }))
    }

    /// [`Publisher::rewind`] to the newest step before `step`, if the channel has `step` or later ones.
    ///
    /// # Errors
    /// As there.
    pub fn rewind_before(&self, step: u64, progress: &dyn Progress) -> Result<(), Error> {
        let Some((_, head)) = self.head()?.filter(|(_, head)| head.head.step >= step) else { return Ok(()) };
        let entries = self.store.listing(&head.head, head.head.since)?.entries;
        let kept = entries.iter().rfind(|entry| entry.to < step && is_promised(entry, head.head.since));
        let Some(kept) = kept else {
            let why = format!("the channel has no step before {step} to go on from: begin a new one");
            return Err(Error::Usage(why));
        };
        self.rewind(kept.to, progress)
    }
}
