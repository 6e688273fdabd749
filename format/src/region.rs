//! Regions of 8,192 cells: the unit in which classes are counted, places turn into ranks and ranks into places.
#![expect(clippy::indexing_slicing, reason = "indices are held below the fixed lengths of the arrays they index")]

use crate::cell::FloatCell;
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::masks::{Aligned, Masks, NO_CLASS, ROW_CELLS, RowPair};

/// Cells of a region: few enough that what is known of them stays in the first cache.
pub const REGION_CELLS: usize = 1 << 13;
/// Cells between counts: fewer would have to be counted more often, more would have to be looked through for each change.
pub(crate) const PAIR_CELLS: usize = 2 * ROW_CELLS;
const REGION_PAIRS: usize = REGION_CELLS / PAIR_CELLS;
const _: () = assert!(REGION_CELLS.is_multiple_of(BLOCK_CELLS) && REGION_PAIRS.is_power_of_two());

/// The class of each cell of a region, and how many cells of each class come before each pair of rows.
#[derive(Debug, Clone)]
pub(crate) struct Region {
    pairs: Aligned<[RowPair; REGION_PAIRS]>,
    /// Larger than any count where there is no cell.
    before: Aligned<[[u16; CLASSES]; REGION_PAIRS]>,
    /// Pairs in use.
    used: usize,
    /// Cells of each class.
    totals: [u16; CLASSES],
}

impl Region {
    pub(crate) fn new() -> Self {
        Self {
            pairs: Aligned([[[NO_CLASS; ROW_CELLS]; 2]; REGION_PAIRS]),
            before: Aligned([[u16::MAX; CLASSES]; REGION_PAIRS]),
            used: 0,
            totals: [0; CLASSES],
        }
    }

    /// Forgets all cells.
    pub(crate) fn clear(&mut self) {
        self.before.0.fill([u16::MAX; CLASSES]);
        (self.used, self.totals) = (0, [0; CLASSES]);
    }

    /// Adds a strip of cells; the last of a piece may have fewer. What does not fit is dropped. Of a class that is not in
    /// the bit set `wanted` no rank or place may be asked.
    #[inline(always)]
    pub(crate) fn add_strip<C: FloatCell>(&mut self, masks: impl Masks, cells: &[u8], wanted: u32) {
        let Self { pairs, before, used, totals } = self;
        let added = (cells.len() / C::BYTES).div_ceil(PAIR_CELLS).min(REGION_PAIRS - *used);
        let (pairs, before) = (&mut pairs.0[*used..*used + added], &mut before.0[*used..*used + added]);
        // Apart from counting: a row that was just stored in parts would be waited for.
        classify::<C>(cells, pairs);
        let mut counts = *totals;
        for (pair, before) in pairs.iter().zip(before) {
            *before = counts;
            let here = masks.count_classes(pair, wanted);
            counts.iter_mut().zip(here).for_each(|(count, here)| *count += u16::from(here));
        }
        *totals = counts;
        *used += added;
    }

    /// Cells of each class.
    pub(crate) fn totals(&self) -> [u16; CLASSES] {
        self.totals
    }

    /// How many cells of `class` come before the cell at `place`.
    #[inline(always)]
    pub(crate) fn rank(&self, masks: impl Masks, class: u8, place: usize) -> u32 {
        let pair = place / PAIR_CELLS % REGION_PAIRS;
        let [low, high] = &self.pairs.0[pair];
        let hits = u128::from(masks.equal(high, class)) << ROW_CELLS | u128::from(masks.equal(low, class));
        let earlier = hits & ((1 << (place % PAIR_CELLS)) - 1);
        u32::from(self.before.0[pair][usize::from(class) % CLASSES]) + earlier.count_ones()
    }

    /// The place of the cell that has `rank` cells of its `class` before it, where that is less than the class's total.
    #[inline(always)]
    pub(crate) fn select(&self, masks: impl Masks, class: u8, rank: u32) -> usize {
        let before = |pair: usize| u32::from(self.before.0[pair % REGION_PAIRS][usize::from(class) % CLASSES]);
        // The last pair of rows with no more than `rank` before it. Half by half and without a branch.
        let mut pair = 0;
        let mut half = REGION_PAIRS / 2;
        while half > 0 {
            pair += if before(pair + half) <= rank { half } else { 0 };
            half /= 2;
        }
        let [low, high] = &self.pairs.0[pair];
        let (low, high) = (masks.equal(low, class), masks.equal(high, class));
        let rank = rank.wrapping_sub(before(pair));
        let in_low = low.count_ones();
        let (start, hits, rank) = if rank < in_low { (0, low, rank) } else { (ROW_CELLS, high, rank - in_low) };
        PAIR_CELLS * pair + start + masks.select(hits, rank) as usize
    }
}

/// Classes of the cells, and of no cell in the rest of the last pair.
#[inline(always)]
fn classify<C: FloatCell>(cells: &[u8], pairs: &mut [RowPair]) {
    let classes = pairs.as_flattened_mut().as_flattened_mut();
    if cells.len() < classes.len() * C::BYTES {
        classes.fill(NO_CLASS);
    }
    if C::BYTES == 2 {
        let cells = cells.as_chunks::<2>().0;
        classes.iter_mut().zip(cells).for_each(|(class, cell)| *class = C::class(u16::from_le_bytes(*cell)));
    } else {
        classes.iter_mut().zip(cells).for_each(|(class, cell)| *class = C::class(u16::from(*cell)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cell::{Bf16, E4m3};
    use crate::compare::STRIP_BYTES;
    use crate::masks::Portable;
    use alloc::vec::Vec;

    fn check<C: FloatCell>(region: &mut Region, cells: usize) {
        let mut x = cells as u32;
        let bytes: Vec<u8> = (0..cells * C::BYTES)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 24) as u8
            })
            .collect();
        region.clear();
        bytes.chunks(STRIP_BYTES).for_each(|block| region.add_strip::<C>(Portable, block, u32::MAX));
        let mut seen = [0u16; CLASSES];
        for (place, cell) in bytes.chunks(C::BYTES).enumerate() {
            let class = C::class(cell.iter().rev().fold(0, |cell, byte| cell << 8 | u16::from(*byte)));
            let rank = u32::from(seen[usize::from(class)]);
            assert_eq!(region.rank(Portable, class, place), rank);
            assert_eq!(region.select(Portable, class, rank), place);
            seen[usize::from(class)] += 1;
        }
        assert_eq!(region.totals(), seen);
    }

    #[test]
    fn ranks_and_places_agree_with_plain_counting() {
        let mut region = Region::new();
        for cells in [REGION_CELLS, 0, 1, 63, 64, 777, 1024, REGION_CELLS - 1] {
            check::<Bf16>(&mut region, cells);
            check::<E4m3>(&mut region, cells);
        }
    }
}
