//! One segment, joined with what a header says of it: decoded, placed and judged in one way by every receiver.
//!
//! ```text
//! payload ─▶ SegmentDecoder ─▶ Changes ─▶ Placer ─▶ SegmentView::judge
//!            (no base needed)             (run by run, the base's cells become the target's)
//! ```
//!
//! [`apply_runs`] is the last two steps over cells that lie anywhere.

use crate::cell::{FloatCell, FloatFormat};
use crate::codec::Inflate;
use crate::contextual::{CodedSegment, ContextualChanges, ContextualDecoder};
use crate::dense::DenseDecoder;
use crate::dtype::Dtype;
use crate::error::{Damage, Error, Part};
use crate::fingerprint::{Fingerprint, fingerprint};
use crate::header::{Header, Piece, Profile, Segment};
use crate::masks::Masks;
use crate::model::ContextModel;
use crate::overwrites::Overwritten;
use crate::place::{ContextualPlacer, DensePlacer, PositionalPlacer};
use crate::positional::{self, PositionalChanges};
use crate::scan::Fingerprints;
use alloc::vec::Vec;

/// Bytes of the runs that [`apply_runs`] works on: they stay in the cache, and are whole blocks of every dtype.
pub const RUN_BYTES: usize = 256 << 10;

/// A segment of a header whose profile, dtype and model fit one another.
#[derive(Debug, Clone, Copy)]
pub struct SegmentView<'a> {
    header: &'a Header,
    index: usize,
    entry: &'a Segment,
    dtype: Dtype,
    coding: Coding<'a>,
}

/// How the changes are coded, with what their decoder needs.
#[derive(Debug, Clone, Copy)]
enum Coding<'a> {
    Unchanged,
    Contextual { format: FloatFormat, model: &'a ContextModel },
    Absolute,
    Relative,
    Dense,
}

impl Header {
    /// Segment `index`.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none, or if the header was put together by hand and its tables do not fit.
    pub fn segment(&self, index: usize) -> Result<SegmentView<'_>, Error> {
        let entry = self.segments.get(index).ok_or(Error::Misuse { what: "there is no such segment" })?;
        let misfit = Error::Misuse { what: "a segment does not fit the header's tables" };
        let dtype = self.tensors.get(entry.tensor).ok_or(misfit.clone())?.dtype;
        let coding = match entry.profile {
            Profile::Unchanged => Coding::Unchanged,
            Profile::Absolute => Coding::Absolute,
            Profile::Relative => Coding::Relative,
            Profile::Dense => Coding::Dense,
            Profile::Contextual { model } => match (dtype.float_format(), self.models.get(model)) {
                (Some(format), Some(model)) => Coding::Contextual { format, model },
                _ => return Err(misfit),
            },
        };
        Ok(SegmentView { header: self, index, entry, dtype, coding })
    }
}

impl<'a> SegmentView<'a> {
    /// Its index in the segment table.
    pub fn index(&self) -> usize {
        self.index
    }

    /// Its entry in the segment table.
    pub fn entry(&self) -> &'a Segment {
        self.entry
    }

    /// Of all its cells.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// The runs of cells that it covers, in its order.
    pub fn pieces(&self) -> Vec<Piece> {
        self.header.pieces(self.index)
    }

    /// Checks length and hash of its payload.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Truncated`].
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), Error> {
        self.entry.check_payload(payload).map_err(|error| error.in_segment(self.index))
    }

    /// Whether cells with the fingerprint `base` may be changed: `found_all` says that each change has its cell there.
    ///
    /// What `absolute` and `dense` write does not depend on the base, so any base passes, and [`SegmentView::judge`] has the last word.
    ///
    /// # Errors
    /// [`Error::WrongBase`]; [`Error::Damaged`] if the base is right and yet lacks cells.
    pub fn judge_base(&self, base: Fingerprint, found_all: bool) -> Result<(), Error> {
        let needs_base = !matches!(self.entry.profile, Profile::Absolute | Profile::Dense);
        if needs_base && base != self.entry.base {
            return Err(self.wrong_base(base));
        }
        if !found_all {
            return Err(Error::Damaged { part: Part::Segment(self.index), damage: Damage::OutOfRange });
        }
        Ok(())
    }

    /// Whether `found` are the fingerprints of a base and a result that this segment leads from and to.
    ///
    /// # Errors
    /// [`Error::WrongBase`] where the base explains the result, else [`Error::WrongTarget`].
    pub fn judge(&self, found: Fingerprints) -> Result<(), Error> {
        let Fingerprints { base, target } = found;
        match target == self.entry.target {
            true => self.judge_base(base, true),
            false if base != self.entry.base && self.entry.profile != Profile::Dense => Err(self.wrong_base(base)),
            false => Err(Error::WrongTarget { segment: self.index, found: target, expected: self.entry.target }),
        }
    }

    fn wrong_base(&self, found: Fingerprint) -> Error {
        Error::WrongBase { segment: self.index, found, expected: self.entry.base }
    }
}

