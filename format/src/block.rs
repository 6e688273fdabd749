//! Blocks of 1,024 cells: the unit in which classes are counted, ranks turn into places and back. Plain loops over arrays
//! of fixed length, which compilers turn into vector code for whatever the caller is compiled for.
#![expect(clippy::indexing_slicing, reason = "indices are below the fixed lengths of the arrays they index")]

use crate::cell::FloatCell;
use crate::layout::BLOCK_CELLS;
use core::hint::black_box;

/// Cells that are looked at side by side, a byte each for their class.
pub(crate) type Row = [u8; ROW_CELLS];
pub(crate) const ROW_CELLS: usize = 64;

/// The exponent class of each cell of a block. Cells past the end have [`NO_CLASS`].
pub(crate) type Block = [Row; BLOCK_ROWS];
pub(crate) const BLOCK_ROWS: usize = BLOCK_CELLS / ROW_CELLS;
pub(crate) const EMPTY_BLOCK: Block = [[NO_CLASS; ROW_CELLS]; BLOCK_ROWS];

/// Not a class, and equal to none with its top bit flipped: beyond the end of the cells.
const NO_CLASS: u8 = 0xff;

/// Eight cells of a row as the bytes of a word, and the constants to work on all of them at once.
const WORD: usize = 8;
const LOW_BITS: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = LOW_BITS << 7;

const _: () = assert!(BLOCK_CELLS.is_multiple_of(ROW_CELLS) && ROW_CELLS.is_multiple_of(WORD));

/// Classes of the cells in `bytes`, a block or less.
#[inline(always)]
pub(crate) fn classify<C: FloatCell>(bytes: &[u8], block: &mut Block) {
    let classes = block.as_flattened_mut();
    if bytes.len() < BLOCK_CELLS * C::BYTES {
        classes.fill(NO_CLASS);
    }
    if C::BYTES == 2 {
        let cells = bytes.as_chunks::<2>().0;
        classes.iter_mut().zip(cells).for_each(|(class, cell)| *class = C::class(u16::from_le_bytes(*cell)));
    } else {
        classes.iter_mut().zip(bytes).for_each(|(class, cell)| *class = C::class(u16::from(*cell)));
    }
}

/// How many cells of fewer than 256 rows have `class`.
#[inline(always)]
pub(crate) fn count(rows: &[Row], class: u8) -> u32 {
    // Callers loop over classes. Without this the compiler compares 32-bit lanes with the loop's counter: 5 times slower.
    let class = black_box(class);
    let mut lanes = [0u8; ROW_CELLS];
    for row in rows {
        for i in 0..ROW_CELLS {
            lanes[i] += u8::from(row[i] == class);
        }
    }
    sum(&lanes)
}

#[inline(always)]
fn sum(lanes: &Row) -> u32 {
    const PAIRS: u64 = u64::MAX / 0xffff * 0xff;
    // 16-bit sums of at most 8 * 2 * 255 each, then the four of them by one multiplication.
    let pairs = |word: &[u8; WORD]| (u64::from_le_bytes(*word) & PAIRS) + (u64::from_le_bytes(*word) >> 8 & PAIRS);
    let sums: u64 = lanes.as_chunks().0.iter().map(pairs).sum();
    (sums.wrapping_mul(u64::MAX / 0xffff) >> 48) as u32
}

/// How many of the cells of a row before `end` have `class`.
#[inline(always)]
pub(crate) fn count_before(row: &Row, class: u8, end: usize) -> u32 {
    let mut count = 0;
    let mut left = end;
    for word in row.as_chunks::<WORD>().0 {
        let hits = having(u64::from_le_bytes(*word), class);
        if left < WORD {
            // Only the cells before `end`.
            return count + (hits & ((1 << (8 * left)) - 1)).count_ones();
        }
        count += hits.count_ones();
        left -= WORD;
    }
    count
}

/// The top bit of each byte that equals `class`, given that none equals it with the top bit flipped.
#[inline(always)]
fn having(word: u64, class: u8) -> u64 {
    !(((word ^ (LOW_BITS * u64::from(class))) | HIGH_BITS) - LOW_BITS) & HIGH_BITS
}

