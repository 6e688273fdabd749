//! Changes into cells, block by block: ranks become positions, steps are added, both fingerprints fall out.

use crate::absolute::AbsoluteChanges;
use crate::block::{Block, EMPTY_BLOCK, classify, for_each_below, select};
use crate::cell::FloatCell;
use crate::changed::ChangedWords;
use crate::compare::{cell_at, word_at};
use crate::contextual::{ClassChanges, ContextualChanges};
use crate::fingerprint::Fingerprint;
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::masks::{Aligned, Masks};
use crate::scan::{Fingerprints, REGION_BLOCKS, REGION_CELLS, Salts, block_fingerprint};

/// Words whose part in the target's fingerprint is worked out at once.
const PENDING_WORDS: usize = 1 << 10;

/// Applies the changes of one segment to its pieces, in order, in place.
#[derive(Debug)]
pub struct ContextualPlacer<'a> {
    seed: u64,
    classes: [Pending<'a>; CLASSES],
    /// Classes below this one have few cells and are visited cell by cell.
    rare_below: u8,
    /// Regions seen.
    regions: u32,
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
            regions: 0,
            sums: Fingerprints::default(),
        }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place<C: FloatCell>(&mut self, masks: impl Masks, cells: &mut [u8], tensor: u32, first_word: u64) {
        let mut rows = Aligned([EMPTY_BLOCK; REGION_BLOCKS]);
        let mut words = ChangedWords::new();
        let mut salts = Salts::new(self.seed, tensor);
        for (region, bytes) in cells.chunks_mut(REGION_CELLS * C::BYTES).enumerate() {
            let first_word = first_word + (region * REGION_CELLS * C::BYTES / 4) as u64;
            let blocks = bytes.chunks(BLOCK_CELLS * C::BYTES);
            for ((block, rows), index) in blocks.zip(&mut rows.0).zip((0..).step_by(BLOCK_CELLS * C::BYTES / 4)) {
                let word = first_word + index;
                self.sums.base += block_fingerprint(block, salts.at(word), word as u32);
                classify::<C>(block, rows);
            }
            let rows = rows.0.as_slice();
            let rows = rows.get(..bytes.len().div_ceil(BLOCK_CELLS * C::BYTES)).unwrap_or(rows);
            self.learn(masks, rows);
            self.place_region::<C>(masks, bytes, rows, &mut salts, first_word, &mut words);
        }
        self.sums.target += words.take();
    }

    #[inline(always)]
    fn place_region<C: FloatCell>(
        &mut self,
        masks: impl Masks,
        bytes: &mut [u8],
        rows: &[Block],
        salts: &mut Salts,
        first_word: u64,
        words: &mut ChangedWords<PENDING_WORDS>,
    ) {
        let Self { classes, rare_below, sums, .. } = self;
        let mut change = |place: usize, step: i16| {
            let start = place * C::BYTES / 4 * 4;
            let word = first_word + (start / 4) as u64;
            let before = word_at(bytes, start);
            set_cell::<C>(bytes, place, C::step_from(cell_at::<C>(bytes, place), step));
            words.push(salts.at(word).keys(word as u32), before, word_at(bytes, start));
            if words.is_full() {
                sums.target += words.take();
            }
        };
        for (class, pending) in (0u8..).zip(classes.iter_mut()).skip(usize::from(*rare_below)) {
            let Some(mut next) = pending.next else { continue };
            let mut seen = pending.seen;
            for (rows, start) in rows.iter().zip((0..).step_by(BLOCK_CELLS)) {
                let here = masks.count(rows, class);
                while next.wrapping_sub(seen) < here {
                    let Some(place) = select(masks, rows, class, next.wrapping_sub(seen)) else { break };
                    change(start + place, pending.take());
                    // A class without a next one is counted no more: what `seen` says no longer matters.
                    let Some(after) = pending.next else { break };
                    next = after;
                }
                seen += here;
            }
            pending.seen = seen;
        }
        for_each_below(masks, rows.as_flattened(), *rare_below, |place, class| {
            let Some(pending) = classes.get_mut(usize::from(class)) else { return };
            if pending.next == Some(pending.seen) {
                change(place, pending.take());
            }
            pending.seen += 1;
        });
    }

    /// Finds, now and then, the low classes that have few cells in this region: they are cheaper visited than counted.
    #[inline(always)]
    fn learn(&mut self, masks: impl Masks, rows: &[Block]) {
        /// Together they should have at most this many of a region's cells.
        const RARE: u32 = REGION_CELLS as u32 / 256;
        const EVERY_REGIONS: u32 = 16;
        if self.regions.is_multiple_of(EVERY_REGIONS) {
            let mut below = 0;
            let rare = (0..CLASSES as u8).take_while(|class| {
                below += masks.count(rows.as_flattened(), *class);
                below <= RARE
            });
            self.rare_below = rare.count() as u8;
        }
        self.regions = self.regions.wrapping_add(1);
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
