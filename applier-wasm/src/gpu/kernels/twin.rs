//! The kernels in plain Rust: the same names, inputs and results as the WGSL, one workgroup after another. What the GPU is tested
//! against, and a port of its own for machines without one.

use super::entry::{PLACE_MASK, PLACE_SHIFT, RESOLVED, STEP_MASK};
use super::side::first_place;
use super::{CHANGES_PER_WORKGROUP, Params, Storage};
use crate::gpu::half;
use pulse_format::Salt;
use pulse_format::layout::{BLOCK_CELLS, CLASSES};
use std::cell::Cell;

/// The words of a binding; reads past the end give 0 and writes are dropped, as on a GPU that guards its bounds.
pub(crate) struct Words<'a>(pub(crate) &'a mut [u32]);

impl Words<'_> {
    fn get(&self, index: u32) -> u32 {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    fn set(&mut self, index: u32, value: u32) {
        self.0.get_mut(index as usize).into_iter().for_each(|word| *word = value);
    }

    fn add(&mut self, index: u32, value: u32) {
        self.set(index, self.get(index).wrapping_add(value));
    }
}

/// The weights as a kernel sees them.
struct Cells<'a> {
    params: Params,
    storage: Storage,
    weights: Words<'a>,
    side: Words<'a>,
    /// How many elements were read that hold what no cell gives.
    unsound: Cell<u32>,
}

impl<'a> Cells<'a> {
    fn new(params: Params, storage: Storage, weights: Words<'a>, side: Words<'a>) -> Self {
        Self { params, storage, weights, side, unsound: Cell::default() }
    }

