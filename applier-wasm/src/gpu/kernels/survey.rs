//! The twin of `survey.wgsl`.

use super::cells::Cells;
use super::words::Bound;
use super::{Params, Storage};
use pulse_format::Salt;
use pulse_format::layout::{BLOCK_CELLS, CLASSES};

/// What workgroup `block` does.
pub(super) fn survey(params: Params, storage: Storage, block: u32, bound: &mut Bound) {
    let Bound { weights, side, table, sums, .. } = bound;
    let cells = Cells::new(params, storage, weights, side);
    let salt = Salt { a: params.salt_a, b: params.salt_b };
    let (per_word, words) = (cells.per_word(), cells.words_per_block());
    let mut counts = [0u32; CLASSES];
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
    sums.add(params.sums, cells.unsound());
    sums.add(params.sums + 1, cells.unsound());
    let keys = params.totals + CLASSES as u32;
    sums.set(keys, sums.get(keys).max(cells.side_keys()));
    if block * BLOCK_CELLS as u32 >= params.cells {
        return;
    }
    let active = (0..).zip(counts).filter(|(class, _)| params.classes >> class & 1 == 1);
    for (slot, (_, count)) in (0..).zip(active) {
        table.set(params.table + slot * params.blocks + params.first_block + block, count);
    }
}
