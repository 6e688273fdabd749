//! Folded patches: one over 2, 4, 8, 16 or 32 published steps.
//!
//! A fold over `2 n` steps needs the weights of `2 n` steps ago. They are not kept: a patch that leads *back* is, for each power of two that
//! is open, as the digits of a binary counter are. At an even step the base before leads back one more step, there the first fold begins; from
//! there the next patch back leads to where the fold of twice the span begins. So a step costs one patch back, and half a fold on average, and
//! the disk holds three checkpoints at most.

use super::error::Error;
use super::publisher::{BASE, BASE_NOTE, Base, PREVIOUS, PREVIOUS_NOTE, Publisher, entry, remove};
use super::state::{read_json, write_json};
use crate::{Entry, Kind};
use pulse_encoder::{EncodeOptions, Progress, apply_file, encode_file};
use pulse_format::{Header, Step};
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};

/// Spans are 2, 4, ... up to 2 to this power.
const MAX_LEVEL: usize = 5;
/// A fold is published if it has at most this part of the bytes that lead the same way without it.
const PAYS: (u64, u64) = (19, 20);
const NOTE: &str = "folds/folds.json";

/// Where the binary counter stands.
#[derive(Debug, Serialize, Deserialize)]
struct Folds {
    newest: Base,
    /// Steps since the count began.
    published: u64,
    /// By level; a patch back over 2 to the power of its level, from the count at which its digit was set.
    back: Vec<Option<Back>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Back {
    /// The step that it leads back to.
    to: u64,
    /// The fewest bytes that lead forward from there, to where the patch back begins.
    cost: u64,
}

impl Folds {
    fn begin(newest: Base) -> Self {
        Self { newest, published: 0, back: vec![None; MAX_LEVEL] }
    }
}

impl Publisher {
    /// Makes and publishes the folded patches that end at the newest step, as far as they pay; how many. To be called after each commit, when
    /// receivers have the step already; a step for which it was not called costs folds, and nothing else.
    ///
    /// # Errors
    /// [`Error::Conflict`] if somebody else published in the meantime, and those of disk and place. The next call begins anew.
    pub fn fold(&self, progress: &dyn Progress) -> Result<usize, Error> {
        let folder = self.path("folds");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        let (base, previous): (Option<Base>, Option<Base>) =
            (read_json(&self.path(BASE_NOTE))?, read_json(&self.path(PREVIOUS_NOTE))?);
        let state: Option<Folds> = read_json(&self.path(NOTE))?;
        let Some(base) = base else { return Ok(0) };
        let result = match (previous, state) {
            (_, Some(state)) if state.newest == base => Ok(0),
            (Some(previous), Some(state)) if state.newest == previous && self.path(PREVIOUS).is_file() => {
                self.fold_over(base, previous, state, progress)
            }
            _ => write_json(&self.path(NOTE), &Folds::begin(base)).map(|()| 0),
        };
        remove(&self.path(PREVIOUS_NOTE))?;
        remove(&self.path(PREVIOUS))?;
        for level in 0..=MAX_LEVEL {
            remove(&self.old(level))?;
            remove(&self.folded(level))?;
        }
        result
    }

    /// The weights of 2 to the power of `level` steps ago.
    fn old(&self, level: usize) -> PathBuf {
        self.path(&format!("folds/old-{level}.safetensors"))
    }

    fn folded(&self, level: usize) -> PathBuf {
        self.path(&format!("folds/fold-{level}"))
    }

    fn back(&self, level: usize) -> PathBuf {
        self.path(&format!("folds/back-{level}"))
    }

    fn fold_over(&self, base: Base, previous: Base, mut state: Folds, progress: &dyn Progress) -> Result<usize, Error> {
        let Some(before) = self.head()?.filter(|(_, head)| head.head.step == base.step) else { return Ok(0) };
        let head = &before.1.head;
        let patch = head.entries.iter().find(|entry| entry.from == Some(previous.step) && entry.to == base.step);
        let Some(mut cost) = patch.map(|patch| patch.bytes) else {
            return write_json(&self.path(NOTE), &Folds::begin(base)).map(|()| 0);
        };
        let (newest, published) = (self.path(BASE), state.published + 1);
        let (mut old, mut at, mut level) = (self.path(PREVIOUS), previous.step, 0);
        let mut entries: Vec<(Entry, PathBuf)> = Vec::new();
        while level < MAX_LEVEL && published.is_multiple_of(2 << level) {
            let Some(back) = state.back.get_mut(level).and_then(Option::take) else { break };
            let older = self.old(level + 1);
            apply_file(&self.back(level), &old, &older, progress)?;
            (old, at, level) = (older, back.to, level + 1);
            let fold = self.folded(level);
            let header = self.fold_encode(&head.run, (&old, at), (&newest, base.step), &fold, progress)?;
            let (bytes, halves) = (header.patch_bytes().get(), cost + back.cost);
            cost = halves.min(bytes);
            if u128::from(bytes) * u128::from(PAYS.1) <= u128::from(halves) * u128::from(PAYS.0) {
                entries.push((entry(Kind::Patch, Some(at), base.step, &header, &fold)?, fold));
            }
        }
        if let Some(back) = state.back.get_mut(level) {
            // Its steps are numbered forward, as a patch's have to be: nobody but this publisher reads it.
            self.fold_encode(&head.run, (&newest, 0), (&old, 1), &self.back(level), progress)?;
            *back = Some(Back { to: at, cost });
        }
        entries.retain(|(entry, _)| head.entries.iter().all(|known| known.hash != entry.hash));
        if !entries.is_empty() {
            let mut next = self.next_head(&before.1)?;
            for (entry, file) in &entries {
                self.store.store(&entry.path(), file, progress)?;
                next.entries.push(entry.clone());
            }
            self.put_head(next, &self.key, Some(&before.0), progress)?;
        }
        write_json(&self.path(NOTE), &Folds { newest: base, published, back: state.back })?;
        Ok(entries.len())
    }

    fn fold_encode(
        &self,
        run: &str,
        (from, from_step): (&Path, u64),
        (to, to_step): (&Path, u64),
        out: &Path,
        progress: &dyn Progress,
    ) -> Result<Header, Error> {
        let options = EncodeOptions {
            run_id: run.to_string(),
            base_step: Step(from_step),
            target_step: Step(to_step),
            ..EncodeOptions::default()
        };
        Ok(encode_file(from, to, out, &options, progress)?)
    }
}
