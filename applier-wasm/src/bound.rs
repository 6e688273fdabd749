//! Which tensors a receiver holds, and which segments of a patch are for them.

use crate::error::Error;
use pulse_format::{Header, Piece, Tensor};

/// The tensors that are bound, each with what binds it: a place in memory, or in a GPU buffer.
///
/// They are kept in the order of a patch's table, so that index `i` is table entry `i` where all tensors are bound.
#[derive(Debug)]
pub struct Bound<B> {
    tensors: Vec<(Tensor, B)>,
}

impl<B> Default for Bound<B> {
    fn default() -> Self {
        Self { tensors: Vec::new() }
    }
}

/// A segment that must be applied.
#[derive(Debug)]
pub struct BoundSegment<'a, B> {
    /// Index into the segment table.
    pub index: usize,
    /// Its pieces in their order, each with what its tensor is bound to.
    pub pieces: Vec<(Piece, &'a B)>,
}

impl<B> BoundSegment<'_, B> {
    /// How many cells it has.
    pub fn cells(&self) -> u64 {
        self.pieces.iter().map(|(piece, _)| u64::from(piece.cells)).sum()
    }
}

impl<B> Bound<B> {
    /// Adds a tensor.
    ///
    /// # Errors
    /// [`Error::Binding`] if one of that name is there, or its shape has no size.
    pub fn bind(&mut self, tensor: Tensor, binding: B) -> Result<(), Error> {
        let refused = |problem: &str| Error::Binding { tensor: tensor.name.clone(), problem: problem.into() };
        if tensor.cells().is_none() {
            return Err(refused("its shape overflows, or does not fill whole bytes"));
        }
        if self.tensors.iter().any(|(other, _)| other.name == tensor.name) {
            return Err(refused("it is bound already"));
        }
        let place = self.tensors.partition_point(|(other, _)| other.order() < tensor.order());
        self.tensors.insert(place, (tensor, binding));
        Ok(())
    }

    /// All of them, in table order.
    pub fn iter(&self) -> impl Iterator<Item = (&Tensor, &B)> {
        self.tensors.iter().map(|(tensor, binding)| (tensor, binding))
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }

    /// The segments of a patch that hold bound tensors, unchanged ones too: their base must be verified as well.
    ///
    /// # Errors
    /// [`Error::Mismatch`] if nothing is bound, the patch lacks a bound tensor or has it with another dtype or shape, or a segment holds
    /// bound and other tensors, for its fingerprints are of all of them.
    pub fn plan(&self, header: &Header) -> Result<Vec<BoundSegment<'_, B>>, Error> {
        if self.is_empty() {
            return Err(Error::Mismatch { what: "no tensor is bound".into() });
        }
        let bindings = self.match_tensors(header)?;
        let mut planned = Vec::new();
        for index in 0..header.segments.len() {
            let (mut pieces, mut bound, mut other) = (Vec::new(), None, None);
            for piece in header.pieces(index) {
                match bindings.get(piece.tensor).copied().flatten() {
                    Some(binding) => {
                        bound = Some(piece.tensor);
                        pieces.push((piece, binding));
                    }
                    None => other = Some(piece.tensor),
                }
            }
            if let (Some(bound), Some(other)) = (bound, other) {
                let name = |tensor: usize| header.tensors.get(tensor).map_or("", |tensor| tensor.name.as_str());
                let (bound, other) = (name(bound), name(other));
                let what = format!("segment {index} holds {bound}, which is bound, and {other}, which is not");
                return Err(Error::Mismatch { what });
            }
            if !pieces.is_empty() {
                planned.push(BoundSegment { index, pieces });
            }
        }
        Ok(planned)
    }

    /// What each tensor of the patch is bound to.
    fn match_tensors(&self, header: &Header) -> Result<Vec<Option<&B>>, Error> {
        let mut bindings = vec![None; header.tensors.len()];
        for (tensor, binding) in &self.tensors {
            let found = header.tensors.binary_search_by(|entry| entry.order().cmp(&tensor.order()));
            let entry = found.ok().and_then(|place| Some((header.tensors.get(place)?, bindings.get_mut(place)?)));
            match entry {
                Some((entry, slot)) if entry.shape == tensor.shape => *slot = Some(binding),
                _ => return Err(Error::Mismatch { what: difference(tensor, header) }),
            }
        }
        Ok(bindings)
    }
}

