//! What a session starts from, and what it allows.

use pulse_format::{Limits, Step};

/// What a session starts from, and what it lets a patch ask for.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// The step that the weights are, if known. A patch from another is refused before anything is read of it. If not known, it is
    /// taken from the first patch, whose base fingerprints must be right in any case.
    pub step: Option<Step>,
    /// Of a patch's header and segments.
    pub limits: Limits,
    /// Bytes of scratch memory on a device, and as many on the host at most. A segment that needs more gets it.
    pub scratch_bytes: u64,
    /// Bytes that may be kept of a patch, so that it can be taken back: 4 to 16 a change. It is kept whole or not at all, and while one is
    /// written, so is the one before. Without it a failure while several batches are written poisons, and [`Session::undo`](crate::Session::undo) is refused.
    pub undo_bytes: u64,
}

impl Default for Options {
    /// No known step, the format's limits, 16 MiB of scratch memory, 256 MiB for undo.
    fn default() -> Self {
        Self { step: None, limits: Limits::default(), scratch_bytes: 16 << 20, undo_bytes: 256 << 20 }
    }
}
