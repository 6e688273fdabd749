//! Patches into memory: a dry run over copies, then the same work written back.

use super::exchange::{BYTES_PER_WORD, Exchange, put};
use super::memory::{Memory, Spans};
use crate::bound::BoundSegment;
use crate::error::Error;
use crate::gpu::Counts;
use crate::hooks::{Counter, Hooks, Phase, stop_if_cancelled};
use crate::inflate::Zstd;
use crate::options::Options;
use crate::patch::Patch;
use crate::receiver::{Failure, Guard, Receiver, Verified};
use crate::source::Source;
use pulse_format::scan::Fingerprints;
use pulse_format::segment::{RUN_BYTES, Runs, apply_runs};
use pulse_format::{Fingerprint, Header, Overwritten, Piece, Profile, SegmentDecoder};
use std::ops::Range;

/// Tensors in memory.
#[derive(Debug)]
pub struct MemoryReceiver<M> {
    pub(super) spans: Spans<M>,
    decoder: SegmentDecoder,
    run: Vec<u8>,
    last: Option<Last>,
}

/// The patch written last.
#[derive(Debug)]
struct Last {
    exchange: Exchange,
    seed: u64,
    /// The segments that it changed.
    segments: Vec<Before>,
}

/// A segment before a patch.
#[derive(Debug)]
struct Before {
    index: usize,
    fingerprint: Fingerprint,
    extents: Vec<Extent>,
}

/// Cells of one tensor in memory.
#[derive(Debug)]
pub(super) struct Extent {
    /// The tensor's number, as it goes into fingerprints.
    pub(super) tensor: u32,
    pub(super) span: usize,
    /// Of the span.
    pub(super) bytes: Range<usize>,
}

/// A patch that was verified in a dry run.
#[derive(Debug)]
pub struct DryRun {
    /// Of each segment that is planned.
    bases: Vec<Fingerprint>,
    /// Of each segment that changes, in order, so that nothing has to be fetched while weights are mixed.
    payloads: Option<Vec<Vec<u8>>>,
    undo_bytes: Option<u64>,
}

impl Verified for DryRun {
    fn undo_bytes(&self) -> Option<u64> {
        self.undo_bytes
    }
}

impl<M> Default for MemoryReceiver<M> {
    fn default() -> Self {
        Self { spans: Spans::default(), decoder: SegmentDecoder::default(), run: Vec::new(), last: None }
    }
}

impl<M: Memory> MemoryReceiver<M> {
    /// Decodes a payload and places its changes on copies of the segment's runs, which are written back if `writing` is given.
    fn segment(
        &mut self,
        header: &Header,
        planned: &BoundSegment<'_, usize>,
        payload: &[u8],
        writing: Option<Writing<'_, '_>>,
    ) -> Result<Fingerprints, Failure> {
        let Self { spans, decoder, run, .. } = self;
        let segment = header.segment(planned.index)?;
        let changes = decoder.decode(&segment, payload, &Zstd)?;
        let mut cells = Cells { planned, spans, writing };
        apply_runs(segment, changes, &mut cells, run, pulse_simd::place)
    }

