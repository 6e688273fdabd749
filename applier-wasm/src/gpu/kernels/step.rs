//! The twin of `step.wgsl`.

use super::cells::Cells;
use super::entry::{PLACE_MASK, PLACE_SHIFT, RESOLVED, STEP_MASK};
use super::words::Bound;
use super::{Params, Storage};

/// What becomes of change `index`.
pub(super) fn step(params: Params, storage: Storage, back: bool, index: u32, bound: &mut Bound) {
    let Bound { weights, side, changes, .. } = bound;
    let mut cells = Cells::new(params, storage, weights, side);
    let entry = changes.get(params.changes + index);
    let cell = (entry >> PLACE_SHIFT & PLACE_MASK).wrapping_sub(params.first_in_segment);
    if entry & RESOLVED == 0 || cell >= params.cells {
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
