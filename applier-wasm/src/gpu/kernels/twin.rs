//! The kernels in plain Rust, each in a file beside its WGSL: the same names, inputs and results, one workgroup after another. What
//! the GPU is tested against, and a port of its own for machines without one.

use super::prefix::prefix;
use super::resolve::resolve;
use super::scatter::scatter;
use super::step::step;
use super::survey::survey;
use super::words::Bound;
use super::{CHANGES_PER_WORKGROUP, Kernel, Params};
use std::ops::Range;

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
