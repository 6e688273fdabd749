//! What a channel holds: one line for each object.

use crate::error::Error;
use crate::hex::Hash;
use crate::layout::{MAX_KIND_BYTES, MAX_NUMBER, OBJECTS};
use crate::time::Time;
use pulse_format::Fingerprint;
use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// What an object is.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Kind {
    /// A whole checkpoint, as a patch from nothing.
    Anchor,
    /// From one step to a later one; over more than one step it is a folded patch.
    Patch,
    /// Something that this reader has no use for, and passes over.
    Other(String),
}

impl Kind {
    /// Its name in the channel.
    pub fn name(&self) -> &str {
        match self {
            Self::Anchor => "anchor",
            Self::Patch => "patch",
            Self::Other(name) => name,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Kind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        let letters = name.bytes().all(|letter| matches!(letter, b'a'..=b'z' | b'0'..=b'9' | b'-'));
        match name {
            "anchor" => Ok(Self::Anchor),
            "patch" => Ok(Self::Patch),
            _ if letters && (1..=MAX_KIND_BYTES).contains(&name.len()) => Ok(Self::Other(name.to_string())),
            _ => Err(Error::head("a kind is not 1 to 32 lower case letters, digits and hyphens")),
        }
    }
}

impl Serialize for Kind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for Kind {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

/// One immutable object.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    /// What it is.
    pub kind: Kind,
    /// The step that a patch starts from; an anchor has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<u64>,
    /// The step that it leads to, or is about.
    pub to: u64,
    /// Its length.
    pub bytes: u64,
    /// BLAKE3 of its bytes.
    pub hash: Hash,
    /// Of the checkpoint at step `to`, under seed 0.
    #[serde(with = "fingerprint")]
    pub fingerprint: Fingerprint,
    /// When it was published.
    pub created: Time,
}

impl Entry {
    /// Where it lies in the channel.
    pub fn path(&self) -> String {
        object_path(self.to, &self.kind, &self.hash)
    }

    /// Steps from `from` to `to`; of an anchor none.
    pub fn span(&self) -> u64 {
        self.from.map_or(0, |from| self.to.saturating_sub(from))
    }

    pub(crate) fn check(&self) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::head(format!("the {} of step {} {what}", self.kind, self.to)));
        if self.to > MAX_NUMBER || self.from.is_some_and(|from| from > MAX_NUMBER) || self.bytes > MAX_NUMBER {
            return refuse("has a number over 2^53 - 1");
        }
        match (&self.kind, self.from) {
            (Kind::Anchor, Some(_)) => refuse("says where it starts from"),
            (Kind::Patch, None) => refuse("does not say where it starts from"),
            (Kind::Patch, Some(from)) if from >= self.to => refuse("does not lead forward"),
            _ => Ok(()),
        }
    }
}

/// Where an object lies: its name says what it is, and no two have the same.
pub fn object_path(to: u64, kind: &Kind, hash: &Hash) -> String {
    format!("{OBJECTS}{to}.{kind}.{hash}")
}

/// What the name of an object says, the folder left out; `None` for names that are not ours.
pub fn parse_object_name(name: &str) -> Option<(u64, Kind, Hash)> {
    let (to, rest) = name.split_once('.')?;
    let (kind, hash) = rest.split_once('.')?;
    Some((to.parse().ok()?, kind.parse().ok()?, hash.parse().ok()?))
}

/// Fingerprints as the format writes them: 16 hex digits.
pub(crate) mod fingerprint {
    use super::*;
    use crate::hex::Hex;

    pub(crate) fn serialize<S: Serializer>(value: &Fingerprint, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(value)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Fingerprint, D::Error> {
        let Hex([a0, a1, a2, a3, b0, b1, b2, b3]) = Hex::<8>::deserialize(deserializer)?;
        Ok(Fingerprint { a: u32::from_be_bytes([a0, a1, a2, a3]), b: u32::from_be_bytes([b0, b1, b2, b3]) })
    }
}
