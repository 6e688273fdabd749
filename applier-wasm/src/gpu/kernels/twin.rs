//! The kernels in plain Rust, each in a file beside its WGSL: the same names, inputs and results, one workgroup after another. What
//! the GPU is tested against, and a port of its own for machines without one.

use super::prefix::prefix;
use super::resolve::resolve;
use super::scatter::scatter;
use super::step::step;
use super::survey::survey;
use super::{CHANGES_PER_WORKGROUP, Kernel, Params, Slot};
use std::ops::Range;

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

/// Runs a workgroup.
pub(crate) fn run(kernel: Kernel, params: Params, workgroup: u32, bound: &mut Bound) {
    match kernel {
        Kernel::Survey(storage) => survey(params, storage, workgroup, bound),
        Kernel::Prefix => prefix(params, workgroup, bound),
        Kernel::Resolve(storage) => {
            changes_of(params, workgroup).for_each(|index| resolve(params, storage, index, bound));
        }
        Kernel::Step(storage) | Kernel::StepBack(storage) => {
            let back = matches!(kernel, Kernel::StepBack(_));
            changes_of(params, workgroup).for_each(|index| step(params, storage, back, index, bound));
        }
        Kernel::Scatter(storage) | Kernel::Add(storage) => {
            let add = matches!(kernel, Kernel::Add(_));
            changes_of(params, workgroup).for_each(|index| scatter(params, storage, add, index, bound));
        }
    }
}

/// The twin of `change.wgsl`: the changes that a workgroup takes.
fn changes_of(params: Params, workgroup: u32) -> Range<u32> {
    let first = workgroup * CHANGES_PER_WORKGROUP;
    first..params.count.min(first + CHANGES_PER_WORKGROUP)
}
