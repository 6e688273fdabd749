//! Changes into cells, block by block: ranks become positions, steps are added, both fingerprints fall out.

use crate::cell::FloatCell;
use crate::changed::ChangedWords;
use crate::compare::{STRIP_BYTES, cell_at, word_at};
use crate::contextual::{ClassChanges, ContextualChanges};
use crate::fingerprint::{Fingerprint, fingerprint};
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::masks::Masks;
use crate::overwrites::Overwrites;
use crate::positional::{PositionalChanges, add_cell};
use crate::region::{REGION_CELLS, Region};
use crate::salts::Salts;
use crate::scan::{Fingerprints, block_fingerprint};

/// Words whose part in the target's fingerprint is worked out at once.
const PENDING_WORDS: usize = 1 << 10;

/// Applies the changes of one segment to its pieces, in order, in place.
#[derive(Debug)]
pub struct ContextualPlacer<'a> {
    seed: u64,
    classes: [Pending<'a>; CLASSES],
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
    pub(crate) overwrites: Overwrites,
}

/// The changes of one class that are still to be placed.
#[derive(Debug)]
struct Pending<'a> {
    changes: &'a ClassChanges,
    /// How many are placed.
    placed: usize,
    /// The rank of the next.
    next: Option<u32>,
    /// Cells of the class before the current region, counted only while there is a next.
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
        let classes = changes.classes.each_ref().map(pending);
        Self { seed, classes, sums: Fingerprints::default(), overwrites: Overwrites::default() }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place<C: FloatCell>(&mut self, masks: impl Masks, cells: &mut [u8], tensor: u32, first_word: u64) {
        self.overwrites.begin(first_word);
        let mut region = Region::new();
        let mut words = ChangedWords::new();
        let mut salts = Salts::new(self.seed, tensor);
        let region_bytes = REGION_CELLS * C::BYTES;
        for (bytes, first_word) in cells.chunks_mut(region_bytes).zip((first_word..).step_by(region_bytes / 4)) {
            region.clear();
            let wanted = self.classes.iter().zip(0..).map(|(class, bit)| u32::from(class.next.is_some()) << bit).sum();
            for (strip, word) in bytes.chunks(STRIP_BYTES).zip((first_word..).step_by(STRIP_BYTES / 4)) {
                self.sums.base += block_fingerprint(strip, salts.at(word), word as u32);
                region.add_strip::<C>(masks, strip, wanted);
            }
            self.place_region::<C>(masks, bytes, &region, &mut salts, first_word, &mut words);
        }
        self.sums.target += words.take();
    }

    #[inline(always)]
    fn place_region<C: FloatCell>(
        &mut self,
        masks: impl Masks,
        bytes: &mut [u8],
        region: &Region,
        salts: &mut Salts,
        first_word: u64,
        words: &mut ChangedWords<PENDING_WORDS>,
    ) {
        for ((class, pending), here) in (0u8..).zip(&mut self.classes).zip(region.totals()) {
            while let Some(rank) = pending.next.map(|next| next.wrapping_sub(pending.seen))
                && rank < u32::from(here)
            {
                let place = region.select(masks, class, rank);
                let word_place = place * C::BYTES / 4;
                let word = first_word + word_place as u64;
                let before = word_at(bytes, word_place);
                self.overwrites.note(word, before);
                set_cell::<C>(bytes, place, C::step_from(cell_at::<C>(bytes, place), pending.take()));
                words.push(salts.at(word).keys(word as u32), before, word_at(bytes, word_place));
                if words.is_full() {
                    self.sums.target += words.take();
                }
            }
            pending.seen += u32::from(here);
        }
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
pub struct PositionalPlacer<'a> {
    changes: &'a PositionalChanges,
    /// Values are added to the cells.
    relative: bool,
    cell_bytes: usize,
    seed: u64,
    /// Cells before the current run.
    seen: u64,
    placed: usize,
    sums: Fingerprints,
    pub(crate) overwrites: Overwrites,
}

