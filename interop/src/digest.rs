//! XXH3-128 of cells, as PULSEPT1 and the XOR formats carry it.

use std::fmt;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::Checkpoint;
use crate::bytes::cells_as_bytes;

/// An XXH3-128 digest in its canonical byte order, most significant byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Digest of one tensor: of its cells as little-endian bytes. Name and shape are left out.
    pub fn of_cells(cells: &[u16]) -> Self {
        Self(xxh3_128(&cells_as_bytes(cells)).to_be_bytes())
    }

    /// Digest of a state: of the digests of its tensors, concatenated in ascending order of the tensors' names.
    pub fn of_digests<'d>(digests: impl IntoIterator<Item = &'d Digest>) -> Self {
        let mut hasher = Xxh3Default::new();
        for digest in digests {
            hasher.update(&digest.0);
        }
        Self(hasher.digest128().to_be_bytes())
    }

    /// Digest of a whole checkpoint.
    pub fn of_state(checkpoint: &Checkpoint<'_>) -> Self {
        let digests: Vec<Self> = checkpoint.tensors().iter().map(|tensor| Self::of_cells(tensor.cells)).collect();
        Self::of_digests(&digests)
    }

    /// Reads 32 hexadecimal digits; `None` when `text` is anything else.
    pub fn from_hex(text: &str) -> Option<Self> {
        if text.len() != 32 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return None;
        }
        u128::from_str_radix(text, 16).ok().map(|number| Self(number.to_be_bytes()))
    }
}

impl fmt::Display for Digest {
    /// Writes 32 lower-case hexadecimal digits.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", u128::from_be_bytes(self.0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hex_round_trips() {
        let digest = Digest::of_cells(&[1, 2, 3]);
        assert_eq!(Digest::from_hex(&digest.to_string()), Some(digest));
        for bad in ["", "0", "+0000000000000000000000000000000", "g0000000000000000000000000000000"] {
            assert_eq!(Digest::from_hex(bad), None);
        }
    }

    #[test]
    fn the_empty_input_has_the_published_digest() {
        // The XXH3-128 reference value for no bytes and seed 0.
        assert_eq!(Digest::of_cells(&[]).to_string(), "99aa06d3014798d86001c324468d497f");
    }
}
