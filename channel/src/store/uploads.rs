//! Uploads in parts, noted on disk: what was cut goes on, and what nobody goes on with can be given up. A store that bills for
//! parts shows them in no listing.

use super::clock::now;
use super::error::Error;
use super::state::{read_json, write_json};
use crate::time::Time;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

/// One upload under way.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Unfinished {
    /// Of the object, from the channel's folder.
    pub(crate) path: String,
    /// The store's name for it.
    pub(crate) id: String,
    pub(crate) bytes: u64,
    pub(crate) part_bytes: u64,
    pub(crate) begun: Time,
    /// What the store calls each part that it has.
    pub(crate) parts: BTreeMap<usize, String>,
}

/// The notes of one publisher; none are kept without a folder for them.
pub(crate) struct Uploads {
    folder: Option<PathBuf>,
}

impl Uploads {
    pub(crate) fn new(folder: Option<PathBuf>) -> Self {
        Self { folder }
    }

    fn file(&self, path: &str) -> Option<PathBuf> {
        self.folder.as_ref().map(|folder| folder.join(format!("{}.json", path.replace('/', "-"))))
    }

    /// An upload of the same object that was begun in the same way: its name has the hash of its bytes.
    pub(crate) fn find(&self, path: &str, bytes: u64, part_bytes: u64) -> Option<Unfinished> {
        let upload: Unfinished = read_json(&self.file(path)?).ok()??;
        (upload.path == path && upload.bytes == bytes && upload.part_bytes == part_bytes).then_some(upload)
    }

    pub(crate) fn begin(&self, path: &str, id: String, bytes: u64, part_bytes: u64) -> Result<Unfinished, Error> {
        let upload = Unfinished { path: path.to_string(), id, bytes, part_bytes, begun: now(), parts: BTreeMap::new() };
        self.note(&upload).map(|()| upload)
    }

    pub(crate) fn note(&self, upload: &Unfinished) -> Result<(), Error> {
        self.file(&upload.path).map_or(Ok(()), |file| write_json(&file, upload))
    }

    pub(crate) fn end(&self, path: &str) -> Result<(), Error> {
        match self.file(path).map(|file| (fs::remove_file(&file), file)) {
            Some((Err(error), file)) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot delete", &file)(error))
            }
            _ => Ok(()),
        }
    }

    pub(crate) fn all(&self) -> Result<Vec<Unfinished>, Error> {
        let Some(folder) = self.folder.as_ref().filter(|folder| folder.is_dir()) else { return Ok(Vec::new()) };
        let mut all = Vec::new();
        for entry in fs::read_dir(folder).map_err(Error::io("cannot list", folder))? {
            let path = entry.map_err(Error::io("cannot list", folder))?.path();
            if path.extension().is_some_and(|extension| extension == "json") {
                all.extend(read_json(&path)?);
            }
        }
        Ok(all)
    }
}
