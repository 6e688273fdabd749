//! Why a server does not start.

use std::path::PathBuf;

/// What [`crate::serve`] and [`crate::run`] can answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The folder is none, or cannot be read.
    #[error("cannot serve {}: {source}", path.display())]
    Folder {
        /// Which.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The address is taken, or not this machine's.
    #[error("cannot listen on {address}: {source}")]
    Listen {
        /// Which.
        address: String,
        /// Why not.
        source: std::io::Error,
    },
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        "io"
    }
}
