//! Base against target, a block at a time: which cells differ, and what both add to the fingerprints.

use crate::cell::FloatCell;
use crate::fingerprint::{Fingerprint, Salt, padded_word};
use crate::layout::BLOCK_CELLS;

/// Collects numbers without a branch: each is written, and kept only if it counts. `N` is a power of two.
pub(crate) struct Collected<const N: usize> {
    numbers: [u16; N],
    count: usize,
}

impl<const N: usize> Collected<N> {
    pub(crate) fn new() -> Self {
        const { assert!(N.is_power_of_two()) };
        Self { numbers: [0; N], count: 0 }
    }

    #[inline(always)]
    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    /// At most `N` numbers may count.
    #[inline(always)]
    pub(crate) fn push_if(&mut self, number: usize, counts: bool) {
        #[expect(clippy::indexing_slicing, reason = "the mask keeps it below the array's length")]
        {
            self.numbers[self.count & (N - 1)] = number as u16;
        }
        self.count += usize::from(counts);
    }

    #[inline(always)]
    pub(crate) fn get(&self) -> &[u16] {
        self.numbers.get(..self.count).unwrap_or_default()
    }
}

/// Bytes that are compared at once: a block of two-byte cells.
pub(crate) const COMPARED_BYTES: usize = 2 * BLOCK_CELLS;
const WORDS: usize = COMPARED_BYTES / 4;
const GROUP: usize = 8;

/// What was found in up to [`COMPARED_BYTES`], from coarse to fine.
pub(crate) struct Found {
    /// Each word of the base XOR that of the target.
    differences: [u32; WORDS],
    /// Groups of words with a difference.
    groups: Collected<{ WORDS / GROUP }>,
    /// Words with a difference.
    words: Collected<WORDS>,
}

impl Found {
    pub(crate) fn new() -> Self {
        Self { differences: [0; WORDS], groups: Collected::new(), words: Collected::new() }
    }

    /// Fingerprints the base and notes how each word of the target differs: one loop, so that both come from memory together.
    #[inline(always)]
    pub(crate) fn compare(&mut self, base: &[u8], target: &[u8], salt: Salt, first_word: u32) -> Fingerprint {
        let (base_words, base_tail) = base.as_chunks::<4>();
        let (target_words, target_tail) = target.as_chunks::<4>();
        if base_words.len() < WORDS {
            self.differences.fill(0);
        }
        let mut sum = Fingerprint::ZERO;
        let mut keys = salt.keys(first_word);
        for ((base, target), difference) in base_words.iter().zip(target_words).zip(&mut self.differences) {
            let base = u32::from_le_bytes(*base);
            *difference = base ^ u32::from_le_bytes(*target);
            sum += keys.mix(base);
            keys = keys.next();
        }
        if let (false, Some(difference)) = (base_tail.is_empty(), self.differences.get_mut(base_words.len())) {
            let base = padded_word(base_tail);
            *difference = base ^ padded_word(target_tail);
            sum += salt.word(base, first_word.wrapping_add(base_words.len() as u32));
        }
        sum
    }

    /// Lists the words that differ, and returns what those of the target add over those of the base.
    #[inline(always)]
    pub(crate) fn list(&mut self, base: &[u8], salt: Salt, first_word: u32) -> Fingerprint {
        let Self { differences, groups, words } = self;
        groups.clear();
        words.clear();
        let all = differences.as_chunks::<GROUP>().0;
        for (number, group) in all.iter().enumerate() {
            groups.push_if(number, *group != [0; GROUP]);
        }
        for number in groups.get() {
            let number = usize::from(*number);
            for (word, difference) in all.get(number).into_iter().flatten().enumerate() {
                words.push_if(number * GROUP + word, *difference != 0);
            }
        }
        let mut sum = Fingerprint::ZERO;
        for (word, difference) in self.words() {
            let keys = salt.keys(first_word.wrapping_add(word as u32));
            let before = word_at(base, 4 * word);
            sum += keys.mix(before ^ difference) - keys.mix(before);
        }
        sum
    }

    /// The words that differ, in order, and how.
    #[inline(always)]
    pub(crate) fn words(&self) -> impl Iterator<Item = (usize, u32)> {
        let difference = |word: usize| self.differences.get(word).copied().unwrap_or_default();
        self.words.get().iter().map(move |word| (usize::from(*word), difference(usize::from(*word))))
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
