//! The fixed bytes in front of the header.

use crate::bytes::Cursor;
use crate::codec::Inflate;
use crate::error::{Damage, Error, Part};
use crate::layout::{HASH_BYTES, MAGIC, PREAMBLE_BYTES, PREAMBLE_HASHED_BYTES, VERSION};
use crate::limits::Limits;
use alloc::vec::Vec;

/// What the first 52 bytes say: how long the header is, and its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preamble {
    /// Bytes of the zstd frame that follows.
    pub packed_bytes: u32,
    /// Bytes of the header inside it.
    pub raw_bytes: u32,
    /// BLAKE3 of the preamble up to here and the frame.
    pub hash: [u8; HASH_BYTES],
}

impl Preamble {
    /// Preamble and packed header.
    pub(super) fn write(raw: &[u8], packed: &[u8]) -> Result<Vec<u8>, Error> {
        let too_long = Error::Misuse { what: "the header is longer than 4 GiB" };
        let (Ok(raw_bytes), Ok(packed_bytes)) = (u32::try_from(raw.len()), u32::try_from(packed.len())) else {
            return Err(too_long);
        };
        let mut out = Vec::with_capacity(PREAMBLE_BYTES + packed.len());
        out.extend_from_slice(&MAGIC);
        out.extend_from_slice(&VERSION.to_le_bytes());
        out.extend_from_slice(&0u16.to_le_bytes());
        out.extend_from_slice(&packed_bytes.to_le_bytes());
        out.extend_from_slice(&raw_bytes.to_le_bytes());
        let hash = header_hash(&out, packed);
        out.extend_from_slice(&hash);
        out.extend_from_slice(packed);
        Ok(out)
    }

    /// Reads the first 52 bytes.
    ///
    /// # Errors
    /// [`Error::Damaged`], [`Error::Truncated`], [`Error::Unsupported`] for another version, [`Error::Limit`].
    pub fn read(bytes: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut cursor = Cursor::new(bytes, Part::Preamble);
        // A wrong first byte is no patch, however few bytes there are.
        if !MAGIC.starts_with(bytes) && !bytes.starts_with(&MAGIC) {
            return Err(cursor.damaged(Damage::Magic));
        }
        cursor.take(MAGIC.len())?;
        let version = u16::from_le_bytes(cursor.array()?);
        if version != VERSION {
            return Err(Error::Unsupported { what: "format version", found: version.into() });
        }
        let flags = u16::from_le_bytes(cursor.array()?);
        if flags != 0 {
            return Err(Error::Unsupported { what: "flags", found: flags.into() });
        }
        let packed_bytes = u32::from_le_bytes(cursor.array()?);
        let raw_bytes = u32::from_le_bytes(cursor.array()?);
        let hash = cursor.array()?;
        Limits::check("packed header size", packed_bytes.into(), limits.header_bytes)?;
        Limits::check("header size", raw_bytes.into(), limits.header_bytes)?;
        Ok(Self { packed_bytes, raw_bytes, hash })
    }

    /// The raw header, once its hash is checked. `bytes` begins with the preamble.
    pub(super) fn unpack(&self, bytes: &[u8], packed: &[u8], codec: &impl Inflate) -> Result<Vec<u8>, Error> {
        if header_hash(bytes.get(..PREAMBLE_HASHED_BYTES).unwrap_or_default(), packed) != self.hash {
            return Err(Error::header(Damage::HeaderHash));
        }
        let raw = codec.inflate(packed, self.raw_bytes as usize).filter(|raw| raw.len() == self.raw_bytes as usize);
        raw.ok_or(Error::header(Damage::HeaderFrame))
    }
}

fn header_hash(preamble: &[u8], packed: &[u8]) -> [u8; HASH_BYTES] {
    *blake3::Hasher::new().update(preamble).update(packed).finalize().as_bytes()
}
