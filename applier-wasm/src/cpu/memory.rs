//! Memory that the caller owns, and the spans of it that tensors are bound to.

use crate::error::Error;
use crate::receiver::Failure;
use std::ops::Range;

/// Bytes that a session reads and writes in runs, never as a whole.
pub trait Memory {
    /// Fills `out` with the bytes from `start` on.
    ///
    /// # Errors
    /// Whatever keeps them from being read, as when they are no longer there.
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error>;

    /// Overwrites the bytes from `start` on.
    ///
    /// # Errors
    /// Whatever keeps them from being written, as when they are no longer there.
    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error>;

    /// How many bytes there are.
    fn length(&self) -> usize;

    /// Where `other` begins in the same memory, counted from the start of this one; `None` if the two share no memory, as is so of
    /// whatever Rust owns.
    fn distance(&self, other: &Self) -> Option<isize> {
        let _ = other;
        None
    }
}

impl Memory for &mut [u8] {
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.get(start..).and_then(|bytes| bytes.get(..out.len())).ok_or_else(outside)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        let span = self.get_mut(start..).and_then(|span| span.get_mut(..bytes.len())).ok_or_else(outside)?;
        span.copy_from_slice(bytes);
        Ok(())
    }

    fn length(&self) -> usize {
        self.len()
    }
}

impl Memory for Vec<u8> {
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.get(start..).and_then(|bytes| bytes.get(..out.len())).ok_or_else(outside)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        self.as_mut_slice().write(start, bytes)
    }

    fn length(&self) -> usize {
        self.len()
    }
}

fn outside() -> Error {
    Error::Misuse { what: "the memory of a tensor has become shorter".into() }
}

/// Where tensors' cells are: a range of some memory each, by number.
#[derive(Debug)]
pub(super) struct Spans<M>(Vec<(M, Range<usize>)>);

impl<M> Default for Spans<M> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

impl<M: Memory> Spans<M> {
    /// How many there are: the number of the next.
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn add(&mut self, memory: M, range: Range<usize>) {
        self.0.push((memory, range));
    }

    pub(super) fn memory(&self, span: usize) -> Option<&M> {
        self.0.get(span).map(|(memory, _)| memory)
    }

    /// Whether a span shares a byte with a range of `memory`.
    pub(super) fn overlaps(&self, span: usize, memory: &M, range: &Range<usize>) -> bool {
        let Some((own, held)) = self.0.get(span) else { return false };
        let Some(distance) = own.distance(memory) else { return false };
        let moved = |at: usize| at as i128 + distance as i128;
        (held.start as i128) < moved(range.end) && moved(range.start) < held.end as i128
    }

    /// Fills `out` with a span's bytes from `start` on.
    pub(super) fn read(&self, span: usize, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let (memory, range) = self.0.get(span).ok_or_else(outside)?;
        memory.read(range.start + start, out)
    }

    /// Overwrites what `before` gives with `after`, from a span's byte `start` on.
    ///
    /// # Errors
    /// Those of the memory; with [`Failure::Old`] it holds what it held.
    pub(super) fn write(
        &mut self,
        span: usize,
        start: usize,
        after: &[u8],
        before: impl FnOnce() -> Vec<u8>,
    ) -> Result<(), Failure> {
        let (memory, range) = self.0.get_mut(span).ok_or_else(|| Failure::Old(outside()))?;
        let start = range.start + start;
        // A write that fails may have written some.
        memory.write(start, after).map_err(|error| match memory.write(start, &before()) {
            Ok(()) => Failure::Old(error),
            Err(_) => Failure::Mixed(error),
        })
    }
}
