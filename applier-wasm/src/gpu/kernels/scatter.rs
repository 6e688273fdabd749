//! The twin of `scatter.wgsl`.

use super::cells::Cells;
use super::words::Bound;
use super::{Params, Storage};

/// What becomes of change `index`: exchanged, or with `add` added to.
pub(super) fn scatter(params: Params, storage: Storage, add: bool, index: u32, bound: &mut Bound) {
    let Bound { weights, side, changes, .. } = bound;
    let mut cells = Cells::new(params, storage, weights, side);
    let cell = changes.get(params.changes + index);
    if cell >= params.cells {
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
