//! Watching a folder into which a trainer writes checkpoints.
//!
//! By looking, not by events: network disks and containers send none, and say so to nobody. A checkpoint counts as complete when everything that
//! its index and headers promise is there in full length, and two looks see the same.

use super::error::Error;
use super::snapshot::Seen;
use crate::Time;
use pulse_encoder::Checkpoint;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// A complete checkpoint that is to be published.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Its step, by its name.
    pub step: u64,
    /// Where it is.
    pub path: PathBuf,
}

/// What was seen of a folder so far.
#[derive(Debug)]
pub struct Watch {
    folder: PathBuf,
    seen: BTreeMap<u64, (PathBuf, Seen)>,
}

impl Watch {
    /// Of checkpoints in `folder`: folders and `.safetensors` files whose names end with a number, as `checkpoint-500` or `step_000500`.
    pub fn new(folder: PathBuf) -> Self {
        Self { folder, seen: BTreeMap::new() }
    }

    /// Looks once: the complete checkpoint that comes next after `newest`, of which the channel says that it was published at `published`.
    ///
    /// # Errors
    /// [`Error::WentBack`] if a lower step was written after the newest was published: the run began again. [`Error::Io`] if the folder cannot be read.
    pub fn look(&mut self, newest: Option<(u64, Time)>) -> Result<Option<Candidate>, Error> {
        let mut now = BTreeMap::new();
        let listed = fs::read_dir(&self.folder).map_err(Error::io("cannot list", &self.folder))?;
        for entry in listed {
            let path = entry.map_err(Error::io("cannot list", &self.folder))?.path();
            let Some(step) = step_of(&path) else { continue };
            // What is gone by now, or cannot be read yet, is looked at again the next time.
            let Ok(seen) = Seen::look(&path) else { continue };
            if seen.is_empty() {
                continue;
            }
            if let Some((newest, published)) = newest
                && step <= newest
            {
                let written = modified(&path).filter(|_| step < newest).is_some_and(|written| written > published);
                if written && self.is_settled(step, &path, &seen) && Checkpoint::open(&path).is_ok() {
                    return Err(Error::WentBack { step, newest, kept: step.saturating_sub(1) });
                }
                if !written {
                    continue;
                }
            }
            now.insert(step, (path, seen));
        }
        let complete = |(step, (path, seen)): (&u64, &(PathBuf, Seen))| {
            let settled = newest.is_none_or(|(newest, _)| *step > newest) && self.is_settled(*step, path, seen);
            match settled.then(|| Checkpoint::open(path)) {
                Some(Ok(_)) => Some(Candidate { step: *step, path: path.clone() }),
                Some(Err(error)) => {
                    tracing::debug!(step, %error, "not complete yet");
                    None
                }
                None => None,
            }
        };
        let next = now.iter().find_map(complete);
        self.seen = now;
        Ok(next)
    }

    /// Whether the last look saw the same.
    fn is_settled(&self, step: u64, path: &Path, seen: &Seen) -> bool {
        self.seen.get(&step).is_some_and(|(known, before)| known == path && before == seen)
    }
}

/// The number at the end of a name; none of a hidden or temporary one.
fn step_of(path: &Path) -> Option<u64> {
    let name = path.file_name()?.to_str()?;
    let name = if path.is_dir() { name } else { name.strip_suffix(".safetensors")? };
    let digits = name.len() - name.trim_end_matches(|letter: char| letter.is_ascii_digit()).len();
    let (words, number) = name.split_at_checked(name.len() - digits)?;
    let hidden = words.starts_with('.') || ["tmp", "temp"].iter().any(|word| words.to_lowercase().starts_with(word));
    if hidden { None } else { number.parse().ok() }
}

/// When the newest file of a checkpoint was written.
fn modified(path: &Path) -> Option<Time> {
    let of = |path: &Path| {
        let modified = fs::metadata(path).ok()?.modified().ok()?;
        Some(Time(modified.duration_since(UNIX_EPOCH).ok()?.as_secs()))
    };
    if !path.is_dir() {
        return of(path);
    }
    fs::read_dir(path).ok()?.filter_map(|entry| of(&entry.ok()?.path())).max()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_names() {
        let folder = tempfile::tempdir().unwrap();
        for (name, step) in [
            ("checkpoint-500", Some(500)),
            ("step_000025", Some(25)),
            ("global_step7", Some(7)),
            ("12", Some(12)),
            ("tmp-checkpoint-500", None),
            (".checkpoint-3", None),
            ("checkpoint-last", None),
            ("checkpoint-99999999999999999999", None),
        ] {
            let path = folder.path().join(name);
            fs::create_dir(&path).unwrap();
            assert_eq!(step_of(&path), step, "{name}");
        }
        fs::write(folder.path().join("model-3.safetensors"), "").unwrap();
        assert_eq!(step_of(&folder.path().join("model-3.safetensors")), Some(3));
        fs::write(folder.path().join("log-3"), "").unwrap();
        assert_eq!(step_of(&folder.path().join("log-3")), None);
    }
}
