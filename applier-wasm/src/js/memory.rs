//! A `Uint8Array` as memory: runs are copied in and out, never the whole.

use crate::cpu::Memory;
use crate::error::Error;
use js_sys::Uint8Array;

/// Bytes of the caller's, of at most 4 GiB.
#[derive(Debug)]
pub(super) struct JsMemory(pub(super) Uint8Array);

impl JsMemory {
    /// The part from `start` on; its buffer may have been detached or have shrunk since it was bound.
    fn part(&self, start: usize, length: usize) -> Result<Uint8Array, Error> {
        let gone = || Error::Misuse { what: "the memory of a tensor was detached or has become shorter".into() };
        let end = start.checked_add(length).filter(|end| *end <= self.length()).ok_or_else(gone)?;
        Ok(self.0.subarray(start as u32, end as u32))
    }
}

impl Memory for JsMemory {
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        self.part(start, out.len())?.copy_to(out);
        Ok(())
    }

    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        self.part(start, bytes.len())?.copy_from(bytes);
        Ok(())
    }

    fn length(&self) -> usize {
        self.0.length() as usize
    }

    fn distance(&self, other: &Self) -> Option<isize> {
        let start = |memory: &Self| memory.0.byte_offset() as isize;
        (self.0.buffer() == other.0.buffer()).then(|| start(other) - start(self))
    }
}
