//! Changes into cells, block by block: ranks become positions, steps are added, both fingerprints fall out.

use crate::absolute::AbsoluteChanges;
use crate::block::{Classes, classify, count, for_each_below, select};
use crate::cell::FloatCell;
use crate::contextual::ContextualChanges;
use crate::fingerprint::Salt;
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::scan::{Fingerprints, Salts, block_fingerprint, cell_at};

/// Applies the changes of one segment to its pieces, in order, in place.
#[derive(Debug)]
pub struct ContextualPlacer<'a> {
    changes: &'a ContextualChanges,
    seed: u64,
    /// Cells of each class before the current block. Only of classes with changes.
    seen: [u32; CLASSES],
    /// Changes of each class already placed.
    placed: [usize; CLASSES],
    /// Classes below this one have few cells and are visited cell by cell.
    rare_below: u8,
    sums: Fingerprints,
}

impl<'a> ContextualPlacer<'a> {
    /// A placer at the start of a segment.
    pub fn new(changes: &'a ContextualChanges, seed: u64) -> Self {
        // Low classes change most: a guess at which are rare that needs no look at the cells.
        let rare_below = 0;
        Self { changes, seed, seen: [0; CLASSES], placed: [0; CLASSES], rare_below, sums: Fingerprints::default() }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place<C: FloatCell>(&mut self, cells: &mut [u8], tensor: u32, first_word: u64) {
        let mut classes = [0; BLOCK_CELLS];
        let mut salts = Salts::new(self.seed, tensor);
        for (block, bytes) in cells.chunks_mut(BLOCK_CELLS * C::BYTES).enumerate() {
            let word = first_word + (block * BLOCK_CELLS * C::BYTES / 4) as u64;
            let salt = salts.at(word);
            self.sums.base += block_fingerprint(bytes, salt, word as u32);
            classify::<C>(bytes, &mut classes);
            self.place_block::<C>(bytes, &classes, salt, word as u32);
        }
    }

    #[inline(always)]
    fn place_block<C: FloatCell>(&mut self, bytes: &mut [u8], classes: &Classes, salt: Salt, first_word: u32) {
        let Self { changes, seen, placed, sums, rare_below, .. } = self;
        let mut change = |place: usize, step: i16| {
            let start = place * C::BYTES / 4 * 4;
            let index = first_word.wrapping_add((start / 4) as u32);
            let before = word_at(bytes, start);
            set_cell::<C>(bytes, place, C::step_from(cell_at::<C>(bytes, place), step));
            sums.target += salt.word(word_at(bytes, start), index) - salt.word(before, index);
        };
        let all = (0u8..).zip(changes.classes.iter().zip(seen.iter_mut().zip(placed.iter_mut())));
        for (class, (changes, (seen, placed))) in all.skip(usize::from(*rare_below)) {
            if *placed == changes.ranks.len() {
                continue;
            }
            let here = count(classes, class);
            let pending = changes.ranks.iter().zip(&changes.steps).skip(*placed);
            for (rank, step) in pending.take_while(|(rank, _)| **rank - *seen < here) {
                let Some(place) = select(classes, class, *rank - *seen) else { break };
                change(place, *step);
                *placed += 1;
            }
            *seen += here;
        }
        for_each_below(classes, *rare_below, |place, class| {
            let class = usize::from(class);
            let (Some(changes), Some(seen), Some(placed)) =
                (changes.classes.get(class), seen.get_mut(class), placed.get_mut(class))
            else {
                return;
            };
            if changes.ranks.get(*placed) == Some(seen) {
                change(place, changes.steps.get(*placed).copied().unwrap_or_default());
                *placed += 1;
            }
            *seen += 1;
        });
    }

    /// The fingerprints before and after; `None` if some ranks do not exist, as happens on a wrong base.
    pub fn finish(self) -> Option<Fingerprints> {
        let all = self.changes.classes.iter().zip(&self.placed).all(|(changes, placed)| changes.ranks.len() == *placed);
        let Fingerprints { base, target } = self.sums;
        all.then_some(Fingerprints { base, target: base + target })
    }
}

/// Applies the changes of one segment to its pieces, in order, in place.
#[derive(Debug)]
pub struct AbsolutePlacer<'a> {
    changes: &'a AbsoluteChanges,
    cell_bytes: usize,
    seed: u64,
    /// Cells before the current run.
    seen: u64,
    placed: usize,
    sums: Fingerprints,
}

impl<'a> AbsolutePlacer<'a> {
    /// A placer at the start of a segment of cells of `cell_bytes` bytes.
    pub fn new(changes: &'a AbsoluteChanges, cell_bytes: usize, seed: u64) -> Self {
        Self { changes, cell_bytes: cell_bytes.max(1), seed, seen: 0, placed: 0, sums: Fingerprints::default() }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place(&mut self, cells: &mut [u8], tensor: u32, first_word: u64) {
        let mut salts = Salts::new(self.seed, tensor);
        for (block, bytes) in cells.chunks_mut(BLOCK_CELLS * self.cell_bytes).enumerate() {
            let word = first_word + (block * BLOCK_CELLS * self.cell_bytes / 4) as u64;
            let salt = salts.at(word);
            let before = block_fingerprint(bytes, salt, word as u32);
            self.sums.base += before;
            let here = (bytes.len() / self.cell_bytes) as u64;
            let placed_before = self.placed;
            let values = self.changes.values.chunks(self.cell_bytes);
            for (position, value) in self.changes.positions.iter().zip(values).skip(self.placed) {
                let place = u64::from(*position) - self.seen;
                if place >= here {
                    break;
                }
                let start = place as usize * self.cell_bytes;
                bytes.get_mut(start..start + self.cell_bytes).into_iter().for_each(|cell| cell.copy_from_slice(value));
                self.placed += 1;
            }
            let unchanged = self.placed == placed_before;
            self.sums.target += if unchanged { before } else { block_fingerprint(bytes, salt, word as u32) };
            self.seen += here;
        }
    }

    /// The fingerprints before and after; `None` if the cells given were too few.
    pub fn finish(self) -> Option<Fingerprints> {
        (self.placed == self.changes.len()).then_some(self.sums)
    }
}

/// The 32-bit word from byte `start` on, padded with zeros beyond the end.
#[inline(always)]
fn word_at(bytes: &[u8], start: usize) -> u32 {
    let rest = bytes.get(start..).unwrap_or_default();
    rest.first_chunk().map_or_else(|| crate::fingerprint::padded_word(rest), |word| u32::from_le_bytes(*word))
}

#[inline(always)]
fn set_cell<C: FloatCell>(bytes: &mut [u8], place: usize, cell: u16) {
    if C::BYTES == 2 {
        bytes.as_chunks_mut::<2>().0.get_mut(place).into_iter().for_each(|to| *to = cell.to_le_bytes());
    } else {
        bytes.get_mut(place).into_iter().for_each(|to| *to = cell as u8);
    }
}
