//! From a path to a file: what a joiner does.

use super::access::Store;
use super::error::Error;
use crate::plan::Path as Way;
use crate::{Entry, Kind};
use pulse_encoder::{Progress, apply_file, unpack_file};
use pulse_format::Step;
use std::fs;
use std::path::Path;

/// Applies the object of `entry`, whose hash is right, to `base` and writes `out`, which may be `base`; an anchor needs no base.
///
/// # Errors
/// [`Error::Swapped`] if it is not the patch that the entry announces, and those of applying; `out` is then as it was.
pub(crate) fn apply_entry(
    entry: &Entry,
    object: &Path,
    base: &Path,
    out: &Path,
    progress: &dyn Progress,
) -> Result<(), Error> {
    let header = match entry.kind {
        Kind::Anchor => unpack_file(object, out, progress)?,
        _ => apply_file(object, base, out, progress)?.header,
    };
    let swapped = |why: &str| Err(Error::Swapped { place: entry.path(), why: why.to_string() });
    if (header.base_step.map(Step::get), header.target_step.get()) != (entry.from, entry.to) {
        return swapped("it leads from or to another step");
    }
    // Under another seed the patch has checked itself, and this number cannot be compared.
    if header.seed == 0 && header.target_fingerprint() != entry.fingerprint {
        return swapped("it leads to weights with another fingerprint");
    }
    Ok(())
}

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
        apply_entry(entry, &part, file, file, progress)?;
        fs::remove_file(&part).map_err(Error::io("cannot delete", &part))?;
    }
    Ok(())
}
