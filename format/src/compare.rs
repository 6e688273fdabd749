//! Base against target, a block at a time: which cells differ, and what both add to the fingerprints.

use crate::cell::FloatCell;
use crate::fingerprint::{Fingerprint, Salt, padded_word};
use crate::layout::BLOCK_CELLS;
use crate::masks::{Aligned, Masks};

/// Bytes that are compared at once: a block of two-byte cells.
pub(crate) const COMPARED_BYTES: usize = 2 * BLOCK_CELLS;
const WORDS: usize = COMPARED_BYTES / 4;

/// How each word of up to [`COMPARED_BYTES`] of a base differs from the target's.
pub(crate) struct Differences(Aligned<[u32; WORDS]>);

impl Differences {
    pub(crate) fn new() -> Self {
        Self(Aligned([0; WORDS]))
    }

    /// Fingerprints the base and notes how each word of the target differs: one loop, so that both come from memory together.
    #[inline(always)]
    pub(crate) fn compare(&mut self, base: &[u8], target: &[u8], salt: Salt, first_word: u32) -> Fingerprint {
        let (base_words, base_tail) = base.as_chunks::<4>();
        let (target_words, target_tail) = target.as_chunks::<4>();
        if base_words.len() < WORDS {
            self.0.0.fill(0);
        }
        let mut sum = Fingerprint::ZERO;
        let mut keys = salt.keys(first_word);
        for ((base, target), difference) in base_words.iter().zip(target_words).zip(&mut self.0.0) {
            let base = u32::from_le_bytes(*base);
            *difference = base ^ u32::from_le_bytes(*target);
            sum += keys.mix(base);
            keys = keys.next();
        }
        if let (false, Some(difference)) = (base_tail.is_empty(), self.0.0.get_mut(base_words.len())) {
            let base = padded_word(base_tail);
            *difference = base ^ padded_word(target_tail);
            sum += salt.word(base, first_word.wrapping_add(base_words.len() as u32));
        }
        sum
    }

    /// Calls `visit` with each word that differs, in order, and how.
    #[inline(always)]
    pub(crate) fn for_each(&self, masks: impl Masks, mut visit: impl FnMut(usize, u32)) {
        for (group, start) in self.0.0.as_chunks::<64>().0.iter().zip((0..).step_by(64)) {
            let mut hits = masks.nonzero(group);
            while hits != 0 {
                let i = hits.trailing_zeros() as usize;
                hits &= hits - 1;
                visit(start + i, group.get(i).copied().unwrap_or_default());
            }
        }
    }
}

/// The 32-bit word from byte `start` on, padded with zeros beyond the end.
#[inline(always)]
pub(crate) fn word_at(bytes: &[u8], start: usize) -> u32 {
    let rest = bytes.get(start..).unwrap_or_default();
    rest.first_chunk().map_or_else(|| padded_word(rest), |word| u32::from_le_bytes(*word))
}

/// The cell at `place`, 0 beyond the end.
#[inline(always)]
pub(crate) fn cell_at<C: FloatCell>(bytes: &[u8], place: usize) -> u16 {
    if C::BYTES == 2 {
        bytes.as_chunks::<2>().0.get(place).map_or(0, |cell| u16::from_le_bytes(*cell))
    } else {
        bytes.get(place).map_or(0, |cell| u16::from(*cell))
    }
}