impl<'a> PositionalPlacer<'a> {
    /// A placer at the start of a segment of cells of `cell_bytes` bytes.
    pub fn new(changes: &'a PositionalChanges, cell_bytes: usize, seed: u64) -> Self {
        let cell_bytes = cell_bytes.max(1);
        let (sums, overwrites) = (Fingerprints::default(), Overwrites::default());
        Self { changes, relative: false, cell_bytes, seed, seen: 0, placed: 0, sums, overwrites }
    }

    /// The same for a relative segment.
    pub fn relative(changes: &'a PositionalChanges, cell_bytes: usize, seed: u64) -> Self {
        Self { relative: true, ..Self::new(changes, cell_bytes, seed) }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place(&mut self, cells: &mut [u8], tensor: u32, first_word: u64) {
        self.overwrites.begin(first_word);
        let mut salts = Salts::new(self.seed, tensor);
        for (block, bytes) in cells.chunks_mut(BLOCK_CELLS * self.cell_bytes).enumerate() {
            let word = first_word + (block * BLOCK_CELLS * self.cell_bytes / 4) as u64;
            let salt = salts.at(word);
            let before = block_fingerprint(bytes, salt, word as u32);
            self.sums.base += before;
            let here = (bytes.len() / self.cell_bytes) as u64;
            let placed_before = self.placed;
            let positions = self.changes.positions.get(self.placed..).unwrap_or_default();
            let values = self.changes.values.get(self.placed * self.cell_bytes..).unwrap_or_default();
            for (position, value) in positions.iter().zip(values.chunks(self.cell_bytes)) {
                let place = u64::from(*position) - self.seen;
                if place >= here {
                    break;
                }
                let start = place as usize * self.cell_bytes;
                for place in start / 4..(start + self.cell_bytes).div_ceil(4) {
                    self.overwrites.note(word + place as u64, word_at(bytes, place));
                }
                let cell = bytes.get_mut(start..start + self.cell_bytes);
                cell.into_iter()
                    .for_each(|cell| if self.relative { add_cell(cell, value) } else { cell.copy_from_slice(value) });
                self.placed += 1;
            }
            let unchanged = self.placed == placed_before;
            self.sums.target += if unchanged { before } else { block_fingerprint(bytes, salt, word as u32) };
            self.seen += here;
        }
    }

    /// Of the cells so far, before.
    pub fn base_fingerprint(&self) -> Fingerprint {
        self.sums.base
    }

    /// The fingerprints before and after; `None` if the cells given were too few.
    pub fn finish(self) -> Option<Fingerprints> {
        (self.placed == self.changes.len()).then_some(self.sums)
    }
}

/// Puts the cells of one segment in place of those of its pieces, in order.
#[derive(Debug)]
pub struct DensePlacer<'a> {
    /// Those that are still to be placed.
    cells: &'a [u8],
    seed: u64,
    sums: Fingerprints,
    pub(crate) overwrites: Overwrites,
}

impl<'a> DensePlacer<'a> {
    /// A placer at the start of a segment.
    pub fn new(cells: &'a [u8], seed: u64) -> Self {
        Self { cells, seed, sums: Fingerprints::default(), overwrites: Overwrites::default() }
    }

    /// Replaces the next cells, which belong to table entry `tensor` from its word `first_word` on.
    #[inline(always)]
    pub fn place(&mut self, cells: &mut [u8], tensor: u32, first_word: u64) {
        let (new, rest) = self.cells.split_at(cells.len().min(self.cells.len()));
        self.cells = rest;
        self.sums.base += fingerprint(cells, self.seed, tensor, first_word);
        self.sums.target += fingerprint(new, self.seed, tensor, first_word);
        self.overwrites.begin(first_word);
        if self.overwrites.wanted {
            for (place, (before, after)) in cells.chunks(4).zip(new.chunks(4)).enumerate() {
                if before != after {
                    self.overwrites.note(first_word + place as u64, word_at(cells, place));
                }
            }
        }
        cells.iter_mut().zip(new).for_each(|(to, from)| *to = *from);
    }

    /// Of the cells so far, before.
    pub fn base_fingerprint(&self) -> Fingerprint {
        self.sums.base
    }

    /// The fingerprints before and after; `None` if the cells given were too few.
    pub fn finish(self) -> Option<Fingerprints> {
        self.cells.is_empty().then_some(self.sums)
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
