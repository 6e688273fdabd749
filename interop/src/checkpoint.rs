//! A checkpoint as the codecs see it: named, shaped slices of cells.

use crate::Error;

/// One named tensor of BF16 cells.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor<'a> {
    /// Name, unique in the checkpoint.
    pub name: &'a str,
    /// Extent of each dimension, slowest first; empty for a scalar.
    pub shape: Vec<u64>,
    /// Bit patterns in row-major order; as many as the product of `shape`.
    pub cells: &'a [u16],
}

/// A set of tensors in ascending order of their names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Checkpoint<'a> {
    tensors: Vec<Tensor<'a>>,
}

/// Numbers of the checkpoints that a patch goes from and to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Steps {
    /// Step of the base.
    pub base: u64,
    /// Step of the target.
    pub target: u64,
}

impl<'a> Checkpoint<'a> {
    /// Collects tensors, in any order.
    ///
    /// # Errors
    /// [`Error::Misuse`] when a name occurs twice, or a shape and its number of cells disagree.
    pub fn new(mut tensors: Vec<Tensor<'a>>) -> Result<Self, Error> {
        tensors.sort_by(|a, b| a.name.cmp(b.name));
        if let Some(pair) = tensors.array_windows::<2>().find(|[a, b]| a.name == b.name) {
            return Err(Error::misuse(format!("two tensors named {}", pair[0].name)));
        }
        for tensor in &tensors {
            if cell_count(&tensor.shape) != Some(tensor.cells.len() as u64) {
                let (shape, count) = (&tensor.shape, tensor.cells.len());
                return Err(Error::misuse(format!("{} has shape {shape:?} but {count} cells", tensor.name)));
            }
        }
        Ok(Self { tensors })
    }

    /// The tensors, in ascending order of their names.
    pub fn tensors(&self) -> &[Tensor<'a>] {
        &self.tensors
    }

    /// Number of cells in all tensors.
    pub fn cell_count(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.cells.len() as u64).sum()
    }

    /// A copy of the cells, one vector per tensor: what [`PatchFormat::apply`](crate::PatchFormat::apply) writes to.
    pub fn to_cells(&self) -> Vec<Vec<u16>> {
        self.tensors.iter().map(|tensor| tensor.cells.to_vec()).collect()
    }

    pub(crate) fn position(&self, name: &str) -> Option<usize> {
        self.tensors.binary_search_by(|tensor| tensor.name.cmp(name)).ok()
    }

    /// The tensor that a patch entry is about, with its place.
    ///
    /// # Errors
    /// [`Error::WrongBase`] when there is none of that name and, if `shape` is given, of that shape.
    pub(crate) fn find(&self, name: &str, shape: Option<&[u64]>) -> Result<(usize, &Tensor<'a>), Error> {
        let found = self.position(name).and_then(|place| Some((place, self.tensors.get(place)?)));
        let Some((place, tensor)) = found else {
            return Err(Error::wrong_base(name, "a tensor of this name", "none"));
        };
        match shape {
            Some(shape) if shape != tensor.shape => {
                Err(Error::wrong_base(name, format_args!("shape {shape:?}"), format_args!("shape {:?}", tensor.shape)))
            }
            _ => Ok((place, tensor)),
        }
    }

    /// Checks that two checkpoints hold tensors of the same names and shapes.
    pub(crate) fn check_same_layout(&self, other: &Checkpoint<'_>) -> Result<(), Error> {
        if self.tensors.len() != other.tensors.len() {
            let (ours, theirs) = (self.tensors.len(), other.tensors.len());
            return Err(Error::misuse(format!("the base has {ours} tensors, the target {theirs}")));
        }
        match self.tensors.iter().zip(&other.tensors).find(|(a, b)| a.name != b.name || a.shape != b.shape) {
            Some((a, b)) => Err(Error::misuse(format!(
                "the base has {} of shape {:?} where the target has {} of shape {:?}",
                a.name, a.shape, b.name, b.shape
            ))),
            None => Ok(()),
        }
    }

    /// Checks that `cells` has room for exactly this checkpoint.
    pub(crate) fn check_room(&self, cells: &[Vec<u16>]) -> Result<(), Error> {
        let fits = cells.len() == self.tensors.len()
            && self.tensors.iter().zip(cells).all(|(tensor, cells)| tensor.cells.len() == cells.len());
        if fits { Ok(()) } else { Err(Error::misuse("the cells to write to are not laid out as the base")) }
    }
}

/// Product of the extents; `None` where it does not fit.
pub(crate) fn cell_count(shape: &[u64]) -> Option<u64> {
    // A zero extent makes the tensor empty, whatever the others are.
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |count, &extent| count.checked_mul(extent))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor<'a>(name: &'a str, shape: &[u64], cells: &'a [u16]) -> Tensor<'a> {
        Tensor { name, shape: shape.to_vec(), cells }
    }

    #[test]
    fn tensors_are_sorted_by_name() {
        let checkpoint = Checkpoint::new(vec![tensor("b", &[], &[1]), tensor("a", &[2, 0], &[])]).unwrap();
        assert_eq!(checkpoint.tensors()[0].name, "a");
        assert_eq!(checkpoint.position("b"), Some(1));
        assert_eq!(checkpoint.cell_count(), 1);
    }

    #[test]
    fn contradictions_are_misuse() {
        let twice = Checkpoint::new(vec![tensor("a", &[], &[1]), tensor("a", &[], &[1])]);
        assert_eq!(twice, Err(Error::misuse("two tensors named a")));
        let shape = Checkpoint::new(vec![tensor("a", &[3], &[1])]);
        assert_eq!(shape, Err(Error::misuse("a has shape [3] but 1 cells")));
        assert!(Checkpoint::new(vec![tensor("a", &[u64::MAX, 2], &[1])]).is_err());
    }

    #[test]
    fn find_tells_a_missing_tensor_from_a_misshapen_one() {
        let checkpoint = Checkpoint::new(vec![tensor("a", &[1], &[1])]).unwrap();
        assert_eq!(checkpoint.find("a", Some(&[1])).unwrap().0, 0);
        assert_eq!(
            checkpoint.find("a", Some(&[1, 1])).unwrap_err(),
            Error::wrong_base("a", "shape [1, 1]", "shape [1]")
        );
        assert_eq!(checkpoint.find("b", None).unwrap_err().code(), "wrong_base");
    }
}
