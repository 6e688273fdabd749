//! An order-independent check of cells that a GPU can take.
//!
//! Every tensor is read as 32-bit little-endian words (the last one padded with zeros). A word contributes a mix of
//! its bits, its index and the seed to two sums modulo 2^32. The fingerprint of any set of words is the sum of theirs,
//! so segments add up to tensors and checkpoints whichever way they are cut, and a change updates it by one subtraction and
//! one addition. It guards against divergence, not against forgery.

use crate::layout::{KEY_STEP_A, KEY_STEP_B, PAGE_WORDS, SALT_LAST_SHIFT, SALT_ROUNDS, SALT_STEP};
use core::fmt;
use core::ops::{Add, AddAssign, Sub, SubAssign};

/// Two sums modulo 2^32.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Fingerprint {
    /// First sum.
    pub a: u32,
    /// Second sum.
    pub b: u32,
}

impl Fingerprint {
    /// Of nothing.
    pub const ZERO: Self = Self { a: 0, b: 0 };

    /// Little-endian `a`, then `b`.
    pub fn to_bytes(self) -> [u8; 8] {
        (u64::from(self.b) << 32 | u64::from(self.a)).to_le_bytes()
    }

    /// The inverse of [`Fingerprint::to_bytes`].
    pub fn from_bytes(bytes: [u8; 8]) -> Self {
        let both = u64::from_le_bytes(bytes);
        Self { a: both as u32, b: (both >> 32) as u32 }
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:08x}{:08x}", self.a, self.b)
    }
}

impl Add for Fingerprint {
    type Output = Self;
    #[inline(always)]
    fn add(self, other: Self) -> Self {
        Self { a: self.a.wrapping_add(other.a), b: self.b.wrapping_add(other.b) }
    }
}

impl Sub for Fingerprint {
    type Output = Self;
    #[inline(always)]
    fn sub(self, other: Self) -> Self {
        Self { a: self.a.wrapping_sub(other.a), b: self.b.wrapping_sub(other.b) }
    }
}

impl AddAssign for Fingerprint {
    #[inline(always)]
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

impl SubAssign for Fingerprint {
    #[inline(always)]
    fn sub_assign(&mut self, other: Self) {
        *self = *self - other;
    }
}

impl core::iter::Sum for Fingerprint {
    fn sum<I: Iterator<Item = Self>>(terms: I) -> Self {
        terms.fold(Self::ZERO, Add::add)
    }
}

/// What distinguishes one tensor's words from another's: derived from the seed and the tensor's place in the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Salt {
    /// First key of index 0; odd.
    pub a: u32,
    /// Second key of index 0; odd.
    pub b: u32,
}

impl Salt {
    /// For the words of table entry `tensor` in its `page` of 2^31 words.
    pub fn new(seed: u64, tensor: u32, page: u32) -> Self {
        // SplitMix64's finaliser over seed and place.
        let place = u64::from(page) << 32 | u64::from(tensor);
        let mut x = seed ^ place.wrapping_add(1).wrapping_mul(SALT_STEP);
        for (shift, factor) in SALT_ROUNDS {
            x = (x ^ (x >> shift)).wrapping_mul(factor);
        }
        x ^= x >> SALT_LAST_SHIFT;
        Self { a: x as u32 | 1, b: (x >> 32) as u32 | 1 }
    }

    /// What the word `word` at `index` (modulo 2^32) contributes.
    #[inline(always)]
    pub fn word(self, word: u32, index: u32) -> Fingerprint {
        self.keys(index).mix(word)
    }

    /// The sum over consecutive words, the first of which has the index `first` (modulo 2^32).
    #[inline(always)]
    pub fn words(self, words: &[[u8; 4]], first: u32) -> Fingerprint {
        let mut sum = Fingerprint::ZERO;
        let mut keys = self.keys(first);
        for word in words {
            sum += keys.mix(u32::from_le_bytes(*word));
            keys = keys.next();
        }
        sum
    }

    /// The keys of the word at `index` (modulo 2^32).
    #[inline(always)]
    pub(crate) fn keys(self, index: u32) -> Keys {
        Keys {
            a: self.a.wrapping_add(index.wrapping_mul(KEY_STEP_A)),
            b: self.b.wrapping_add(index.wrapping_mul(KEY_STEP_B)),
        }
    }
}

/// What a word is mixed with: a salt and an index.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Keys {
    pub(crate) a: u32,
    pub(crate) b: u32,
}

impl Keys {
    /// Of the word behind. An addition, where the index would need a multiplication.
    #[inline(always)]
    pub(crate) fn next(self) -> Self {
        Self { a: self.a.wrapping_add(KEY_STEP_A), b: self.b.wrapping_add(KEY_STEP_B) }
    }

    #[inline(always)]
    pub(crate) fn mix(self, word: u32) -> Fingerprint {
        // Every step is a bijection of the word, since keys are odd. Multiplying by a number that each place has of its own is what keeps
        // like changes of several words from cancelling; one constant would take another multiplication to do that.
        let mut x = word ^ self.a;
        x ^= x >> 16;
        x = x.wrapping_mul(self.b);
        x ^= x >> 16;
        Fingerprint { a: x, b: x.wrapping_mul(self.a) }
    }
}