/// How a bound tensor differs from the patch's of the same name.
fn difference(tensor: &Tensor, header: &Header) -> String {
    let describe = |tensor: &Tensor| {
        // Not joined: that takes 700 bytes of the module.
        let mut shape = String::new();
        for dimension in &tensor.shape {
            shape.push_str(if shape.is_empty() { "" } else { ", " });
            shape.push_str(&dimension.to_string());
        }
        format!("{} [{shape}]", tensor.dtype.name())
    };
    match header.tensors.iter().find(|entry| entry.name == tensor.name) {
        Some(entry) => {
            format!("{} is bound as {}, the patch has it as {}", tensor.name, describe(tensor), describe(entry))
        }
        None => format!("{} is bound, the patch does not have it", tensor.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pulse_format::{Dtype, Fingerprint, Segment};

    fn tensor(name: &str, dtype: Dtype, shape: &[u64]) -> Tensor {
        Tensor { name: name.into(), dtype, shape: shape.into() }
    }

    /// BF16 `a` and `b` share a segment, `c` has its own; U8 `a_mask` has one too.
    fn header() -> Header {
        let tensors = vec![
            tensor("a", Dtype::Bf16, &[4]),
            tensor("b", Dtype::Bf16, &[2, 3]),
            tensor("c", Dtype::Bf16, &[1024]),
            tensor("a_mask", Dtype::U8, &[5]),
        ];
        let segment = |cells, tensor| Segment { tensor, ..Segment::unchanged(cells, Fingerprint::ZERO) };
        Header { tensors, segments: vec![segment(10, 0), segment(1024, 2), segment(5, 3)], ..Header::default() }
    }

    fn bound(tensors: &[Tensor]) -> Bound<usize> {
        let mut bound = Bound::default();
        for (index, tensor) in tensors.iter().enumerate() {
            bound.bind(tensor.clone(), index).unwrap();
        }
        bound
    }

    fn refused(tensors: &[Tensor]) -> String {
        bound(tensors).plan(&header()).unwrap_err().to_string()
    }

    #[test]
    fn all_or_some_tensors_get_their_segments() {
        let [a, b, c, mask] = header().tensors.try_into().unwrap();
        let all = bound(&[mask.clone(), c.clone(), b.clone(), a.clone()]);
        assert_eq!(all.iter().map(|(tensor, _)| tensor.name.as_str()).collect::<Vec<_>>(), ["a", "b", "c", "a_mask"]);
        let header = header();
        let plan = all.plan(&header).unwrap();
        let indexes: Vec<_> = plan.iter().map(|segment| segment.index).collect();
        let bindings: Vec<Vec<_>> =
            plan.iter().map(|segment| segment.pieces.iter().map(|(_, binding)| **binding).collect()).collect();
        assert_eq!((indexes, bindings), (vec![0, 1, 2], vec![vec![3, 2], vec![1], vec![0]]));
        let some = bound(&[mask, c]);
        assert_eq!(some.plan(&header).unwrap().iter().map(|segment| segment.index).collect::<Vec<_>>(), [1, 2]);
        assert_eq!(bound(&[a, b]).plan(&header).unwrap().len(), 1);
    }

    #[test]
    fn what_does_not_fit_is_named() {
        assert!(refused(&[]).contains("no tensor is bound"));
        assert!(refused(&[tensor("d", Dtype::Bf16, &[4])]).contains("d is bound, the patch does not have it"));
        let shape = refused(&[tensor("c", Dtype::Bf16, &[2, 512])]);
        assert!(shape.contains("c is bound as BF16 [2, 512], the patch has it as BF16 [1024]"), "{shape}");
        let dtype = refused(&[tensor("c", Dtype::F16, &[1024])]);
        assert!(dtype.contains("c is bound as F16 [1024], the patch has it as BF16 [1024]"), "{dtype}");
        let shared = refused(&[tensor("a", Dtype::Bf16, &[4])]);
        assert!(shared.contains("segment 0 holds a, which is bound, and b, which is not"), "{shared}");
    }

    #[test]
    fn a_tensor_is_bound_once_and_has_a_size() {
        let mut bound = bound(&[tensor("a", Dtype::Bf16, &[4])]);
        let again = bound.bind(tensor("a", Dtype::F32, &[4]), 1).unwrap_err();
        assert_eq!(
            (again.code(), again.to_string()),
            ("binding", "tensor a cannot be bound: it is bound already".into())
        );
        assert_eq!(bound.bind(tensor("b", Dtype::F4, &[3]), 1).unwrap_err().code(), "binding");
        assert_eq!(bound.bind(tensor("b", Dtype::F64, &[u64::MAX, 2]), 1).unwrap_err().code(), "binding");
        assert_eq!(bound.len(), 1);
    }
}
