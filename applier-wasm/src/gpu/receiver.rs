//! Patches into GPU buffers: surveyed first, then written batch by batch, and surveyed again.

use super::job::{Batch, Job};
use super::layout::Located;
use super::plan::Work;
use super::port::{Command, Port};
use super::reading::{Filling, cut, decode};
use super::results::Results;
use super::scratch::{Counts, Memory};
use crate::bound::BoundSegment;
use crate::error::Error;
use crate::hooks::{Counter, Hooks, Phase, stop_if_cancelled};
use crate::options::Options;
use crate::patch::Patch;
use crate::receiver::{Failure, Guard, Receiver};
use crate::source::Source;
use pulse_format::scan::Fingerprints;
use pulse_format::{Fingerprint, Header, SegmentDecoder};

/// Tensors in buffers of the port `P`.
#[derive(Debug)]
pub struct GpuReceiver<P: Port> {
    pub(super) memory: Memory<P>,
    /// The patch written last, and the fingerprints that it left.
    last: Option<(Job<P::Buffer>, Vec<Fingerprint>)>,
}

impl<P: Port> GpuReceiver<P> {
    pub(super) fn new(port: P) -> Self {
        Self { memory: Memory::new(port), last: None }
    }

    async fn read<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, Located<P::Buffer>>],
        options: &Options,
        hooks: &impl Hooks,
    ) -> Result<Job<P::Buffer>, Error> {
        let limits = self.memory.port.limits();
        let mut decoder = SegmentDecoder::default();
        let mut filling = Filling::new();
        let mut batches = Vec::new();
        let mut undo_bytes = Some(0);
        let mut end_batch = |filling: &mut Filling<P::Buffer>| {
            let (segments, words) = filling.end_batch();
            undo_bytes =
                undo_bytes.map(|kept| kept + 4 * words.len() as u64).filter(|kept| *kept <= options.undo_bytes);
            let own = match undo_bytes {
                Some(_) => Some(self.memory.keep(&words)?),
                None => None,
            };
            batches.push(Batch { segments, own });
            Ok::<_, Error>(())
        };
        let mut counter = Counter::new(hooks, Phase::Verify, planned.iter().map(BoundSegment::cells).sum());
        for planned in planned {
            stop_if_cancelled(hooks)?;
            let payload = patch.payload(planned.index).await?;
            let mut segment = cut(patch.header(), planned, &limits)?;
            let words = decode(&mut decoder, patch.header(), &mut segment, &payload)?;
            if filling.is_full_for(&segment, words.len(), options.scratch_bytes) {
                end_batch(&mut filling)?;
            }
            counter.advance(segment.cells.into());
            filling.push(segment, &words);
            hooks.pause().await;
        }
        end_batch(&mut filling)?;
        if undo_bytes.is_none() {
            // Some are not enough: all are read again.
            batches.iter_mut().for_each(|batch| batch.own = None);
            self.memory.drop_pending();
        }
        self.memory.make_room(&filling.segments).await?;
        let mut need = filling.most;
        need.changes = if undo_bytes.is_some() { 0 } else { need.changes };
        Job::new(&mut self.memory, filling.segments, batches, need, undo_bytes)
    }

    /// Checks the base of every segment, and that it has the cells that change.
    async fn survey(&self, header: &Header, job: &mut Job<P::Buffer>, hooks: &impl Hooks) -> Result<(), Error> {
        let mut commands = vec![Command::Clear(job.scratch.sums.clone())];
        for batch in 0..job.batches.len() {
            stop_if_cancelled(hooks)?;
            job.set_params(&self.memory, batch)?;
            job.commands(batch, &[|of| &of.survey], None, &mut commands);
            self.memory.submit(&std::mem::take(&mut commands))?;
        }
        let results = job.results(&self.memory).await?;
        for (number, segment) in job.segments.iter().enumerate() {
            let found = Results::of(&results, number);
            let found_all = match &segment.work {
                Work::Contextual(part) => found.has_cells(part),
                _ => true,
            };
            header.segment(segment.index)?.judge_base(found.base(), found_all)?;
            job.bases.push(found.base());
        }
        Ok(())
    }

    /// Writes every batch, and judges the result; `begun` counts the batches whose writing has begun.
    async fn write_all<S: Source>(
        &self,
        patch: &mut Patch<S>,
        job: &Job<P::Buffer>,
        begun: &mut usize,
        guard: &mut Guard<'_>,
        hooks: &impl Hooks,
    ) -> Result<Vec<Fingerprint>, Error> {
        let mut decoder = SegmentDecoder::default();
        let total = job.segments.iter().map(|segment| u64::from(segment.cells)).sum();
        let mut counter = Counter::new(hooks, Phase::Write, total);
        let is_alone = job.batches.len() == 1;
        for (number, batch) in job.batches.iter().enumerate() {
            if batch.own.is_none() {
                let words = read_again(patch, job, batch, &mut decoder).await?;
                self.memory.write_words(&job.scratch.changes, &words)?;
            }
            let mut commands = Vec::new();
            if !is_alone {
                // Later batches have overwritten what a survey left in the scratch memory.
                job.set_params(&self.memory, number)?;
                job.commands(number, &[|of| &of.survey], None, &mut commands);
            }
            job.commands(number, &[|of| &of.resolve, |of| &of.forth, |of| &of.confirm], None, &mut commands);
            guard.begin_writing();
            *begun = number + 1;
            self.memory.submit(&commands)?;
            if !is_alone {
                self.memory.port.settle().await?;
            }
            let cells = job.segments.get(batch.segments.clone()).unwrap_or_default();
            counter.advance(cells.iter().map(|segment| u64::from(segment.cells)).sum());
        }
        let targets = self.judge(patch.header(), job).await?;
        Counter::new(hooks, Phase::Confirm, total).advance(total);
        Ok(targets)
    }

    /// Reads what is in memory now, and judges it.
    async fn judge(&self, header: &Header, job: &Job<P::Buffer>) -> Result<Vec<Fingerprint>, Error> {
        let results = job.results(&self.memory).await?;
        self.memory.note_keys(&job.segments, &results);
        let mut targets = Vec::new();
        for (number, (segment, base)) in job.segments.iter().zip(&job.bases).enumerate() {
            let target = if segment.is_changed() { Results::of(&results, number).target() } else { *base };
            header.segment(segment.index)?.judge(Fingerprints { base: *base, target })?;
            targets.push(target);
        }
        Ok(targets)
    }
}

