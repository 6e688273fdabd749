//! Memory that the caller owns.

use crate::error::Error;

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
}

impl Memory for &mut [u8] {
    fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        let bytes = self.get(start..).and_then(|bytes| bytes.get(..out.len())).ok_or_else(outside)?;
        out.copy_from_slice(bytes);
        Ok(())
    }

    fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        let place = self.get_mut(start..).and_then(|place| place.get_mut(..bytes.len())).ok_or_else(outside)?;
        place.copy_from_slice(bytes);
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
