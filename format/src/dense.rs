//! The dense profile: what all cells of a segment become, without a base.
//!
//! Cells are split into planes, one for each of their bytes. Before that floats are turned by one bit, which puts the sign below the
//! mantissa, so that the highest plane is the exponent, or begins with it: few values, which rANS codes in 2 to 3 bits of a trained
//! BF16 weight. The other planes of such weights are noise.

use crate::bytes::Cursor;
use crate::codec::{Deflate, Inflate};
use crate::dtype::Dtype;
use crate::error::{Damage, Error, Part};
use crate::plane::{push_plane, read_plane};
use alloc::vec::Vec;

/// Appends the payload of a segment whose pieces hold `cells`, one after the other.
#[inline(always)]
pub fn encode(cells: &[&[u8]], dtype: Dtype, codec: &impl Deflate, out: &mut Vec<u8>) {
    let mut plane = Vec::new();
    for place in (0..dtype.cell_bytes()).rev() {
        plane.clear();
        match dtype.cell_bytes() {
            1 => cells.iter().for_each(|piece| plane.extend_from_slice(piece)),
            2 => take_plane::<2>(cells, place, is_turned(dtype), &mut plane),
            4 => take_plane::<4>(cells, place, is_turned(dtype), &mut plane),
            _ => take_plane::<8>(cells, place, is_turned(dtype), &mut plane),
        }
        push_plane(&plane, codec, out);
    }
}

/// Appends one byte of each cell of `WIDTH` bytes, turned by one bit if asked.
#[inline(always)]
fn take_plane<const WIDTH: usize>(pieces: &[&[u8]], place: usize, is_turned: bool, plane: &mut Vec<u8>) {
    let below = (place + WIDTH - 1) % WIDTH;
    for piece in pieces {
        let cells = piece.as_chunks::<WIDTH>().0;
        let start = plane.len();
        plane.resize(start + cells.len(), 0);
        let pairs = plane.iter_mut().skip(start).zip(cells);
        #[expect(clippy::indexing_slicing, reason = "both places are below the width")]
        match is_turned {
            true => pairs.for_each(|(byte, cell)| *byte = cell[place] << 1 | cell[below] >> 7),
            false => pairs.for_each(|(byte, cell)| *byte = cell[place]),
        }
    }
}

/// Whether cells are turned left by one bit, which puts the sign below the mantissa: floats wider than a byte.
fn is_turned(dtype: Dtype) -> bool {
    matches!(dtype, Dtype::Bf16 | Dtype::F16 | Dtype::F32 | Dtype::F64)
}

/// Decodes payloads; keeps its memory.
#[derive(Debug, Default)]
pub struct DenseDecoder {
    planes: [Vec<u8>; 2],
    cells: Vec<u8>,
}

impl DenseDecoder {
    /// The cells of a segment of `cells` cells, little-endian.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Truncated`].
    pub fn decode(&mut self, payload: &[u8], cells: u32, dtype: Dtype, codec: &impl Inflate) -> Result<&[u8], Error> {
        let mut cursor = Cursor::new(payload, Part::Payload);
        let count = cells as usize;
        let width = dtype.cell_bytes();
        let [high, low] = &mut self.planes;
        // Memory for cells is taken when there are some.
        if width == 2 {
            let high = read_plane(&mut cursor, count, codec, high)?;
            let low = read_plane(&mut cursor, count, codec, low)?;
            self.cells.resize(count * width, 0);
            let turn = u32::from(is_turned(dtype));
            for ((cell, high), low) in self.cells.as_chunks_mut().0.iter_mut().zip(high).zip(low) {
                *cell = u16::from_le_bytes([*low, *high]).rotate_right(turn).to_le_bytes();
            }
        } else {
            for place in (0..width).rev() {
                let plane = read_plane(&mut cursor, count, codec, high)?;
                self.cells.resize(count * width, 0);
                put_plane(&mut self.cells, width, place, plane, is_turned(dtype));
            }
        }
        if cursor.rest().is_empty() { Ok(&self.cells) } else { Err(cursor.damaged(Damage::Plane)) }
    }
}

/// Puts a byte of each cell back. Of cells that were turned it holds seven bits of one byte, and one of the byte below.
fn put_plane(cells: &mut [u8], width: usize, place: usize, plane: &[u8], is_turned: bool) {
    for (cell, byte) in cells.chunks_mut(width).zip(plane) {
        match is_turned {
            true => {
                let below = (place + width - 1) % width;
                cell.get_mut(place).into_iter().for_each(|own| *own = *own & 0x80 | byte >> 1);
                cell.get_mut(below).into_iter().for_each(|own| *own = *own & 0x7f | byte << 7);
            }
            false => cell.get_mut(place).into_iter().for_each(|own| *own = *byte),
        }
    }
}
