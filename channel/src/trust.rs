//! What a receiver remembers, so that nobody can lead it back or aside.

use crate::error::{ClockNote, Error};
use crate::hex::{Hash, PublicKey};
use crate::layout::CLOCK_SLACK;
use crate::signed::{SignedHead, TrustedHead};
use crate::time::Time;
use serde::{Deserialize, Serialize};

/// The high-water mark of a receiver, which it keeps on disk. No time of day is in it: a clock that was wrong leaves no trace.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Mark {
    /// The run that is followed.
    pub run: String,
    /// The highest head seen.
    pub sequence: u64,
    /// Its hash.
    pub head: Hash,
    /// The key that signed it.
    pub key: PublicKey,
    /// The key that was pinned then. Whoever pins another decides anew whom to trust.
    pub pinned: PublicKey,
}

/// What time it is, by whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Clock {
    /// By this machine.
    pub local: Time,
    /// By the server, where it says.
    pub server: Option<Time>,
}

/// The key whose word counts for a receiver that pinned `pinned` and remembers `mark`.
///
/// After a rotation that is the newest key seen, so that an old key that was stolen can lead nobody back.
pub fn trusted_key<'a>(pinned: &'a PublicKey, mark: Option<&'a Mark>) -> &'a PublicKey {
    mark.filter(|mark| mark.pinned == *pinned).map_or(pinned, |mark| &mark.key)
}

impl TrustedHead {
    /// Checks the head against what the receiver remembers: the mark to keep from now on, before anything is done by this head.
    ///
    /// # Errors
    /// [`Error::WrongRun`], [`Error::Rollback`], [`Error::Fork`].
    pub fn advance(&self, pinned: &PublicKey, mark: Option<&Mark>) -> Result<Mark, Error> {
        let Self { head, hash } = self;
        if let Some(mark) = mark {
            let fork = |what| Err(Error::Fork { sequence: head.sequence, what });
            if head.run != mark.run {
                return Err(Error::WrongRun { found: head.run.clone(), expected: mark.run.clone() });
            }
            if head.sequence < mark.sequence {
                return Err(Error::Rollback { found: head.sequence, seen: mark.sequence });
            }
            if head.sequence == mark.sequence && *hash != mark.head {
                return fork("the same number, other bytes");
            }
            if head.sequence == mark.sequence + 1 && head.previous != Some(mark.head) {
                return fork("it follows from another head than the one before it");
            }
        }
        Ok(Mark { run: head.run.clone(), sequence: head.sequence, head: *hash, key: head.key, pinned: *pinned })
    }

    /// Whether the head may be believed at this time.
    ///
    /// # Errors
    /// [`Error::Clock`], [`Error::Expired`]: neither says anything of what the receiver holds already.
    pub fn check_time(&self, clock: &Clock) -> Result<(), Error> {
        let Clock { local, server } = *clock;
        let believable = |now: Time| self.head.created <= now.after(CLOCK_SLACK) && now <= self.head.expires;
        let note = ClockNote { local, server, local_looks_wrong: server.is_some_and(believable) };
        if self.head.created > local.after(CLOCK_SLACK) {
            return Err(Error::Clock { created: self.head.created, clock: note });
        }
        if local > self.head.expires {
            return Err(Error::Expired { since: self.head.expires, clock: note });
        }
        Ok(())
    }
}

/// Reads, verifies and checks a head in the order that is safe: signature, then what is remembered, then time.
///
/// # Errors
/// Whatever is wrong with it; the mark is then to stay as it was.
pub fn receive(
    bytes: &[u8],
    pinned: &PublicKey,
    mark: Option<&Mark>,
    clock: &Clock,
    verify: impl Fn(&crate::signed::Check) -> bool,
) -> Result<(TrustedHead, Mark), Error> {
    let head = SignedHead::parse(bytes)?.verify(trusted_key(pinned, mark), verify)?;
    let mark = head.advance(pinned, mark)?;
    head.check_time(clock)?;
    Ok((head, mark))
}
