//! Two checkpoints, tensor by tensor.

use crate::cast::Cast;
use crate::checkpoint::{Checkpoint, StoredTensor};
use crate::error::{Error, TensorMismatch};
use pulse_format::scan::PiecePair;
use pulse_format::{Dtype, Piece, Tensor};
use std::borrow::Cow;

const CAST: Option<Cast> = Some(Cast::Bf16);
const CAST_ADVICE: &str =
    "one side holds FP32 or FP16 where the other holds BF16: --cast bf16 rounds them before comparing";

/// A base and a target with the same tensors.
#[derive(Debug)]
pub(crate) struct Pair<'a> {
    base: &'a Checkpoint,
    target: &'a Checkpoint,
    cast: Option<Cast>,
    /// As the patch lists them: ascending by dtype (after the cast) and name.
    tensors: Vec<PairedTensor<'a>>,
}

#[derive(Debug)]
struct PairedTensor<'a> {
    tensor: Tensor,
    base: &'a StoredTensor,
    target: &'a StoredTensor,
}

/// The cells of a piece on both sides, after the cast.
pub(crate) struct PieceCells<'a> {
    piece: Piece,
    cell_bytes: usize,
    base: Cow<'a, [u8]>,
    target: Cow<'a, [u8]>,
}

impl PieceCells<'_> {
    pub(crate) fn pair(&self) -> PiecePair<'_> {
        PiecePair {
            tensor: self.piece.tensor as u32,
            first_word: self.piece.first_cell.get() * self.cell_bytes as u64 / 4,
            base: &self.base,
            target: &self.target,
        }
    }
}

impl<'a> Pair<'a> {
    /// Pairs the tensors of two checkpoints by name.
    pub(crate) fn new(base: &'a Checkpoint, target: &'a Checkpoint, cast: Option<Cast>) -> Result<Self, Error> {
        let (bases, targets) = (base.by_name(), target.by_name());
        let mut mismatch = TensorMismatch {
            removed: bases.keys().filter(|name| !targets.contains_key(*name)).map(ToString::to_string).collect(),
            added: targets.keys().filter(|name| !bases.contains_key(*name)).map(ToString::to_string).collect(),
            ..TensorMismatch::default()
        };
        let mut tensors = Vec::new();
        for (name, base) in bases {
            let Some(target) = targets.get(name).copied() else { continue };
            let (before, after) = (cast_tensor(&base.tensor, cast), cast_tensor(&target.tensor, cast));
            if before != after {
                mismatch.changed.push((name.to_string(), describe(&base.tensor), describe(&target.tensor)));
                if cast.is_none() && cast_tensor(&base.tensor, CAST) == cast_tensor(&target.tensor, CAST) {
                    mismatch.advice = Some(CAST_ADVICE);
                }
            }
            tensors.push(PairedTensor { tensor: after, base, target });
        }
        if !mismatch.is_empty() {
            return Err(Error::Tensors(mismatch));
        }
        tensors.sort_by(|a, b| a.tensor.order().cmp(&b.tensor.order()));
        Ok(Self { base, target, cast, tensors })
    }

    pub(crate) fn tensors(&self) -> Vec<Tensor> {
        self.tensors.iter().map(|paired| paired.tensor.clone()).collect()
    }

    pub(crate) fn cells(&self, piece: Piece) -> PieceCells<'a> {
        let paired = &self.tensors[piece.tensor];
        PieceCells {
            piece,
            cell_bytes: paired.tensor.dtype.cell_bytes(),
            base: self.side(piece, self.base, paired.base),
            target: self.side(piece, self.target, paired.target),
        }
    }

    /// Those of the target alone.
    pub(crate) fn target(&self, piece: Piece) -> Cow<'a, [u8]> {
        self.side(piece, self.target, self.tensors[piece.tensor].target)
    }

    fn side(&self, piece: Piece, checkpoint: &'a Checkpoint, stored: &StoredTensor) -> Cow<'a, [u8]> {
        let dtype = self.tensors[piece.tensor].tensor.dtype;
        debug_assert!(self.cast.is_some() || stored.tensor.dtype == dtype);
        let width = stored.tensor.dtype.cell_bytes();
        let start = piece.first_cell.get() as usize * width;
        let bytes = &checkpoint.bytes(stored)[start..start + piece.cells as usize * width];
        if stored.tensor.dtype == dtype {
            Cow::Borrowed(bytes)
        } else {
            Cow::Owned(Cast::Bf16.cells(stored.tensor.dtype, bytes))
        }
    }
}

fn cast_tensor(tensor: &Tensor, cast: Option<Cast>) -> Tensor {
    let dtype = match (cast, tensor.dtype) {
        (Some(Cast::Bf16), Dtype::F32 | Dtype::F16) => Dtype::Bf16,
        (_, dtype) => dtype,
    };
    Tensor { dtype, ..tensor.clone() }
}

/// Dtype and shape, as error messages show them.
pub(crate) fn describe(tensor: &Tensor) -> String {
    format!("{} {:?}", tensor.dtype.name(), tensor.shape)
}
