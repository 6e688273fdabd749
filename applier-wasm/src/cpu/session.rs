//! Bound tensors, and the order of an apply: verify all, quiesce, write and check, commit, invalidate.

use crate::bound::{Bound, BoundSegment};
use crate::cpu::memory::Memory;
use crate::cpu::segment::{Placer, RUN_BYTES, Runs};
use crate::error::Error;
use crate::hooks::{Hooks, Phase, Progress};
use crate::patch::Patch;
use crate::source::Source;
use pulse_format::{Fingerprint, Header, Limits, Profile, Step, Tensor};

/// A receiver over memory.
///
/// It holds, beside the caller's memory, one segment's bytes, its changes and one run of cells.
#[derive(Debug)]
pub struct Session<M> {
    bound: Bound<usize>,
    places: Vec<Place<M>>,
    step: Option<Step>,
    poisoned: Option<String>,
    placer: Placer,
}

/// Where a tensor's cells are.
#[derive(Debug)]
pub(super) struct Place<M> {
    memory: M,
    offset: usize,
}

impl<M: Memory> Place<M> {
    pub(super) fn read(&self, start: usize, out: &mut [u8]) -> Result<(), Error> {
        self.memory.read(self.offset + start, out)
    }

    pub(super) fn write(&mut self, start: usize, bytes: &[u8]) -> Result<(), Error> {
        self.memory.write(self.offset + start, bytes)
    }
}

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The step before.
    pub base_step: Step,
    /// The step now.
    pub target_step: Step,
    /// Changes written, in bound tensors.
    pub changes: u64,
    /// Cells of the bound tensors.
    pub cells: u64,
    /// Bytes of the patch that were needed: its header and the segments of bound tensors.
    pub patch_bytes: u64,
    /// Of the bound tensors now, with the patch's seed and by its table.
    pub fingerprint: Fingerprint,
}

impl Applied {
    fn by(header: &Header, plan: &[BoundSegment<'_, usize>]) -> Self {
        let mut applied = Self {
            base_step: header.base_step,
            target_step: header.target_step,
            changes: 0,
            cells: 0,
            patch_bytes: header.payload_start.get(),
            fingerprint: Fingerprint::ZERO,
        };
        for segment in plan.iter().filter_map(|planned| header.segments.get(planned.index)) {
            applied.changes += u64::from(segment.changes);
            applied.cells += u64::from(segment.cells);
            applied.patch_bytes += u64::from(segment.bytes);
            applied.fingerprint += segment.target;
        }
        applied
    }
}

impl<M: Memory> Session<M> {
    /// A session whose tensors hold the cells of `step`, or of a step that is not known: it is then taken from the first patch, whose
    /// base fingerprints must be right in any case.
    pub fn new(step: Option<Step>) -> Self {
        Self { bound: Bound::default(), places: Vec::new(), step, poisoned: None, placer: Placer::default() }
    }

    /// Binds a tensor to the bytes of `memory` from `offset` on, which hold its cells packed, in row-major order, little-endian.
    ///
    /// # Errors
    /// [`Error::Binding`] if the memory is too short, the tensor has no size or is bound already; [`Error::Poisoned`].
    pub fn bind(&mut self, tensor: Tensor, memory: M, offset: usize) -> Result<(), Error> {
        self.check_health()?;
        let bytes = tensor.cells().and_then(|cells| cells.get().checked_mul(tensor.dtype.cell_bytes() as u64));
        let end = bytes.and_then(|bytes| usize::try_from(bytes).ok()?.checked_add(offset));
        let length = memory.length();
        if let (Some(bytes), true) = (bytes, end.is_none_or(|end| end > length)) {
            let problem = format!("it needs {bytes} bytes from byte {offset} on, the memory has {length}");
            return Err(Error::Binding { tensor: tensor.name, problem });
        }
        self.bound.bind(tensor, self.places.len())?;
        self.places.push(Place { memory, offset });
        Ok(())
    }

    /// The step that its tensors hold, where it is known.
    pub fn step(&self) -> Option<Step> {
        self.step
    }

    /// Why the weights are neither old nor new, if so.
    pub fn poisoned(&self) -> Option<&str> {
        self.poisoned.as_deref()
    }

    /// What a tensor is bound to.
    pub fn memory(&self, name: &str) -> Option<&M> {
        let place =
            self.bound.iter().find(|(tensor, _)| tensor.name == name).and_then(|(_, place)| self.places.get(*place));
        place.map(|place| &place.memory)
    }

