//! What can go wrong, split by who is at fault.

/// Everything that a receiver can answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The patch, or what it says of the cells at hand.
    #[error(transparent)]
    Patch(#[from] pulse_format::Error),
    /// The patch starts from another step than the receiver holds: plan another path.
    #[error("stale: the patch leads from step {base} to {target}, the receiver holds step {held}")]
    Stale {
        /// The patch's base.
        base: u64,
        /// The patch's target.
        target: u64,
        /// What the receiver holds.
        held: u64,
    },
    /// The patch is for another set of tensors than those that are bound.
    #[error("the patch does not fit what is bound: {what}")]
    Mismatch {
        /// Which tensor, and how it differs.
        what: String,
    },
    /// A tensor cannot be bound so.
    #[error("tensor {tensor} cannot be bound: {problem}")]
    Binding {
        /// Its name.
        tensor: String,
        /// Why.
        problem: String,
    },
    /// A limit set by the receiver stops this.
    #[error("{what} takes {needed} bytes, over the limit of {allowed}")]
    Limit {
        /// What takes them.
        what: &'static str,
        /// How many it takes.
        needed: u64,
        /// How many there may be.
        allowed: u64,
    },
    /// The source of the patch's bytes failed.
    #[error("the patch cannot be read: {message}")]
    Source {
        /// As the source says it.
        message: String,
    },
    /// There is no adapter, or one that does not keep what is written to it.
    #[error("no usable GPU: {message}")]
    NoAdapter {
        /// What was found instead.
        message: String,
    },
    /// The device is gone, and the weights with it: make a new one and bind anew.
    #[error("the GPU device is lost: {message}")]
    DeviceLost {
        /// As the device says it.
        message: String,
    },
    /// The device has no memory left.
    #[error("the GPU is out of memory: {message}")]
    OutOfMemory {
        /// As the device says it.
        message: String,
    },
    /// The device refused something.
    #[error("the GPU refused: {message}")]
    Gpu {
        /// As the device says it.
        message: String,
    },
    /// The caller stopped it; nothing was written.
    #[error("aborted")]
    Aborted,
    /// The caller's quiesce or invalidate hook failed.
    #[error("the {hook} hook failed: {message}")]
    Hook {
        /// Which hook.
        hook: &'static str,
        /// As it says it.
        message: String,
    },
    /// An earlier failure left weights that are neither old nor new: bind and load anew.
    #[error("the receiver is poisoned: {reason}")]
    Poisoned {
        /// What happened.
        reason: String,
    },
    /// The caller passed something that does not fit.
    #[error("misuse: {what}")]
    Misuse {
        /// What does not fit.
        what: String,
    },
}

impl Error {
    /// The problem of a binding that shares memory with another: each cell would be changed twice.
    pub(crate) fn overlap(other: &str) -> String {
        format!("its memory overlaps that of {other}: bind tied weights once, under the checkpoint's name")
    }

    /// Of an undo when nothing is kept for it.
    pub(crate) fn nothing_to_undo() -> Self {
        Self::Misuse { what: "there is no patch that could be taken back".into() }
    }

    /// A stable name for programs; the `code` of the errors that JS sees.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Patch(error) => error.code(),
            Self::Stale { .. } => "stale",
            Self::Mismatch { .. } => "mismatch",
            Self::Binding { .. } => "binding",
            Self::Limit { .. } => "limit",
            Self::Source { .. } => "source",
            Self::NoAdapter { .. } => "no_adapter",
            Self::DeviceLost { .. } => "device_lost",
            Self::OutOfMemory { .. } => "out_of_memory",
            Self::Gpu { .. } => "gpu",
            Self::Aborted => "aborted",
            Self::Hook { .. } => "hook",
            Self::Poisoned { .. } => "poisoned",
            Self::Misuse { .. } => "misuse",
        }
    }
}
