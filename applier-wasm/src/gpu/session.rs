//! A receiver on a GPU: binds tensors to buffers, and applies patches to them in place.

use super::layout::{Element, Layout, Placed, place};
use super::plan::{self, BatchCommands, Need, PlannedSegment, Results, Scratch, Work};
use super::port::{Command, Port};
use super::reading::{Decoded, Reading};
use super::scratch::{Counts, Memory};
use super::side::check_exceptions;
use crate::bound::Bound;
use crate::error::Error;
use crate::hooks::{Hooks, Phase, Progress};
use crate::patch::Patch;
use crate::source::Source;
use pulse_format::{Damage, Fingerprint, Header, Limits, Place, Salt, Tensor};
use std::ops::Range;

/// What a session lets a patch ask for, and what it starts from.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The step that the buffers hold, if known. A patch from another is refused before anything is read of it.
    pub step: Option<u64>,
    /// Of the patch's header and segments.
    pub limits: Limits,
    /// Bytes of scratch memory on the device, and as many on the host at most. A segment that needs more gets it.
    pub scratch_bytes: u64,
}

impl Default for Options {
    /// No known step, the format's limits, 16 MiB.
    fn default() -> Self {
        Self { step: None, limits: Limits::default(), scratch_bytes: 16 << 20 }
    }
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The step before.
    pub base_step: u64,
    /// The step now.
    pub target_step: u64,
    /// Cells that changed, of those that are bound.
    pub changes: u64,
    /// Cells that are bound.
    pub cells: u64,
    /// Bytes of the patch that were needed: its header, and the segments of tensors that are bound.
    pub patch_bytes: u64,
    /// Of the cells that are bound, with the patch's seed.
    pub fingerprint: Fingerprint,
    /// What it asked of the device.
    pub counts: Counts,
}

/// A receiver over the port `P`.
///
/// Nothing may write to the bound buffers while [`Session::apply`] or [`Session::undo`] runs, but they.
#[derive(Debug)]
pub struct Session<P: Port> {
    memory: Memory<P>,
    options: Options,
    bound: Bound<Placed<P::Buffer>>,
    poisoned: Option<String>,
    last: Option<Last<P::Buffer>>,
}

/// What is needed to take the last patch back: the places are still in the scratch memory.
#[derive(Debug)]
struct Last<B> {
    base_step: u64,
    segments: Vec<PlannedSegment<B>>,
    /// Their fingerprints before.
    bases: Vec<Fingerprint>,
    need: Need,
    /// Of the scratch memory.
    generation: u64,
}

/// A patch, read and checked as far as it can be without the base.
struct Job<B> {
    segments: Vec<PlannedSegment<B>>,
    batches: Vec<Range<usize>>,
    need: Need,
    /// The changes of the only batch.
    words: Option<Vec<u32>>,
}

impl<P: Port> Session<P> {
    /// A session without tensors.
    pub fn new(port: P, options: Options) -> Self {
        Self { memory: Memory::new(port), options, bound: Bound::default(), poisoned: None, last: None }
    }

    /// The port.
    pub fn port(&self) -> &P {
        &self.memory.port
    }

    /// The step that the buffers hold, if known.
    pub fn step(&self) -> Option<u64> {
        self.options.step
    }

    /// Why the weights are neither old nor new, if so.
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// Says where a tensor is, of any element but [`Element::F16`].
    ///
    /// # Errors
    /// [`Error::Binding`] if the buffer cannot hold it so, or kernels could not read it so on this device.
    pub fn bind(&mut self, tensor: Tensor, buffer: &P::Buffer, layout: Layout) -> Result<(), Error> {
        if layout.element == Element::F16 {
            let problem = "f16 alone does not tell its cells: bind_f16 takes the exceptions".into();
            return Err(Error::Binding { tensor: tensor.name, problem });
        }
        let placed = place(&tensor, buffer, layout, &self.memory.port)?;
        self.bound.bind(tensor, placed)
    }

