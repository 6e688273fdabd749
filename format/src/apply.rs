//! The reference apply: plain loops over whole segments, short enough to be believed. Every faster path is tested
//! against it.

use crate::cell::FloatFormat;
use crate::codec::Inflate;
use crate::contextual::ContextualChanges;
use crate::error::Error;
use crate::fingerprint::{Fingerprint, fingerprint};
use crate::header::Header;
use crate::layout::CLASSES;
use crate::positional::{PositionalChanges, add_cell};
use crate::scan::Fingerprints;
use crate::segment::{Changes, SegmentDecoder};
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
    let segment = header.segment(index)?;
    if base.len() != segment.entry().cells as usize * segment.dtype().cell_bytes() {
        return Err(Error::Misuse { what: "the base has another length than the segment's cells" });
    }
    segment.check_payload(payload)?;
    let mut decoder = SegmentDecoder::default();
    let changes = decoder.decode(&segment, payload, codec)?;
    let before = segment_fingerprint(header, index, base);
    let mut cells = base.to_vec();
    let found_all = match changes {
        Changes::Unchanged => true,
        Changes::Contextual(format, changes) => apply_contextual(&mut cells, format, changes).is_some(),
        Changes::Absolute(changes) => {
            apply_by_position(&mut cells, segment.dtype().cell_bytes(), changes, <[u8]>::copy_from_slice);
            true
        }
        Changes::Relative(changes) => {
            apply_by_position(&mut cells, segment.dtype().cell_bytes(), changes, add_cell);
            true
        }
        Changes::Dense(dense, _) => {
            cells.copy_from_slice(dense);
            true
        }
    };
    segment.judge_base(before, found_all)?;
    segment.judge(Fingerprints { base: before, target: segment_fingerprint(header, index, &cells) })?;
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

/// Lets each changed cell be changed by its value.
fn apply_by_position(cells: &mut [u8], cell_bytes: usize, changes: &PositionalChanges, change: fn(&mut [u8], &[u8])) {
    for (position, value) in changes.positions.iter().zip(changes.values.chunks(cell_bytes)) {
        let cell = cells.chunks_mut(cell_bytes).nth(*position as usize);
        cell.into_iter().for_each(|cell| change(cell, value));
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
