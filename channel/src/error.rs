//! What can be wrong with a channel, by who is at fault.

use crate::hex::{Hash, PublicKey};
use crate::time::Time;
use std::fmt;

/// Everything that heads, pages and plans can answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// These bytes are not a head, or not one that keeps the rules of CHANNEL.md.
    #[error("the head is damaged: {what}")]
    Head {
        /// What is wrong.
        what: String,
    },
    /// The same of a history page, whose hash is right.
    #[error("history page {hash} is damaged: {what}")]
    Page {
        /// Which.
        hash: Hash,
        /// What is wrong.
        what: String,
    },
    /// A head or page of a later version.
    #[error("the channel is written as {found:?}, which this version does not read; update pulse")]
    Unsupported {
        /// What it says of itself.
        found: String,
    },
    /// The head has no signature that holds.
    #[error("the signature of the head does not hold: whoever serves it changed it, or never had the key {key}")]
    Signature {
        /// That should have made it.
        key: PublicKey,
    },
    /// The head is signed by a key that nobody vouched for.
    #[error(
        "the head is signed with the key {found}, and {trusted} never handed over to it; if the publisher says that the key has changed, pin the new one"
    )]
    Key {
        /// The one it is signed with.
        found: PublicKey,
        /// The one that this receiver trusts.
        trusted: PublicKey,
    },
    /// The head was to be renewed before now: somebody may keep newer ones back, or the publisher has stopped.
    #[error("stale since {since}: the head expired then, and no newer one is served{clock}")]
    Expired {
        /// When.
        since: Time,
        /// What the clocks say.
        clock: ClockNote,
    },
    /// The head is from the future.
    #[error("the head was made at {created}, which is yet to come{clock}")]
    Clock {
        /// When it was made.
        created: Time,
        /// What the clocks say.
        clock: ClockNote,
    },
    /// An older head than the newest seen.
    #[error("rolled back: the head served is number {found}, and number {seen} was seen here before")]
    Rollback {
        /// Its number.
        found: u64,
        /// The highest seen.
        seen: u64,
    },
    /// Two heads that cannot both be of one history.
    #[error(
        "forked: head {sequence} is not the one that was seen here before ({what}); one of the two was not published in good order"
    )]
    Fork {
        /// Of the head served.
        sequence: u64,
        /// How it shows.
        what: &'static str,
    },
    /// Another run's channel.
    #[error("this channel is of run {found:?}, not of {expected:?}")]
    WrongRun {
        /// The run that the head names.
        found: String,
        /// The run that was followed here.
        expected: String,
    },
    /// The step asked for is not published, or no longer kept.
    #[error("step {step} cannot be reached: {why}")]
    NoPath {
        /// Which.
        step: u64,
        /// Why not.
        why: String,
    },
    /// Over a limit of this reader.
    #[error("{what} is {found}, over the limit of {limit}")]
    Limit {
        /// Of what.
        what: &'static str,
        /// How much there is.
        found: u64,
        /// How much may be.
        limit: u64,
    },
}

impl Error {
    /// A stable name for programs.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Head { .. } | Self::Page { .. } => "damaged",
            Self::Unsupported { .. } => "unsupported",
            Self::Signature { .. } => "signature",
            Self::Key { .. } => "key",
            Self::Expired { .. } => "expired",
            Self::Clock { .. } => "clock",
            Self::Rollback { .. } => "rollback",
            Self::Fork { .. } => "fork",
            Self::WrongRun { .. } => "wrong_run",
            Self::NoPath { .. } => "no_path",
            Self::Limit { .. } => "limit",
        }
    }

    pub(crate) fn head(what: impl ToString) -> Self {
        Self::Head { what: what.to_string() }
    }
}

impl From<crate::json::Unknown> for Error {
    fn from(unknown: crate::json::Unknown) -> Self {
        Self::Unsupported { found: unknown.found }
    }
}

/// What the clocks at hand say; printed as the end of a sentence.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockNote {
    /// This machine's.
    pub local: Time,
    /// The server's, where it says.
    pub server: Option<Time>,
    /// Whether the server's contradicts this machine's, so that this machine's is to be set.
    pub local_looks_wrong: bool,
}

impl fmt::Display for ClockNote {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "; this machine's clock says {}", self.local)?;
        match (self.server, self.local_looks_wrong) {
            (Some(server), true) => write!(f, ", the server's {server}: set this machine's clock"),
            (Some(server), false) => write!(f, ", the server's {server}"),
            (None, _) => Ok(()),
        }
    }
}
