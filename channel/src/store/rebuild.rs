//! From a path to a file: what a joiner does.

use super::access::Store;
use super::error::Error;
use crate::Kind;
use crate::plan::Path as Way;
use pulse_encoder::{Progress, apply_file, unpack_file};
use std::fs;
use std::path::Path;

/// Fetches the objects of `way` into `folder`, one after another, and applies each to `file`, which holds the step that the way begins with,
/// if it does not begin with an anchor. Downloads that were cut go on; after any error `file` holds a whole step, or is not there.
pub(crate) fn rebuild(
    store: &Store,
    way: &Way,
    folder: &Path,
    file: &Path,
    progress: &dyn Progress,
) -> Result<(), Error> {
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    for entry in &way.entries {
        let part = folder.join(format!("{}.part", entry.hash));
        store.fetch(entry, &part, progress)?;
        let header = match entry.kind {
            Kind::Anchor => unpack_file(&part, file, progress)?,
            _ => apply_file(&part, file, file, progress)?.header,
        };
        if header.target_fingerprint() != entry.fingerprint {
            let why = "it leads to weights with another fingerprint".to_string();
            return Err(Error::Swapped { place: entry.path(), why });
        }
        fs::remove_file(&part).map_err(Error::io("cannot delete", &part))?;
    }
    Ok(())
}