    async fn write_all<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, usize>],
        dry_run: &DryRun,
        exchange: &mut Exchange,
        guard: &mut Guard<'_>,
        hooks: &impl Hooks,
    ) -> Result<Fingerprint, Failure> {
        let header = patch.header().clone();
        let is_changed = |planned: &&BoundSegment<'_, usize>| changes_of(&header, planned.index) > 0;
        let mut counter =
            Counter::new(hooks, Phase::Write, planned.iter().filter(is_changed).map(BoundSegment::cells).sum());
        for (number, planned) in planned.iter().filter(is_changed).enumerate() {
            let read;
            let payload = match dry_run.payloads.as_ref().and_then(|payloads| payloads.get(number)) {
                Some(payload) => payload,
                None => {
                    read = patch.payload(planned.index).await.map_err(Failure::Old)?;
                    &read
                }
            };
            let exchange = dry_run.undo_bytes.map(|_| &mut *exchange);
            self.segment(&header, planned, payload, Some(Writing { exchange, guard }))?;
            counter.advance(planned.cells());
            hooks.pause().await;
        }
        Ok(planned.iter().filter_map(|planned| header.segments.get(planned.index)).map(|segment| segment.target).sum())
    }

    /// Exchanges what a patch overwrote with what is in memory now, and holds the result to the fingerprints before it.
    fn take_back(&mut self, last: &mut Last) -> Result<(), Failure> {
        last.exchange.swap(&mut self.spans)?;
        let is_as_before = |segment: &Before| {
            let Before { index, fingerprint: expected, ref extents } = *segment;
            let found = self.fingerprint(extents, last.seed)?;
            match found == expected {
                true => Ok(()),
                false => Err(pulse_format::Error::WrongTarget { segment: index, found, expected }.into()),
            }
        };
        let confirmed = last.segments.iter().try_for_each(is_as_before);
        confirmed.map_err(|error: Error| match last.exchange.swap(&mut self.spans) {
            Ok(()) => Failure::Old(error),
            Err(_) => Failure::Mixed(error),
        })
    }

    /// The fingerprint of the cells as they are in memory now.
    pub(super) fn fingerprint(&self, extents: &[Extent], seed: u64) -> Result<Fingerprint, Error> {
        let mut run = vec![0; RUN_BYTES];
        let mut sum = Fingerprint::ZERO;
        for Extent { tensor, span, bytes } in extents {
            for start in bytes.clone().step_by(RUN_BYTES) {
                let run = run.get_mut(..RUN_BYTES.min(bytes.end - start)).unwrap_or_default();
                self.spans.read(*span, start, run)?;
                sum += pulse_simd::fingerprint(run, seed, *tensor, start as u64 / 4);
            }
        }
        Ok(sum)
    }
}

impl<M: Memory> Receiver for MemoryReceiver<M> {
    type Binding = usize;
    type Verified = DryRun;

    async fn verify<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, usize>],
        options: &Options,
        hooks: &impl Hooks,
    ) -> Result<DryRun, Error> {
        let header = patch.header().clone();
        let undo_bytes = planned.iter().map(|planned| undo_bytes_of(&header, planned.index)).sum();
        let undo_bytes = Some(undo_bytes).filter(|bytes| *bytes <= options.undo_bytes);
        let mut dry_run = DryRun { bases: Vec::new(), payloads: undo_bytes.map(|_| Vec::new()), undo_bytes };
        let mut counter = Counter::new(hooks, Phase::Verify, planned.iter().map(BoundSegment::cells).sum());
        for planned in planned {
            stop_if_cancelled(hooks)?;
            let payload = patch.payload(planned.index).await?;
            let found = self.segment(&header, planned, &payload, None).map_err(Failure::into_error)?;
            dry_run.bases.push(found.base);
            if let Some(payloads) = dry_run.payloads.as_mut().filter(|_| changes_of(&header, planned.index) > 0) {
                payloads.push(payload);
            }
            counter.advance(planned.cells());
            hooks.pause().await;
        }
        Ok(dry_run)
    }

    async fn write<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, usize>],
        dry_run: DryRun,
        guard: &mut Guard<'_>,
        hooks: &impl Hooks,
    ) -> Result<Fingerprint, Failure> {
        let mut exchange = Exchange::default();
        let written = self.write_all(patch, planned, &dry_run, &mut exchange, guard, hooks).await;
        let mut last =
            Last { exchange, seed: patch.header().seed, segments: before(patch.header(), planned, &dry_run.bases) };
        match written {
            Ok(fingerprint) => {
                self.last = dry_run.undo_bytes.map(|_| last);
                Ok(fingerprint)
            }
            Err(Failure::Old(error)) if guard.has_begun() => {
                let back = match dry_run.undo_bytes {
                    Some(_) => self.take_back(&mut last).is_ok(),
                    None => false,
                };
                Err(if back { Failure::Old(error) } else { Failure::Mixed(error) })
            }
            Err(failure) => Err(failure),
        }
    }

    async fn undo(&mut self, guard: &mut Guard<'_>) -> Result<(), Failure> {
        let mut last = self.last.take().ok_or_else(|| Failure::Old(Error::nothing_to_undo()))?;
        guard.begin_writing();
        let undone = self.take_back(&mut last);
        if undone.is_err() {
            self.last = Some(last);
        }
        undone
    }

    fn take_counts(&mut self) -> Option<Counts> {
        None
    }
}