    /// Says where a tensor of BF16 cells is that the engine holds as f16, as [`half::convert`](super::half::convert) gives them,
    /// and which cells f16 does not hold exactly: index within the tensor and BF16, ascending.
    ///
    /// The receiver keeps these, and those that patches bring, in a table of its own on the device.
    ///
    /// # Errors
    /// As [`Session::bind`]; those of the device; [`Error::Limit`] if the table does not fit one binding.
    pub fn bind_f16(
        &mut self,
        tensor: Tensor,
        buffer: &P::Buffer,
        layout: Layout,
        exceptions: &[(u32, u16)],
    ) -> Result<(), Error> {
        let placed = place(&tensor, buffer, Layout { element: Element::F16, ..layout }, &self.memory.port)?;
        let cells = tensor.cells().map_or(0, |cells| cells.get());
        let checked = check_exceptions(exceptions, cells);
        checked.map_err(|problem| Error::Binding { tensor: tensor.name.clone(), problem })?;
        let placed = placed.with_side(self.memory.sides.len());
        self.memory.add_side(exceptions, cells)?;
        let bound = self.bound.bind(tensor, placed);
        if bound.is_err() {
            self.memory.drop_last_side();
        }
        bound
    }

    /// The cells of a tensor that its f16 does not hold exactly, as [`Session::bind_f16`] takes them, read back from the device.
    ///
    /// # Errors
    /// [`Error::Misuse`] if no tensor of that name is bound as f16; those of the device.
    pub async fn exceptions(&self, tensor: &str) -> Result<Vec<(u32, u16)>, Error> {
        self.check_sound()?;
        let found = self.bound.iter().find(|(bound, _)| bound.name == tensor);
        let side = found.and_then(|(_, placed)| placed.side());
        let none = || Error::Misuse { what: format!("no tensor {tensor} is bound as f16") };
        self.memory.exceptions(side.ok_or_else(none)?).await
    }

    /// Applies a patch: verifies all of it and the base, writes, verifies the target.
    ///
    /// # Errors
    /// Any. After an error the buffers hold the old weights, or [`Session::poisoned`] says why not; an error of the
    /// invalidate hook is the one that comes with the new weights in place.
    pub async fn apply(&mut self, source: impl Source, hooks: &impl Hooks) -> Result<Applied, Error> {
        self.check_sound()?;
        self.last = None;
        self.memory.take_counts();
        let mut patch = Patch::open(source, &self.options.limits).await?;
        let (base_step, target_step) = (patch.header().base_step.get(), patch.header().target_step.get());
        if let Some(held) = self.options.step.filter(|held| *held != base_step) {
            return Err(Error::Stale { base: base_step, target: target_step, held });
        }
        let job = self.read(&mut patch, hooks).await?;
        self.memory.make_room(&job.segments).await?;
        let scratch = self.memory.scratch(job.need, 4 * plan::result_words(job.segments.len()))?;
        let bases = self.survey(&job, &scratch, hooks).await?;
        stop_if_cancelled(hooks)?;
        hooks.quiesce().await?;
        // Stands if this future is dropped while it waits.
        self.poisoned = Some("an apply was dropped while it was writing".into());
        let written = self.write(&mut patch, &job, &scratch, hooks).await;
        let fingerprint = match written {
            Ok(fingerprint) => fingerprint,
            Err(error) => return Err(self.recover(error, &job, &scratch, &bases, hooks).await),
        };
        self.poisoned = None;
        let changed = |segment: &&PlannedSegment<P::Buffer>| segment.is_changed();
        let header = patch.header();
        let changes = job.segments.iter().filter(changed).filter_map(|segment| header.segments.get(segment.index));
        let applied = Applied {
            base_step,
            target_step,
            changes: changes.map(|segment| u64::from(segment.changes)).sum(),
            cells: job.segments.iter().map(|segment| u64::from(segment.cells)).sum(),
            patch_bytes: header.payload_start.get()
                + job.segments.iter().map(|segment| bytes_of(header, segment.index)).sum::<u64>(),
            fingerprint,
            counts: self.memory.take_counts(),
        };
        self.options.step = Some(target_step);
        if let [_] = job.batches.as_slice() {
            let generation = self.memory.generation();
            self.last = Some(Last { base_step, segments: job.segments, bases, need: job.need, generation });
        }
        hooks.invalidate().await?;
        Ok(applied)
    }

