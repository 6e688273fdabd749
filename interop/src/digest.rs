//! XXH3-128 of cells, as PULSEPT1 and the XOR formats carry it.

use std::fmt;

use xxhash_rust::xxh3::{Xxh3Default, xxh3_128};

use crate::Checkpoint;
use crate::bytes::cells_as_bytes;

/// Cells that are copied, changed and hashed at a time.
const BLOCK: usize = 8 << 10;

/// An XXH3-128 digest in its canonical byte order, most significant byte first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest(pub [u8; 16]);

impl Digest {
    /// Digest of one tensor: of its cells as little-endian bytes. Name and shape are left out.
    pub fn of_cells(cells: &[u16]) -> Self {
        Self(xxh3_128(&cells_as_bytes(cells)).to_be_bytes())
    }

    /// Digest of `cells` with `values` at `positions`, which ascend: copied block by block, so that the copies stay in the
    /// core's own cache.
    pub(crate) fn of_changed(cells: &[u16], positions: &[u64], values: &[u16]) -> Self {
        let mut hasher = Xxh3Default::new();
        let mut changes = positions.iter().zip(values).peekable();
        let mut changed = Vec::with_capacity(BLOCK.min(cells.len()));
        for (start, block) in (0..).step_by(BLOCK).zip(cells.chunks(BLOCK)) {
            changed.clear();
            changed.extend_from_slice(block);
            while let Some((position, value)) = changes.next_if(|(position, _)| **position < start + BLOCK as u64) {
                if let Some(cell) = changed.get_mut((position - start) as usize) {
                    *cell = *value;
                }
            }
            hasher.update(&cells_as_bytes(&changed));
        }
        Self(hasher.digest128().to_be_bytes())
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
    fn changes_are_hashed_as_if_written() {
        let len = 2 * BLOCK + 5;
        let before: Vec<u16> = (0..len).map(|cell| cell as u16).collect();
        let positions = [0, 7, BLOCK - 1, BLOCK, len - 1].map(|position| position as u64);
        for count in 0..=positions.len() {
            let mut after = before.clone();
            positions[..count].iter().for_each(|&position| after[position as usize] ^= 0x8000);
            let values: Vec<u16> = positions[..count].iter().map(|&position| after[position as usize]).collect();
            let found = Digest::of_changed(&before, &positions[..count], &values);
            assert_eq!(found, Digest::of_cells(&after), "{count} changes");
        }
    }

    #[test]
    fn the_empty_input_has_the_published_digest() {
        // The XXH3-128 reference value for no bytes and seed 0.
        assert_eq!(Digest::of_cells(&[]).to_string(), "99aa06d3014798d86001c324468d497f");
    }
}
