//! Key rotation: the old key says which one comes after it.

use crate::hex::{PublicKey, Signature};
use crate::layout::ROTATION_DOMAIN;
use serde::{Deserialize, Serialize};

/// The key `from` hands over to `to`, from head number `sequence` on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rotation {
    /// The old key, which signs this.
    pub from: PublicKey,
    /// The new key.
    pub to: PublicKey,
    /// The first head that the new key signs.
    pub sequence: u64,
    /// Of [`Rotation::message`], by the old key.
    pub signature: Signature,
}

impl Rotation {
    /// What the old key signs: a domain, both keys, the sequence in eight bytes, little-endian, and the run.
    pub fn message(from: &PublicKey, to: &PublicKey, sequence: u64, run: &str) -> Vec<u8> {
        [ROTATION_DOMAIN, &from.0, &to.0, &sequence.to_le_bytes(), run.as_bytes()].concat()
    }
}
