//! The one order of an apply: verify all, quiesce, write, confirm or take back, invalidate.

use crate::bound::{Bound, BoundSegment};
use crate::error::Error;
use crate::gpu::Counts;
use crate::hooks::{Hooks, Intent, stop_if_cancelled};
use crate::options::Options;
use crate::patch::Patch;
use crate::receiver::{Poison, Receiver, Verified};
use crate::source::Source;
use pulse_format::{Fingerprint, Header, Step};

/// What an apply did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Applied {
    /// The step that the patch starts from; `None` of an anchor.
    pub base_step: Option<Step>,
    /// The step now.
    pub target_step: Step,
    /// Cells that changed, of those that are bound.
    pub changes: u64,
    /// Cells that are bound.
    pub cells: u64,
    /// Bytes of the patch that were needed: its header, and the segments of tensors that are bound.
    pub patch_bytes: u64,
    /// Of the cells that are bound, with the patch's seed and by its table.
    pub fingerprint: Fingerprint,
    /// Bytes kept so that [`Session::undo`] can take the patch back; `None` if that was over [`Options::undo_bytes`].
    pub undo_bytes: Option<u64>,
    /// What was asked of the device; `None` in memory.
    pub device: Option<Counts>,
}

/// A receiver `R` with its tensors, at some step. Nothing else may write to them while it works.
#[derive(Debug)]
pub struct Session<R: Receiver> {
    pub(crate) receiver: R,
    pub(crate) bound: Bound<R::Binding>,
    options: Options,
    poison: Poison,
    /// The step before the last patch, while that can be taken back.
    undo_step: Option<Step>,
}

impl<R: Receiver> Session<R> {
    /// A session without tensors.
    pub(crate) fn over(receiver: R, options: Options) -> Self {
        Self { receiver, bound: Bound::default(), options, poison: Poison::default(), undo_step: None }
    }

    /// The step that the weights are, if known.
    pub fn step(&self) -> Option<Step> {
        self.options.step
    }

    /// Why the weights are neither old nor new, if so.
    pub fn poisoned(&self) -> Option<&str> {
        self.poison.reason()
    }

    /// The step that [`Session::undo`] would lead to.
    pub fn undo_step(&self) -> Option<Step> {
        self.undo_step
    }

    /// Brings the bound tensors to the target of a patch. Its other tensors are skipped, and their segments not read. An anchor makes a
    /// poisoned session sound again, for it replaces all cells that are bound; buffers of f32 and f16 must hold BF16 values, of any step or
    /// none. It can be taken back only where the step before is known.
    ///
    /// # Errors
    /// [`Error::Stale`], [`Error::Mismatch`] and [`Error::Poisoned`] before anything but the header is read; [`Error::Patch`],
    /// [`Error::Aborted`], those of source, memory and hooks. The weights are then the old ones, or [`Session::poisoned`] says why not; an error of the
    /// invalidate hook alone comes with the new weights in place.
    pub async fn apply(&mut self, source: impl Source, hooks: &impl Hooks) -> Result<Applied, Error> {
        stop_if_cancelled(hooks)?;
        let Self { receiver, bound, options, poison, undo_step } = self;
        receiver.take_counts();
        let mut patch = Patch::open(source, &options.limits).await?;
        if !patch.header().is_anchor() {
            poison.check()?;
        }
        refuse_stale(options.step, patch.header())?;
        let planned = bound.plan(patch.header())?;
        patch.expect(planned.iter().map(|segment| segment.index));
        // What an anchor replaces is worth keeping only if it is known, and whole.
        let before = patch.header().base_step.or(options.step.filter(|_| poison.reason().is_none()));
        let allowed = Options { undo_bytes: before.map_or(0, |_| options.undo_bytes), ..*options };
        let verified = receiver.verify(&mut patch, &planned, &allowed, hooks).await?;
        stop_if_cancelled(hooks)?;
        let undo_bytes = verified.undo_bytes();
        let mut applied = applied_by(patch.header(), &planned, undo_bytes);
        let Applied { base_step, target_step, changes, cells, patch_bytes, .. } = applied;
        hooks.verified(Intent { base_step, target_step, changes, cells, patch_bytes, undo_bytes });
        hooks.quiesce().await?;
        let written = receiver.write(&mut patch, &planned, verified, &mut poison.guard("an apply"), hooks).await;
        let written = poison.settle(written);
        if written.is_ok() {
            options.step = Some(target_step);
            *undo_step = before.filter(|_| undo_bytes.is_some());
        }
        if poison.reason().is_none() {
            // Old or new, the weights are whole, and the engine may go on.
            hooks.invalidate().await?;
        }
        applied.fingerprint = written?;
        applied.device = receiver.take_counts();
        Ok(applied)
    }

    /// Takes the patch applied last back; gives the step that the weights are then.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there is none: nothing was applied, it was taken back already, or keeping it was over
    /// [`Options::undo_bytes`]. Others as for [`Session::apply`]: the weights are then those before the call, or the session is poisoned.
    pub async fn undo(&mut self, hooks: &impl Hooks) -> Result<Step, Error> {
        self.poison.check()?;
        let step = self.undo_step.ok_or_else(Error::nothing_to_undo)?;
        hooks.quiesce().await?;
        let undone = self.receiver.undo(&mut self.poison.guard("taking a patch back")).await;
        let undone = self.poison.settle(undone);
        if undone.is_ok() {
            (self.options.step, self.undo_step) = (Some(step), None);
        }
        if self.poison.reason().is_none() {
            hooks.invalidate().await?;
        }
        undone.map(|()| step)
    }

    pub(crate) fn check_sound(&self) -> Result<(), Error> {
        self.poison.check()
    }
}

fn refuse_stale(step: Option<Step>, header: &Header) -> Result<(), Error> {
    match (step, header.base_step) {
        (Some(held), Some(base)) if held != base => {
            Err(Error::Stale { base: base.get(), target: header.target_step.get(), held: held.get() })
        }
        _ => Ok(()),
    }
}

/// All but what only the end tells.
fn applied_by<B>(header: &Header, planned: &[BoundSegment<'_, B>], undo_bytes: Option<u64>) -> Applied {
    let mut applied = Applied {
        base_step: header.base_step,
        target_step: header.target_step,
        changes: 0,
        cells: 0,
        patch_bytes: header.payload_start.get(),
        fingerprint: Fingerprint::ZERO,
        undo_bytes,
        device: None,
    };
    for segment in planned.iter().filter_map(|planned| header.segments.get(planned.index)) {
        applied.changes += u64::from(segment.changes);
        applied.cells += u64::from(segment.cells);
        applied.patch_bytes += u64::from(segment.bytes);
    }
    applied
}
