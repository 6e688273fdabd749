//! What can go wrong between a channel and this machine.

use std::path::{Path, PathBuf};

/// Everything that publisher, follower and stores can answer.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The head, a page or a plan.
    #[error(transparent)]
    Channel(#[from] crate::Error),
    /// A checkpoint or a patch.
    #[error(transparent)]
    Encoder(#[from] pulse_encoder::Error),
    /// The operating system refused.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// What was tried: a verb in the form "cannot read".
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        source: std::io::Error,
    },
    /// The store did not answer, or answered with an error, and went on doing so.
    #[error("cannot {action} {place}: {why}")]
    Store {
        /// What was tried.
        action: &'static str,
        /// On what, without credentials.
        place: String,
        /// The last answer.
        why: String,
    },
    /// The store says that this is not allowed.
    #[error(
        "denied: the store does not let these credentials {action} {place}; where a missing object is to be told from a forbidden one, they need the permission to list too (s3:ListBucket)"
    )]
    Denied {
        /// What was tried.
        action: &'static str,
        /// On what.
        place: String,
    },
    /// There is no channel here.
    #[error(
        "{place} has no head.json: nothing was published there yet, or the address is not that of a channel's folder"
    )]
    NoHead {
        /// Where.
        place: String,
    },
    /// The head names an object, or the history a page, that is not there.
    #[error(
        "announced but missing: {place} is named by the channel and is not there; ask its publisher, or try again later"
    )]
    Missing {
        /// Which.
        place: String,
    },
    /// An object is not the one that was announced.
    #[error("{place} is not what the channel announced: {why}")]
    Swapped {
        /// Which.
        place: String,
        /// What differs.
        why: String,
    },
    /// Somebody else published in the meantime.
    #[error(
        "another publisher was faster: the head is number {found} now, and this step was made for number {expected}; run the same command again"
    )]
    Conflict {
        /// The sequence that was expected.
        expected: u64,
        /// The sequence that is there.
        found: u64,
    },
    /// A step that is lower than the newest one.
    #[error(
        "the run went back from step {newest} to {step}: begin a new channel for a new run, or publish with --rewind to give up the steps after {kept}"
    )]
    WentBack {
        /// The step to be published.
        step: u64,
        /// The newest in the channel.
        newest: u64,
        /// The last that a rewind would keep.
        kept: u64,
    },
    /// Other weights under the number of the newest step.
    #[error(
        "step {step} is published with other weights already (fingerprint {published}, these are {found}); a published step never changes"
    )]
    Published {
        /// Which.
        step: u64,
        /// Of the published weights.
        published: String,
        /// Of these.
        found: String,
    },
    /// Something else uses this folder.
    #[error("{} is in use by another pulse; wait for it or stop it", path.display())]
    Busy {
        /// Which.
        path: PathBuf,
    },
    /// The followed file is not one that a follower wrote, or was changed since.
    #[error(
        "{} was not written by this follower, or was changed since: move it away, or say --overwrite to replace it",
        path.display()
    )]
    Foreign {
        /// Which.
        path: PathBuf,
    },
    /// What was asked for does not fit.
    #[error("{0}")]
    Usage(String),
    /// Stopped by the caller; what is there is whole.
    #[error("interrupted; the next run goes on from here")]
    Interrupted,
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Channel(error) => error.code(),
            Self::Encoder(error) => error.code(),
            Self::Io { .. } => "io",
            Self::Store { .. } => "store",
            Self::Denied { .. } => "denied",
            Self::NoHead { .. } => "no_head",
            Self::Missing { .. } => "missing",
            Self::Swapped { .. } => "swapped",
            Self::Conflict { .. } => "conflict",
            Self::WentBack { .. } => "went_back",
            Self::Published { .. } => "published",
            Self::Busy { .. } => "busy",
            Self::Foreign { .. } => "foreign",
            Self::Usage(_) => "usage",
            Self::Interrupted => "interrupted",
        }
    }

    pub(crate) fn io(action: &'static str, path: &Path) -> impl FnOnce(std::io::Error) -> Self {
        move |source| Self::Io { action, path: path.to_path_buf(), source }
    }
}
