//! What the twins work on: the words of bindings.

use super::Slot;

/// The words of a binding; reads past the end give 0 and writes are dropped, as on a GPU that guards its bounds.
#[derive(Default)]
pub(crate) struct Words(pub(crate) Vec<u32>);

impl Words {
    pub(super) fn get(&self, index: u32) -> u32 {
        self.0.get(index as usize).copied().unwrap_or_default()
    }

    pub(super) fn set(&mut self, index: u32, value: u32) {
        self.0.get_mut(index as usize).into_iter().for_each(|word| *word = value);
    }

    pub(super) fn add(&mut self, index: u32, value: u32) {
        self.set(index, self.get(index).wrapping_add(value));
    }
}

/// What a dispatch binds; nothing in the slots that its kernel does not name.
#[derive(Default)]
pub(crate) struct Bound {
    pub(super) weights: Words,
    pub(super) table: Words,
    pub(super) changes: Words,
    pub(super) sums: Words,
    pub(super) side: Words,
}

impl Bound {
    pub(crate) fn slot(&mut self, slot: Slot) -> &mut Words {
        match slot {
            Slot::Weights => &mut self.weights,
            Slot::Table => &mut self.table,
            Slot::Changes => &mut self.changes,
            Slot::Sums => &mut self.sums,
            Slot::Side => &mut self.side,
        }
    }
}
