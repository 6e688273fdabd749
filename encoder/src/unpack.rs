//! An anchor into a checkpoint, segment by segment in parallel, without a base.

use crate::apply::Sink;
use crate::checkpoint::StoredTensor;
use crate::error::Error;
use crate::patch_file::PatchFile;
use crate::progress::Progress;
use crate::safetensors_header::write_safetensors_header;
use crate::zstd::Zstd;
use pulse_format::scan::Fingerprints;
use pulse_format::{Changes, Fingerprint, SegmentDecoder};
use rayon::prelude::*;
use std::path::Path;

/// The header of a file for an anchor's tensors, and where they lie in that. `advice` is for whoever has another patch.
pub(crate) fn unpacked_layout(anchor: &PatchFile, advice: &str) -> Result<(Vec<u8>, Vec<StoredTensor>), Error> {
    let header = anchor.header();
    if let Some(base) = header.base_step {
        let target = header.target_step;
        let what = format!("this is no anchor but a patch from step {base} to {target}: {advice}");
        return Err(Error::Usage(what));
    }
    let refuse = |what| Error::checkpoint(anchor.path().unwrap_or(Path::new("the anchor")), what);
    let (bytes, ranges) = write_safetensors_header(&header.tensors).map_err(refuse)?;
    let stored = |(tensor, range): (&pulse_format::Tensor, _)| StoredTensor { tensor: tensor.clone(), file: 0, range };
    Ok((bytes, header.tensors.iter().zip(ranges).map(stored).collect()))
}

/// Decodes every segment of `anchor`, checks every hash and fingerprint, and hands all cells to `sink`, as [`crate::apply`] does.
///
/// `stored` are the tensors of its table.
///
/// # Errors
/// [`Error::Patch`], [`Error::Interrupted`], and those of `sink`.
pub(crate) fn unpack(
    anchor: &PatchFile,
    stored: &[StoredTensor],
    sink: &dyn Sink,
    progress: &dyn Progress,
) -> Result<(), Error> {
    progress.start(stored.iter().map(|stored| stored.range.len() as u64).sum());
    let segments = 0..anchor.header().segments.len();
    segments.into_par_iter().try_for_each_init(SegmentDecoder::default, |decoder, index| {
        if progress.is_cancelled() {
            return Err(Error::Interrupted);
        }
        let unpacked = unpack_segment(anchor, stored, sink, decoder, index);
        progress.advance(unpacked.map_err(|error| error.of_patch(anchor.path()))?);
        Ok(())
    })
}

/// Gives the bytes of its cells.
fn unpack_segment(
    anchor: &PatchFile,
    stored: &[StoredTensor],
    sink: &dyn Sink,
    decoder: &mut SegmentDecoder,
    index: usize,
) -> Result<u64, Error> {
    let header = anchor.header();
    let segment = header.segment(index)?;
    let payload = anchor.payload(segment.entry());
    segment.check_payload(payload)?;
    let Changes::Dense(cells, _) = decoder.decode(&segment, payload, &Zstd::default())? else {
        return Err(Error::Usage("a segment of the anchor is not dense".into()));
    };
    let width = segment.dtype().cell_bytes();
    let mut target = Fingerprint::ZERO;
    let mut rest = cells;
    for piece in segment.pieces() {
        let (cells, later) = rest.split_at(piece.cells as usize * width);
        rest = later;
        let start = piece.first_cell.get() as usize * width;
        target += pulse_simd::fingerprint(cells, header.seed, piece.tensor as u32, start as u64 / 4);
        sink.take(&stored[piece.tensor], start, cells)?;
    }
    segment.judge(Fingerprints { base: Fingerprint::ZERO, target })?;
    Ok(cells.len() as u64)
}
