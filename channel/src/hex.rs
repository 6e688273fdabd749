//! Fixed numbers of bytes, as text in lower case hex.

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};
use std::fmt;
use std::str::FromStr;

/// `N` bytes that are written as `2 N` hex digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Hex<const N: usize>(pub [u8; N]);

/// BLAKE3 of an object, a page or a head.
pub type Hash = Hex<32>;
/// An Ed25519 public key.
pub type PublicKey = Hex<32>;
/// An Ed25519 signature.
pub type Signature = Hex<64>;

/// BLAKE3 of `bytes`.
pub fn hash(bytes: &[u8]) -> Hash {
    Hex(*blake3::hash(bytes).as_bytes())
}

/// A text that is not the hex digits it should be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("not {digits} hex digits in lower case")]
pub struct NotHex {
    /// How many there should be.
    pub digits: usize,
}

fn digit(letter: u8) -> Option<u8> {
    match letter {
        b'0'..=b'9' => Some(letter - b'0'),
        b'a'..=b'f' => Some(letter - b'a' + 10),
        _ => None,
    }
}

impl<const N: usize> FromStr for Hex<N> {
    type Err = NotHex;

    fn from_str(text: &str) -> Result<Self, NotHex> {
        let refused = NotHex { digits: 2 * N };
        let (pairs, rest) = text.as_bytes().as_chunks::<2>();
        if pairs.len() != N || !rest.is_empty() {
            return Err(refused);
        }
        let mut bytes = [0; N];
        for (byte, [high, low]) in bytes.iter_mut().zip(pairs) {
            *byte = digit(*high).zip(digit(*low)).map(|(high, low)| high << 4 | low).ok_or(refused)?;
        }
        Ok(Self(bytes))
    }
}

impl<const N: usize> fmt::Display for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl<const N: usize> fmt::Debug for Hex<N> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl<const N: usize> Serialize for Hex<N> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de, const N: usize> Deserialize<'de> for Hex<N> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}
