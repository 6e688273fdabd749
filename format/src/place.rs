//! Changes into cells, block by block: ranks become positions, steps are added, both fingerprints fall out.

use crate::absolute::AbsoluteChanges;
use crate::block::{Block, EMPTY_BLOCK, classify, count, for_each_below, select};
use crate::cell::FloatCell;
use crate::compare::{cell_at, word_at};
use crate::contextual::{ClassChanges, ContextualChanges};
use crate::fingerprint::{Fingerprint, Salt};
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::scan::{Fingerprints, Salts, block_fingerprint};

/// Applies the changes of one segment to its pieces, in order, in place.
#[derive(Debug)]
pub struct ContextualPlacer<'a> {
    seed: u64,
    classes: [Pending<'a>; CLASSES],
    /// Classes below this one have few cells and are visited cell by cell.
    rare_below: u8,
    /// Blocks seen.
    blocks: u32,
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
}

/// The changes of one class that are still to be placed.
#[derive(Debug)]
struct Pending<'a> {
    changes: &'a ClassChanges,
    /// How many are placed.
    placed: usize,
    /// The rank of the next.
    next: Option<u32>,
    /// Cells of the class before the current block, counted only while there is a next.
    seen: u32,
}

impl Pending<'_> {
    /// The step of the next change, which then counts as placed.
    #[inline(always)]
    fn take(&mut self) -> i16 {
        let step = self.changes.steps.get(self.placed).copied().unwrap_or_default();
        self.placed += 1;
        self.next = self.changes.ranks.get(self.placed).copied();
        step
    }
}

impl<'a> ContextualPlacer<'a> {
    /// A placer at the start of a segment.
    pub fn new(changes: &'a ContextualChanges, seed: u64) -> Self {
        let pending =
            |changes: &'a ClassChanges| Pending { changes, placed: 0, next: changes.ranks.first().copied(), seen: 0 };
        Self {
            seed,
            classes: changes.classes.each_ref().map(pending),
            rare_below: 0,
            blocks: 0,
            sums: Fingerprints::default(),
        }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place<C: FloatCell>(&mut self, cells: &mut [u8], tensor: u32, first_word: u64) {
        let mut rows = EMPTY_BLOCK;
        let mut salts = Salts::new(self.seed, tensor);
        for (block, bytes) in cells.chunks_mut(BLOCK_CELLS * C::BYTES).enumerate() {
            let word = first_word + (block * BLOCK_CELLS * C::BYTES / 4) as u64;
            let salt = salts.at(word);
            self.sums.base += block_fingerprint(bytes, salt, word as u32);
            classify::<C>(bytes, &mut rows);
            self.learn(&rows);
            self.place_block::<C>(bytes, &rows, salt, word as u32);
        }
    }

    #[inline(always)]
    fn place_block<C: FloatCell>(&mut self, bytes: &mut [u8], rows: &Block, salt: Salt, first_word: u32) {
        let mut sum = Fingerprint::ZERO;
        let mut change = |place: usize, step: i16| {
            let start = place * C::BYTES / 4 * 4;
            let keys = salt.keys(first_word.wrapping_add((start / 4) as u32));
            let before = word_at(bytes, start);
            set_cell::<C>(bytes, place, C::step_from(cell_at::<C>(bytes, place), step));
            sum += keys.mix(word_at(bytes, start)) - keys.mix(before);
        };
        let Self { classes, rare_below, .. } = self;
        for (class, pending) in (0u8..).zip(classes.iter_mut()).skip(usize::from(*rare_below)) {
            let Some(mut next) = pending.next else { continue };
            let here = count(rows, class);
            while next.wrapping_sub(pending.seen) < here {
                let Some(place) = select(rows, class, next.wrapping_sub(pending.seen)) else { break };
                change(place, pending.take());
                let Some(after) = pending.next else { break };
                next = after;
            }
            pending.seen += here;
        }
        for_each_below(rows, *rare_below, |place, class| {
            let Some(pending) = classes.get_mut(usize::from(class)) else { return };
            if pending.next == Some(pending.seen) {
                change(place, pending.take());
            }
            pending.seen += 1;
        });
        self.sums.target += sum;
    }

    /// Finds, now and then, the low classes that have few cells in this block: they are cheaper visited than counted.
    #[inline(always)]
    fn learn(&mut self, rows: &Block) {
        /// Together they should have at most this many of a block's cells.
        const RARE: u32 = BLOCK_CELLS as u32 / 64;
        const EVERY_BLOCKS: u32 = 64;
        if self.blocks.is_multiple_of(EVERY_BLOCKS) {
            let mut below = 0;
            let rare = (0..CLASSES as u8).take_while(|class| {
                below += count(rows, *class);
                below <= RARE
            });
            self.rare_below = rare.count() as u8;
        }
        self.blocks = self.blocks.wrapping_add(1);
    }

    /// Of the cells so far, before. On a wrong base it tells so even where ranks do not exist.
    pub fn base_fingerprint(&self) -> Fingerprint {
        self.sums.base
    }

    /// The fingerprints before and after; `None` if some ranks do not exist, as happens on a wrong base.
    pub fn finish(self) -> Option<Fingerprints> {
        let all = self.classes.iter().all(|pending| pending.next.is_none());
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

#[inline(always)]
fn set_cell<C: FloatCell>(bytes: &mut [u8], place: usize, cell: u16) {
    if C::BYTES == 2 {
        bytes.as_chunks_mut::<2>().0.get_mut(place).into_iter().for_each(|to| *to = cell.to_le_bytes());
    } else {
        bytes.get_mut(place).into_iter().for_each(|to| *to = cell as u8);
    }
}
