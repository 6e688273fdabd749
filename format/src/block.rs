//! Blocks of 1,024 cells: the unit in which classes are counted, ranks turn into places and back. Plain loops over arrays
//! of fixed length, which compilers turn into vector code for whatever the caller is compiled for.
#![expect(clippy::indexing_slicing, reason = "indices are below the fixed lengths of the arrays they index")]

use crate::cell::FloatCell;
use crate::layout::BLOCK_CELLS;
use crate::masks::{Masks, ROW_CELLS, Row};

/// The exponent class of each cell of a block. Cells past the end have [`NO_CLASS`].
pub(crate) type Block = [Row; BLOCK_ROWS];
pub(crate) const BLOCK_ROWS: usize = BLOCK_CELLS / ROW_CELLS;
pub(crate) const EMPTY_BLOCK: Block = [[NO_CLASS; ROW_CELLS]; BLOCK_ROWS];

/// Not a class: beyond the end of the cells.
const NO_CLASS: u8 = 0xff;

const _: () = assert!(BLOCK_CELLS.is_multiple_of(ROW_CELLS));

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

/// Calls `visit` with the place and class of each cell whose class is below `limit`, in order.
///
/// For classes of few cells this is much cheaper than counting each.
#[inline(always)]
pub(crate) fn for_each_below(masks: impl Masks, rows: &[Row], limit: u8, mut visit: impl FnMut(usize, u8)) {
    for (row, start) in rows.iter().zip((0..).step_by(ROW_CELLS)) {
        let mut hits = masks.below(row, limit);
        while hits != 0 {
            let i = hits.trailing_zeros() as usize % ROW_CELLS;
            visit(start + i, row[i]);
            hits &= hits - 1;
        }
    }
}

/// The place of the cell that has `rank` cells of its `class` before it; `None` if there are not so many.
#[inline(always)]
pub(crate) fn select(masks: impl Masks, rows: &[Row], class: u8, rank: u32) -> Option<usize> {
    let mut left = rank;
    for (row, start) in rows.iter().zip((0..).step_by(ROW_CELLS)) {
        let hits = masks.equal(row, class);
        if left < hits.count_ones() {
            return Some(start + masks.select(hits, left) as usize);
        }
        left -= hits.count_ones();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Bf16, E4m3};
    use crate::masks::Portable;
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
            for (rank, place) in places.iter().enumerate() {
                assert_eq!(select(Portable, &block, class, rank as u32), Some(*place));
            }
            assert_eq!(select(Portable, &block, class, places.len() as u32), None);
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
            for_each_below(Portable, &block, limit, |place, class| visited.push((place, class)));
            let expected: Vec<_> =
                (0..1000).map(|i| (i, (i * i % 32) as u8)).filter(|(_, class)| *class < limit).collect();
            assert_eq!(visited, expected);
        }
    }

    #[test]
    fn selecting_agrees_with_plain_search() {
        for cells in [0, 1, 63, 64, 777, 1023, 1024] {
            check::<Bf16>(cells);
            check::<E4m3>(cells);
        }
    }
}
