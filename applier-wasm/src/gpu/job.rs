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
    /// Plans every batch, in scratch memory of its own.
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

    /// The commands of some kinds, kind after kind, of the segments of a batch that `wanted` takes by their number.
    pub(crate) fn commands(
        &self,
        batch: usize,
        kinds: &[Kind<B>],
        wanted: impl Fn(usize) -> bool,
    ) -> impl Iterator<Item = Command<B>> {
        let segments = self.batches.get(batch).map_or(0..0, |batch| batch.segments.clone());
        let commands = self.commands.get(batch).map(|commands| commands.segments.as_slice()).unwrap_or_default();
        let wanted: Vec<_> = segments.zip(commands).filter(|(number, _)| wanted(*number)).collect();
        kinds.iter().flat_map(move |kind| wanted.clone().into_iter().flat_map(move |(_, of)| kind(of).iter().cloned()))
    }

    /// Lets the parameters of a batch take effect; one batch alone has kept them since it was surveyed.
    pub(crate) fn set_params<P: Port<Buffer = B>>(&self, memory: &Memory<P>, batch: usize) -> Result<(), Error> {
        let params = self.commands.get(batch).map(|commands| commands.params.as_slice()).unwrap_or_default();
        memory.write(&self.scratch.params, params)
    }

    /// Moves the segments that `wanted` takes, of the first `batches`, and looks at what all of these hold then.
    pub(crate) async fn run<P: Port<Buffer = B>>(
        &self,
        memory: &Memory<P>,
        batches: usize,
        moves: Kind<B>,
        wanted: impl Fn(usize) -> bool,
    ) -> Result<Vec<u32>, Error> {
        let mut commands = vec![Command::Clear(self.scratch.sums.clone())];
        for batch in 0..batches {
            self.set_params(memory, batch)?;
            commands.extend(self.commands(batch, &[moves], &wanted));
            commands.extend(self.commands(batch, &[|of| &of.confirm], |_| true));
            memory.submit(&std::mem::take(&mut commands))?;
            if batches > 1 {
                memory.port.settle().await?;
            }
        }
        self.results(memory).await
    }

    /// Reads what was found of every segment.
    pub(crate) async fn results<P: Port<Buffer = B>>(&self, memory: &Memory<P>) -> Result<Vec<u32>, Error> {
        memory.read_words(&self.scratch.sums, results::result_words(self.segments.len())).await
    }

    /// The segments of the first `batches` that change and were not found as `expected`, with what was found.
    pub(crate) fn differing(
        &self,
        batches: usize,
        results: &[u32],
        expected: &[Fingerprint],
    ) -> Vec<(usize, Fingerprint)> {
        let end = batches.checked_sub(1).and_then(|last| self.batches.get(last)).map_or(0, |batch| batch.segments.end);
        let changed = self.segments.iter().zip(expected).enumerate().take(end);
        let changed = changed.filter(|(_, (segment, _))| segment.is_changed());
        let found = changed.map(|(number, (_, expected))| (number, *expected, Results::of(results, number).target()));
        found.filter(|(_, expected, found)| expected != found).map(|(number, _, found)| (number, found)).collect()
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
        let found = self.run(memory, batches, moves, |_| false).await?;
        let moved = self.differing(batches, &found, origin);
        if moved.is_empty() {
            memory.note_keys(&self.segments, &found);
            return Ok(());
        }
        let is_moved = |number: usize| moved.binary_search_by_key(&number, |(number, _)| *number).is_ok();
        let found = self.run(memory, batches, moves, is_moved).await?;
        memory.note_keys(&self.segments, &found);
        match self.differing(batches, &found, origin).first() {
            Some((number, found)) => Err(self.wrong(*number, *found, origin)),
            None => Ok(()),
        }
    }

    /// That segment `number` was found as it should not be.
    pub(crate) fn wrong(&self, number: usize, found: Fingerprint, expected: &[Fingerprint]) -> Error {
        let segment = self.segments.get(number).map_or(number, |segment| segment.index);
        let expected = expected.get(number).copied().unwrap_or_default();
        pulse_format::Error::WrongTarget { segment, found, expected }.into()
    }
}
