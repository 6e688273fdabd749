//! Two profiles by position: absolute ones say what the cells become, which needs no base, for every dtype; relative ones what is
//! added to them, so that cells that all move by the same bits cost next to nothing. Both have the same payload.
//!
//! Gaps between positions are split into tokens and raw bits; tokens and the bytes of the values are planes.

use crate::bytes::Cursor;
use crate::codec::{Deflate, Inflate};
use crate::error::{Damage, Error, Part};
use crate::layout::{GAP_TOKENS, MAX_CELL_BYTES};
use crate::plane::{push_plane, read_plane};
use crate::raw::{self, RawReader, RawWriter};
use crate::token::{bucket, split};
use alloc::vec::Vec;

/// The changes of one segment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PositionalChanges {
    /// Which cells change, counted from 0 over the segment, ascending.
    pub positions: Vec<u32>,
    /// The new cells, little-endian, as many bytes each as a cell has; for relative segments what is added to the old ones.
    pub values: Vec<u8>,
}

impl PositionalChanges {
    /// How many.
    pub fn len(&self) -> usize {
        self.positions.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.positions.is_empty()
    }

    /// Absolute changes made relative to the cells before, which `pieces` hold one after the other.
    pub fn make_relative<'a>(&mut self, pieces: impl IntoIterator<Item = &'a [u8]>, cell_bytes: usize) {
        let mut pieces = pieces.into_iter();
        let (mut piece, mut start): (&[u8], usize) = (&[], 0);
        for (position, value) in self.positions.iter().zip(self.values.chunks_mut(cell_bytes.max(1))) {
            let byte = *position as usize * cell_bytes;
            while byte - start >= piece.len() {
                start += piece.len();
                let Some(next) = pieces.next() else { return };
                piece = next;
            }
            let before = piece.get(byte - start..).unwrap_or_default();
            subtract_cell(value, before);
        }
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.positions.clear();
        self.values.clear();
    }
}

/// Appends the payload of a segment whose cells have `cell_bytes` bytes.
pub fn encode(changes: &PositionalChanges, cell_bytes: usize, codec: &impl Deflate, out: &mut Vec<u8>) {
    let mut raw = RawWriter::default();
    let mut next = 0u32;
    let mut token = |position: &u32| {
        let gap = split(position.wrapping_sub(next));
        raw.push(gap.raw.into(), gap.raw_bits);
        next = position.wrapping_add(1);
        gap.token
    };
    let tokens: Vec<u8> = changes.positions.iter().map(&mut token).collect();
    push_plane(&tokens, codec, out);
    for plane in 0..cell_bytes {
        let bytes: Vec<u8> = changes.values.iter().skip(plane).step_by(cell_bytes).copied().collect();
        push_plane(&bytes, codec, out);
    }
    raw.write(codec, out);
}

/// Decodes the payload of a segment of `cells` cells of `cell_bytes` bytes each and `expected` changes.
///
/// # Errors
/// [`Error::Damaged`] or [`Error::Truncated`].
pub fn decode(
    bytes: &[u8],
    cells: u32,
    expected: u32,
    cell_bytes: usize,
    codec: &impl Inflate,
) -> Result<PositionalChanges, Error> {
    let mut cursor = Cursor::new(bytes, Part::Payload);
    let count = expected as usize;
    if cell_bytes == 0 || cell_bytes > MAX_CELL_BYTES || expected > cells {
        return Err(Error::Misuse { what: "a cell has 1 to 8 bytes, and changes are not more than cells" });
    }
    let [mut tokens, mut plane] = [const { Vec::new() }; 2];
    let tokens = read_plane(&mut cursor, count, codec, &mut tokens)?;
    let mut values = alloc::vec![0; count * cell_bytes];
    for place in 0..cell_bytes {
        let bytes = read_plane(&mut cursor, count, codec, &mut plane)?;
        values.iter_mut().skip(place).step_by(cell_bytes).zip(bytes).for_each(|(to, from)| *to = *from);
    }
    drop(plane);
    let bits = raw::read(&mut cursor, expected, codec)?;
    let mut raw = RawReader::new(&bits);
    let mut next = 0u64;
    let mut positions = Vec::with_capacity(count);
    for token in tokens.iter() {
        if usize::from(*token) >= GAP_TOKENS {
            return Err(cursor.damaged(Damage::Plane));
        }
        let gap = bucket(*token);
        let position = next + u64::from(gap.low) + (raw.take(gap.raw_bits) & u64::from(gap.mask));
        positions.push(position as u32);
        next = position + 1;
    }
    if next > u64::from(cells) {
        return Err(cursor.damaged(Damage::OutOfRange));
    }
    if !raw.ended_well() {
        return Err(cursor.damaged(Damage::RawBits));
    }
    Ok(PositionalChanges { positions, values })
}

/// Adds `difference` to `cell`, modulo its width, both little-endian.
#[inline(always)]
pub fn add_cell(cell: &mut [u8], difference: &[u8]) {
    let mut carry = false;
    for (cell, difference) in cell.iter_mut().zip(difference) {
        let (sum, over) = cell.overflowing_add(*difference);
        let (sum, carried) = sum.overflowing_add(carry.into());
        (*cell, carry) = (sum, over | carried);
    }
}

/// The inverse of [`add_cell`].
#[inline(always)]
pub fn subtract_cell(cell: &mut [u8], difference: &[u8]) {
    let mut borrow = false;
    for (cell, difference) in cell.iter_mut().zip(difference) {
        let (rest, under) = cell.overflowing_sub(*difference);
        let (rest, borrowed) = rest.overflowing_sub(borrow.into());
        (*cell, borrow) = (rest, under | borrowed);
    }
}
