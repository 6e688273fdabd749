//! One segment of a patch, placed on copies of its runs.

use crate::bound::BoundSegment;
use crate::cpu::memory::Memory;
use crate::cpu::session::Place;
use crate::error::Error;
use crate::inflate::Zstd;
use pulse_format::absolute;
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::place::{AbsolutePlacer, ContextualPlacer};
use pulse_format::scan::Fingerprints;
use pulse_format::{Damage, Fingerprint, Header, Piece, Profile, with_float_cell};

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
use pulse_format::masks::Portable as CpuMasks;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use crate::simd::Simd128 as CpuMasks;

/// Cells are copied, changed and handed on in runs of this many bytes, which stay in the cache. Whole blocks of every dtype.
pub(super) const RUN_BYTES: usize = 256 << 10;

/// Decodes and places; keeps its memory from segment to segment.
#[derive(Debug, Default)]
pub(super) struct Placer {
    decoder: ContextualDecoder,
    contextual: ContextualChanges,
    run: Vec<u8>,
}

/// What becomes of the changed runs.
pub(super) enum Runs<'a, M> {
    /// They are dropped.
    Dry(&'a [Place<M>]),
    /// They are written back; the flag says whether any was.
    Written(&'a mut [Place<M>], &'a mut bool),
}

impl Placer {
    /// A placer for the segments of one header: decoding tables are kept by the model's index.
    pub(super) fn for_another_patch(&mut self) {
        self.decoder = ContextualDecoder::default();
    }

    /// Decodes `payload`, whose hash is checked, places its changes run by run, and checks both fingerprints at the end.
    ///
    /// # Errors
    /// [`Error::Patch`], and those of the memory.
    pub(super) fn segment<M: Memory>(
        &mut self,
        header: &Header,
        planned: &BoundSegment<'_, usize>,
        payload: &[u8],
        runs: &mut Runs<'_, M>,
    ) -> Result<(), Error> {
        let BoundSegment { index, ref pieces } = *planned;
        let segment = header.segments.get(index).ok_or_else(invalid)?;
        let dtype = header.tensors.get(segment.tensor).ok_or_else(invalid)?.dtype;
        let cell_bytes = dtype.cell_bytes();
        let Self { decoder, contextual, run } = self;
        let sums = match (segment.profile, dtype.float_format()) {
            (Profile::Contextual { .. }, Some(format)) => {
                decoder.decode(header, index, payload, &Zstd, contextual).map_err(|error| error.in_segment(index))?;
                let mut placer = ContextualPlacer::new(contextual, header.seed);
                each_run(pieces, cell_bytes, run, runs, |run, tensor, first_word| {
                    with_float_cell!(format, C => place_contextual::<C>(&mut placer, run, tensor, first_word));
                })?;
                let base = placer.base_fingerprint();
                placer.finish().ok_or(base)
            }
            (Profile::Absolute | Profile::Relative, _) => {
                let changes = absolute::decode(payload, segment.cells, segment.changes, cell_bytes, &Zstd);
                let changes = changes.map_err(|error| error.in_segment(index))?;
                let placer = match segment.profile {
                    Profile::Relative => AbsolutePlacer::relative,
                    _ => AbsolutePlacer::new,
                };
                place_absolute(placer(&changes, cell_bytes, header.seed), pieces, cell_bytes, run, runs)?
                    .ok_or(segment.base)
            }
            (Profile::Unchanged | Profile::Contextual { .. }, _) => {
                let mut base = Fingerprint::ZERO;
                each_run(pieces, cell_bytes, run, runs, |run, tensor, first_word| {
                    base += pulse_format::fingerprint(run, header.seed, tensor, first_word);
                })?;
                Ok(Fingerprints { base, target: base })
            }
        };
        check(header, index, sums).map_err(Error::from)
    }
}

/// Kept out of line: it is compiled once for each format of a cell, with its loops.
#[inline(never)]
fn place_contextual<C: pulse_format::cell::FloatCell>(
    placer: &mut ContextualPlacer<'_>,
    run: &mut [u8],
    tensor: u32,
    first_word: u64,
) {
    placer.place::<C>(CpuMasks, run, tensor, first_word);
}

fn place_absolute<M: Memory>(
    mut placer: AbsolutePlacer<'_>,
    pieces: &[(Piece, &usize)],
    cell_bytes: usize,
    run: &mut Vec<u8>,
    runs: &mut Runs<'_, M>,
) -> Result<Option<Fingerprints>, Error> {
    each_run(pieces, cell_bytes, run, runs, |run, tensor, first_word| placer.place(run, tensor, first_word))?;
    Ok(placer.finish())
}

/// Copies each run of the pieces' cells, lets `change` change it, and writes it back unless this is a dry run.
fn each_run<M: Memory>(
    pieces: &[(Piece, &usize)],
    cell_bytes: usize,
    run: &mut Vec<u8>,
    runs: &mut Runs<'_, M>,
    mut change: impl FnMut(&mut [u8], u32, u64),
) -> Result<(), Error> {
    run.resize(RUN_BYTES, 0);
    for (piece, place) in pieces {
        let begin = piece.first_cell.get() as usize * cell_bytes;
        let end = begin + piece.cells as usize * cell_bytes;
        for start in (begin..end).step_by(RUN_BYTES) {
            let run = run.get_mut(..RUN_BYTES.min(end - start)).ok_or_else(invalid)?;
            let read = match runs {
                Runs::Dry(places) => places.get(**place),
                Runs::Written(places, _) => places.get(**place),
            };
            read.ok_or_else(invalid)?.read(start, run)?;
            change(run, piece.tensor as u32, start as u64 / 4);
            if let Runs::Written(places, written) = runs {
                let place = places.get_mut(**place).ok_or_else(invalid)?;
                // Set first: a write that fails may have written some.
                **written = true;
                place.write(start, run)?;
            }
        }
    }
    Ok(())
}

/// `sums` holds the base's fingerprint alone where some changes found no cell.
fn check(header: &Header, index: usize, sums: Result<Fingerprints, Fingerprint>) -> Result<(), pulse_format::Error> {
    use pulse_format::{Error, Place};
    let segment = header.segments.get(index).ok_or(Error::Misuse { what: "there is no such segment" })?;
    let wrong_base = |found| Error::WrongBase { segment: index, found, expected: segment.base };
    let sums = sums.map_err(|base| match base == segment.base {
        true => Error::Damaged { place: Place::Segment(index), damage: Damage::OutOfRange },
        false => wrong_base(base),
    })?;
    // What `absolute` writes does not depend on the base, so any base will do where the result is right.
    let any_base = segment.profile == Profile::Absolute && sums.target == segment.target;
    if sums.base != segment.base && !any_base {
        return Err(wrong_base(sums.base));
    }
    if sums.target != segment.target {
        return Err(Error::WrongTarget { segment: index, found: sums.target, expected: segment.target });
    }
    Ok(())
}

/// Cannot happen for a header that was read and a plan made from it.
fn invalid() -> Error {
    Error::Misuse { what: "the plan is for another header".into() }
}