    /// Takes the last applied patch back, with the places that are still in scratch memory.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none: nothing was applied, it was taken back already, or it needed more than one batch
    /// of scratch memory.
    pub async fn undo(&mut self, hooks: &impl Hooks) -> Result<u64, Error> {
        self.check_sound()?;
        let none = || Error::Misuse { what: "there is no patch that could be taken back".into() };
        let last = self.last.take().filter(|last| last.generation == self.memory.generation()).ok_or_else(none)?;
        // Other work may have used all of it but the changes.
        let scratch = self.memory.scratch(last.need, 4 * plan::result_words(last.segments.len()))?;
        let commands = plan::batch(&last.segments, 0, &scratch);
        hooks.quiesce().await?;
        self.poisoned = Some("taking a patch back was dropped on the way".into());
        self.memory.write(&scratch.params, &commands.params)?;
        if let Err(error) = self.take_back(&last.segments, &commands, &scratch, &last.bases).await {
            return Err(self.poison(error, "taking a patch back failed"));
        }
        self.poisoned = None;
        self.options.step = Some(last.base_step);
        hooks.invalidate().await?;
        Ok(last.base_step)
    }

    /// The fingerprint of all bound tensors under a fresh seed, taken now: what proves to a verifier what is held.
    ///
    /// Tensors count in the order of a patch's table, from 0.
    ///
    /// # Errors
    /// Those of the device.
    pub async fn fingerprint(&mut self, seed: u64) -> Result<Fingerprint, Error> {
        self.check_sound()?;
        let limits = self.memory.port.limits();
        let mut segments = Vec::new();
        for (number, (tensor, placed)) in (0..).zip(self.bound.iter()) {
            let cells = tensor.cells().map_or(0, |cells| cells.get());
            let windows = placed.all_windows(Salt::new(seed, number, 0), cells, &limits)?;
            segments.extend(windows.into_iter().map(|window| PlannedSegment::of(vec![window])));
        }
        const AT_ONCE: usize = 1 << 10;
        let mut sum = Fingerprint::ZERO;
        for segments in segments.chunks(AT_ONCE) {
            let need = segments.iter().fold(Need::default(), |need, segment| need.with(segment, 0));
            let words = plan::result_words(segments.len());
            let scratch = self.memory.scratch(need, 4 * words)?;
            let batch = plan::batch(segments, 0, &scratch);
            self.memory.write(&scratch.params, &batch.params)?;
            self.memory.submit(&[&[Command::Clear(scratch.sums.clone())], batch.survey.as_slice()].concat())?;
            let results = self.memory.read_words(&scratch.sums, words).await?;
            sum += (0..segments.len()).map(|n| of(&results, n).base()).sum();
        }
        Ok(sum)
    }

    /// Reads and decodes every segment that is needed, and cuts them into batches.
    async fn read<S: Source>(&self, patch: &mut Patch<S>, hooks: &impl Hooks) -> Result<Job<P::Buffer>, Error> {
        let planned = self.bound.plan(patch.header())?;
        let indices: Vec<usize> = planned.iter().map(|segment| segment.index).collect();
        patch.expect(indices.into_iter());
        let total: u64 = planned.iter().map(|segment| cells_of(patch.header(), segment.index)).sum();
        let mut reader = Reading::default();
        let mut job = Job { segments: Vec::new(), batches: Vec::new(), need: Need::default(), words: None };
        let (mut filling, mut words, mut first, mut done) = (Need::default(), Vec::new(), 0, 0);
        for planned in planned {
            stop_if_cancelled(hooks)?;
            let payload = patch.payload(planned.index).await?;
            let header = patch.header();
            let mut segment = self.cut(header, planned.index, &planned.pieces)?;
            let before = words.len();
            Decoded { work: segment.work, inexact: segment.inexact } =
                reader.decode(header, &segment, &payload, &mut words)?;
            let alone = (words.len() - before) as u64;
            let with = filling.with(&segment, alone);
            if with.total() > self.options.scratch_bytes && job.segments.len() > first {
                job.batches.push(first..job.segments.len());
                first = job.segments.len();
                filling = Need::default();
                // Places in a batch count from its start.
                words.clear();
                segment.work = reader.decode(header, &segment, &payload, &mut words)?.work;
            }
            filling = filling.with(&segment, alone);
            job.need = job.need.max(filling);
            done += u64::from(segment.cells);
            job.segments.push(segment);
            hooks.progress(Progress { phase: Phase::Verify, done, total });
            hooks.pause().await;
        }
        job.batches.push(first..job.segments.len());
        job.words = (job.batches.len() == 1).then_some(words);
        Ok(job)
    }

