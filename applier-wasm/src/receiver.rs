//! What a receiver has to be able to do, for [`Session`](crate::Session) to bring its weights from step to step.

use crate::bound::BoundSegment;
use crate::error::Error;
use crate::gpu::Counts;
use crate::hooks::Hooks;
use crate::options::Options;
use crate::patch::Patch;
use crate::source::Source;
use pulse_format::Fingerprint;

/// Weights in memory of some kind, and the work on them: verified first, then written.
///
/// Nothing it keeps of a patch that was applied may be given up for the next one before that is written: until then the one before can still be
/// taken back.
#[expect(async_fn_in_trait, reason = "receivers are driven on one thread, in browsers above all")]
pub trait Receiver {
    /// What says where a tensor is.
    type Binding;
    /// A patch that was verified against these weights.
    type Verified: Verified;

    /// Reads and decodes every segment, checks the base and that each change has its cell. Writes to no weights.
    ///
    /// # Errors
    /// Those of source and patch, of the weights' memory, [`Error::Aborted`].
    async fn verify<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, Self::Binding>],
        options: &Options,
        hooks: &impl Hooks,
    ) -> Result<Self::Verified, Error>;

    /// Writes the changes, and checks the target in the weights' own memory; gives its fingerprint.
    ///
    /// # Errors
    /// [`Failure`] says what the weights are then.
    async fn write<S: Source>(
        &mut self,
        patch: &mut Patch<S>,
        planned: &[BoundSegment<'_, Self::Binding>],
        verified: Self::Verified,
        guard: &mut Guard<'_>,
        hooks: &impl Hooks,
    ) -> Result<Fingerprint, Failure>;

    /// Takes the patch written last back.
    ///
    /// # Errors
    /// [`Failure`] says what the weights are then: with [`Failure::Old`] they are as before the call, and it can be called again.
    async fn undo(&mut self, guard: &mut Guard<'_>) -> Result<(), Failure>;

    /// What was asked of a device since this was called last; `None` without one.
    fn take_counts(&mut self) -> Option<Counts>;
}

/// What a receiver knows of a patch before it writes.
pub trait Verified {
    /// Bytes that it keeps, so that the patch can be taken back; `None` if that is over the limit, and it keeps none.
    fn undo_bytes(&self) -> Option<u64>;
}

/// A write that did not end well.
#[derive(Debug)]
pub enum Failure {
    /// The weights are what they were before.
    Old(Error),
    /// The weights are neither old nor new.
    Mixed(Error),
}

impl Failure {
    /// What went wrong.
    pub fn into_error(self) -> Error {
        let (Self::Old(error) | Self::Mixed(error)) = self;
        error
    }
}

impl From<pulse_format::Error> for Failure {
    fn from(error: pulse_format::Error) -> Self {
        Self::Old(error.into())
    }
}

/// Knows whether weights are neither old nor new, also where a future is dropped while it writes.
#[derive(Debug, Default)]
pub(crate) struct Poison {
    /// How some work ended.
    ended: Option<String>,
    /// What is true as long as the work at hand has not ended.
    writing: Option<String>,
}

/// Lent to whoever writes.
#[derive(Debug)]
pub struct Guard<'a> {
    poison: &'a mut Poison,
    work: &'static str,
}

impl Guard<'_> {
    /// Whether anything was written.
    pub fn has_begun(&self) -> bool {
        self.poison.writing.is_some()
    }

    /// To be called before the first write: whoever drops the work from then on leaves mixed weights.
    pub fn begin_writing(&mut self) {
        self.poison.writing.get_or_insert_with(|| format!("{} was dropped while it wrote", self.work));
    }
}

impl Poison {
    pub(crate) fn reason(&self) -> Option<&str> {
        self.writing.as_deref().or(self.ended.as_deref())
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        self.reason().map_or(Ok(()), |reason| Err(Error::Poisoned { reason: reason.into() }))
    }

    pub(crate) fn guard(&mut self, work: &'static str) -> Guard<'_> {
        // What was left by work that was dropped.
        self.ended = self.writing.take().or(self.ended.take());
        Guard { poison: self, work }
    }

    /// Takes the end of some work in: sound if all was written, poisoned if it left mixed weights, else as before.
    pub(crate) fn settle<T>(&mut self, result: Result<T, Failure>) -> Result<T, Error> {
        self.writing = None;
        match result {
            Ok(value) => {
                self.ended = None;
                Ok(value)
            }
            Err(Failure::Old(error)) => Err(error),
            Err(Failure::Mixed(error)) => {
                self.ended = Some(error.to_string());
                Err(error)
            }
        }
    }
}
