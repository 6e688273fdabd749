//! Which cells of a tensor changed.

use crate::{Checkpoint, Error, Tensor};

/// Cells that are compared at a time: whole vector registers, and a bit each in a `u32`.
const BLOCK: usize = 32;

/// A tensor that changed, and where.
pub(crate) struct ChangedTensor<'c, 'a> {
    pub(crate) base: &'c Tensor<'a>,
    pub(crate) target: &'c Tensor<'a>,
    /// Positions of the changed cells, ascending.
    pub(crate) positions: Vec<u64>,
}

impl ChangedTensor<'_, '_> {
    /// The new cells at the changed positions.
    pub(crate) fn values(&self) -> Vec<u16> {
        gather(self.target.cells, &self.positions)
    }
}

/// The tensors that differ, in ascending order of their names.
///
/// # Errors
/// [`Error::Misuse`] when the two checkpoints are not laid out alike.
pub(crate) fn changed_tensors<'c, 'a>(
    base: &'c Checkpoint<'a>,
    target: &'c Checkpoint<'a>,
) -> Result<Vec<ChangedTensor<'c, 'a>>, Error> {
    base.check_same_layout(target)?;
    let pairs = base.tensors().iter().zip(target.tensors());
    let changed = pairs.map(|(base, target)| ChangedTensor {
        base,
        target,
        positions: changed_positions(base.cells, target.cells),
    });
    Ok(changed.filter(|tensor| !tensor.positions.is_empty()).collect())
}

/// Positions at which two equally long slices differ, ascending.
pub(crate) fn changed_positions(base: &[u16], target: &[u16]) -> Vec<u64> {
    let mut positions = Vec::with_capacity(base.len() / 64);
    let (base_blocks, base_rest) = base.as_chunks::<BLOCK>();
    let (target_blocks, target_rest) = target.as_chunks::<BLOCK>();
    for (number, (old, new)) in base_blocks.iter().zip(target_blocks).enumerate() {
        let difference = old.iter().zip(new).fold(0, |all, (old, new)| all | (old ^ new));
        if difference != 0 {
            let start = (number * BLOCK) as u64;
            let mut mask = differing(old, new);
            positions.reserve(BLOCK);
            while mask != 0 {
                positions.push(start + u64::from(mask.trailing_zeros()));
                mask &= mask - 1;
            }
        }
    }
    let rest = (base_blocks.len() * BLOCK) as u64..;
    let differing = rest.zip(base_rest).zip(target_rest).filter(|((_, old), new)| old != new);
    positions.extend(differing.map(|((position, _), _)| position));
    positions
}

/// A bit for each cell that differs, the first in the lowest.
fn differing(old: &[u16; BLOCK], new: &[u16; BLOCK]) -> u32 {
    let mut flags = [0u8; BLOCK];
    for ((flag, old), new) in flags.iter_mut().zip(old).zip(new) {
        *flag = u8::from(old != new);
    }
    // The product gathers the lowest bits of eight bytes in the highest byte. Building the mask bit by bit instead
    // is not vectorised, and takes longer than all the comparing.
    const GATHER: u64 = 0x0102_0408_1020_4080;
    let bytes = flags.as_chunks().0.iter().rev();
    bytes.fold(0, |mask, &eight| (mask << 8) | (u64::from_le_bytes(eight).wrapping_mul(GATHER) >> 56) as u32)
}

/// The cells at `positions`. A position past the end, which no caller has, yields zero.
pub(crate) fn gather(cells: &[u16], positions: &[u64]) -> Vec<u16> {
    positions.iter().map(|&position| cells.get(position as usize).copied().unwrap_or(0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_changed_cell_is_found() {
        for len in [0, 1, 31, 32, 33, 100] {
            let base: Vec<u16> = (0..len).map(|i| i as u16 * 3).collect();
            for stride in [1, 2, 7, 31, 1000] {
                let target: Vec<u16> =
                    base.iter().enumerate().map(|(i, &c)| if i % stride == 0 { c ^ 0x8000 } else { c }).collect();
                let expected: Vec<u64> = (0..len as u64).step_by(stride).collect();
                assert_eq!(changed_positions(&base, &target), expected, "{len} cells, stride {stride}");
            }
        }
    }

    #[test]
    fn zeros_and_nans_are_compared_as_bits() {
        assert_eq!(changed_positions(&[0x0000, 0x7FC0, 0x7FC0], &[0x8000, 0x7FC0, 0x7FC1]), [0, 2]);
    }
}
