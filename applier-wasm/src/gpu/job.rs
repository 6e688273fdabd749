//! A patch on a device: its batches, what is kept of each, and runs over them.

use super::plan::{self, BatchCommands, PlannedSegment, SegmentCommands};
use super::port::{Binding, Command, Port};
use super::results::{self, Results};
use super::scratch::{Memory, Need, Scratch};
use crate::error::Error;
use crate::receiver::Verified;
use pulse_format::Fingerprint;
use std::ops::Range;

/// Segments whose scratch memory is used together.
#[derive(Debug)]
pub(crate) struct Batch<B> {
    pub(crate) segments: Range<usize>,
    /// Its changes, in a buffer of its own; without one they are read again when they are written.
    pub(crate) own: Option<Binding<B>>,
}

/// A patch that was read, and planned once.
#[derive(Debug)]
pub struct Job<B> {
    pub(crate) segments: Vec<PlannedSegment<B>>,
    pub(crate) batches: Vec<Batch<B>>,
    pub(crate) need: Need,
    pub(crate) scratch: Scratch<B>,
    /// By batch.
    pub(crate) commands: Vec<BatchCommands<B>>,
    /// By segment: what was found before.
    pub(crate) bases: Vec<Fingerprint>,
    pub(crate) undo_bytes: Option<u64>,
}

impl<B> Verified for Job<B> {
    fn undo_bytes(&self) -> Option<u64> {
        self.undo_bytes
    }
}

/// A kind of commands of a segment.
pub(crate) type Kind<B> = fn(&SegmentCommands<B>) -> &[Command<B>];

impl<B: Clone> Job<B> {
    /// Plans every batch, in the receiver's scratch memory.
    pub(crate) fn new<P: Port<Buffer = B>>(
        memory: &mut Memory<P>,
        segments: Vec<PlannedSegment<B>>,
        batches: Vec<Batch<B>>,
        need: Need,
        undo_bytes: Option<u64>,
    ) -> Result<Self, Error> {
        let scratch = memory.scratch(need, 4 * results::result_words(segments.len()))?;
        let mut job = Self { segments, batches, need, scratch, commands: Vec::new(), bases: Vec::new(), undo_bytes };
        job.plan();
        Ok(job)
    }

    /// Plans again, with the scratch memory as it is now.
    pub(crate) fn plan_again<P: Port<Buffer = B>>(&mut self, memory: &mut Memory<P>) -> Result<(), Error> {
        self.scratch = memory.scratch(self.need, 4 * results::result_words(self.segments.len()))?;
        self.plan();
        Ok(())
    }

    fn plan(&mut self) {
        let Self { segments, batches, scratch, .. } = self;
        let plan = |batch: &Batch<B>| {
            let segments = segments.get(batch.segments.clone()).unwrap_or_default();
            plan::batch(segments, batch.segments.start, scratch, batch.own.as_ref().unwrap_or(&scratch.changes))
        };
        self.commands = batches.iter().map(plan).collect();
    }

    /// Appends the commands of some kinds, kind after kind, of a batch: of all its segments, or of those that `only` lists.
    // Out of line: it is called in many places, and wasm is downloaded.
    #[inline(never)]
    pub(crate) fn commands(
        &self,
        batch: usize,
        kinds: &[Kind<B>],
        only: Option<&[usize]>,
        commands: &mut Vec<Command<B>>,
    ) {
        let (Some(planned), Some(batch)) = (self.commands.get(batch), self.batches.get(batch)) else { return };
        for kind in kinds {
            for (number, segment) in batch.segments.clone().zip(&planned.segments) {
                if only.is_none_or(|only| only.binary_search(&number).is_ok()) {
                    commands.extend_from_slice(kind(segment));
                }
            }
        }
    }

    /// Lets the parameters of a batch take effect; one batch alone has kept them since it was surveyed.
    pub(crate) fn set_params<P: Port<Buffer = B>>(&self, memory: &Memory<P>, batch: usize) -> Result<(), Error> {
        let params = self.commands.get(batch).map(|commands| commands.params.as_slice()).unwrap_or_default();
        memory.write(&self.scratch.params, params)
    }

    /// Moves the segments of the first `batches`, all or those that `only` lists, and looks at what all of these hold then.
    pub(crate) async fn run<P: Port<Buffer = B>>(
        &self,
        memory: &Memory<P>,
        batches: usize,
        moves: Kind<B>,
        only: Option<&[usize]>,
    ) -> Result<Vec<u32>, Error> {
        let mut commands = vec![Command::Clear(self.scratch.sums.clone())];
        for batch in 0..batches {
            self.set_params(memory, batch)?;
            self.commands(batch, &[moves], only, &mut commands);
            self.commands(batch, &[|of| &of.confirm], None, &mut commands);
            memory.submit(&std::mem::take(&mut commands))?;
            if batches > 1 {
                memory.port.settle().await?;
            }
        }
        let results = self.results(memory).await?;
        memory.note_keys(&self.segments, &results);
        Ok(results)
    }

    /// Reads what was found of every segment.
    pub(crate) async fn results<P: Port<Buffer = B>>(&self, memory: &Memory<P>) -> Result<Vec<u32>, Error> {
        memory.read_words(&self.scratch.sums, results::result_words(self.segments.len())).await
    }

    /// The segments of the first `batches` that change and were not found as `expected`.
    #[inline(never)]
    fn differing(&self, batches: usize, results: &[u32], expected: &[Fingerprint]) -> Vec<usize> {
        let end = batches.checked_sub(1).and_then(|last| self.batches.get(last)).map_or(0, |batch| batch.segments.end);
        let segments = self.segments.iter().zip(expected).enumerate().take(end);
        let differs = |number: usize, expected: Fingerprint| Results::of(results, number).target() != expected;
        let found =
            segments.filter(|(number, (segment, expected))| segment.is_changed() && differs(*number, **expected));
        found.map(|(number, _)| number).collect()
    }

    /// Refuses a run that did not lead to what is `expected` of the first `batches`.
    pub(crate) fn check(&self, batches: usize, results: &[u32], expected: &[Fingerprint]) -> Result<(), Error> {
        let Some(number) = self.differing(batches, results, expected).first().copied() else { return Ok(()) };
        let segment = self.segments.get(number).map_or(number, |segment| segment.index);
        let expected = expected.get(number).copied().unwrap_or_default();
        Err(pulse_format::Error::WrongTarget { segment, found: Results::of(results, number).target(), expected }.into())
    }

    /// Brings the segments of the first `batches` that are not as `origin` says there, by `moves`.
    ///
    /// How far a run got that failed is not known: what is in memory tells, segment by segment.
    pub(crate) async fn restore<P: Port<Buffer = B>>(
        &self,
        memory: &Memory<P>,
        batches: usize,
        moves: Kind<B>,
        origin: &[Fingerprint],
    ) -> Result<(), Error> {
        let mut moved = Vec::new();
        loop {
            // The first time nothing is moved, only looked at.
            let results = self.run(memory, batches, moves, Some(&moved)).await?;
            if !moved.is_empty() {
                return self.check(batches, &results, origin);
            }
            moved = self.differing(batches, &results, origin);
            if moved.is_empty() {
                return Ok(());
            }
        }
    }
}
