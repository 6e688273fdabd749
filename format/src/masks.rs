//! Masks and counts over rows of bytes: the few operations that a compiler's vectoriser does not find in plain loops.
//!
//! The kernels take a [`Masks`] and do the same with each. [`Portable`] is the definition; a crate that may use a CPU's own
//! instructions brings an implementation that proves the CPU has them.

use crate::layout::CLASSES;

/// Cells that are looked at side by side, a byte each for their class.
pub type Row = [u8; ROW_CELLS];
/// Cells in a row.
pub const ROW_CELLS: usize = 64;

/// Rows that are counted together.
pub type RowPair = [Row; 2];
/// Not a class: beyond the end of the cells.
pub const NO_CLASS: u8 = 0xff;

/// Words whose differences share a mask.
pub const GROUP_WORDS: usize = 64;

/// Starts where a cache line does, so that no row lies in two.
#[derive(Debug, Clone)]
#[repr(align(64))]
pub(crate) struct Aligned<T>(pub(crate) T);

/// Operations on rows. `self` is the proof that this CPU can do them.
pub trait Masks: Copy {
    /// Bit `i` is set where byte `i` equals `byte`, which is below 128.
    fn equal(self, row: &Row, byte: u8) -> u64;

    /// Bit `i` is set where word `i` is not 0.
    #[inline(always)]
    fn nonzero(self, words: &[u32; GROUP_WORDS]) -> u64 {
        const PART: usize = 16;
        let mut mask = 0;
        for (part, place) in words.as_chunks::<PART>().0.iter().zip((0..).step_by(PART)) {
            if *part != [0; PART] {
                let bits = part.iter().zip(0..).fold(0, |bits, (word, bit)| bits | u64::from(*word != 0) << bit);
                mask |= bits << place;
            }
        }
        mask
    }

    /// Asks for the first `length` of bytes that will be read soon; changes nothing.
    #[inline(always)]
    fn prefetch(self, _bytes: &[u8], _length: usize) {}

    /// How many bytes are 0, 1, … and 31. Every byte is one of these or [`NO_CLASS`], which is not counted; those that are not in the bit set
    /// `wanted` need not be.
    fn count_classes(self, rows: &RowPair, wanted: u32) -> [u8; CLASSES];

    /// The place of the set bit that has `rank` set bits below it; 64 if there is none.
    #[inline(always)]
    fn select(self, mask: u64, rank: u32) -> u32 {
        let mut left = mask;
        for _ in 0..rank.min(64) {
            left &= left.wrapping_sub(1);
        }
        left.trailing_zeros()
    }
}

/// Plain Rust, for any CPU.
#[derive(Debug, Clone, Copy, Default)]
pub struct Portable;

/// Eight bytes of a row as a word, and the constants to work on all of them at once.
const WORD: usize = 8;
const LOW_BITS: u64 = u64::MAX / 0xff;
const HIGH_BITS: u64 = LOW_BITS << 7;

impl Portable {
    /// The top bits of eight bytes, gathered.
    #[inline(always)]
    fn gather(row: &Row, tops: impl Fn(u64) -> u64) -> u64 {
        // Each top bit is moved to a place of its own in the top byte; no two meet.
        const TO_TOP_BYTE: u64 = 0x0002_0408_1020_4081;
        let words = row.as_chunks::<WORD>().0.iter().zip((0..).step_by(WORD));
        words.fold(0, |mask, (word, place)| {
            mask | (tops(u64::from_le_bytes(*word)).wrapping_mul(TO_TOP_BYTE) >> 56) << place
        })
    }
}

impl Masks for Portable {
    #[inline(always)]
    fn equal(self, row: &Row, byte: u8) -> u64 {
        let pattern = LOW_BITS * u64::from(byte);
        // A byte whose top bit differs from the pattern's does not equal it, whatever its low bits.
        Self::gather(row, |word| {
            let differing = word ^ pattern;
            !((differing | HIGH_BITS).wrapping_sub(LOW_BITS) | differing) & HIGH_BITS
        })
    }

    #[inline(always)]
    fn count_classes(self, rows: &RowPair, wanted: u32) -> [u8; CLASSES] {
        let row = rows.as_flattened();
        let mut counts = [0; CLASSES];
        // Of weights, 128 in a row have some nine exponents side by side: counting those is cheaper than counting all.
        let first = row.iter().copied().fold(u8::MAX, u8::min);
        let last = row.iter().copied().fold(0, u8::max);
        for (class, count) in (0u8..).zip(&mut counts).take(usize::from(last) + 1).skip(usize::from(first)) {
            if wanted >> class & 1 == 0 {
                continue;
            }
            // Without this the compiler compares 32-bit lanes with the loop's counter: 5 times slower.
            let class = core::hint::black_box(class);
            *count = row.iter().map(|byte| u8::from(*byte == class)).sum();
        }
        counts
    }
}

/// Holds an implementation to the definition, for the tests of the crates that bring one.
///
/// # Panics
/// If any result differs.
#[doc(hidden)]
pub fn check(masks: impl Masks) {
    let mut x = 1u32;
    let mut next = || {
        x = x.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        x >> 16
    };
    let mut row: Row = [0; ROW_CELLS];
    let mut last = row;
    for spread in [1, 2, 5, 32, 128, 256] {
        row.iter_mut().for_each(|byte| *byte = (next() % spread) as u8);
        let bits = |keep: &dyn Fn(u8) -> bool| row.iter().zip(0..).fold(0u64, |m, (b, i)| m | u64::from(keep(*b)) << i);
        let classes = row.map(|byte| if usize::from(byte) < CLASSES { byte } else { NO_CLASS });
        let wanted = next() << 16 | next();
        let [counts, some] = [u32::MAX, wanted].map(|wanted| masks.count_classes(&[classes, last], wanted));
        for byte in 0..128u8 {
            let expected = bits(&|other| other == byte);
            assert_eq!(masks.equal(&row, byte), expected, "equal to {byte}");
            if let Some((count, wanted_count)) = counts.get(usize::from(byte)).zip(some.get(usize::from(byte))) {
                assert!(wanted >> byte & 1 == 0 || wanted_count == count, "count of {byte} among those wanted");
                let of_last = last.iter().filter(|other| **other == byte).count();
                assert_eq!(usize::from(*count), expected.count_ones() as usize + of_last, "count of {byte}");
            }
        }
        last = classes;
        let words = core::array::from_fn(|_| if next() % spread == 0 { 0 } else { 1 << (next() % 32) });
        let expected = words.iter().zip(0..).fold(0u64, |mask, (word, bit)| mask | u64::from(*word != 0) << bit);
        assert_eq!(masks.nonzero(&words), expected);
        let places = (0..64).filter(|bit| expected >> bit & 1 == 1).chain([64, 64]);
        for (rank, place) in (0..).zip(places) {
            assert_eq!(masks.select(expected, rank), place);
        }
    }
    assert_eq!(masks.select(u64::MAX, u32::MAX), 64);
}

#[cfg(test)]
mod tests {
    #[test]
    fn plain_rust_fits_the_definition() {
        super::check(super::Portable);
    }
}
