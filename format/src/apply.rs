//! The reference apply: plain loops over whole segments, short enough to be believed. Every faster path is tested
//! against it.

use crate::absolute::{self, AbsoluteChanges, add_cell};
use crate::cell::FloatFormat;
use crate::codec::Inflate;
use crate::contextual::{ContextualChanges, ContextualDecoder};
use crate::error::{Damage, Error, Place};
use crate::fingerprint::{Fingerprint, fingerprint};
use crate::header::{Header, Profile};
use crate::layout::CLASSES;
use alloc::vec::Vec;

/// The target cells of one segment.
///
/// `payload` holds the segment's bytes, `base` the cells of its pieces, one after the other, little-endian.
///
/// # Errors
/// [`Error::Damaged`] or [`Error::Truncated`] for the payload, [`Error::WrongBase`], [`Error::WrongTarget`], [`Error::Misuse`] if `base` has
/// the wrong length.
pub fn apply_segment(
    header: &Header,
    index: usize,
    payload: &[u8],
    base: &[u8],
    codec: &impl Inflate,
) -> Result<Vec<u8>, Error> {
    let segment = header.segments.get(index).ok_or(Error::Misuse { what: "there is no such segment" })?;
    let dtype = header.tensors.get(segment.tensor).ok_or(Error::Misuse { what: "the header is not validated" })?.dtype;
    if base.len() != segment.cells as usize * dtype.cell_bytes() {
        return Err(Error::Misuse { what: "the base has another length than the segment's cells" });
    }
    segment.check_payload(payload).map_err(|error| error.in_segment(index))?;
    let before = segment_fingerprint(header, index, base);
    let wrong_base = Error::WrongBase { segment: index, found: before, expected: segment.base };
    let mut cells = base.to_vec();
    match (segment.profile, dtype.float_format()) {
        (Profile::Unchanged, _) => {}
        (Profile::Contextual { .. }, Some(format)) => {
            let mut changes = ContextualChanges::default();
            ContextualDecoder::default().decode(header, index, payload, codec, &mut changes)?;
            if before != segment.base {
                return Err(wrong_base);
            }
            apply_contextual(&mut cells, format, &changes)
                .ok_or(Error::Damaged { place: Place::Segment(index), damage: Damage::OutOfRange })?;
        }
        (Profile::Contextual { .. }, None) => return Err(Error::Misuse { what: "the header is not validated" }),
        (Profile::Absolute | Profile::Relative, _) => {
            let changes = absolute::decode(payload, segment.cells, segment.changes, dtype.cell_bytes(), codec);
            let changes = changes.map_err(|error| error.in_segment(index))?;
            let put = if segment.profile == Profile::Relative { add_cell } else { <[u8]>::copy_from_slice };
            if segment.profile == Profile::Relative && before != segment.base {
                return Err(wrong_base);
            }
            apply_positions(&mut cells, dtype.cell_bytes(), &changes, put);
        }
    }
    let after = segment_fingerprint(header, index, &cells);
    if after != segment.target {
        return Err(if before != segment.base {
            wrong_base
        } else {
            Error::WrongTarget { segment: index, found: after, expected: segment.target }
        });
    }
    Ok(cells)
}

/// Moves the changed cells of each class by their steps; `None` if a rank does not exist.
fn apply_contextual(cells: &mut [u8], format: FloatFormat, changes: &ContextualChanges) -> Option<()> {
    let mut seen = [0u32; CLASSES];
    let mut pending = changes.classes.each_ref().map(|class| class.ranks.iter().zip(&class.steps).peekable());
    for cell in cells.chunks_mut(format.cell_bytes()) {
        let bits = cell.iter().rev().fold(0, |bits, byte| bits << 8 | u16::from(*byte));
        let class = usize::from(format.class(bits));
        let rank = seen.get_mut(class)?;
        if let Some((_, step)) = pending.get_mut(class)?.next_if(|(next, _)| **next == *rank) {
            let moved = format.step_from(bits, *step).to_le_bytes();
            cell.iter_mut().zip(moved).for_each(|(to, from)| *to = from);
        }
        *rank += 1;
    }
    pending.iter_mut().all(|changes| changes.next().is_none()).then_some(())
}

/// Puts each value to its cell.
fn apply_positions(cells: &mut [u8], cell_bytes: usize, changes: &AbsoluteChanges, put: fn(&mut [u8], &[u8])) {
    for (position, value) in changes.positions.iter().zip(changes.values.chunks(cell_bytes)) {
        let cell = cells.chunks_mut(cell_bytes).nth(*position as usize);
        cell.into_iter().for_each(|cell| put(cell, value));
    }
}

/// Of the cells of a segment's pieces, one after the other.
pub fn segment_fingerprint(header: &Header, segment: usize, cells: &[u8]) -> Fingerprint {
    let mut rest = cells;
    let mut sum = Fingerprint::ZERO;
    for piece in header.pieces(segment) {
        let cell_bytes = header.tensors.get(piece.tensor).map_or(1, |tensor| tensor.dtype.cell_bytes());
        let (bytes, later) = rest.split_at(rest.len().min(piece.cells as usize * cell_bytes));
        sum += fingerprint(bytes, header.seed, piece.tensor as u32, piece.first_cell.get() * cell_bytes as u64 / 4);
        rest = later;
    }
    sum
}
