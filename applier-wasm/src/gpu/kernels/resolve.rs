//! The twin of `resolve.wgsl`.

use super::cells::Cells;
use super::entry::{PLACE_SHIFT, RESOLVED, STEP_MASK};
use super::words::Bound;
use super::{Params, Storage};
use pulse_format::layout::CLASSES;

/// What becomes of change `index`.
pub(super) fn resolve(params: Params, storage: Storage, index: u32, bound: &mut Bound) {
    let Bound { weights, side, table, changes, .. } = bound;
    let cells = Cells::new(params, storage, weights, side);
    let entry = changes.get(params.changes + index);
    if entry & RESOLVED != 0 {
        return;
    }
    let rank = entry >> PLACE_SHIFT;
    let active = (0..CLASSES as u32).filter(|class| params.classes >> class & 1 == 1);
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
