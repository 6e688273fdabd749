//! The bound for the contextual profile: the order-0 entropy of its own model.
//!
//! Given the exponent class of every base cell, each cell changes with the probability of its class, and a change has a ULP step with the
//! probability of its class. Both are taken from the pair itself, over the whole checkpoint; nothing is charged for telling them.

use pulse_encoder::Checkpoint;
use pulse_format::FloatFormat;
use pulse_format::layout::CLASSES;
use std::collections::HashMap;

/// Bits of all positions and of all steps of a pair of BF16 checkpoints.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    /// Changed cells.
    pub changes: u64,
    /// For positions.
    pub position_bits: f64,
    /// For steps.
    pub step_bits: f64,
}

impl Bound {
    /// Both, in bytes for each change.
    pub fn bytes_per_change(&self) -> f64 {
        (self.position_bits + self.step_bits) / 8.0 / self.changes.max(1) as f64
    }
}

/// Counts a pair whose tensors are all BF16.
pub fn bound(base: &Checkpoint, target: &Checkpoint) -> Bound {
    let mut cells = [0u64; CLASSES];
    let mut steps: [HashMap<i16, u64>; CLASSES] = Default::default();
    for (before, after) in base.tensors().iter().zip(target.tensors()) {
        let pairs = base.bytes(before).as_chunks::<2>().0.iter().zip(target.bytes(after).as_chunks::<2>().0);
        for (before, after) in pairs {
            let (before, after) = (u16::from_le_bytes(*before), u16::from_le_bytes(*after));
            let class = usize::from(FloatFormat::Bf16.class(before));
            cells[class] += 1;
            if before != after {
                *steps[class].entry(FloatFormat::Bf16.ulp_step(before, after)).or_default() += 1;
            }
        }
    }
    let mut bound = Bound { changes: 0, position_bits: 0.0, step_bits: 0.0 };
    for (cells, steps) in cells.iter().zip(&steps) {
        let changes: u64 = steps.values().sum();
        bound.changes += changes;
        bound.position_bits += entropy([changes, cells - changes]);
        bound.step_bits += entropy(steps.values().copied());
    }
    bound
}

/// Bits that all occurrences cost, each at its own probability.
fn entropy(counts: impl IntoIterator<Item = u64> + Clone) -> f64 {
    let total: u64 = counts.clone().into_iter().sum();
    let counts = counts.into_iter().filter(|count| *count > 0);
    counts.map(|count| count as f64 * (total as f64 / count as f64).log2()).sum()
}
