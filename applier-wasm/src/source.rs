//! Where a patch's bytes come from.

use crate::error::Error;
use core::ops::Range;

/// Bytes of one patch, by range.
///
/// A receiver reads the header, then only the segments it needs, in order; then it may begin again.
#[expect(async_fn_in_trait, reason = "receivers are driven on one thread, in browsers above all")]
pub trait Source {
    /// Exactly `length` bytes from byte `offset` of the patch, or [`Error::Patch`] with `Truncated` where they end before.
    ///
    /// # Errors
    /// [`Error::Source`] if they cannot be had.
    async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Error>;

    /// Says which ranges will be read, in order, so that they can be fetched in fewer and larger pieces, and ahead.
    fn expect(&mut self, ranges: &[Range<u64>]) {
        let _ = ranges;
    }

    /// Bytes of the whole patch, where that is known by now.
    fn length(&self) -> Option<u64>;
}

/// A patch in memory.
impl Source for &[u8] {
    async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>, Error> {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        let end = start.saturating_add(length);
        self.get(start..end).map(<[u8]>::to_vec).ok_or_else(|| {
            let missing = end.saturating_sub(self.len().max(start)) as u64;
            Error::Patch(pulse_format::Error::Truncated { part: pulse_format::Part::Payload, missing })
        })
    }

    fn length(&self) -> Option<u64> {
        Some(self.len() as u64)
    }
}
