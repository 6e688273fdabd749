//! A patch in memory, free of any format.

use crate::diff::changed_tensors;
use crate::{Checkpoint, Error, Steps};

/// What changed between two checkpoints.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SparsePatch {
    /// Step of the base, where the format tells.
    pub base_step: Option<u64>,
    /// Step of the target, where the format tells.
    pub target_step: Option<u64>,
    /// Tensors with at least one change, in ascending order of their names.
    pub tensors: Vec<TensorChanges>,
}

/// The changes of one tensor.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TensorChanges {
    /// Name of the tensor.
    pub name: String,
    /// Extent of each dimension, slowest first.
    pub shape: Vec<u64>,
    /// Positions in the flattened tensor, strictly ascending.
    pub indices: Vec<u64>,
    /// The new cell at each of `indices`.
    pub values: Vec<u16>,
}

impl SparsePatch {
    /// Compares two checkpoints bit by bit.
    ///
    /// # Errors
    /// [`Error::Misuse`] when they do not hold tensors of the same names and shapes.
    pub fn diff(steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Self, Error> {
        let changed = changed_tensors(base, target)?;
        let tensors = changed.into_iter().map(|tensor| TensorChanges {
            name: tensor.base.name.to_owned(),
            shape: tensor.base.shape.clone(),
            values: tensor.values(),
            indices: tensor.positions,
        });
        Ok(Self { base_step: Some(steps.base), target_step: Some(steps.target), tensors: tensors.collect() })
    }

    /// Number of changed cells.
    pub fn change_count(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.indices.len() as u64).sum()
    }

    /// Overwrites the changed cells. `cells` holds one vector per tensor of `base`, in its order.
    ///
    /// # Errors
    /// [`Error::Misuse`] when `cells` is not laid out as `base`; [`Error::WrongBase`] when a tensor is missing or
    /// misshapen; [`Error::Damaged`] when names or indices are out of order or out of range. Everything is checked
    /// before anything is written.
    pub fn apply(&self, base: &Checkpoint<'_>, cells: &mut [Vec<u16>]) -> Result<(), Error> {
        base.check_room(cells)?;
        let places = self.check(base)?;
        for (tensor, place) in self.tensors.iter().zip(places) {
            if let Some(cells) = cells.get_mut(place) {
                scatter(cells, &tensor.indices, &tensor.values);
            }
        }
        Ok(())
    }

    /// Checks that the patch fits `base`; returns the place in `base` of each of its tensors.
    fn check(&self, base: &Checkpoint<'_>) -> Result<Vec<usize>, Error> {
        if !self.tensors.is_sorted_by(|a, b| a.name < b.name) {
            return Err(Error::damaged("patch", "tensor names are not strictly ascending"));
        }
        self.tensors
            .iter()
            .map(|tensor| {
                let (place, found) = base.find(&tensor.name, Some(&tensor.shape))?;
                tensor.check_indices(found.cells.len())?;
                Ok(place)
            })
            .collect()
    }
}

impl TensorChanges {
    fn check_indices(&self, cell_count: usize) -> Result<(), Error> {
        if self.indices.len() != self.values.len() {
            let (indices, values) = (self.indices.len(), self.values.len());
            return Err(Error::damaged(&self.name, format!("{indices} indices but {values} values")));
        }
        if !self.indices.is_sorted_by(|a, b| a < b) {
            return Err(Error::damaged(&self.name, "indices are not strictly ascending"));
        }
        match self.indices.last() {
            Some(&last) if last >= cell_count as u64 => {
                Err(Error::damaged(&self.name, format!("index {last} in a tensor of {cell_count} cells")))
            }
            _ => Ok(()),
        }
    }
}

/// Writes `values` at `positions`, which the caller has checked.
pub(crate) fn scatter(cells: &mut [u16], positions: &[u64], values: &[u16]) {
    for (&position, &value) in positions.iter().zip(values) {
        if let Some(cell) = cells.get_mut(position as usize) {
            *cell = value;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Tensor;

    const STEPS: Steps = Steps { base: 1, target: 2 };

    fn checkpoint<'a>(a: &'a [u16], b: &'a [u16]) -> Checkpoint<'a> {
        let tensor = |name, cells: &'a [u16]| Tensor { name, shape: vec![cells.len() as u64], cells };
        Checkpoint::new(vec![tensor("a", a), tensor("b", b)]).unwrap()
    }

    #[test]
    fn a_diff_applied_to_its_base_is_its_target() {
        let (base, target) = (checkpoint(&[0, 1, 2], &[3]), checkpoint(&[0x8000, 1, 9], &[3]));
        let patch = SparsePatch::diff(STEPS, &base, &target).unwrap();
        assert_eq!(patch.tensors.len(), 1);
        assert_eq!(patch.change_count(), 2);
        let mut cells = base.to_cells();
        patch.apply(&base, &mut cells).unwrap();
        assert_eq!(cells, target.to_cells());
    }

    #[test]
    fn a_misfit_writes_nothing() {
        let base = checkpoint(&[0, 1, 2], &[3]);
        let good = SparsePatch::diff(STEPS, &base, &checkpoint(&[7, 7, 7], &[7])).unwrap();
        type Spoil = fn(&mut SparsePatch);
        let spoil: [(&str, Spoil); 6] = [
            ("damaged", |patch| patch.tensors[1].indices[0] = 1),
            ("damaged", |patch| patch.tensors[0].indices.swap(0, 1)),
            ("damaged", |patch| _ = patch.tensors[1].values.pop()),
            ("damaged", |patch| patch.tensors.swap(0, 1)),
            ("wrong_base", |patch| patch.tensors[1].name = "c".into()),
            ("wrong_base", |patch| patch.tensors[1].shape = vec![1, 1]),
        ];
        for (code, spoil) in spoil {
            let mut patch = good.clone();
            spoil(&mut patch);
            let mut cells = base.to_cells();
            assert_eq!(patch.apply(&base, &mut cells).unwrap_err().code(), code);
            assert_eq!(cells, base.to_cells());
        }
        assert_eq!(good.apply(&base, &mut [vec![0; 3]]).unwrap_err().code(), "misuse");
    }

    #[test]
    fn checkpoints_of_different_layout_are_misuse() {
        let diff = SparsePatch::diff(STEPS, &checkpoint(&[1], &[2]), &checkpoint(&[1, 1], &[2]));
        assert_eq!(diff.unwrap_err().code(), "misuse");
    }
}