    fn cut(
        &self,
        header: &Header,
        index: usize,
        pieces: &[(pulse_format::Piece, &Placed<P::Buffer>)],
    ) -> Result<PlannedSegment<P::Buffer>, Error> {
        let limits = self.memory.port.limits();
        let mut windows = Vec::new();
        for (piece, placed) in pieces {
            let salt = Salt::new(header.seed, piece.tensor as u32, 0);
            windows.extend(placed.windows(salt, piece.first_cell.get(), piece.cells, &limits)?);
        }
        let segment = header.segments.get(index);
        let (base, target) = segment.map(|segment| (segment.base, segment.target)).unwrap_or_default();
        let cells = segment.map_or(0, |segment| segment.cells);
        let split = pieces.first().map_or(1, |(_, placed)| placed.split());
        Ok(PlannedSegment { index, base, target, cells, split, ..PlannedSegment::of(windows) })
    }

    /// Checks the base of every segment, and that it has the cells that change. Nothing is written to it.
    async fn survey(
        &self,
        job: &Job<P::Buffer>,
        scratch: &Scratch<P::Buffer>,
        hooks: &impl Hooks,
    ) -> Result<Vec<Fingerprint>, Error> {
        let mut commands = vec![Command::Clear(scratch.sums.clone())];
        for range in &job.batches {
            stop_if_cancelled(hooks)?;
            let batch = plan::batch(job.segments.get(range.clone()).unwrap_or_default(), range.start, scratch);
            self.memory.write(&scratch.params, &batch.params)?;
            commands.extend(batch.survey);
            self.memory.submit(&std::mem::take(&mut commands))?;
        }
        let results = self.memory.read_words(&scratch.sums, plan::result_words(job.segments.len())).await?;
        for (number, segment) in job.segments.iter().enumerate() {
            let result = of(&results, number);
            let any_base = matches!(segment.work, Work::Absolute(_));
            if result.base() != segment.base && !any_base {
                return Err(wrong_base(segment, result.base()));
            }
            if let Work::Contextual(part) = &segment.work
                && !result.has_cells(part)
            {
                let place = Place::Segment(segment.index);
                return Err(pulse_format::Error::Damaged { place, damage: Damage::OutOfRange }.into());
            }
        }
        Ok((0..job.segments.len()).map(|number| of(&results, number).base()).collect())
    }

    /// Writes every batch, and checks the targets. Returns the fingerprint of all.
    async fn write<S: Source>(
        &self,
        patch: &mut Patch<S>,
        job: &Job<P::Buffer>,
        scratch: &Scratch<P::Buffer>,
        hooks: &impl Hooks,
    ) -> Result<Fingerprint, Error> {
        let mut reader = Reading::default();
        let total = job.segments.iter().map(|segment| u64::from(segment.cells)).sum();
        let mut done = 0;
        for range in &job.batches {
            let segments = job.segments.get(range.clone()).unwrap_or_default();
            let batch = plan::batch(segments, range.start, scratch);
            let mut commands = Vec::new();
            match &job.words {
                Some(words) => self.memory.write_words(&scratch.changes, words)?,
                None => {
                    let words = Self::read_again(patch, segments, &mut reader).await?;
                    self.memory.write(&scratch.params, &batch.params)?;
                    self.memory.write_words(&scratch.changes, &words)?;
                    // The table was overwritten by later batches.
                    commands.extend(batch.survey);
                }
            }
            commands.extend(batch.write);
            commands.extend(batch.confirm);
            self.memory.submit(&commands)?;
            if job.batches.len() > 1 {
                self.memory.port.settle().await?;
            }
            done += segments.iter().map(|segment| u64::from(segment.cells)).sum::<u64>();
            hooks.progress(Progress { phase: Phase::Write, done, total });
        }
        let fingerprint = self.confirm(&job.segments, scratch, |_, segment| segment.target).await?;
        hooks.progress(Progress { phase: Phase::Confirm, done: total, total });
        Ok(fingerprint)
    }