    fn per_word(&self) -> u32 {
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

    fn cell_at(&self, cell: u32) -> u32 {
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
                let place =
                    if half::may_be_rounded(half) { self.place_of(self.params.first_cell + cell) } else { None };
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

    fn count_unsound(&self, unsound: bool) {
        self.unsound.set(self.unsound.get() + u32::from(unsound));
    }

    /// Where the pair of a cell (its index within the tensor) is in the side table, or the free place that ends the search.
    fn place_of(&self, cell: u32) -> Option<u32> {
        let mask = self.params.side_mask;
        let mut place = first_place(cell, mask);
        for _ in 0..=mask {
            let key = self.side.get(2 * place);
            if key == cell + 1 || key == 0 {
                return Some(2 * place);
            }
            place = (place + 1) & mask;
        }
        None
    }

    fn replace(&mut self, cell: u32, before: u32, after: u32) {
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
        if let Some(at) = self.place_of(cell) {
            if self.side.get(at) == 0 {
                self.side.add(2 * self.params.side_mask + 2, 1);
            }
            self.side.set(at, cell + 1);
            self.side.set(at + 1, bits);
        }
    }

    fn forget(&mut self, cell: u32) {
        if let Some(at) = self.place_of(cell) {
            self.side.set(at + 1, 0);
        }
    }

    fn word_of(&self, word: u32) -> u32 {
        let per_word = self.per_word();
        (0..per_word).fold(0, |bits, i| {
            let cell = word * per_word + i;
            if cell < self.params.cells { bits | self.cell_at(cell) << (i * self.storage.cell_bits()) } else { bits }
        })
    }

    fn class_of(&self, bits: u32) -> u32 {
        let exponent = bits >> self.params.mantissa_bits & self.params.exponent_mask;
        exponent.saturating_sub(self.params.first_exponent).min(31)
    }

    fn words_per_block(&self) -> u32 {
        BLOCK_CELLS as u32 / self.per_word()
    }
}

/// The twin of `survey.wgsl`.
pub(crate) fn survey(
    params: Params,
    storage: Storage,
    block: u32,
    [weights, side]: [Words<'_>; 2],
    table: &mut Words<'_>,
    sums: &mut Words<'_>,
) {
    let cells = Cells::new(params, storage, weights, side);
    let salt = Salt { a: params.salt_a, b: params.salt_b };
    let (per_word, words) = (cells.per_word(), cells.words_per_block());
    let mut counts = [0u32; 32];
    for word in block * words..(block + 1) * words {
        if word * per_word >= params.cells {
            break;
        }
        let bits = cells.word_of(word);
        let fingerprint = salt.word(bits, params.first_word.wrapping_add(word));
        sums.add(params.sums, fingerprint.a);
        sums.add(params.sums + 1, fingerprint.b);
        for k in 0..per_word {
            if word * per_word + k < params.cells {
                let class = cells.class_of(bits >> (k * storage.cell_bits()));
                counts.get_mut(class as usize).into_iter().for_each(|count| *count += 1);
            }
        }
    }
    // What is unsound must not look like the cell that it was rounded from.
    sums.add(params.sums, cells.unsound.get());
    sums.add(params.sums + 1, cells.unsound.get());
    if storage == Storage::Half {
        let keys = params.totals + CLASSES as u32;
        sums.set(keys, sums.get(keys).max(cells.side.get(2 * params.side_mask + 2)));
    }
    if block * BLOCK_CELLS as u32 >= params.cells {
        return;
    }
    let active = (0..32).zip(counts).filter(|(class, _)| params.classes >> class & 1 == 1);
    for (slot, (_, count)) in (0..).zip(active) {
        table.set(params.table + slot * params.blocks + params.first_block + block, count);
    }
}

/// The twin of `prefix.wgsl`.
pub(crate) fn prefix(params: Params, slot: u32, table: &mut Words<'_>, sums: &mut Words<'_>) {
    if slot >= params.classes.count_ones() {
        return;
    }
    let row = params.table + slot * params.blocks;
    let mut before = 0;
    for index in row..row + params.blocks {
        let here = table.get(index);
        table.set(index, before);
        before += here;
    }
    sums.set(params.totals + slot, before);
}

/// The twin of `resolve.wgsl`.
pub(crate) fn resolve(
    params: Params,
    storage: Storage,
    index: u32,
    [weights, side]: [Words<'_>; 2],
    table: &Words<'_>,
    changes: &mut Words<'_>,
) {
    let cells = Cells::new(params, storage, weights, side);
    let entry = changes.get(params.changes + index);
    if index >= params.count || entry & RESOLVED != 0 {
        return;
    }
    let rank = entry >> PLACE_SHIFT;
    let active = (0..32u32).filter(|class| params.classes >> class & 1 == 1);
    let begun = (0..).zip(active).filter(|(slot, _)| changes.get(params.starts + slot) <= index);
    let Some((slot, class)) = begun.last() else { return };
    let row = params.table + slot * params.blocks;
    let (mut block, mut past) = (0, params.blocks);
    while past - block > 1 {
        let middle = (block + past) / 2;
        if table.get(row + middle) <= rank { block = middle } else { past = middle }
    }
    let words = cells.words_per_block();
    let per_word = cells.per_word();
    let Some(first_word) = block.checked_sub(params.first_block).map(|block| block * words) else { return };
    let mut left = rank - table.get(row + block);
    for cell in first_word * per_word..params.cells.min((first_word + words) * per_word) {
        if cells.class_of(cells.cell_at(cell)) == class {
            if left == 0 {
                let place = params.first_in_segment + cell;
                changes.set(params.changes + index, RESOLVED | place << PLACE_SHIFT | entry & STEP_MASK);
                return;
            }
            left -= 1;
        }
    }
}

/// The twin of `step.wgsl`.
pub(crate) fn step(
    params: Params,
    storage: Storage,
    back: bool,
    index: u32,
    [weights, side]: [Words<'_>; 2],
    changes: &Words<'_>,
) {
    let mut cells = Cells::new(params, storage, weights, side);
    let entry = changes.get(params.changes + index);
    let cell = (entry >> PLACE_SHIFT & PLACE_MASK).wrapping_sub(params.first_in_segment);
    if index >= params.count || entry & RESOLVED == 0 || cell >= params.cells {
        return;
    }
    let code = match entry & STEP_MASK {
        STEP_MASK => {
            let (mut first, mut past) = (0, params.escape_count);
            while past > first + 1 {
                let middle = (first + past) / 2;
                if changes.get(params.escapes + 2 * middle) <= index { first = middle } else { past = middle }
            }
            changes.get(params.escapes + 2 * first + 1)
        }
        code => code,
    };
    let z = code.wrapping_add(1);
    let step = (z >> 1) ^ (z & 1).wrapping_neg();
    let step = if back { step.wrapping_neg() } else { step };
    let sign = 1u32 << (storage.cell_bits() - 1);
    let all = sign | (sign - 1);
    let ordinal = |cell: u32| if cell & sign != 0 { cell ^ all } else { cell ^ sign };
    let from_ordinal = |place: u32| if place & sign != 0 { place ^ sign } else { place ^ all };
    let before = cells.cell_at(cell);
    cells.replace(cell, before, from_ordinal(ordinal(before).wrapping_add(step) & all));
}

/// The twin of `scatter.wgsl`.
pub(crate) fn scatter(
    params: Params,
    storage: Storage,
    add: bool,
    index: u32,
    [weights, side]: [Words<'_>; 2],
    changes: &mut Words<'_>,
) {
    let mut cells = Cells::new(params, storage, weights, side);
    let cell = changes.get(params.changes + index);
    if index >= params.count || cell >= params.cells {
        return;
    }
    let bits = storage.cell_bits();
    let word = params.values + index / cells.per_word();
    let shift = index % cells.per_word() * bits;
    let values = changes.get(word);
    let all = u32::MAX >> (32 - bits);
    let value = values >> shift & all;
    let before = cells.cell_at(cell);
    cells.replace(cell, before, if add { before.wrapping_add(value) & all } else { value });
    changes.set(word, values ^ (before ^ value) << shift);
}

/// The invocations of a workgroup that takes a change each.
pub(crate) fn changes_of(workgroup: u32) -> std::ops::Range<u32> {
    workgroup * CHANGES_PER_WORKGROUP..(workgroup + 1) * CHANGES_PER_WORKGROUP
}
