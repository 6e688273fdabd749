//! Segments of a patch as kernels take them: cut into windows, decoded to words, gathered in batches.

use super::changes::{Absolute, Contextual};
use super::half;
use super::kernels::Storage;
use super::layout::Located;
use super::plan::{PlannedSegment, Work};
use super::port::DeviceLimits;
use super::scratch::Need;
use crate::bound::BoundSegment;
use crate::error::Error;
use crate::inflate::Zstd;
use pulse_format::positional::PositionalChanges;
use pulse_format::{Changes, Header, Piece, Salt, SegmentDecoder};
use std::ops::Range;

/// Cuts the pieces of a segment into windows. Nothing is decoded yet.
pub(crate) fn cut<B: Clone>(
    header: &Header,
    planned: &BoundSegment<'_, Located<B>>,
    limits: &DeviceLimits,
) -> Result<PlannedSegment<B>, Error> {
    let mut windows = Vec::new();
    for (Piece { tensor, first_cell, cells }, located) in &planned.pieces {
        let salt = Salt::new(header.seed, *tensor as u32, 0);
        windows.extend(located.windows(salt, first_cell.get(), *cells, limits)?);
    }
    let cells = header.segment(planned.index)?.entry().cells;
    let split = planned.pieces.first().map_or(1, |(_, located)| located.split());
    Ok(PlannedSegment { index: planned.index, cells, split, ..PlannedSegment::of(windows) })
}

/// Decodes a segment: sets its work, and gives the words that this counts in.
pub(crate) fn decode<B>(
    decoder: &mut SegmentDecoder,
    header: &Header,
    segment: &mut PlannedSegment<B>,
    payload: &[u8],
) -> Result<Vec<u32>, Error> {
    let changes = decoder.decode(&header.segment(segment.index)?, payload, &Zstd)?;
    let halves = segment.windows.iter().any(|window| window.storage == Storage::Half);
    let mut words = Vec::new();
    segment.work = match changes {
        Changes::Contextual(_, changes) => {
            segment.inexact = if halves { half::inexact_after_steps(changes) } else { 0 };
            Work::Contextual(Contextual::append(changes, &mut words))
        }
        Changes::Absolute(changes) => {
            segment.inexact = if halves { half::inexact_values(&changes.values) } else { 0 };
            Work::Absolute(by_window(segment, changes, &mut words))
        }
        Changes::Relative(changes) => {
            // What a sum will be is not known here.
            segment.inexact = if halves { changes.len() as u32 } else { 0 };
            Work::Relative(by_window(segment, changes, &mut words))
        }
        Changes::Dense(cells, _) => {
            let changes = PositionalChanges { positions: (0..segment.cells).collect(), values: cells.to_vec() };
            segment.inexact = if halves { half::inexact_values(&changes.values) } else { 0 };
            Work::Absolute(by_window(segment, &changes, &mut words))
        }
        _ => Work::Unchanged,
    };
    Ok(words)
}

fn by_window<B>(segment: &PlannedSegment<B>, changes: &PositionalChanges, words: &mut Vec<u32>) -> Vec<Absolute> {
    let split = segment.split;
    let mut first = 0;
    let parts = segment.windows.iter().map(|window| {
        let cells = first..first + window.params.cells / split;
        first = cells.end;
        Absolute::append(changes, cells, split, window.storage.cell_bits(), words)
    });
    parts.collect()
}

/// Segments in the order of the patch, and the batch that is being filled.
#[derive(Debug)]
pub(crate) struct Filling<B> {
    pub(crate) segments: Vec<PlannedSegment<B>>,
    /// Of the batch that is being filled.
    pub(crate) words: Vec<u32>,
    first: usize,
    need: Need,
    /// Of every batch so far.
    pub(crate) most: Need,
}

impl<B> Filling<B> {
    pub(crate) fn new() -> Self {
        Self { segments: Vec::new(), words: Vec::new(), first: 0, need: Need::default(), most: Need::default() }
    }

    /// Whether a segment with so many words needs a batch of its own behind this one.
    pub(crate) fn is_full_for(&self, segment: &PlannedSegment<B>, words: usize, scratch_bytes: u64) -> bool {
        self.segments.len() > self.first && self.need.plus(segment.need(words)).total() > scratch_bytes
    }

    /// Ends the batch; gives its segments and its words.
    pub(crate) fn end_batch(&mut self) -> (Range<usize>, Vec<u32>) {
        self.most = self.most.max(self.need);
        self.need = Need::default();
        let range = self.first..self.segments.len();
        self.first = range.end;
        (range, std::mem::take(&mut self.words))
    }

    pub(crate) fn push(&mut self, mut segment: PlannedSegment<B>, words: &[u32]) {
        segment.first_word = self.words.len() as u32;
        self.need = self.need.plus(segment.need(words.len()));
        self.words.extend_from_slice(words);
        self.segments.push(segment);
    }
}