    async fn read_again<S: Source>(
        patch: &mut Patch<S>,
        segments: &[PlannedSegment<P::Buffer>],
        reader: &mut Reading,
    ) -> Result<Vec<u32>, Error> {
        let mut words = Vec::new();
        for segment in segments {
            let payload = patch.payload(segment.index).await?;
            reader.decode(patch.header(), segment, &payload, &mut words)?;
        }
        Ok(words)
    }

    /// Reads what was confirmed and compares it with what was expected.
    async fn confirm(
        &self,
        segments: &[PlannedSegment<P::Buffer>],
        scratch: &Scratch<P::Buffer>,
        expected: impl Fn(usize, &PlannedSegment<P::Buffer>) -> Fingerprint,
    ) -> Result<Fingerprint, Error> {
        let results = self.memory.read_words(&scratch.sums, plan::result_words(segments.len())).await?;
        self.memory.note_keys(segments, &results);
        let mut sum = Fingerprint::ZERO;
        for (number, segment) in segments.iter().enumerate() {
            let expected = expected(number, segment);
            let found = if segment.is_changed() { of(&results, number).target() } else { segment.base };
            if found != expected {
                let segment = segment.index;
                return Err(pulse_format::Error::WrongTarget { segment, found, expected }.into());
            }
            sum += found;
        }
        Ok(sum)
    }

    /// After a failure behind the first write: takes it back if that is possible, or poisons the session.
    async fn recover(
        &mut self,
        error: Error,
        job: &Job<P::Buffer>,
        scratch: &Scratch<P::Buffer>,
        bases: &[Fingerprint],
        hooks: &impl Hooks,
    ) -> Error {
        let wrong_target = matches!(error, Error::Patch(pulse_format::Error::WrongTarget { .. }));
        if !wrong_target || job.batches.len() != 1 {
            return self.poison(error, "writing failed");
        }
        let commands = plan::batch(&job.segments, 0, scratch);
        if let Err(second) = self.take_back(&job.segments, &commands, scratch, bases).await {
            return self.poison(second, "the result was wrong, and taking it back failed");
        }
        self.poisoned = None;
        if let Err(error) = hooks.invalidate().await {
            return error;
        }
        // An absolute segment may be applied to anything; where that did not give the target, the base was to blame.
        let blamed = job.segments.iter().zip(bases).find(|(segment, base)| segment.base != **base);
        blamed.map_or(error, |(segment, base)| wrong_base(segment, *base))
    }

    async fn take_back(
        &self,
        segments: &[PlannedSegment<P::Buffer>],
        batch: &BatchCommands<P::Buffer>,
        scratch: &Scratch<P::Buffer>,
        bases: &[Fingerprint],
    ) -> Result<(), Error> {
        let clear = Command::Clear(scratch.sums.clone());
        self.memory.submit(&[&[clear], batch.back.as_slice(), batch.confirm.as_slice()].concat())?;
        let base_of = |number: usize, _: &_| bases.get(number).copied().unwrap_or_default();
        self.confirm(segments, scratch, base_of).await.map(drop)
    }

    fn check_sound(&self) -> Result<(), Error> {
        match &self.poisoned {
            Some(reason) => Err(Error::Poisoned { reason: reason.clone() }),
            None => Ok(()),
        }
    }

    fn poison(&mut self, error: Error, what: &str) -> Error {
        self.poisoned = Some(format!("{what}: {error}"));
        error
    }
}

fn of(results: &[u32], number: usize) -> Results<'_> {
    Results(results.get(plan::results_of(number)).unwrap_or_default())
}

fn cells_of(header: &Header, index: usize) -> u64 {
    header.segments.get(index).map_or(0, |segment| u64::from(segment.cells))
}

fn bytes_of(header: &Header, index: usize) -> u64 {
    header.segments.get(index).map_or(0, |segment| u64::from(segment.bytes))
}

fn wrong_base<B>(segment: &PlannedSegment<B>, found: Fingerprint) -> Error {
    pulse_format::Error::WrongBase { segment: segment.index, found, expected: segment.base }.into()
}

fn stop_if_cancelled(hooks: &impl Hooks) -> Result<(), Error> {
    if hooks.cancelled() { Err(Error::Aborted) } else { Ok(()) }
}
