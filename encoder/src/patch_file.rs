//! A patch on disk, its header read and checked.

use crate::error::Error;
use crate::looks::looks_like;
use crate::map::Map;
use crate::names::STANDARD;
use crate::zstd::Zstd;
use pulse_format::{Damage, Header, Limits, Part, Reader, Segment};
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Bytes read from a stream at once.
const CHUNK_BYTES: usize = 64 << 10;

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
    /// Opens a patch and checks its header and its length. Segments are checked when they are used. A pipe or a device is read as a
    /// stream, and so is standard input, which is named `-`.
    ///
    /// # Errors
    /// [`Error::Io`], [`Error::Patch`].
    pub fn open(path: &Path) -> Result<Self, Error> {
        if path == Path::new(STANDARD) {
            return Self::read(Some(PathBuf::from("standard input")), std::io::stdin().lock());
        }
        let metadata = std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        if metadata.is_file() || metadata.is_dir() {
            return Self::new(Some(path.to_path_buf()), Bytes::File(Map::open(path)?));
        }
        Self::read(Some(path.to_path_buf()), File::open(path).map_err(Error::io("cannot open", path))?)
    }

    /// Reads a patch from a stream into memory: no more of it than the reader of the format has found right.
    fn read(path: Option<PathBuf>, mut stream: impl Read) -> Result<Self, Error> {
        let mut reader = Reader::new(Zstd::default(), Limits::default());
        let mut bytes = Vec::new();
        let mut chunk = vec![0; CHUNK_BYTES];
        loop {
            let read = match stream.read(&mut chunk) {
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => continue,
                read => read.map_err(Error::io("cannot read", path.as_deref().unwrap_or(Path::new("the patch"))))?,
            };
            let mut rest = &chunk[..read];
            bytes.extend_from_slice(rest);
            let refuse = |error| refuse(path.as_deref(), &bytes, error);
            while reader.push(&mut rest).map_err(refuse)?.is_some() {}
            if read == 0 {
                reader.finish().map_err(refuse)?;
                break;
            }
        }
        Self::new(path, Bytes::Memory(bytes))
    }

    /// The same for a patch in memory.
    ///
    /// # Errors
    /// [`Error::Patch`].
    pub fn from_bytes(bytes: Vec<u8>) -> Result<Self, Error> {
        Self::new(None, Bytes::Memory(bytes))
    }

    fn new(path: Option<PathBuf>, bytes: Bytes) -> Result<Self, Error> {
        let refuse = |error| refuse(path.as_deref(), bytes.get(), error);
        let header = Header::read(bytes.get(), &Zstd::default(), &Limits::default()).map_err(refuse)?;
        let expected = header.patch_bytes().get();
        let found = bytes.get().len() as u64;
        if found < expected {
            let index = header.segments.iter().position(|segment| segment.byte_range().end > found).unwrap_or_default();
            return Err(refuse(pulse_format::Error::Truncated {
                part: Part::Segment(index),
                missing: expected - found,
            }));
        }
        if found > expected {
            return Err(refuse(pulse_format::Error::Damaged { part: Part::End, damage: Damage::Trailing }));
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

/// The error, and where the file is no patch at all, what it looks like instead.
fn refuse(path: Option<&Path>, bytes: &[u8], source: pulse_format::Error) -> Error {
    let no_patch = matches!(source, pulse_format::Error::Damaged { damage: Damage::Magic, .. }) || bytes.is_empty();
    let looks = looks_like(bytes).filter(|_| no_patch);
    let advice = looks.map(|looks| format!("; {looks}")).unwrap_or_default();
    Error::Patch { path: path.map(Path::to_path_buf), advice, source }
}

impl Bytes {
    fn get(&self) -> &[u8] {
        match self {
            Self::File(map) => map,
            Self::Memory(bytes) => bytes,
        }
    }
}
