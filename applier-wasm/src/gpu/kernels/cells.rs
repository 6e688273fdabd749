//! The twin of `cells.wgsl`, and of the ways of storing: `packed.wgsl`, `widened.wgsl`, `half.wgsl`, each with what writes.

use super::side::first_slot;
use super::words::Words;
use super::{Params, Storage};
use crate::gpu::half;
use pulse_format::layout::{BLOCK_CELLS, CLASSES};
use std::cell::Cell;

/// The weights as a kernel sees them.
pub(super) struct Cells<'a> {
    params: Params,
    storage: Storage,
    weights: &'a mut Words,
    side: &'a mut Words,
    unsound: Cell<u32>,
}

impl<'a> Cells<'a> {
    pub(super) fn new(params: Params, storage: Storage, weights: &'a mut Words, side: &'a mut Words) -> Self {
        Self { params, storage, weights, side, unsound: Cell::default() }
    }

    pub(super) fn per_word(&self) -> u32 {
        32 / self.storage.cell_bits()
    }

    fn element_of(&self, cell: u32) -> u32 {
        let Params { origin, columns, first_cell, row_step, column_step, .. } = self.params;
        if columns == 0 {
            return origin.wrapping_add(cell);
        }
        let index = first_cell.wrapping_add(cell);
        let (row, column) = (index / columns, index % columns);
        origin.wrapping_add(row.wrapping_mul(row_step)).wrapping_add(column.wrapping_mul(column_step))
    }

    pub(super) fn cell_at(&self, cell: u32) -> u32 {
        let element = self.element_of(cell);
        match self.storage {
            Storage::Packed8 | Storage::Packed16 | Storage::Packed32 => {
                let bits = self.storage.stored_bits();
                let per_word = 32 / bits;
                self.weights.get(element / per_word) >> (element % per_word * bits) & (u32::MAX >> (32 - bits))
            }
            Storage::Widened => {
                let word = self.weights.get(element);
                self.count_unsound(word & 0xffff != 0);
                word >> 16
            }
            Storage::Half => {
                let half = (self.weights.get(element / 2) >> (element % 2 * 16)) as u16;
                let place = if half::may_be_rounded(half) { self.slot_of(self.params.first_cell + cell) } else { None };
                let side = place.map_or(0, |place| self.side.get(place + 1) as u16);
                let (bits, sound) = match side {
                    0 => half::truncated(half),
                    bits => (bits, half::from_bf16(bits).0 == half),
                };
                self.count_unsound(!sound);
                bits.into()
            }
        }
    }

    /// How many elements were read that hold what no cell gives.
    pub(super) fn unsound(&self) -> u32 {
        self.unsound.get()
    }

    /// How many keys the side table has.
    pub(super) fn side_keys(&self) -> u32 {
        match self.storage {
            Storage::Half => self.side.get(2 * self.params.side_mask + 2),
            _ => 0,
        }
    }

    fn count_unsound(&self, unsound: bool) {
        self.unsound.set(self.unsound.get() + u32::from(unsound));
    }

    /// Where the pair of a cell (its index within the tensor) is in the side table, or the free slot that ends the search.
    fn slot_of(&self, cell: u32) -> Option<u32> {
        let mask = self.params.side_mask;
        let mut slot = first_slot(cell, mask);
        for _ in 0..=mask {
            let key = self.side.get(2 * slot);
            if key == cell + 1 || key == 0 {
                return Some(2 * slot);
            }
            slot = (slot + 1) & mask;
        }
        None
    }

    pub(super) fn replace(&mut self, cell: u32, before: u32, after: u32) {
        let element = self.element_of(cell);
        let (index, delta) = match self.storage {
            Storage::Packed8 | Storage::Packed16 | Storage::Packed32 => {
                let bits = self.storage.stored_bits();
                let per_word = 32 / bits;
                (element / per_word, (before ^ after) << (element % per_word * bits))
            }
            Storage::Widened => (element, (before ^ after) << 16),
            Storage::Half => {
                let [(old, _), (new, exact)] = [before, after].map(|bits| half::from_bf16(bits as u16));
                let cell = self.params.first_cell + cell;
                if !exact {
                    self.keep(cell, after);
                } else if half::may_be_rounded(old) || half::may_be_rounded(new) {
                    self.forget(cell);
                }
                (element / 2, u32::from(old ^ new) << (element % 2 * 16))
            }
        };
        self.weights.set(index, self.weights.get(index) ^ delta);
    }

    fn keep(&mut self, cell: u32, bits: u32) {
        if let Some(at) = self.slot_of(cell) {
            if self.side.get(at) == 0 {
                self.side.add(2 * self.params.side_mask + 2, 1);
            }
            self.side.set(at, cell + 1);
            self.side.set(at + 1, bits);
        }
    }

    fn forget(&mut self, cell: u32) {
        if let Some(at) = self.slot_of(cell) {
            self.side.set(at + 1, 0);
        }
    }

    pub(super) fn word_of(&self, word: u32) -> u32 {
        let per_word = self.per_word();
        (0..per_word).fold(0, |bits, i| {
            let cell = word * per_word + i;
            if cell < self.params.cells { bits | self.cell_at(cell) << (i * self.storage.cell_bits()) } else { bits }
        })
    }

    pub(super) fn class_of(&self, bits: u32) -> u32 {
        let exponent = bits >> self.params.mantissa_bits & self.params.exponent_mask;
        exponent.saturating_sub(self.params.first_exponent).min(CLASSES as u32 - 1)
    }

    pub(super) fn words_per_block(&self) -> u32 {
        BLOCK_CELLS as u32 / self.per_word()
    }
}
