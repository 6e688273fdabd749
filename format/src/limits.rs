//! What a receiver lets a patch ask for. Checked before memory is taken.

use crate::error::Error;
use crate::layout::MAX_SEGMENT_CELLS;

/// Upper bounds that a reader enforces before it allocates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Limits {
    /// Bytes of the header, packed and raw each, and of all tensor names, which the raw header shortens.
    pub header_bytes: u64,
    /// Tensors in the table.
    pub tensors: u64,
    /// Context models.
    pub models: u64,
    /// Segments in the table.
    pub segments: u64,
    /// Bytes of one segment.
    pub segment_bytes: u64,
}

impl Default for Limits {
    /// Enough for any model of today: 16 MiB of header, 2^20 tensors and segments, 2^12 models, 64 MiB a segment.
    fn default() -> Self {
        Self {
            header_bytes: 16 << 20,
            tensors: 1 << 20,
            models: 1 << 12,
            segments: 1 << 20,
            segment_bytes: 16 * MAX_SEGMENT_CELLS as u64,
        }
    }
}

impl Limits {
    pub(crate) fn check(what: &'static str, found: u64, allowed: u64) -> Result<(), Error> {
        if found > allowed { Err(Error::Limit { what, found, allowed }) } else { Ok(()) }
    }
}