/// The page of a word of a tensor.
#[inline(always)]
pub(crate) fn page(word: u64) -> u32 {
    (word / PAGE_WORDS) as u32
}

/// The fingerprint of `bytes`, which start at word `first_word` of table entry `tensor`.
///
/// Bytes past the last whole word are padded with zeros, as the end of a tensor is.
#[inline(always)]
pub fn fingerprint(bytes: &[u8], seed: u64, tensor: u32, first_word: u64) -> Fingerprint {
    let (words, tail) = bytes.as_chunks::<4>();
    let mut sum = Fingerprint::ZERO;
    let mut index = first_word;
    let mut rest = words;
    while !rest.is_empty() {
        let in_page =
            usize::try_from(PAGE_WORDS - index % PAGE_WORDS).map_or(rest.len(), |words| words.min(rest.len()));
        let (now, later) = rest.split_at(in_page);
        sum += Salt::new(seed, tensor, page(index)).words(now, index as u32);
        index += in_page as u64;
        rest = later;
    }
    if !tail.is_empty() {
        sum += Salt::new(seed, tensor, page(index)).word(padded_word(tail), index as u32);
    }
    sum
}

/// Up to four bytes as a little-endian word, zeros above.
#[inline(always)]
pub(crate) fn padded_word(bytes: &[u8]) -> u32 {
    let mut word = [0; 4];
    word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
    u32::from_le_bytes(word)
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    fn noise(bytes: usize) -> Vec<u8> {
        let mut x = 1u32;
        (0..bytes)
            .map(|_| {
                x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (x >> 24) as u8
            })
            .collect()
    }

    /// The definition, word by word: what every fast path must equal.
    fn naive(bytes: &[u8], seed: u64, tensor: u32, first_word: u64) -> Fingerprint {
        bytes
            .chunks(4)
            .zip(first_word..)
            .map(|(word, i)| Salt::new(seed, tensor, page(i)).word(padded_word(word), i as u32))
            .sum()
    }

    #[test]
    fn fast_paths_equal_the_definition() {
        let bytes = noise(5000);
        for (length, first) in [
            (0, 0),
            (1, 0),
            (4, 7),
            (31, 9),
            (1023, 0),
            (1024, 1),
            (5000, 0),
            (5000, (1 << 31) - 300),
            (5000, (1 << 32) - 300),
            (4999, (3 << 32) - 1),
        ] {
            assert_eq!(
                fingerprint(&bytes[..length], 5, 3, first),
                naive(&bytes[..length], 5, 3, first),
                "{length} {first}"
            );
        }
    }

    #[test]
    fn parts_add_up_and_changes_update() {
        let mut bytes = noise(4096);
        let whole = fingerprint(&bytes, 1, 2, 0);
        assert_eq!(fingerprint(&bytes[..1000], 1, 2, 0) + fingerprint(&bytes[1000..], 1, 2, 250), whole);
        let salt = Salt::new(1, 2, 0);
        let before = salt.word(padded_word(&bytes[400..404]), 100);
        bytes[402] ^= 0x80;
        assert_eq!(whole - before + salt.word(padded_word(&bytes[400..404]), 100), fingerprint(&bytes, 1, 2, 0));
    }

    #[test]
    fn place_seed_and_every_bit_count() {
        let bytes = noise(64);
        let whole = fingerprint(&bytes, 1, 2, 0);
        assert_ne!(fingerprint(&bytes, 2, 2, 0), whole);
        assert_ne!(fingerprint(&bytes, 1, 3, 0), whole);
        assert_ne!(fingerprint(&bytes, 1, 2, 1), whole);
        for bit in 0..512 {
            let mut flipped = bytes.clone();
            flipped[bit / 8] ^= 1 << (bit % 8);
            let other = fingerprint(&flipped, 1, 2, 0);
            assert!(other.a != whole.a && other.b != whole.b, "each lane alone sees a change of one word (bit {bit})");
        }
    }

    #[test]
    fn pairs_of_like_changes_do_not_cancel() {
        // Sign flips in two words are the classic way to fool a sum: over all pairs of 64 words none may cancel in
        // both lanes, and few in one.
        let bytes = noise(256);
        let whole = fingerprint(&bytes, 9, 0, 0);
        for i in 0..64 {
            for j in 0..i {
                let mut flipped = bytes.clone();
                flipped[4 * i + 3] ^= 0x80;
                flipped[4 * j + 3] ^= 0x80;
                assert_ne!(fingerprint(&flipped, 9, 0, 0), whole);
                assert_ne!(fingerprint(&flipped, 9, 0, 0).a, whole.a);
            }
        }
    }

    /// Values from an independent implementation of FORMAT.md: every other one must give these.
    #[test]
    fn known_values() {
        let bytes: Vec<u8> = (0..=255u16).map(|x| x as u8).collect();
        assert_eq!(std::format!("{}", fingerprint(&bytes, 0, 0, 0)), "9ff0885f83822ac9");
        assert_eq!(std::format!("{}", fingerprint(&bytes[..5], 7, 1, 1 << 33)), "f8b4b548450be45c");
    }
}
