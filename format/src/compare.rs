//! Base against target, a strip at a time: which words differ, and what the base adds to its fingerprint.

use crate::cell::FloatCell;
use crate::fingerprint::{Fingerprint, Salt, padded_word};
use crate::masks::{Aligned, GROUP_WORDS, Masks};
use crate::region::REGION_CELLS;

/// Bytes that are compared at once: so few that the memory asked for meanwhile is never more than can be on its way.
pub(crate) const STRIP_BYTES: usize = 1 << 10;
/// Words of a strip.
pub(crate) const STRIP_WORDS: usize = STRIP_BYTES / 4;

/// Fingerprints a strip of the base, or less, which begins at `first_word`, and adds the places of the words that differ in the target,
/// counted from `start`, to `places`.
#[inline(always)]
pub(crate) fn compare(
    masks: impl Masks,
    [base, target]: [&[u8]; 2],
    (salt, first_word): (Salt, u32),
    start: usize,
    places: &mut WordPlaces,
) -> Fingerprint {
    let (base_words, base_tail) = base.as_chunks::<4>();
    let (target_words, target_tail) = target.as_chunks::<4>();
    let mut differences = Aligned([0; STRIP_WORDS]);
    let mut sum = Fingerprint::ZERO;
    let mut keys = salt.keys(first_word);
    // One loop, so that both sides come from memory together.
    for ((base, target), difference) in base_words.iter().zip(target_words).zip(&mut differences.0) {
        let base = u32::from_le_bytes(*base);
        *difference = base ^ u32::from_le_bytes(*target);
        sum += keys.mix(base);
        keys = keys.next();
    }
    if let (false, Some(difference)) = (base_tail.is_empty(), differences.0.get_mut(base_words.len())) {
        let base = padded_word(base_tail);
        *difference = base ^ padded_word(target_tail);
        sum += salt.word(base, first_word.wrapping_add(base_words.len() as u32));
    }
    for (group, start) in differences.0.as_chunks().0.iter().zip((start..).step_by(GROUP_WORDS)) {
        places.extend(start, masks.nonzero(group));
    }
    sum
}

/// Places of words within a region, in order.
pub(crate) struct WordPlaces {
    /// With room for a group that is written before it is known how much of it counts.
    places: [u16; REGION_CELLS / 2 + GROUP_WORDS],
    count: usize,
}

impl WordPlaces {
    pub(crate) fn new() -> Self {
        Self { places: [0; _], count: 0 }
    }

    pub(crate) fn clear(&mut self) {
        self.count = 0;
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = usize> {
        self.places.iter().take(self.count).map(|place| usize::from(*place))
    }

    /// Adds the place of each set bit, in order; the first bit is of place `start`.
    #[inline(always)]
    fn extend(&mut self, start: usize, mut mask: u64) {
        // Few are set, but how many cannot be predicted: so many are written without a branch.
        const ALWAYS: usize = 4;
        let Some(room) = self.places.get_mut(self.count..).and_then(<[u16]>::first_chunk_mut::<GROUP_WORDS>) else {
            return;
        };
        let count = mask.count_ones() as usize;
        let (first, rest) = room.split_at_mut(ALWAYS);
        let mut next = |place: &mut u16| {
            *place = start as u16 + mask.trailing_zeros() as u16;
            mask &= mask.wrapping_sub(1);
        };
        first.iter_mut().for_each(&mut next);
        rest.iter_mut().take(count.saturating_sub(ALWAYS)).for_each(&mut next);
        self.count += count;
    }
}

/// The 32-bit word at `place`, padded with zeros at the end of the bytes.
#[inline(always)]
pub(crate) fn word_at(bytes: &[u8], place: usize) -> u32 {
    let (words, tail) = bytes.as_chunks();
    words.get(place).map_or_else(|| padded_word(tail), |word| u32::from_le_bytes(*word))
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
