//! Memory-mapped files: the one place with unsafe code in this crate.

use crate::error::Error;
use std::fs::File;
use std::ops::Deref;
use std::path::Path;

/// A whole file, read-only.
///
/// Whoever truncates the file while it is mapped ends this process with SIGBUS, and whoever writes to it changes
/// what is read; both are caught where it matters by the fingerprints taken of what was read.
#[derive(Debug)]
pub(crate) struct Map(Option<memmap2::Mmap>);

impl Map {
    pub(crate) fn open(path: &Path) -> Result<Self, Error> {
        let file = File::open(path).map_err(Error::io("cannot open", path))?;
        let metadata = file.metadata().map_err(Error::io("cannot read", path))?;
        if metadata.is_dir() {
            return Err(Error::checkpoint(path, "this is a folder, a file is needed"));
        }
        if metadata.len() == 0 {
            return Ok(Self(None));
        }
        // SAFETY: the mapping is read-only and private to this type, and bytes are read as plain integers, for which every bit pattern
        // is valid. A file changed from outside while mapped gives other bytes or SIGBUS, as the type's documentation says.
        #[expect(unsafe_code)]
        let map = unsafe { memmap2::Mmap::map(&file) }.map_err(Error::io("cannot map", path))?;
        Ok(Self(Some(map)))
    }
}

impl Deref for Map {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.0.as_deref().unwrap_or_default()
    }
}
