//! A patch and its base into the target's cells, segment by segment in parallel. Where the cells go is a [`Sink`].

use crate::checkpoint::{Checkpoint, StoredTensor};
use crate::error::{Error, TensorMismatch};
use crate::pair::describe;
use crate::patch_file::PatchFile;
use crate::progress::Progress;
use crate::simd::{fingerprint, place_absolute, place_contextual};
use crate::zstd::Zstd;
use pulse_format::absolute;
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::place::{AbsolutePlacer, ContextualPlacer};
use pulse_format::scan::Fingerprints;
use pulse_format::{Damage, Fingerprint, Place, Profile, with_float_cell};
use rayon::prelude::*;

/// Cells are copied, changed and handed on in runs of this many bytes, which stay in the cache. Whole blocks of every dtype.
const RUN_BYTES: usize = 256 << 10;

/// Takes the target's cells. Called from several threads, each run once, in no order.
pub trait Sink: Sync {
    /// `bytes` are the target's, from byte `start` of the tensor that the base stores as `stored`.
    ///
    /// # Errors
    /// Whatever stops the apply.
    fn take(&self, stored: &StoredTensor, start: usize, bytes: &[u8]) -> Result<(), Error>;
}

/// Drops the cells: for checking fingerprints only.
pub(crate) struct Discard;

impl Sink for Discard {
    fn take(&self, _: &StoredTensor, _: usize, _: &[u8]) -> Result<(), Error> {
        Ok(())
    }
}

/// Applies every segment of `patch` to `base`, checks every hash and fingerprint, and hands all cells to `sink`.
///
/// What `sink` got counts only if this returns `Ok`. Runs in the current rayon thread pool.
///
/// # Errors
/// [`Error::Tensors`] if patch and base do not hold the same tensors, [`Error::Patch`], [`Error::Interrupted`], and those of `sink`.
pub fn apply(patch: &PatchFile, base: &Checkpoint, sink: &dyn Sink, progress: &dyn Progress) -> Result<(), Error> {
    let stored = match_tensors(patch, base)?;
    progress.start(base.tensor_bytes());
    let applier = Applier { patch, base, stored, sink, progress };
    let segments = 0..patch.header().segments.len();
    segments.into_par_iter().try_for_each_init(Scratch::default, |scratch, index| {
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
        applier.segment(index, scratch)
    })
}

/// The base's tensors in the order of the patch's table.
fn match_tensors<'a>(patch: &PatchFile, base: &'a Checkpoint) -> Result<Vec<&'a StoredTensor>, Error> {
    let mut by_name = base.by_name();
    let mut mismatch = TensorMismatch::default();
    let mut stored = Vec::new();
    for tensor in &patch.header().tensors {
        match by_name.remove(tensor.name.as_str()) {
            Some(found) if found.tensor == *tensor => stored.push(found),
            Some(found) => mismatch.changed.push((tensor.name.clone(), describe(&found.tensor), describe(tensor))),
            None => mismatch.added.push(tensor.name.clone()),
        }
    }
    mismatch.removed.extend(by_name.into_keys().map(String::from));
    if mismatch.is_empty() { Ok(stored) } else { Err(Error::Tensors(mismatch)) }
}

#[derive(Default)]
struct Scratch {
    decoder: ContextualDecoder,
    changes: ContextualChanges,
    run: Vec<u8>,
}

struct Applier<'a> {
    patch: &'a PatchFile,
    base: &'a Checkpoint,
    stored: Vec<&'a StoredTensor>,
    sink: &'a dyn Sink,
    progress: &'a dyn Progress,
}

impl Applier<'_> {
    fn segment(&self, index: usize, scratch: &mut Scratch) -> Result<(), Error> {
        let header = self.patch.header();
        let segment = &header.segments[index];
        let dtype = header.tensors[segment.tensor].dtype;
        let payload = self.patch.payload(segment);
        let refuse = |error: pulse_format::Error| Error::patch(self.patch.path())(error.in_segment(index));
        segment.check_payload(payload).map_err(refuse)?;
        let sums = match (segment.profile, dtype.float_format()) {
            (Profile::Contextual { .. }, Some(format)) => {
                let Scratch { decoder, changes, run } = scratch;
                decoder.decode(header, index, payload, &Zstd::default(), changes).map_err(refuse)?;
                let mut placer = ContextualPlacer::new(changes, header.seed);
                self.runs(index, run, |run, tensor, first_word| {
                    with_float_cell!(format, C => place_contextual::<C>(&mut placer, run, tensor, first_word));
                })?;
                let base = placer.base_fingerprint();
                placer.finish().ok_or(base)
            }
            (Profile::Absolute | Profile::Relative, _) => {
                let changes =
                    absolute::decode(payload, segment.cells, segment.changes, dtype.cell_bytes(), &Zstd::default());
                let changes = changes.map_err(refuse)?;
                let placer = match segment.profile {
                    Profile::Relative => AbsolutePlacer::relative,
                    _ => AbsolutePlacer::new,
                };
                let mut placer = placer(&changes, dtype.cell_bytes(), header.seed);
                self.runs(index, &mut scratch.run, |run, tensor, first_word| {
                    place_absolute(&mut placer, run, tensor, first_word)
                })?;
                placer.finish().ok_or(segment.base)
            }
            (Profile::Unchanged | Profile::Contextual { .. }, _) => {
                let mut sums = Fingerprints::default();
                self.runs(index, &mut scratch.run, |run, tensor, first_word| {
                    sums.base += fingerprint(run, header.seed, tensor, first_word);
                })?;
                Ok(Fingerprints { target: sums.base, ..sums })
            }
        };
        self.check(index, sums).map_err(refuse)
    }

    /// Copies each run of the segment's base cells, lets `change` change them, and hands them on.
    fn runs(&self, index: usize, run: &mut Vec<u8>, mut change: impl FnMut(&mut [u8], u32, u64)) -> Result<(), Error> {
        for piece in self.patch.header().pieces(index) {
            let stored = self.stored[piece.tensor];
            let cell_bytes = stored.tensor.dtype.cell_bytes();
            let start = piece.first_cell.get() as usize * cell_bytes;
            let cells = &self.base.bytes(stored)[start..start + piece.cells as usize * cell_bytes];
            for (base, start) in cells.chunks(RUN_BYTES).zip((start..).step_by(RUN_BYTES)) {
                run.clear();
                run.extend_from_slice(base);
                change(run, piece.tensor as u32, start as u64 / 4);
                self.sink.take(stored, start, run)?;
            }
            self.progress.advance(cells.len() as u64);
        }
        Ok(())
    }

    /// `sums` holds the base's fingerprint alone where some changes found no cell.
    fn check(&self, index: usize, sums: Result<Fingerprints, Fingerprint>) -> Result<(), pulse_format::Error> {
        let segment = &self.patch.header().segments[index];
        let wrong_base = |found| pulse_format::Error::WrongBase { segment: index, found, expected: segment.base };
        let sums = sums.map_err(|base| match base == segment.base {
            true => pulse_format::Error::Damaged { place: Place::Segment(index), damage: Damage::OutOfRange },
            false => wrong_base(base),
        })?;
        let any_base = segment.profile == Profile::Absolute && sums.target == segment.target;
        if sums.base != segment.base && !any_base {
            return Err(wrong_base(sums.base));
        }
        if sums.target != segment.target {
            return Err(pulse_format::Error::WrongTarget {
                segment: index,
                found: sums.target,
                expected: segment.target,
            });
        }
        Ok(())
    }
}
