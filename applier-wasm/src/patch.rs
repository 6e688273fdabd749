//! A patch behind a [`Source`]: its header, and its segments by index.

use crate::error::Error;
use crate::inflate::Zstd;
use crate::source::Source;
use pulse_format::layout::PREAMBLE_BYTES;
use pulse_format::{Damage, Header, Limits, Part, Preamble, Segment};

/// An opened patch.
#[derive(Debug)]
pub struct Patch<S> {
    source: S,
    header: Header,
}

impl<S: Source> Patch<S> {
    /// Reads and checks the header.
    ///
    /// # Errors
    /// Those of the source, and [`Error::Patch`].
    pub async fn open(mut source: S, limits: &Limits) -> Result<Self, Error> {
        let mut bytes = source.read(0, PREAMBLE_BYTES).await.map_err(|error| at(error, Part::Preamble))?;
        let preamble = Preamble::read(&bytes, limits)?;
        let packed = source.read(PREAMBLE_BYTES as u64, preamble.packed_bytes as usize).await;
        bytes.extend(packed.map_err(|error| at(error, Part::Header))?);
        let header = Header::read(&bytes, &Zstd, limits)?;
        let (expected, found) = (header.patch_bytes().get(), source.length());
        match found {
            Some(found) if found < expected => {
                Err(pulse_format::Error::Truncated { part: Part::End, missing: expected - found }.into())
            }
            Some(found) if found > expected => {
                Err(pulse_format::Error::Damaged { part: Part::End, damage: Damage::Trailing }.into())
            }
            _ => Ok(Self { source, header }),
        }
    }

    /// What the patch says of itself.
    pub fn header(&self) -> &Header {
        &self.header
    }

    /// Says which segments will be read, in this order.
    pub fn expect(&mut self, segments: impl Iterator<Item = usize>) {
        let segments = segments.filter_map(|index| self.header.segments.get(index));
        let ranges: Vec<_> = segments.filter(|segment| segment.bytes > 0).map(Segment::byte_range).collect();
        self.source.expect(&ranges);
    }

    /// The bytes of segment `index`, their hash checked.
    ///
    /// # Errors
    /// Those of the source, and [`Error::Patch`].
    pub async fn payload(&mut self, index: usize) -> Result<Vec<u8>, Error> {
        let none = || Error::Misuse { what: format!("there is no segment {index}") };
        let segment: &Segment = self.header.segments.get(index).ok_or_else(none)?;
        if segment.bytes == 0 {
            return Ok(Vec::new());
        }
        let payload = self.source.read(segment.offset.get(), segment.bytes as usize).await;
        let payload = payload.map_err(|error| at(error, Part::Segment(index)))?;
        segment.check_payload(&payload).map_err(|error| error.in_segment(index))?;
        Ok(payload)
    }
}

/// Says where the bytes of a source ended.
fn at(error: Error, part: Part) -> Error {
    match error {
        Error::Patch(pulse_format::Error::Truncated { missing, .. }) => {
            Error::Patch(pulse_format::Error::Truncated { part, missing })
        }
        other => other,
    }
}
