//! Little-endian bytes in and out.

use std::borrow::Cow;

use crate::Error;

/// Reads a section front to back; running out is [`Error::Truncated`].
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    at: &'a str,
}

impl<'a> Cursor<'a> {
    /// A cursor over `bytes`, which errors call `at`.
    pub(crate) fn new(bytes: &'a [u8], at: &'a str) -> Self {
        Self { rest: bytes, at }
    }

    pub(crate) fn take(&mut self, len: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) =
            self.rest.split_at_checked(len).ok_or_else(|| Error::truncated(self.at, len, self.rest.len()))?;
        self.rest = rest;
        Ok(taken)
    }

    /// As [`take`](Cursor::take), for a length that came from the bytes and may not even fit a `usize`.
    pub(crate) fn take_u64(&mut self, len: u64) -> Result<&'a [u8], Error> {
        self.take(usize::try_from(len).unwrap_or(usize::MAX))
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| Error::truncated(self.at, N, self.rest.len()))?;
        self.rest = rest;
        Ok(*taken)
    }

    pub(crate) fn u8(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(u8::from_le_bytes)
    }

    pub(crate) fn u16(&mut self) -> Result<u16, Error> {
        self.array().map(u16::from_le_bytes)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Error> {
        self.array().map(u32::from_le_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Error> {
        self.array().map(u64::from_le_bytes)
    }

    /// Everything that was not read yet.
    pub(crate) fn rest(self) -> &'a [u8] {
        self.rest
    }

    /// Checks that nothing is left over.
    pub(crate) fn finish(self) -> Result<(), Error> {
        if self.rest.is_empty() {
            return Ok(());
        }
        Err(Error::damaged(self.at, format!("{} bytes left over", self.rest.len())))
    }
}

/// The cells as little-endian bytes; free of charge on little-endian machines.
pub(crate) fn cells_as_bytes(cells: &[u16]) -> Cow<'_, [u8]> {
    if cfg!(target_endian = "little") {
        Cow::Borrowed(bytemuck::cast_slice(cells))
    } else {
        Cow::Owned(cells.iter().flat_map(|cell| cell.to_le_bytes()).collect())
    }
}

/// The cells that little-endian bytes stand for. An odd last byte is left out; callers check the length.
pub(crate) fn cells_from_bytes(bytes: &[u8]) -> Vec<u16> {
    bytes.as_chunks().0.iter().map(|&pair| u16::from_le_bytes(pair)).collect()
}

/// Appends numbers of `N` bytes each, growing the vector once.
pub(crate) fn push_le<const N: usize>(out: &mut Vec<u8>, numbers: impl ExactSizeIterator<Item = [u8; N]>) {
    let start = out.len();
    out.resize(start + numbers.len() * N, 0);
    let slots = out.split_at_mut(start).1.as_chunks_mut().0;
    for (slot, number) in slots.iter_mut().zip(numbers) {
        *slot = number;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_says_what_it_lacked() {
        let mut cursor = Cursor::new(&[1, 2, 0, 9], "here");
        assert_eq!(cursor.u8(), Ok(1));
        assert_eq!(cursor.u16(), Ok(2));
        assert_eq!(cursor.u32(), Err(Error::truncated("here", 4, 1)));
        assert_eq!(cursor.take_u64(u64::MAX), Err(Error::truncated("here", usize::MAX, 1)));
        assert_eq!(cursor.finish(), Err(Error::damaged("here", "1 bytes left over")));
    }

    #[test]
    fn cells_survive_as_bytes() {
        let cells = [0x1234, 0x8000, 0x7FC1];
        let bytes = cells_as_bytes(&cells);
        assert_eq!(bytes[..2], [0x34, 0x12]);
        assert_eq!(cells_from_bytes(&bytes), cells);
    }

    #[test]
    fn numbers_are_appended() {
        let mut out = vec![7];
        push_le(&mut out, [1u16, 258].iter().map(|n| n.to_le_bytes()));
        assert_eq!(out, [7, 1, 0, 2, 1]);
    }
}
