//! What changed between two checkpoints, counted: per tensor, per exponent class, by size of step.

use crate::cast::Cast;
use crate::checkpoint::Checkpoint;
use crate::cut::cut;
use crate::error::Error;
use crate::pair::Pair;
use crate::progress::Progress;
use pulse_format::cell::FloatCell;
use pulse_format::layout::{CLASSES, MAX_SEGMENT_CELLS};
use pulse_format::{FloatFormat, Piece, Tensor, with_float_cell};
use rayon::prelude::*;
use std::collections::BTreeMap;

/// Magnitudes of ULP steps are counted in buckets that double: 1, 2–3, 4–7, …, 16,384 and more.
pub const STEP_BUCKETS: usize = 15;

/// Cells and changes of one exponent class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, serde::Serialize)]
pub struct ClassDiff {
    /// Cells whose base lies in the class.
    pub cells: u64,
    /// Of those, changed.
    pub changes: u64,
    /// Of those, moved up the number line.
    pub up: u64,
}

/// Cells and changes of one tensor.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct TensorDiff {
    /// Its name.
    pub name: String,
    /// Its dtype, after the cast.
    pub dtype: &'static str,
    /// Its dimensions.
    pub shape: Vec<u64>,
    /// All its cells.
    pub cells: u64,
    /// Of those, changed.
    pub changes: u64,
}

/// What [`diff`] counted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Diff {
    /// Every tensor, as a patch lists them.
    pub tensors: Vec<TensorDiff>,
    /// Exponent classes of each float format that occurs, by its name.
    pub formats: BTreeMap<&'static str, FormatDiff>,
    /// Changes of float cells by the magnitude of their ULP step, in doubling buckets.
    pub steps: [u64; STEP_BUCKETS],
}

/// The exponent classes of one float format.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormatDiff {
    /// Which.
    pub format: FloatFormat,
    /// By class; see [`FloatFormat::exponents`].
    pub classes: [ClassDiff; CLASSES],
}

impl Diff {
    /// All cells.
    pub fn cells(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.cells).sum()
    }

    /// All changes.
    pub fn changes(&self) -> u64 {
        self.tensors.iter().map(|tensor| tensor.changes).sum()
    }
}

/// Counts what changed from `base` to `target`. Runs in the current rayon thread pool.
///
/// # Errors
/// [`Error::Tensors`] if the two do not hold the same tensors, [`Error::Interrupted`].
pub fn diff(
    base: &Checkpoint,
    target: &Checkpoint,
    cast: Option<Cast>,
    progress: &dyn Progress,
) -> Result<Diff, Error> {
    let pair = Pair::new(base, target, cast)?;
    let tensors = pair.tensors();
    progress.start(base.tensor_bytes());
    let pieces: Vec<Piece> = cut(&tensors, MAX_SEGMENT_CELLS).into_iter().flatten().collect();
    let counted = pieces.par_iter().map(|piece| {
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let dtype = tensors[piece.tensor].dtype;
        let cells = pair.cells(*piece);
        let sides = cells.pair();
        let mut counts = PieceCounts::default();
        match dtype.float_format() {
            Some(format) => with_float_cell!(format, C => counts.count_float::<C>(sides.base, sides.target)),
            None => counts.count_other(sides.base, sides.target, dtype.cell_bytes()),
        }
        progress.advance(sides.base.len() as u64);
        Ok((piece.tensor, counts))
    });
    Ok(total(&tensors, &counted.collect::<Result<Vec<_>, _>>()?))
}

fn total(tensors: &[Tensor], counted: &[(usize, PieceCounts)]) -> Diff {
    let mut diff = Diff::default();
    diff.tensors.extend(tensors.iter().map(|tensor| TensorDiff {
        name: tensor.name.clone(),
        dtype: tensor.dtype.name(),
        shape: tensor.shape.clone(),
        cells: tensor.cells().unwrap_or_default().get(),
        changes: 0,
    }));
    for (tensor, counts) in counted {
        diff.tensors[*tensor].changes += counts.changes;
        diff.steps.iter_mut().zip(counts.steps).for_each(|(sum, count)| *sum += count);
        let dtype = tensors[*tensor].dtype;
        if let Some(format) = dtype.float_format() {
            let new = FormatDiff { format, classes: [ClassDiff::default(); CLASSES] };
            let sums = diff.formats.entry(dtype.name()).or_insert(new);
            for (sum, count) in sums.classes.iter_mut().zip(counts.classes) {
                sum.cells += count.cells;
                sum.changes += count.changes;
                sum.up += count.up;
            }
        }
    }
    diff
}

#[derive(Default)]
struct PieceCounts {
    changes: u64,
    classes: [ClassDiff; CLASSES],
    steps: [u64; STEP_BUCKETS],
}

impl PieceCounts {
    fn count_float<C: FloatCell>(&mut self, base: &[u8], target: &[u8]) {
        let cell = |bytes: &[u8]| bytes.iter().rev().fold(0, |cell, byte| cell << 8 | u16::from(*byte));
        for (base, target) in base.chunks(C::BYTES).map(cell).zip(target.chunks(C::BYTES).map(cell)) {
            let class = &mut self.classes[usize::from(C::class(base))];
            class.cells += 1;
            if base != target {
                let step = C::ulp_step(base, target);
                class.changes += 1;
                class.up += u64::from(step > 0);
                self.changes += 1;
                self.steps[(step.unsigned_abs().ilog2() as usize).min(STEP_BUCKETS - 1)] += 1;
            }
        }
    }

    fn count_other(&mut self, base: &[u8], target: &[u8], cell_bytes: usize) {
        let cells = base.chunks(cell_bytes).zip(target.chunks(cell_bytes));
        self.changes += cells.filter(|(base, target)| base != target).count() as u64;
    }
}