/// The top bit of each byte below `limit`, which is at most 128.
#[inline(always)]
fn below(word: u64, limit: u8) -> u64 {
    !((word | HIGH_BITS) - LOW_BITS * u64::from(limit)) & HIGH_BITS
}

/// Calls `visit` with the place and class of each cell whose class is below `limit`, in order.
///
/// For classes of few cells this is much cheaper than counting each.
#[inline(always)]
pub(crate) fn for_each_below(rows: &[Row], limit: u8, mut visit: impl FnMut(usize, u8)) {
    const GROUP: usize = 32;
    let limit = black_box(limit);
    for (group, start) in rows.as_flattened().as_chunks::<GROUP>().0.iter().zip((0..).step_by(GROUP)) {
        let mut flags = [false; GROUP];
        for i in 0..GROUP {
            flags[i] = group[i] < limit;
        }
        if flags == [false; GROUP] {
            continue;
        }
        for (word, start) in group.as_chunks::<WORD>().0.iter().zip((start..).step_by(WORD)) {
            let mut hits = below(u64::from_le_bytes(*word), limit);
            while hits != 0 {
                let i = hits.trailing_zeros() as usize / 8;
                visit(start + i, word[i]);
                hits &= hits - 1;
            }
        }
    }
}

/// The place of the cell that has `rank` cells of its `class` before it; `None` if there are not so many.
#[inline(always)]
pub(crate) fn select(rows: &[Row], class: u8, rank: u32) -> Option<usize> {
    const GROUP_ROWS: usize = 4;
    let mut left = rank;
    let mut first_row = 0;
    for group in rows.chunks_exact(GROUP_ROWS) {
        let in_group = count(group, class);
        if left < in_group {
            break;
        }
        left -= in_group;
        first_row += GROUP_ROWS;
    }
    for (row, start) in rows.iter().zip((0..).step_by(ROW_CELLS)).skip(first_row) {
        let words = row.as_chunks::<WORD>().0;
        let in_row = words.iter().map(|word| having(u64::from_le_bytes(*word), class).count_ones()).sum();
        if left >= in_row {
            left -= in_row;
            continue;
        }
        for (word, start) in words.iter().zip((start..).step_by(WORD)) {
            let mut hits = having(u64::from_le_bytes(*word), class);
            if hits.count_ones() > left {
                for _ in 0..left {
                    hits &= hits - 1;
                }
                return Some(start + hits.trailing_zeros() as usize / 8);
            }
            left -= hits.count_ones();
        }
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
                (x >> 24) as u8
            })
            .collect();
        let mut block = [[7; ROW_CELLS]; BLOCK_ROWS];
        classify::<C>(&bytes, &mut block);
        let classes = block.as_flattened();
        let expected: Vec<u8> = bytes
            .chunks(C::BYTES)
            .map(|cell| C::class(cell.iter().rev().fold(0, |cell, byte| cell << 8 | u16::from(*byte))))
            .collect();
        assert_eq!(classes[..cells], expected);
        for class in 0..32u8 {
            let places: Vec<usize> = (0..cells).filter(|place| expected[*place] == class).collect();
            assert_eq!(count(&block, class) as usize, places.len());
            for (row, start) in block.iter().zip((0..).step_by(ROW_CELLS)) {
                for end in [0, 1, 7, 8, 30, 63] {
                    let expected = places.iter().filter(|place| (start..start + end).contains(*place)).count();
                    assert_eq!(count_before(row, class, end) as usize, expected);
                }
            }
            for (rank, place) in places.iter().enumerate() {
                assert_eq!(select(&block, class, rank as u32), Some(*place));
            }
            assert_eq!(select(&block, class, places.len() as u32), None);
        }
    }

    #[test]
    fn cells_of_low_classes_are_visited_in_order() {
        let mut block = EMPTY_BLOCK;
        for (i, class) in block.as_flattened_mut().iter_mut().take(1000).enumerate() {
            *class = (i * i % 32) as u8;
        }
        for limit in [0, 1, 5, 32] {
            let mut visited = Vec::new();
            for_each_below(&block, limit, |place, class| visited.push((place, class)));
            let expected: Vec<_> =
                (0..1000).map(|i| (i, (i * i % 32) as u8)).filter(|(_, class)| *class < limit).collect();
            assert_eq!(visited, expected);
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
