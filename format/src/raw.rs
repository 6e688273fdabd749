//! Raw bits: what tokens leave over of numbers, packed end to end and stored as they are, or as a zstd frame where they repeat.

use crate::bytes::{Cursor, push_varint};
use crate::codec::{Deflate, Inflate};
use crate::error::{Damage, Error};
use crate::layout::{MAX_RAW_BYTES, METHOD_STORED, METHOD_ZSTD};
use alloc::borrow::Cow;
use alloc::vec::Vec;

/// Packs bits, lowest first.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawWriter {
    /// Whole bytes up to `end`, then pending ones and zeros.
    bytes: Vec<u8>,
    end: usize,
    pending: u64,
    /// Bits of `pending`, below 8.
    bits: u32,
}

impl RawWriter {
    /// Appends the low `bits` (at most 56) of `value`, whose higher bits are zero.
    #[inline(always)]
    pub(crate) fn push(&mut self, value: u64, bits: u32) {
        const WINDOW: usize = 8;
        if self.bytes.len() < self.end + WINDOW {
            grow(&mut self.bytes);
        }
        self.pending |= value << self.bits;
        let window = self.bytes.get_mut(self.end..).and_then(<[u8]>::first_chunk_mut::<WINDOW>);
        window.into_iter().for_each(|window| *window = self.pending.to_le_bytes());
        let bits = self.bits + bits;
        self.end += bits as usize / 8;
        self.pending >>= bits / 8 * 8;
        self.bits = bits % 8;
    }

    /// Appends the bits: a method, and the bytes or the length that a frame unpacks to and the frame.
    pub(crate) fn write(&self, codec: &impl Deflate, out: &mut Vec<u8>) {
        let end = self.end + self.bits.div_ceil(8) as usize;
        let bits = self.bytes.get(..end).unwrap_or_default();
        match codec.deflate(bits).filter(|frame| frame.len() < bits.len()) {
            Some(frame) => {
                out.push(METHOD_ZSTD);
                push_varint(out, bits.len() as u64);
                out.extend_from_slice(&frame);
            }
            None => {
                out.push(METHOD_STORED);
                out.extend_from_slice(bits);
            }
        }
    }
}

/// Apart, so that the rest of a writer can stay in registers.
#[cold]
fn grow(bytes: &mut Vec<u8>) {
    bytes.resize(2 * bytes.len() + 256, 0);
}

/// The bits that [`RawWriter::write`] wrote of `changes` changes: all that is left of a payload.
pub(crate) fn read<'a>(cursor: &mut Cursor<'a>, changes: u32, codec: &impl Inflate) -> Result<Cow<'a, [u8]>, Error> {
    match cursor.byte()? {
        METHOD_STORED => Ok(Cow::Borrowed(cursor.rest())),
        METHOD_ZSTD => {
            let length = cursor.varint_up_to(u64::from(changes) * MAX_RAW_BYTES)? as usize;
            let bits = codec.inflate(cursor.rest(), length).filter(|bits| bits.len() == length);
            bits.map(Cow::Owned).ok_or(cursor.damaged(Damage::RawBits))
        }
        _ => Err(cursor.damaged(Damage::RawBits)),
    }
}

/// Unpacks what [`RawWriter`] packed. Past the end it gives zeros, which [`RawReader::ended_well`] notices.
#[derive(Debug)]
pub(crate) struct RawReader<'a> {
    bytes: &'a [u8],
    bit: usize,
}

impl<'a> RawReader<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, bit: 0 }
    }

    /// The next bits, lowest first, with more above them; moves on by `bits`, at most 57.
    #[inline(always)]
    pub(crate) fn take(&mut self, bits: u32) -> u64 {
        let rest = self.bytes.get(self.bit / 8..).unwrap_or_default();
        let window = rest.first_chunk().map_or_else(|| last_window(rest), |window| u64::from_le_bytes(*window));
        let window = window >> (self.bit % 8);
        self.bit += bits as usize;
        window
    }

    /// Whether all bytes were used and the bits that pad the last one are zeros.
    pub(crate) fn ended_well(&mut self) -> bool {
        self.bit.div_ceil(8) == self.bytes.len() && self.take(0) == 0
    }
}

/// Of fewer bytes than a window has.
#[cold]
fn last_window(rest: &[u8]) -> u64 {
    rest.iter().rev().fold(0, |window, byte| window << 8 | u64::from(*byte))
}
