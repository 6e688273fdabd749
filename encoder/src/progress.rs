//! How a long piece of work reports, and how it is stopped.

/// Told by the library how far it is; asked whether to stop.
pub trait Progress: Sync {
    /// Work of `bytes` bytes of tensors begins.
    fn start(&self, bytes: u64) {
        let _ = bytes;
    }

    /// `bytes` more are done. Called from several threads.
    fn advance(&self, bytes: u64) {
        let _ = bytes;
    }

    /// Whether to stop; what was begun is then undone.
    fn is_cancelled(&self) -> bool {
        false
    }
}

/// Neither reports nor stops.
#[derive(Debug, Clone, Copy)]
pub struct Silent;

impl Progress for Silent {}
