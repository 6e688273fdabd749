//! A checkpoint into an anchor: a patch from nothing, all of whose segments are dense.

use crate::cast::Cast;
use crate::checkpoint::Checkpoint;
use crate::cut::cut;
use crate::encode::{Patch, check_run_id, check_tensors, largest_segment, spool, too_large};
use crate::error::Error;
use crate::pair::Pair;
use crate::progress::Progress;
use crate::zstd::Zstd;
use pulse_format::layout::MAX_SEGMENT_CELLS;
use pulse_format::{Dtype, Fingerprint, Header, Limits, Piece, Profile, Segment, Step};
use rayon::prelude::*;
use std::io::Write;

/// How to make an anchor.
#[derive(Debug, Clone)]
pub struct PackOptions {
    /// What to cast first.
    pub cast: Option<Cast>,
    /// Written to the header; at most 256 bytes.
    pub run_id: String,
    /// The checkpoint's number.
    pub step: Step,
    /// Of the fingerprints.
    pub seed: u64,
    /// Largest segment, in cells; rounded down to the block and held between 1,024 and 2^22.
    pub segment_cells: u32,
}

impl Default for PackOptions {
    fn default() -> Self {
        Self { cast: None, run_id: String::new(), step: Step(0), seed: 0, segment_cells: MAX_SEGMENT_CELLS }
    }
}

/// Makes the anchor of a checkpoint. Runs in the current rayon thread pool.
///
/// # Errors
/// [`Error::Usage`] if the run id does not fit, [`Error::Checkpoint`] if a patch cannot hold the checkpoint, [`Error::Interrupted`].
pub fn pack(checkpoint: &Checkpoint, options: &PackOptions, progress: &dyn Progress) -> Result<Patch, Error> {
    check_run_id(&options.run_id)?;
    let cells = Pair::new(checkpoint, checkpoint, options.cast)?;
    let tensors = cells.tensors();
    check_tensors(checkpoint, &tensors)?;
    let segments = cut(&tensors, options.segment_cells);
    progress.start(checkpoint.tensor_bytes());
    let run_id = options.run_id.clone();
    let mut header = Header { run_id, target_step: options.step, seed: options.seed, tensors, ..Header::default() };
    header.segments = segments.iter().map(|pieces| largest_segment(pieces, Profile::Dense)).collect();
    header.check(&Limits::default()).map_err(|error| too_large(checkpoint, &error))?;
    let mut payload = spool();
    let mut coded = Vec::new();
    for wave in segments.chunks(rayon::current_num_threads()) {
        let code = |pieces: &Vec<Piece>| {
            let dtype = header.tensors[pieces[0].tensor].dtype;
            let coded = code(&cells, pieces, dtype, options.seed)?;
            progress.advance(u64::from(coded.0.cells) * dtype.cell_bytes() as u64);
            Ok(coded)
        };
        for (segment, bytes) in wave.par_iter().map(code).collect::<Result<Vec<_>, Error>>()? {
            payload
                .write_all(&bytes)
                .map_err(Error::io("cannot write the temporary file in", &std::env::temp_dir()))?;
            coded.push(segment);
        }
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
    }
    header.segments = coded;
    let header_bytes = header.write(&Zstd::default()).map_err(|error| too_large(checkpoint, &error))?;
    Ok(Patch::new(header, header_bytes, payload))
}

fn code(cells: &Pair<'_>, pieces: &[Piece], dtype: Dtype, seed: u64) -> Result<(Segment, Vec<u8>), Error> {
    let pieces: Vec<_> = pieces.iter().map(|piece| (piece, cells.target(*piece))).collect();
    let bytes: Vec<&[u8]> = pieces.iter().map(|(_, bytes)| bytes.as_ref()).collect();
    let mut payload = Vec::new();
    pulse_simd::encode_dense(&bytes, dtype, &Zstd::PLANES, &mut payload);
    let width = dtype.cell_bytes() as u64;
    let fingerprints = pieces.iter().map(|(piece, bytes)| {
        pulse_simd::fingerprint(bytes, seed, piece.tensor as u32, piece.first_cell.get() * width / 4)
    });
    let target: Fingerprint = fingerprints.sum();
    let cells = pieces.iter().map(|(piece, _)| piece.cells).sum();
    let segment = Segment::unchanged(cells, Fingerprint::ZERO);
    Ok((segment.with_payload(Profile::Dense, cells, target, &payload)?, payload))
}