/// The runs of one segment, as they are copied, and written back.
struct Cells<'a, 'w, 'g, M> {
    planned: &'a BoundSegment<'a, usize>,
    spans: &'a mut Spans<M>,
    writing: Option<Writing<'w, 'g>>,
}

/// What writing needs.
struct Writing<'w, 'g> {
    /// Where overwritten words are noted, if they are kept.
    exchange: Option<&'w mut Exchange>,
    guard: &'w mut Guard<'g>,
}

impl<M: Memory> Cells<'_, '_, '_, M> {
    fn span(&self, piece: &Piece) -> Result<usize, Failure> {
        let pieces = &self.planned.pieces;
        let found = pieces.binary_search_by_key(&piece.tensor, |(planned, _)| planned.tensor);
        let span = found.ok().and_then(|index| pieces.get(index)).map(|(_, span)| **span);
        let other = || Error::Misuse { what: "the plan is for another header".into() };
        span.ok_or_else(|| Failure::Old(other()))
    }
}

impl<M: Memory> Runs for Cells<'_, '_, '_, M> {
    type Error = Failure;

    fn read(&mut self, piece: &Piece, start: usize, run: &mut [u8]) -> Result<(), Failure> {
        self.spans.read(self.span(piece)?, start, run).map_err(Failure::Old)
    }

    fn take(&mut self, piece: &Piece, start: usize, run: &[u8], overwritten: &[Overwritten]) -> Result<(), Failure> {
        let span = self.span(piece)?;
        let Some(Writing { exchange, guard }) = self.writing.as_mut() else { return Ok(()) };
        if overwritten.is_empty() {
            return Ok(());
        }
        guard.begin_writing();
        self.spans.write(span, start, run, || {
            let mut before = run.to_vec();
            put(overwritten, &mut before);
            before
        })?;
        if let Some(exchange) = exchange {
            exchange.note(span, start, run.len(), overwritten.to_vec());
        }
        Ok(())
    }

    fn wants_overwritten(&self) -> bool {
        self.writing.is_some()
    }
}

fn changes_of(header: &Header, segment: usize) -> u64 {
    header.segments.get(segment).map_or(0, |segment| segment.changes.into())
}

/// What an exchange keeps of a segment at most: each change may be in a word of its own, or in two; a dense one notes each word once.
fn undo_bytes_of(header: &Header, segment: usize) -> u64 {
    let changes = changes_of(header, segment);
    let words = header.segment(segment).map_or(changes, |view| {
        let width = view.dtype().cell_bytes() as u64;
        match view.entry().profile {
            Profile::Dense => (changes * width).div_ceil(4) + view.pieces().len() as u64,
            _ => changes * width.div_ceil(4),
        }
    });
    words * BYTES_PER_WORD
}

/// The segments that change, as they were.
fn before(header: &Header, planned: &[BoundSegment<'_, usize>], bases: &[Fingerprint]) -> Vec<Before> {
    let changed = planned.iter().zip(bases).filter(|(planned, _)| changes_of(header, planned.index) > 0);
    let segments = changed.map(|(planned, fingerprint)| {
        let cell_bytes = header.segment(planned.index).map_or(1, |segment| segment.dtype().cell_bytes());
        let extent = |(piece, span): &(Piece, &usize)| {
            let start = piece.first_cell.get() as usize * cell_bytes;
            Extent {
                tensor: piece.tensor as u32,
                span: **span,
                bytes: start..start + piece.cells as usize * cell_bytes,
            }
        };
        Before { index: planned.index, fingerprint: *fingerprint, extents: planned.pieces.iter().map(extent).collect() }
    });
    segments.collect()
}
