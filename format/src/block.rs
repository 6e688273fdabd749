//! Blocks of 1,024 cells: the unit in which classes are counted, ranks turn into positions and back. Plain loops over
//! arrays of fixed length, which compilers turn into vector code for whatever the caller is compiled for.
#![expect(clippy::indexing_slicing, reason = "indices are below the fixed lengths of the arrays they index")]

use crate::cell::FloatCell;
use crate::layout::BLOCK_CELLS;
use core::hint::black_box;

/// The exponent class of each cell of a block. Cells past the end have [`NO_CLASS`].
pub(crate) type Classes = [u8; BLOCK_CELLS];

/// Not a class: beyond the end of the cells.
const NO_CLASS: u8 = 0xff;

const LANES: usize = 64;

/// The place of each lane.
const PLACES: [u8; LANES] = {
    let mut places = [0; LANES];
    let mut i = 0;
    while i < LANES {
        places[i] = i as u8;
        i += 1;
    }
    places
};
const _: () = assert!(BLOCK_CELLS.is_multiple_of(LANES));

/// Classes of the cells in `bytes`, a block or less.
#[inline(always)]
pub(crate) fn classify<C: FloatCell>(bytes: &[u8], classes: &mut Classes) {
    if C::BYTES == 2 {
        let (cells, _) = bytes.as_chunks::<2>();
        if let Some(cells) = cells.first_chunk::<BLOCK_CELLS>() {
            for i in 0..BLOCK_CELLS {
                classes[i] = C::class(u16::from_le_bytes(cells[i]));
            }
            return;
        }
        classes.fill(NO_CLASS);
        classes.iter_mut().zip(cells).for_each(|(class, cell)| *class = C::class(u16::from_le_bytes(*cell)));
    } else {
        if bytes.len() < BLOCK_CELLS {
            classes.fill(NO_CLASS);
        }
        classes.iter_mut().zip(bytes).for_each(|(class, cell)| *class = C::class(u16::from(*cell)));
    }
}

/// How many cells have `class`.
#[inline(always)]
pub(crate) fn count(classes: &Classes, class: u8) -> u32 {
    let mut lanes = [0; LANES];
    count_rows(classes.as_chunks().0, class, &mut lanes);
    sum(&lanes)
}

/// How many cells before `end` have `class`.
#[inline(always)]
pub(crate) fn count_before(classes: &Classes, class: u8, end: usize) -> u32 {
    let rows = classes.as_chunks().0;
    let (whole, rest) = (end / LANES, black_box((end % LANES) as u8));
    let row = &rows[whole.min(rows.len() - 1)];
    let mut last = [0; LANES];
    for i in 0..LANES {
        // All ones, which is NO_CLASS, from `end` on.
        last[i] = row[i] | u8::from(PLACES[i] < rest).wrapping_sub(1);
    }
    let mut lanes = [0; LANES];
    count_rows(&rows[..whole], class, &mut lanes);
    count_rows(&[last], class, &mut lanes);
    sum(&lanes)
}

/// Adds to each lane how many of its cells, in fewer than 256 rows, have `class`.
#[inline(always)]
fn count_rows(rows: &[[u8; LANES]], class: u8, lanes: &mut [u8; LANES]) {
    // Callers loop over classes. Without this the compiler compares 32-bit lanes with the loop's counter: 5 times slower.
    let class = black_box(class);
    for row in rows {
        for i in 0..LANES {
            lanes[i] += u8::from(row[i] == class);
        }
    }
}

#[inline(always)]
fn sum(lanes: &[u8; LANES]) -> u32 {
    black_box(lanes).iter().map(|lane| u32::from(*lane)).sum()
}

/// Calls `visit` with the place and class of each cell whose class is below `limit`, in order.
///
/// For classes of few cells this is much cheaper than counting each.
#[inline(always)]
pub(crate) fn for_each_below(classes: &Classes, limit: u8, mut visit: impl FnMut(usize, u8)) {
    const GROUP: usize = 32;
    let limit = black_box(limit);
    for (group, start) in classes.as_chunks::<GROUP>().0.iter().zip((0..).step_by(GROUP)) {
        if group.iter().fold(NO_CLASS, |lowest, class| lowest.min(*class)) >= limit {
            continue;
        }
        let mut hits = 0u32;
        for i in 0..GROUP {
            hits |= u32::from(group[i] < limit) << i;
        }
        while hits != 0 {
            let i = hits.trailing_zeros() as usize;
            visit(start + i, group[i]);
            hits &= hits - 1;
        }
    }
}

/// The place of the cell that has `rank` cells of its `class` before it; `None` if there are not so many.
#[inline(always)]
pub(crate) fn select(classes: &Classes, class: u8, rank: u32) -> Option<usize> {
    let mut left = rank;
    for (row, start) in classes.as_chunks::<LANES>().0.iter().zip((0..).step_by(LANES)) {
        let mut in_row = 0u8;
        for cell in row {
            in_row += u8::from(*cell == class);
        }
        if u32::from(in_row) > left {
            return select_in_row(row, class, left).map(|place| start + place);
        }
        left -= u32::from(in_row);
    }
    None
}

/// Eight cells at a time, as bytes of a word.
#[inline(always)]
fn select_in_row(row: &[u8; LANES], class: u8, rank: u32) -> Option<usize> {
    const ONES: u64 = u64::MAX / 0xff;
    let mut left = rank;
    for (group, start) in row.as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
        let differing = u64::from_le_bytes(*group) ^ (ONES * u64::from(class));
        // The top bit of each byte, set where the byte is zero.
        let mut hits = !(((differing & (ONES * 0x7f)) + ONES * 0x7f) | differing | (ONES * 0x7f));
        if hits.count_ones() > left {
            for _ in 0..left {
                hits &= hits - 1;
            }
            return Some(start + hits.trailing_zeros() as usize / 8);
        }
        left -= hits.count_ones();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Bf16, E4m3};
    use alloc::vec::Vec;

    fn check<C: FloatCell>(cells: usize) {
        let mut x = cells as u32;
        let bytes: Vec<u8> = (0..cells * C::BYTES)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 25) as u8
            })
            .collect();
        let mut classes = [7; BLOCK_CELLS];
        classify::<C>(&bytes, &mut classes);
        let expected: Vec<u8> = bytes
            .chunks(C::BYTES)
            .map(|cell| C::class(cell.iter().rev().fold(0, |cell, byte| cell << 8 | u16::from(*byte))))
            .collect();
        assert_eq!(classes[..cells], expected);
        for class in 0..32u8 {
            let places: Vec<usize> = (0..cells).filter(|place| expected[*place] == class).collect();
            assert_eq!(count(&classes, class) as usize, places.len());
            for end in [0, 1, 63, 64, 65, 500, 1023, 1024] {
                assert_eq!(
                    count_before(&classes, class, end) as usize,
                    places.iter().filter(|place| **place < end).count()
                );
            }
            for (rank, place) in places.iter().enumerate() {
                assert_eq!(select(&classes, class, rank as u32), Some(*place));
            }
            assert_eq!(select(&classes, class, places.len() as u32), None);
        }
    }

    #[test]
    fn counting_and_selecting_agree_with_plain_search() {
        for cells in [0, 1, 63, 64, 777, 1023, 1024] {
            check::<Bf16>(cells);
            check::<E4m3>(cells);
        }
    }
}
