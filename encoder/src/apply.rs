//! A patch and its base into the target's cells, segment by segment in parallel. Where the cells go is a [`Sink`].

use crate::checkpoint::{Checkpoint, StoredTensor};
use crate::error::{Error, TensorMismatch};
use crate::pair::describe;
use crate::patch_file::PatchFile;
use crate::progress::Progress;
use crate::zstd::Zstd;
use pulse_format::segment::{Runs, apply_runs};
use pulse_format::{Overwritten, Piece, SegmentDecoder};
use rayon::prelude::*;

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
        applier.segment(index, scratch).map_err(|error| error.of_patch(patch.path()))
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
    decoder: SegmentDecoder,
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
    fn segment(&self, index: usize, Scratch { decoder, run }: &mut Scratch) -> Result<(), Error> {
        let segment = self.patch.header().segment(index)?;
        let payload = self.patch.payload(segment.entry());
        segment.check_payload(payload)?;
        let changes = decoder.decode(&segment, payload, &Zstd::default())?;
        apply_runs(segment, changes, &mut Cells(self), run, pulse_simd::place).map(drop)
    }
}

/// Copies runs from the base, and hands them to the sink.
struct Cells<'a>(&'a Applier<'a>);

impl Runs for Cells<'_> {
    type Error = Error;

    fn read(&mut self, piece: &Piece, start: usize, run: &mut [u8]) -> Result<(), Error> {
        let stored = self.0.stored[piece.tensor];
        run.copy_from_slice(&self.0.base.bytes(stored)[start..start + run.len()]);
        Ok(())
    }

    fn take(&mut self, piece: &Piece, start: usize, run: &[u8], _: &[Overwritten]) -> Result<(), Error> {
        self.0.sink.take(self.0.stored[piece.tensor], start, run)?;
        self.0.progress.advance(run.len() as u64);
        Ok(())
    }
}
