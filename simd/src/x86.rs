//! Masks by the vector instructions of x86-64. Each type can only be had where the CPU has them.

#![expect(unsafe_code, reason = "intrinsics behind types that prove the CPU has them; each block says why it is sound")]

use core::arch::x86_64::*;
use pulse_format::layout::CLASSES;
use pulse_format::masks::{GROUP_WORDS, Masks, Portable, ROW_CELLS, Row, RowPair};

/// Proof of AVX2 and the bit instructions that come with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

/// Proof of AVX-512 as all CPUs since Ice Lake and Zen 4 have it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx512(());

impl Avx2 {
    pub(crate) fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        found.then_some(Self(()))
    }
}

impl Avx512 {
    pub(crate) fn detect() -> Option<Self> {
        let found = Avx2::detect().is_some()
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512vbmi")
            && is_x86_feature_detected!("avx512bitalg")
            && is_x86_feature_detected!("avx512vpopcntdq")
            && is_x86_feature_detected!("gfni");
        found.then_some(Self(()))
    }
}

/// Defines methods that call a function compiled with more features than its caller.
macro_rules! masks {
    ($proof:ident, $features:literal, $(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)+) => {
        impl Masks for $proof {
            #[inline(always)]
            fn prefetch(self, bytes: &[u8], length: usize) {
                for line in (0..length).step_by(64) {
                    // SAFETY: a prefetch reads nothing that the program sees, and of any address.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(bytes.as_ptr().wrapping_add(line).cast()) };
                }
            }

            $(
            #[inline(always)]
            fn $name(self, $($arg: $type),*) -> $result {
                #[inline]
                #[target_feature(enable = $features)]
                fn with_features($($arg: $type),*) -> $result $body
                // SAFETY: `self` exists only where `detect` found every one of these features.
                unsafe { with_features($($arg),*) }
            }
            )+
        }
    };
}

masks! { Avx2, "avx2,bmi1,bmi2,lzcnt,popcnt",
    fn equal(row: &Row, byte: u8) -> u64 {
        let equal = |half: &[u8; 32]| {
            // SAFETY: the array has the 32 bytes that are loaded, and any alignment will do.
            let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(half, _mm256_set1_epi8(byte as i8))) as u32
        };
        let (low, high) = halves(row);
        u64::from(equal(low)) | u64::from(equal(high)) << 32
    }
    fn count_classes(rows: &RowPair, wanted: u32) -> [u8; CLASSES] {
        Portable.count_classes(rows, wanted)
    }
    fn nonzero(words: &[u32; GROUP_WORDS]) -> u64 {
        let mut mask = 0;
        for (words, place) in words.as_chunks::<8>().0.iter().zip((0..).step_by(8)) {
            // SAFETY: the array has the 32 bytes that are loaded, and any alignment will do.
            let words = unsafe { _mm256_loadu_si256(words.as_ptr().cast()) };
            let zero = _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_cmpeq_epi32(words, _mm256_setzero_si256())));
            mask |= u64::from(zero as u8) << place;
        }
        !mask
    }
    fn select(mask: u64, rank: u32) -> u32 {
        _pdep_u64(1u64.checked_shl(rank).unwrap_or_default(), mask).trailing_zeros()
    }
}

fn halves(row: &Row) -> (&[u8; 32], &[u8; 32]) {
    let (halves, _) = row.as_chunks::<32>();
    (&halves[0], &halves[1])
}

masks! { Avx512, "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt",
    fn equal(row: &Row, byte: u8) -> u64 {
        // SAFETY: a row has the 64 bytes that are loaded, and any alignment will do.
        let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
        _mm512_cmpeq_epi8_mask(row, _mm512_set1_epi8(byte as i8))
    }
    fn count_classes(rows: &RowPair, _wanted: u32) -> [u8; CLASSES] {
        // SAFETY: a row has the 64 bytes that are loaded, and any alignment will do.
        let rows = [0, 1].map(|row: usize| unsafe { _mm512_loadu_si512(rows[row].as_ptr().cast()) });
        // Of eight classes at a time: a byte for each cell with the bit of its class, which a product with the unit matrix
        // transposes within eight bytes, so that byte `i` has a bit for each cell of class `i`.
        let counts = |group: usize| {
            // SAFETY: an array of the table has the 64 bytes that are loaded, and any alignment will do.
            let bits = unsafe { _mm512_loadu_si512(CLASS_BITS[group].as_ptr().cast()) };
            let [low, high] = rows.map(|row| {
                let cells = _mm512_permutexvar_epi8(row, bits);
                _mm512_popcnt_epi8(_mm512_gf2p8affine_epi64_epi8::<0>(_mm512_set1_epi64(UNIT_MATRIX), cells))
            });
            _mm512_add_epi8(low, high)
        };
        // Each group's eight words are added up, in pairs of groups.
        let pair = |a: __m512i, b: __m512i| _mm512_add_epi8(_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b));
        let (low, high) = (pair(counts(0), counts(1)), pair(counts(2), counts(3)));
        let halves =
            _mm512_add_epi8(_mm512_shuffle_i64x2::<0b01_00_01_00>(low, high), _mm512_shuffle_i64x2::<0b11_10_11_10>(low, high));
        let sums = _mm512_add_epi8(halves, _mm512_shuffle_i64x2::<0b10_11_00_01>(halves, halves));
        let sums = _mm512_castsi512_si256(_mm512_shuffle_i64x2::<0b10_00_10_00>(sums, sums));
        let mut counts = [0; CLASSES];
        // SAFETY: the array has the 32 bytes that are stored, and any alignment will do.
        unsafe { _mm256_storeu_si256(counts.as_mut_ptr().cast(), sums) };
        counts
    }
    fn nonzero(words: &[u32; GROUP_WORDS]) -> u64 {
        let mut mask = 0;
        for (words, place) in words.as_chunks::<16>().0.iter().zip((0..).step_by(16)) {
            // SAFETY: the array has the 64 bytes that are loaded, and any alignment will do.
            let words = unsafe { _mm512_loadu_si512(words.as_ptr().cast()) };
            mask |= u64::from(_mm512_test_epi32_mask(words, words)) << place;
        }
        mask
    }
    fn select(mask: u64, rank: u32) -> u32 {
        _pdep_u64(1u64.checked_shl(rank).unwrap_or_default(), mask).trailing_zeros()
    }
}

/// By group of eight classes: the bit of each class, 0 for what is no class of the group.
static CLASS_BITS: [Row; CLASSES / 8] = {
    let mut bits = [[0; ROW_CELLS]; CLASSES / 8];
    let mut class = 0;
    while class < CLASSES {
        bits[class / 8][class] = 1 << (class % 8);
        class += 1;
    }
    bits
};

/// Byte `i` has bit `i`.
const UNIT_MATRIX: i64 = 0x8040_2010_0804_0201_u64 as i64;

#[cfg(test)]
mod tests {
    use super::*;
    use pulse_format::masks::check;

    #[test]
    fn instructions_fit_the_definition() {
        Avx2::detect().into_iter().for_each(check);
        Avx512::detect().into_iter().for_each(check);
    }
}