    /// Brings the bound tensors to the target of a patch. Its other tensors are skipped, and their segments not read.
    ///
    /// Everything is decoded, placed on copies and verified before the first write. The source is then read once more; one that fails
    /// after the first write leaves the session poisoned, as does a future that is dropped then.
    ///
    /// # Errors
    /// [`Error::Stale`] and [`Error::Mismatch`] before anything but the header is read; [`Error::Patch`]; [`Error::Aborted`]; those of source,
    /// memory and hooks; [`Error::Poisoned`] for every call after a failure between the first write and the last check.
    pub async fn apply(&mut self, source: impl Source, limits: &Limits, hooks: &impl Hooks) -> Result<Applied, Error> {
        self.check_health()?;
        check_cancelled(hooks)?;
        let mut patch = Patch::open(source, limits).await?;
        let header = patch.header().clone();
        if let Some(held) = self.step.filter(|step| *step != header.base_step) {
            let (base, target) = (header.base_step.get(), header.target_step.get());
            return Err(Error::Stale { base, target, held: held.get() });
        }
        let Self { bound, places, step, poisoned, placer } = self;
        let plan = bound.plan(&header)?;
        let applied = Applied::by(&header, &plan);
        patch.expect(plan.iter().map(|planned| planned.index));
        placer.for_another_patch();

        let mut counter = Counter::new(hooks, Phase::Verify, applied.cells);
        for planned in &plan {
            check_cancelled(hooks)?;
            let payload = patch.payload(planned.index).await?;
            placer.segment(&header, planned, &payload, &mut Runs::Dry(places))?;
            counter.advance(planned);
            hooks.pause().await;
        }
        check_cancelled(hooks)?;

        hooks.quiesce().await?;
        let writing = Writing { header: &header, plan: &plan, places, poisoned, placer };
        let result = writing.run(&mut patch, hooks).await;
        if poisoned.is_none() {
            if result.is_ok() {
                *step = Some(header.target_step);
            }
            // Old or new, the weights are whole, and the engine may go on.
            hooks.invalidate().await?;
        }
        result.map(|()| applied)
    }

    /// The fingerprint of all bound tensors with a seed of the caller's choice: the answer to a challenge.
    ///
    /// Tensor `i` is the `i`-th of those bound, by dtype code and name; where all of a checkpoint's tensors are bound, this is the
    /// fingerprint of the checkpoint.
    ///
    /// # Errors
    /// [`Error::Poisoned`], and those of the memory.
    pub fn fingerprint(&self, seed: u64) -> Result<Fingerprint, Error> {
        self.check_health()?;
        let mut run = vec![0; RUN_BYTES];
        let mut sum = Fingerprint::ZERO;
        for (index, (tensor, place)) in (0u32..).zip(self.bound.iter()) {
            let Some(place) = self.places.get(*place) else { continue };
            let cells = tensor.cells().map_or(0, |cells| cells.get() as usize);
            let bytes = cells * tensor.dtype.cell_bytes();
            for start in (0..bytes).step_by(RUN_BYTES) {
                let run = run.get_mut(..RUN_BYTES.min(bytes - start)).unwrap_or_default();
                place.read(start, run)?;
                sum += pulse_format::fingerprint(run, seed, index, start as u64 / 4);
            }
        }
        Ok(sum)
    }

    fn check_health(&self) -> Result<(), Error> {
        self.poisoned.clone().map_or(Ok(()), |reason| Err(Error::Poisoned { reason }))
    }
}

/// The second pass: every run that changes is read, changed, written back, and checked again.
struct Writing<'a, M> {
    header: &'a Header,
    plan: &'a [BoundSegment<'a, usize>],
    places: &'a mut [Place<M>],
    poisoned: &'a mut Option<String>,
    placer: &'a mut Placer,
}

impl<M: Memory> Writing<'_, M> {
    /// Leaves `poisoned` set where it began to write and did not end well, or did not end.
    async fn run<S: Source>(self, patch: &mut Patch<S>, hooks: &impl Hooks) -> Result<(), Error> {
        let Self { header, plan, places, poisoned, placer } = self;
        let changed = |planned: &&BoundSegment<'_, usize>| {
            header.segments.get(planned.index).is_some_and(|segment| segment.profile != Profile::Unchanged)
        };
        let mut counter = Counter::new(hooks, Phase::Write, plan.iter().filter(changed).map(cells).sum());
        let mut written = false;
        for planned in plan.iter().filter(changed) {
            let result = match patch.payload(planned.index).await {
                Ok(payload) => {
                    *poisoned = Some(INTERRUPTED.into());
                    placer.segment(header, planned, &payload, &mut Runs::Written(places, &mut written))
                }
                Err(error) => Err(error),
            };
            if let Err(error) = result {
                *poisoned = written.then(|| error.to_string());
                return Err(error);
            }
            counter.advance(planned);
            hooks.pause().await;
        }
        *poisoned = None;
        Ok(())
    }
}

/// Why a session is poisoned whose apply was dropped while it wrote.
const INTERRUPTED: &str = "an apply was dropped while it wrote";

fn check_cancelled(hooks: &impl Hooks) -> Result<(), Error> {
    if hooks.cancelled() { Err(Error::Aborted) } else { Ok(()) }
}

fn cells(planned: &BoundSegment<'_, usize>) -> u64 {
    planned.pieces.iter().map(|(piece, _)| u64::from(piece.cells)).sum()
}

/// Reports how far a phase has come.
struct Counter<'a, H> {
    hooks: &'a H,
    progress: Progress,
}

impl<'a, H: Hooks> Counter<'a, H> {
    fn new(hooks: &'a H, phase: Phase, total: u64) -> Self {
        Self { hooks, progress: Progress { phase, done: 0, total } }
    }

    fn advance(&mut self, planned: &BoundSegment<'_, usize>) {
        self.progress.done += cells(planned);
        self.hooks.progress(self.progress);
    }
}
