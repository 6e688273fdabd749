//! What a follower's folder holds, told without reading the weights.
//!
//! The followed file gets its weights by one rename. What is written down beforehand is how the file looks before and after it, by length and
//! time, which a rename keeps: so after any end of the process the file says itself which of the two it is.

use super::error::Error;
use super::folder::sync_folder;
use super::state::{read_json, write_json};
use crate::Held;
use pulse_format::Fingerprint;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

/// The followed file, and what is known of it.
#[derive(Debug)]
pub(crate) struct Holdings {
    file: PathBuf,
    /// The step that is about to take its place.
    next: PathBuf,
    note: PathBuf,
}

/// A step, and the file that held it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
struct Kept {
    step: u64,
    #[serde(with = "crate::entry::fingerprint")]
    fingerprint: Fingerprint,
    bytes: u64,
    /// Nanoseconds since 1970.
    modified: u128,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Note {
    now: Option<Kept>,
    next: Option<Kept>,
}

impl Holdings {
    /// Of `file`, with notes in `state`, a folder on the same file system.
    pub(crate) fn new(file: PathBuf, state: &Path) -> Self {
        Self { file, next: state.join("next.safetensors"), note: state.join("held.json") }
    }

    /// The followed file.
    pub(crate) fn file(&self) -> &Path {
        &self.file
    }

    /// Where the next step is made.
    pub(crate) fn next(&self) -> &Path {
        &self.next
    }

    fn read(&self) -> Result<Option<Kept>, Error> {
        let note: Note = read_json(&self.note)?.unwrap_or_default();
        let Some((bytes, modified)) = look(&self.file)? else { return Ok(None) };
        let is = |kept: &Kept| (kept.bytes, kept.modified) == (bytes, modified);
        // While the next file is still under its own name, the rename has not been.
        let next = note.next.filter(|next| is(next) && !self.next.exists());
        Ok(next.or(note.now.filter(is)))
    }

    /// Ends what a process left that was killed in a swap: from here on the note tells of the followed file alone.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn settle(&self) -> Result<(), Error> {
        write_json(&self.note, &Note { now: self.read()?, next: None })?;
        match fs::remove_file(&self.next) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot delete", &self.next)(error))
            }
            _ => Ok(()),
        }
    }

    /// The step that the followed file holds; `None` if there is no file, or one that was not written here, or not so.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub(crate) fn held(&self) -> Result<Option<Held>, Error> {
        Ok(self.read()?.map(|Kept { step, fingerprint, .. }| Held { step, fingerprint }))
    }

    /// Whether the followed file is somebody else's.
    pub(crate) fn is_foreign(&self) -> Result<bool, Error> {
        Ok(look(&self.file)?.is_some() && self.read()?.is_none())
    }

    /// The file at [`Holdings::next`], which is whole and on disk, becomes the followed one.
    pub(crate) fn swap(&self, held: Held) -> Result<(), Error> {
        let Held { step, fingerprint } = held;
        let next = look(&self.next)?.map(|(bytes, modified)| Kept { step, fingerprint, bytes, modified });
        write_json(&self.note, &Note { now: self.read()?, next })?;
        fs::rename(&self.next, &self.file).map_err(Error::io("cannot name", &self.file))?;
        sync_folder(self.file.parent().unwrap_or(Path::new(".")))?;
        write_json(&self.note, &Note { now: next, next: None })
    }

    /// The weights are not what was noted.
    pub(crate) fn forget(&self) -> Result<(), Error> {
        write_json(&self.note, &Note::default())
    }
}

fn look(path: &Path) -> Result<Option<(u64, u128)>, Error> {
    match fs::metadata(path) {
        Ok(metadata) => {
            let modified = metadata.modified().map_err(Error::io("cannot look at", path))?;
            Ok(Some((metadata.len(), modified.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos())))
        }
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("cannot look at", path)(error)),
    }
}
