//! Which profile codes a segment in the fewest bytes.
//!
//! Training moves cells by chance, and then `contextual` is the smallest by far. What tools do to a model is regular instead: all cells
//! doubled, rows zeroed, columns exchanged. Such positions and values repeat, which zstd finds where an entropy coder of single
//! numbers cannot. So a sample of the changes is coded by position too, and all of them only if the sample says that it may pay.

use crate::models::code_bits;
use crate::zstd::Zstd;
use pulse_format::contextual::Tokens;
use pulse_format::layout::MAX_RELATIVE_CELL_BYTES;
use pulse_format::model::Histogram;
use pulse_format::positional::{self, PositionalChanges};
use pulse_format::scan::{PiecePair, REGION_CELLS};
use pulse_format::{Deflate, Profile};
use pulse_simd::scan_absolute;

/// Regions that follow one another in a sample, so that rows of a matrix repeat within them.
const RUN_REGIONS: usize = 2;
/// Such runs in a sample, spread over the changes of a segment.
const SAMPLE_RUNS: usize = 2;
/// Changes from which the better of `absolute` and `relative` is told, in so many runs of so many.
const SAMPLE_CHANGES: [usize; 2] = [4, 4096];
/// A payload of fewer bytes is not worth a second look.
const SMALL_BYTES: f64 = 64.0;
/// About what the frames of a payload take that holds next to nothing.
const FRAMES_BYTES: f64 = 64.0;
/// All changes are coded by position only if the sample promises no more than this part of what `contextual` takes …
const PROMISING: f64 = 1.1;
/// … and `relative` is preferred to `absolute`, which needs no base, only below this part of its bytes.
const RELATIVE_GAIN: f64 = 0.97;

/// The changes of a segment, coded by position.
pub(crate) struct ByPosition {
    pub(crate) profile: Profile,
    pub(crate) changes: u32,
    pub(crate) payload: Vec<u8>,
}

impl ByPosition {
    /// As `absolute` codes them.
    pub(crate) fn absolute(changes: &PositionalChanges, cell_bytes: usize) -> Self {
        Self::coded(Profile::Absolute, changes, cell_bytes, &Zstd::PLANES)
    }

    /// As the smaller of `absolute` and `relative` codes them.
    pub(crate) fn smaller(
        mut changes: PositionalChanges,
        pieces: &[PiecePair<'_>],
        cell_bytes: usize,
        codec: &Zstd,
    ) -> Self {
        if !is_relative_smaller(&changes, pieces, cell_bytes) {
            return Self::coded(Profile::Absolute, &changes, cell_bytes, codec);
        }
        changes.make_relative(pieces.iter().map(|piece| piece.base), cell_bytes);
        Self::coded(Profile::Relative, &changes, cell_bytes, codec)
    }

    fn coded(profile: Profile, changes: &PositionalChanges, cell_bytes: usize, codec: &Zstd) -> Self {
        let mut payload = Vec::new();
        if !changes.is_empty() {
            positional::encode(changes, cell_bytes, codec, &mut payload);
        }
        Self { profile, changes: changes.len() as u32, payload }
    }

    fn of(pieces: &[PiecePair<'_>], cell_bytes: usize, codec: &Zstd) -> Self {
        let mut changes = PositionalChanges::default();
        // Fingerprints do not matter here, and need no seed.
        scan_absolute(pieces, 0, cell_bytes, &mut changes);
        Self::smaller(changes, pieces, cell_bytes, codec)
    }
}

/// The changes of a float segment coded by position, if that takes fewer bytes than `contextual` does.
///
/// `by_region` is what the scan that `tokens` came from told of `pieces`.
pub(crate) fn beats_contextual(
    tokens: &Tokens,
    histogram: &Histogram,
    pieces: &[PiecePair<'_>],
    by_region: &[u32],
    cell_bytes: usize,
) -> Option<ByPosition> {
    let contextual = code_bits(histogram) / 8.0 + tokens.raw().len() as f64;
    if contextual < SMALL_BYTES {
        return None;
    }
    if by_region.len() > SAMPLE_RUNS * RUN_REGIONS {
        let sample = ByPosition::of(&sample(pieces, by_region, cell_bytes), cell_bytes, &Zstd::PROBE);
        let share = tokens.len() as f64 / f64::from(sample.changes.max(1));
        let expected = FRAMES_BYTES + (sample.payload.len() as f64 - FRAMES_BYTES).max(0.0) * share;
        if expected > PROMISING * contextual {
            return None;
        }
    }
    let all = ByPosition::of(pieces, cell_bytes, &Zstd::PLANES);
    ((all.payload.len() as f64) < contextual).then_some(all)
}

/// Runs of regions where changes are.
fn sample<'a>(pieces: &[PiecePair<'a>], by_region: &[u32], cell_bytes: usize) -> Vec<PiecePair<'a>> {
    let region_bytes = REGION_CELLS * cell_bytes;
    let regions = pieces.iter().flat_map(|piece| {
        let sides = piece.base.chunks(region_bytes).zip(piece.target.chunks(region_bytes));
        sides.map(|(base, target)| PiecePair { base, target, ..*piece })
    });
    let regions: Vec<_> = regions.collect();
    let changes: u32 = by_region.iter().sum();
    let mut sample = Vec::new();
    let mut next = 0;
    for run in 0..SAMPLE_RUNS {
        let before = u64::from(changes) * (2 * run as u64 + 1) / (2 * SAMPLE_RUNS as u64);
        let mut seen = 0;
        let middle = by_region.iter().position(|here| {
            seen += u64::from(*here);
            seen > before
        });
        let first = middle.unwrap_or_default().max(next).min(regions.len());
        next = (first + RUN_REGIONS).min(regions.len());
        sample.extend_from_slice(&regions[first..next]);
    }
    sample
}

/// Whether values take fewer bytes as differences, by a sample of them.
fn is_relative_smaller(changes: &PositionalChanges, pieces: &[PiecePair<'_>], cell_bytes: usize) -> bool {
    if cell_bytes > MAX_RELATIVE_CELL_BYTES || changes.is_empty() {
        return false;
    }
    let [runs, length] = SAMPLE_CHANGES;
    let mut sample = PositionalChanges::default();
    let chunks = changes.positions.chunks(length).zip(changes.values.chunks(length * cell_bytes));
    for (positions, values) in chunks.step_by(changes.len().div_ceil(length * runs)) {
        sample.positions.extend_from_slice(positions);
        sample.values.extend_from_slice(values);
    }
    let absolute = values_bytes(&sample, cell_bytes);
    sample.make_relative(pieces.iter().map(|piece| piece.base), cell_bytes);
    (values_bytes(&sample, cell_bytes) as f64) < RELATIVE_GAIN * absolute as f64
}

/// About what the values take.
fn values_bytes(changes: &PositionalChanges, cell_bytes: usize) -> usize {
    let plane = |plane: usize| changes.values.iter().skip(plane).step_by(cell_bytes).copied().collect::<Vec<u8>>();
    let packed = |plane: Vec<u8>| Zstd::PROBE.deflate(&plane).map_or(plane.len(), |frame| frame.len().min(plane.len()));
    (0..cell_bytes).map(plane).map(packed).sum()
}
