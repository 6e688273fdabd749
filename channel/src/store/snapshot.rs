//! Whether a checkpoint stays as it is while it is read.

use super::error::Error;
use serde::{Deserialize, Serialize};
use std::fs;
use std::path::Path;
use std::time::UNIX_EPOCH;

/// Names, lengths and times of a checkpoint's files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Seen(Vec<(String, u64, u128)>);

impl Seen {
    /// Whether there is no weight file at all.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Of a file, or of the weights and the index in a folder.
    pub(crate) fn look(path: &Path) -> Result<Self, Error> {
        let refuse = || Error::io("cannot look at", path);
        let mut seen = Vec::new();
        let mut add = |path: &Path| {
            let metadata = fs::metadata(path)?;
            let modified = metadata.modified()?.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos();
            seen.push((path.to_string_lossy().into_owned(), metadata.len(), modified));
            Ok::<_, std::io::Error>(())
        };
        if path.is_dir() {
            for entry in fs::read_dir(path).map_err(refuse())? {
                let path = entry.map_err(refuse())?.path();
                let name = path.to_string_lossy();
                if name.ends_with(".safetensors") || name.ends_with(".safetensors.index.json") {
                    add(&path).map_err(Error::io("cannot look at", &path))?;
                }
            }
        } else {
            add(path).map_err(refuse())?;
        }
        seen.sort();
        Ok(Self(seen))
    }
}
