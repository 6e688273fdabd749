//! Cursor and varints: the small change of header and payload.

use crate::error::{Damage, Error, Part};
use alloc::vec::Vec;

/// Reads fields off the front of a slice. Every read is checked.
#[derive(Debug, Clone)]
pub(crate) struct Cursor<'a> {
    rest: &'a [u8],
    part: Part,
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(bytes: &'a [u8], part: Part) -> Self {
        Self { rest: bytes, part }
    }

    pub(crate) fn rest(&self) -> &'a [u8] {
        self.rest
    }

    pub(crate) fn damaged(&self, damage: Damage) -> Error {
        Error::Damaged { part: self.part, damage }
    }

    pub(crate) fn take(&mut self, length: usize) -> Result<&'a [u8], Error> {
        let missing = length.saturating_sub(self.rest.len()) as u64;
        let (taken, rest) = self.rest.split_at_checked(length).ok_or(Error::Truncated { part: self.part, missing })?;
        self.rest = rest;
        Ok(taken)
    }

    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }

    pub(crate) fn byte(&mut self) -> Result<u8, Error> {
        self.array::<1>().map(|[byte]| byte)
    }

    /// A signed number, written as `2d` if it is not below 0, else as `-2d - 1`.
    pub(crate) fn signed_varint(&mut self) -> Result<i64, Error> {
        let value = self.varint()?;
        Ok((value >> 1) as i64 ^ -((value & 1) as i64))
    }

    /// An unsigned LEB128 number in its shortest form.
    pub(crate) fn varint(&mut self) -> Result<u64, Error> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let byte = self.byte()?;
            let bits = u64::from(byte & 0x7f);
            if (bits << shift) >> shift != bits || (byte == 0 && shift > 0) {
                return Err(self.damaged(Damage::Number));
            }
            value |= bits << shift;
            if byte & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(self.damaged(Damage::Number))
    }

    /// A varint that must be at most `max`.
    pub(crate) fn varint_up_to(&mut self, max: u64) -> Result<u64, Error> {
        let value = self.varint()?;
        if value > max { Err(self.damaged(Damage::Number)) } else { Ok(value) }
    }
}

/// What [`Cursor::signed_varint`] reads.
pub(crate) fn push_signed_varint(out: &mut Vec<u8>, value: i64) {
    push_varint(out, ((value << 1) ^ (value >> 63)) as u64);
}

/// Appends an unsigned LEB128 number in its shortest form.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_round_trip_in_their_shortest_form_only() {
        for value in [0, 1, 127, 128, 300, u64::from(u32::MAX), u64::MAX - 1, u64::MAX] {
            let mut bytes = Vec::new();
            push_varint(&mut bytes, value);
            let mut cursor = Cursor::new(&bytes, Part::Header);
            assert_eq!(cursor.varint(), Ok(value));
            assert!(cursor.rest().is_empty());
            for cut in 0..bytes.len() {
                assert_eq!(Cursor::new(&bytes[..cut], Part::Header).varint().unwrap_err().code(), "truncated");
            }
        }
        let too_long: &[&[u8]] =
            &[&[0x80, 0], &[0xff, 0x80, 0], &[0xff; 11], &[255, 255, 255, 255, 255, 255, 255, 255, 255, 2]];
        for bytes in too_long {
            assert_eq!(Cursor::new(bytes, Part::Header).varint(), Err(Error::header(Damage::Number)));
        }
    }
}