impl<P: Port> Receiver for GpuReceiver<P> {
    type Binding = Located<P::Buffer>;
    type Verified = Job<P::Buffer>;

    async fn verify<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, Located<P::Buffer>>],
        options: &Options,
        hooks: &impl Hooks,
    ) -> Result<Job<P::Buffer>, Error> {
        self.memory.drop_pending();
        let mut job = self.read(patch, planned, options, hooks).await?;
        self.survey(patch.header(), &mut job, hooks).await?;
        Ok(job)
    }

    async fn write<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        _: &[BoundSegment<'_, Located<P::Buffer>>],
        mut job: Job<P::Buffer>,
        guard: &mut Guard<'_>,
        hooks: &impl Hooks,
    ) -> Result<Fingerprint, Failure> {
        let mut begun = 0;
        match self.write_all(patch, &job, &mut begun, guard, hooks).await {
            Ok(targets) => {
                job.commands.clear();
                let fingerprint = targets.iter().copied().sum();
                self.memory.keep_pending();
                self.last = job.undo_bytes.map(|_| (job, targets));
                Ok(fingerprint)
            }
            Err(error) if begun == 0 => Err(Failure::Old(error)),
            // The places of the batches before are gone.
            Err(error) if job.undo_bytes.is_none() && begun > 1 => Err(Failure::Mixed(error)),
            Err(error) => match job.restore(&self.memory, begun, |of| &of.back, &job.bases).await {
                Ok(()) => Err(Failure::Old(error)),
                Err(_) => Err(Failure::Mixed(error)),
            },
        }
    }

    async fn undo(&mut self, guard: &mut Guard<'_>) -> Result<(), Failure> {
        let none = || Failure::Old(Error::nothing_to_undo());
        let (job, targets) = self.last.as_mut().ok_or_else(none)?;
        // Buffers that it was planned with may have been made anew since.
        job.plan_again(&mut self.memory).map_err(Failure::Old)?;
        let batches = job.batches.len();
        guard.begin_writing();
        let undone = job.run(&self.memory, batches, |of| &of.back, None).await;
        let undone = undone.and_then(|results| job.check(batches, &results, &job.bases));
        let Err(error) = undone else {
            self.last = None;
            self.memory.drop_kept();
            return Ok(());
        };
        match job.restore(&self.memory, batches, |of| &of.again, targets).await {
            Ok(()) => Err(Failure::Old(error)),
            Err(_) => Err(Failure::Mixed(error)),
        }
    }

    fn take_counts(&mut self) -> Option<Counts> {
        Some(self.memory.take_counts())
    }
}

async fn read_again<S: Source, B>(
    patch: &mut Patch<S>,
    job: &Job<B>,
    batch: &Batch<B>,
    decoder: &mut SegmentDecoder,
) -> Result<Vec<u32>, Error>
where
    B: Clone,
{
    let mut words = Vec::new();
    for segment in job.segments.get(batch.segments.clone()).unwrap_or_default() {
        let payload = patch.payload(segment.index).await?;
        words.extend(decode(decoder, patch.header(), &mut segment.clone(), &payload)?);
    }
    Ok(words)
}
