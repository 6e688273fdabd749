//! A patch on disk, its header read and checked.

use crate::error::Error;
use crate::map::Map;
use crate::zstd::Zstd;
use pulse_format::{Damage, Header, Limits, Place, Segment};
use std::path::{Path, PathBuf};

/// A patch in a file or in memory.
#[derive(Debug)]
pub struct PatchFile {
    path: Option<PathBuf>,
    bytes: Bytes,
    header: Header,
}

#[derive(Debug)]
enum Bytes {
    File(Map),
    Memory(Vec<u8>),
}

impl PatchFile {
    /// Opens a patch and checks its header and its length. Segments are checked when they are used.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Patch`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        Self::new(Some(path.to_path_buf()), Bytes::File(Map::open(path)?))
    }

    /// The same for a patch in memory.
    ///
    /// # Errors
    /// [`Error::Patch`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(None, Bytes::Memory(bytes))
    }

    fn new(path: Option<PathBuf>, bytes: Bytes) -> Result<Self, Error> {
        let refuse = Error::patch(path.as_deref());
        let header = Header::read(bytes.get(), &Zstd::default(), &Limits::default()).map_err(&refuse)?;
        let expected = header.patch_bytes().get();
        let found = bytes.get().len() as u64;
        if found < expected {
            let index = header.segments.iter().position(|segment| segment.byte_range().end > found).unwrap_or_default();
            return Err(refuse(pulse_format::Error::Truncated {
                place: Place::Segment(index),
                missing: expected - found,
            }));
        }
        if found > expected {
            return Err(refuse(pulse_format::Error::Damaged { place: Place::End, damage: Damage::Trailing }));
        }
        Ok(Self { path, bytes, header })
    }

    /// Everything but the payload.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Where it is, if in a file.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }

    /// The payload of a segment, unchecked.
    pub(crate) fn payload(&self, segment: &Segment) -> &[u8] {
        let range = segment.byte_range();
        self.bytes.get().get(range.start as usize..range.end as usize).unwrap_or_default()
    }
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::File(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}
