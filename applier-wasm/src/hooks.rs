//! What a receiver asks and tells its caller while it works.

use crate::error::Error;
use pulse_format::Step;

/// What is being done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Phase {
    /// Reading the patch, decoding it, and checking the base. Nothing is written yet.
    Verify,
    /// Writing the changes.
    Write,
    /// Checking the target.
    Confirm,
}

impl Phase {
    /// Its name in events.
    pub fn name(self) -> &'static str {
        match self {
            Self::Verify => "verify",
            Self::Write => "write",
            Self::Confirm => "confirm",
        }
    }
}

/// How far a phase has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Progress {
    /// Which.
    pub phase: Phase,
    /// Cells done.
    pub done: u64,
    /// Cells in all.
    pub total: u64,
}

/// What is about to be written, once all of it was verified.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Intent {
    /// The step that the patch starts from; `None` of an anchor.
    pub base_step: Option<Step>,
    /// The step afterwards.
    pub target_step: Step,
    /// Cells that will change, of those that are bound.
    pub changes: u64,
    /// Cells that are bound.
    pub cells: u64,
    /// Bytes of the patch that were needed.
    pub patch_bytes: u64,
    /// Bytes kept so that the patch can be taken back; `None` if that is over [`Options::undo_bytes`](crate::Options::undo_bytes): then a
    /// failure may poison the receiver, and there is no undo.
    pub undo_bytes: Option<u64>,
}

/// The caller's side of an apply. Every method has a default that does nothing.
#[expect(async_fn_in_trait, reason = "receivers are driven on one thread, in browsers above all")]
pub trait Hooks {
    /// Whether to stop. Asked before every wait; once writing has begun, a stop waits until the weights are whole again.
    fn cancelled(&self) -> bool {
        false
    }

    /// Called as work is done.
    fn progress(&self, progress: Progress) {
        let _ = progress;
    }

    /// Called between pieces of work: a place to let others run, where all run on one thread.
    async fn pause(&self) {}

    /// Called when all was verified, before [`Hooks::quiesce`]: the last moment to refuse is there.
    fn verified(&self, intent: Intent) {
        let _ = intent;
    }

    /// Called before the first write: the engine must have submitted what it has recorded, and record nothing until
    /// [`Hooks::invalidate`].
    ///
    /// # Errors
    /// Whatever keeps the engine from it; the apply then ends with nothing written.
    async fn quiesce(&self) -> Result<(), Error> {
        Ok(())
    }

    /// Called once the new weights are in place and checked, or the old ones back: what the engine derived from weights
    /// (caches of keys and values, packed copies) is void. After a failure that poisons the receiver it is not called: there are
    /// no weights then for the engine to go on with.
    ///
    /// # Errors
    /// Whatever keeps the engine from it; the apply then reports it, with the weights whole.
    async fn invalidate(&self) -> Result<(), Error> {
        Ok(())
    }
}

/// No hooks.
#[derive(Debug, Clone, Copy, Default)]
pub struct NoHooks;

impl Hooks for NoHooks {}

pub(crate) fn stop_if_cancelled(hooks: &impl Hooks) -> Result<(), Error> {
    if hooks.cancelled() { Err(Error::Aborted) } else { Ok(()) }
}

/// Reports how far a phase has come.
pub(crate) struct Counter<'a, H> {
    hooks: &'a H,
    progress: Progress,
}

impl<'a, H: Hooks> Counter<'a, H> {
    pub(crate) fn new(hooks: &'a H, phase: Phase, total: u64) -> Self {
        Self { hooks, progress: Progress { phase, done: 0, total } }
    }

    pub(crate) fn advance(&mut self, cells: u64) {
        self.progress.done += cells;
        self.hooks.progress(self.progress);
    }
}
