//! The head: the one object of a channel that changes, its newest entries, and where the older ones are.

use crate::entry::{Entry, fingerprint};
use crate::error::Error;
use crate::hex::{Hash, PublicKey};
use crate::layout::{HEAD_FORMAT, MAX_NUMBER, MAX_ROTATIONS, MAX_RUN_BYTES};
use crate::page::{PageRef, check_order};
use crate::rotation::Rotation;
use crate::time::Time;
use pulse_format::Fingerprint;
use serde::{Deserialize, Serialize};

/// What a publisher says of its channel. Fields that a reader does not know are passed over.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Head {
    /// [`HEAD_FORMAT`].
    pub format: String,
    /// Names the training run; the same in every head of a channel.
    pub run: String,
    /// One more than that of the head before: no receiver goes back.
    pub sequence: u64,
    /// BLAKE3 of the head before, as it was served; the first has none.
    pub previous: Option<Hash>,
    /// When this head was made.
    pub created: Time,
    /// From when on it is not to be believed without a newer one.
    pub expires: Time,
    /// The oldest step that is still promised; entries that touch older ones may be gone.
    pub since: u64,
    /// The newest step.
    pub step: u64,
    /// Of its checkpoint, under seed 0.
    #[serde(with = "fingerprint")]
    pub fingerprint: Fingerprint,
    /// The public key that signs this head.
    pub key: PublicKey,
    /// How the key came to be trusted, the oldest first; those that signed long ago are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub rotations: Vec<Rotation>,
    /// The newest page of older entries.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub history: Option<PageRef>,
    /// The newest entries, by `to`.
    pub entries: Vec<Entry>,
}

impl Head {
    /// Reads the body of a head and checks every rule but the signature.
    ///
    /// # Errors
    /// [`Error::Head`], [`Error::Unsupported`].
    pub fn parse(body: &[u8]) -> Result<Self, Error> {
        crate::json::check_format(body, HEAD_FORMAT, Error::head)?;
        let head: Self = serde_json::from_slice(body).map_err(Error::head)?;
        head.check()?;
        Ok(head)
    }

    /// The body as it is signed and served: one line for each entry, so that people can read it.
    ///
    /// # Errors
    /// [`Error::Head`] for a head that breaks a rule.
    pub fn to_body(&self) -> Result<Vec<u8>, Error> {
        self.check()?;
        crate::json::to_lines(self).map_err(Error::head)
    }

    fn check(&self) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::head(what));
        let numbers = [self.sequence, self.since, self.step];
        if numbers.iter().any(|number| *number > MAX_NUMBER) {
            return refuse("a number is over 2^53 - 1");
        }
        if self.run.is_empty() || self.run.len() > MAX_RUN_BYTES || self.run.chars().any(char::is_control) {
            return refuse("the run's name is empty, longer than 256 bytes, or has control characters");
        }
        if self.previous.is_none() != (self.sequence == 0) {
            return refuse("the first head, and only that, has no head before");
        }
        if self.expires < self.created {
            return refuse("it expires before it was made");
        }
        if self.rotations.len() > MAX_ROTATIONS {
            return refuse("it carries more than 8 key rotations");
        }
        if self.since > self.step {
            return refuse("it promises nothing");
        }
        self.entries.iter().try_for_each(Entry::check)?;
        check_order(&self.entries, self.history.as_ref(), self.step).map_err(Error::head)?;
        let mut newest = self.entries.iter().filter(|entry| entry.to == self.step).peekable();
        if newest.peek().is_none() {
            return refuse("nothing leads to its newest step");
        }
        if newest.any(|entry| entry.fingerprint != self.fingerprint) {
            return refuse("what leads to its newest step has another fingerprint");
        }
        Ok(())
    }
}
