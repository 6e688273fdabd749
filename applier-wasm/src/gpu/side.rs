//! Side tables: the cells of f16 tensors that f16 does not hold exactly, as hash tables on the device. See `half.wgsl`.

use super::half;
use super::kernels::side::first_slot;
use super::port::Binding;
use std::cell::Cell;
use std::collections::BinaryHeap;

/// A pair of words; one more than a table has slots, for the number of its keys.
pub(crate) const PAIR_BYTES: u64 = 8;
/// Pairs of the smallest table.
const FEWEST_PAIRS: u64 = 64;
/// Pairs whose words have indexes of 32 bits.
pub(crate) const MOST_PAIRS: u64 = 1 << 31;
/// A tensor is given room for one new key in so many cells: a step of training rarely brings as many.
pub(crate) const CELLS_PER_NEW_KEY: u64 = 1024;

/// The side table of one tensor.
#[derive(Debug)]
pub(crate) struct Side<B> {
    pub(crate) buffer: B,
    /// A power of two.
    pub(crate) pairs: u64,
    /// Keys in it, at most.
    pub(crate) keys: Cell<u64>,
    /// Cells of the tensor.
    pub(crate) cells: u64,
}

impl<B: Clone> Side<B> {
    /// The whole of it.
    pub(crate) fn binding(&self) -> Binding<B> {
        Binding { buffer: self.buffer.clone(), offset: 0, bytes: (self.pairs + 1) * PAIR_BYTES }
    }
}

/// The mask that kernels take a slot of this table with.
pub(crate) fn mask<B>(table: &Binding<B>) -> u32 {
    (table.bytes / PAIR_BYTES) as u32 - 2
}

/// Pairs that leave at least every other one free.
pub(crate) fn pairs_for(keys: u64) -> u64 {
    (2 * keys).next_power_of_two().max(FEWEST_PAIRS)
}

/// The cells in a table, and their bits; ascending.
pub(crate) fn entries_of(words: &[u32]) -> Vec<(u32, u16)> {
    let live = words.as_chunks::<2>().0.iter().filter(|[_, bits]| *bits != 0);
    // A heap: sorting a slice takes 3 kB more of the module.
    let entries: BinaryHeap<(u32, u16)> = live.map(|[key, bits]| (key.wrapping_sub(1), *bits as u16)).collect();
    entries.into_sorted_vec()
}

/// A table of so many pairs, more than there are entries, and the number of its keys.
pub(crate) fn table_of(entries: &[(u32, u16)], pairs: u64) -> Vec<u32> {
    let mask = pairs as u32 - 1;
    let mut table = vec![[0; 2]; pairs as usize];
    for (cell, bits) in entries {
        let mut slot = first_slot(*cell, mask);
        while table.get(slot as usize).is_some_and(|[key, _]| *key != 0) {
            slot = (slot + 1) & mask;
        }
        table.get_mut(slot as usize).into_iter().for_each(|pair| *pair = [cell + 1, (*bits).into()]);
    }
    table.push([entries.len() as u32, 0]);
    table.into_flattened()
}

/// Says what is wrong with exceptions of a tensor of so many cells, if anything.
pub(crate) fn check_exceptions(exceptions: &[(u32, u16)], cells: u64) -> Result<(), String> {
    let ascend = exceptions.iter().zip(exceptions.iter().skip(1)).all(|((before, _), (after, _))| before < after);
    if !ascend {
        return Err("its exceptions do not ascend".into());
    }
    if let Some((last, _)) = exceptions.last().filter(|(cell, _)| u64::from(*cell) >= cells) {
        return Err(format!("it has no cell {last}, which is among its exceptions"));
    }
    if let Some((cell, bits)) = exceptions.iter().find(|(_, bits)| half::from_bf16(*bits).1) {
        return Err(format!("f16 holds {bits:#06x} exactly, but cell {cell} has it among the exceptions"));
    }
    Ok(())
}