/// The changes of one segment, whichever its profile.
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub enum Changes<'a> {
    /// None.
    Unchanged,
    /// Of cells of this format.
    Contextual(FloatFormat, &'a ContextualChanges),
    /// Of cells of any dtype: what they become.
    Absolute(&'a PositionalChanges),
    /// Of cells of any dtype that is not wider than a word: what is added to them.
    Relative(&'a PositionalChanges),
    /// Of cells of any dtype: what all of them become, as bytes.
    Dense(&'a [u8], Dtype),
}

impl Changes<'_> {
    /// How many.
    pub fn len(&self) -> usize {
        match self {
            Self::Unchanged => 0,
            Self::Contextual(_, changes) => changes.len(),
            Self::Absolute(changes) | Self::Relative(changes) => changes.len(),
            Self::Dense(cells, dtype) => cells.len() / dtype.cell_bytes(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Decodes segments of any patch; keeps its memory, and the tables of the model used last.
#[derive(Debug, Default)]
pub struct SegmentDecoder {
    decoder: ContextualDecoder,
    contextual: ContextualChanges,
    absolute: PositionalChanges,
    dense: DenseDecoder,
}

impl SegmentDecoder {
    /// Decodes the payload of `segment`. The changes are in order and within the segment; the payload's hash is not checked.
    ///
    /// Whether each rank exists depends on the base: [`Placer::finish`] tells.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Truncated`].
    pub fn decode(
        &mut self,
        segment: &SegmentView<'_>,
        payload: &[u8],
        codec: &impl Inflate,
    ) -> Result<Changes<'_>, Error> {
        let &Segment { cells, changes, .. } = segment.entry;
        let said_here = |error: Error| error.in_segment(segment.index);
        match segment.coding {
            Coding::Unchanged => Ok(Changes::Unchanged),
            Coding::Contextual { format, model } => {
                let coded = CodedSegment { model, format, cells, changes };
                self.decoder.decode(&coded, payload, codec, &mut self.contextual).map_err(said_here)?;
                Ok(Changes::Contextual(format, &self.contextual))
            }
            Coding::Absolute | Coding::Relative => {
                let cell_bytes = segment.dtype.cell_bytes();
                self.absolute = positional::decode(payload, cells, changes, cell_bytes, codec).map_err(said_here)?;
                Ok(match segment.coding {
                    Coding::Relative => Changes::Relative(&self.absolute),
                    _ => Changes::Absolute(&self.absolute),
                })
            }
            Coding::Dense => {
                let cells = self.dense.decode(payload, cells, segment.dtype, codec).map_err(said_here)?;
                Ok(Changes::Dense(cells, segment.dtype))
            }
        }
    }
}

/// Turns the base's cells of one segment into the target's, run by run, and judges both at the end.
#[derive(Debug)]
pub struct Placer<'a> {
    segment: SegmentView<'a>,
    work: Work<'a>,
}

#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "there is one of it for a segment, on the stack")]
enum Work<'a> {
    Unchanged(Fingerprint),
    Contextual(FloatFormat, ContextualPlacer<'a>),
    ByPosition(PositionalPlacer<'a>),
    Dense(DensePlacer<'a>),
}

impl<'a> Placer<'a> {
    /// A placer at the start of a segment, for its decoded changes.
    pub fn new(segment: SegmentView<'a>, changes: Changes<'a>) -> Self {
        let seed = segment.header.seed;
        let work = match changes {
            Changes::Unchanged => Work::Unchanged(Fingerprint::ZERO),
            Changes::Contextual(format, changes) => Work::Contextual(format, ContextualPlacer::new(changes, seed)),
            Changes::Absolute(changes) => {
                Work::ByPosition(PositionalPlacer::new(changes, segment.dtype.cell_bytes(), seed))
            }
            Changes::Relative(changes) => {
                Work::ByPosition(PositionalPlacer::relative(changes, segment.dtype.cell_bytes(), seed))
            }
            Changes::Dense(cells, _) => Work::Dense(DensePlacer::new(cells, seed)),
        };
        Self { segment, work }
    }

    /// From here on [`Placer::overwritten`] tells.
    pub fn note_overwritten(&mut self) {
        match &mut self.work {
            Work::Unchanged(_) => {}
            Work::Contextual(_, placer) => placer.overwrites.wanted = true,
            Work::ByPosition(placer) => placer.overwrites.wanted = true,
            Work::Dense(placer) => placer.overwrites.wanted = true,
        }
    }

    /// The words that the last run had before, if they are noted; one that changed more than once is there as often, what it held first
    /// before the others.
    pub fn overwritten(&self) -> &[Overwritten] {
        match &self.work {
            Work::Unchanged(_) => &[],
            Work::Contextual(_, placer) => placer.overwrites.words(),
            Work::ByPosition(placer) => placer.overwrites.words(),
            Work::Dense(placer) => placer.overwrites.words(),
        }
    }

    /// Changes the next cells, which belong to table entry `tensor` from its word `first_word` on.
    ///
    /// A piece may come in several runs if all but its last are whole blocks.
    #[inline(always)]
    pub fn place(&mut self, masks: impl Masks, cells: &mut [u8], tensor: u32, first_word: u64) {
        match &mut self.work {
            Work::Unchanged(sum) => *sum += fingerprint(cells, self.segment.header.seed, tensor, first_word),
            Work::Contextual(format, placer) => {
                crate::with_float_cell!(*format, C => place_cells::<C>(placer, masks, cells, tensor, first_word));
            }
            Work::ByPosition(placer) => placer.place(cells, tensor, first_word),
            Work::Dense(placer) => placer.place(cells, tensor, first_word),
        }
    }

    /// Judges what was there and what is there now; gives the fingerprints of both.
    ///
    /// # Errors
    /// Those of [`SegmentView::judge`] and [`SegmentView::judge_base`].
    pub fn finish(self) -> Result<Fingerprints, Error> {
        let base = match &self.work {
            Work::Unchanged(sum) => *sum,
            Work::Contextual(_, placer) => placer.base_fingerprint(),
            Work::ByPosition(placer) => placer.base_fingerprint(),
            Work::Dense(placer) => placer.base_fingerprint(),
        };
        let found = match self.work {
            Work::Unchanged(target) => Some(Fingerprints { base, target }),
            Work::Contextual(_, placer) => placer.finish(),
            Work::ByPosition(placer) => placer.finish(),
            Work::Dense(placer) => placer.finish(),
        };
        self.segment.judge_base(base, found.is_some())?;
        let found = found.unwrap_or_default();
        self.segment.judge(found).map(|()| found)
    }
}

/// Apart in wasm: engines there optimise function by function, and one with the loops of every format keeps them waiting. Elsewhere it must be
/// compiled for the instructions of its caller.
#[cfg_attr(target_arch = "wasm32", inline(never))]
#[cfg_attr(not(target_arch = "wasm32"), inline(always))]
fn place_cells<C: FloatCell>(
    placer: &mut ContextualPlacer<'_>,
    masks: impl Masks,
    cells: &mut [u8],
    tensor: u32,
    first_word: u64,
) {
    placer.place::<C>(masks, cells, tensor, first_word);
}

/// The cells of a segment, wherever they lie: [`apply_runs`] takes copies of them, and gives them back changed.
pub trait Runs {
    /// Why cells cannot be had or taken.
    type Error: From<Error>;

    /// Fills `run` with the base's cells of `piece`'s tensor, from its byte `start` on.
    ///
    /// # Errors
    /// Whatever keeps them from being read; it ends the apply.
    fn read(&mut self, piece: &Piece, start: usize, run: &mut [u8]) -> Result<(), Self::Error>;

    /// Takes the cells of the same place as they are after the patch. They count only if the whole apply succeeds.
    ///
    /// # Errors
    /// Whatever keeps them from being taken; it ends the apply.
    fn take(&mut self, piece: &Piece, start: usize, run: &[u8], overwritten: &[Overwritten])
    -> Result<(), Self::Error>;

    /// Whether [`Runs::take`] wants to know what was overwritten: see [`Placer::overwritten`].
    fn wants_overwritten(&self) -> bool {
        false
    }
}

/// Places the changes of a segment on copies of its runs, in order, and judges the result.
///
/// `place` is [`Placer::place`] with the masks of the caller's CPU; `run` is memory that is used again.
///
/// # Errors
/// Those of `runs` and of [`Placer::finish`].
pub fn apply_runs<R: Runs>(
    segment: SegmentView<'_>,
    changes: Changes<'_>,
    runs: &mut R,
    run: &mut Vec<u8>,
    mut place: impl FnMut(&mut Placer<'_>, &mut [u8], u32, u64),
) -> Result<Fingerprints, R::Error> {
    let mut placer = Placer::new(segment, changes);
    if runs.wants_overwritten() {
        placer.note_overwritten();
    }
    let cell_bytes = segment.dtype.cell_bytes();
    run.resize(RUN_BYTES, 0);
    for piece in segment.pieces() {
        let begin = piece.first_cell.get() as usize * cell_bytes;
        let end = begin + piece.cells as usize * cell_bytes;
        for start in (begin..end).step_by(RUN_BYTES) {
            let run = run.get_mut(..RUN_BYTES.min(end - start)).unwrap_or_default();
            runs.read(&piece, start, run)?;
            place(&mut placer, run, piece.tensor as u32, start as u64 / 4);
            runs.take(&piece, start, run, placer.overwritten())?;
        }
    }
    Ok(placer.finish()?)
}
