//! Masks by the vector instructions of x86-64. Each type can only be had where the CPU has them.

#![expect(unsafe_code, reason = "intrinsics behind types that prove the CPU has them; each block says why it is sound")]

use core::arch::x86_64::*;
use pulse_format::masks::{Masks, Row};

/// Proof of AVX2 and the bit instructions that come with it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Avx2(());

/// Proof of AVX-512 as all CPUs since Skylake-SP and Zen 4 have it.
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
            && is_x86_feature_detected!("avx512vl");
        found.then_some(Self(()))
    }
}

/// Defines methods that call a function compiled with more features than its caller.
macro_rules! masks {
    ($proof:ident, $features:literal, $(fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty $body:block)+) => {
        impl Masks for $proof {
            #[inline(always)]
            fn prefetch(self, bytes: &[u8]) {
                for line in bytes.chunks(64) {
                    // SAFETY: a prefetch reads nothing that the program sees.
                    unsafe { _mm_prefetch::<_MM_HINT_T1>(line.as_ptr().cast()) };
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
    fn below(row: &Row, limit: u8) -> u64 {
        let Some(largest) = limit.checked_sub(1) else { return 0 };
        let below = |half: &[u8; 32]| {
            // SAFETY: the array has the 32 bytes that are loaded, and any alignment will do.
            let half = unsafe { _mm256_loadu_si256(half.as_ptr().cast()) };
            _mm256_movemask_epi8(_mm256_cmpeq_epi8(_mm256_min_epu8(half, _mm256_set1_epi8(largest as i8)), half)) as u32
        };
        let (low, high) = halves(row);
        u64::from(below(low)) | u64::from(below(high)) << 32
    }
    fn nonzero(words: &[u32; 64]) -> u64 {
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

masks! { Avx512, "avx512f,avx512bw,avx512vl,avx2,bmi1,bmi2,lzcnt,popcnt",
    fn equal(row: &Row, byte: u8) -> u64 {
        // SAFETY: a row has the 64 bytes that are loaded, and any alignment will do.
        let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
        _mm512_cmpeq_epi8_mask(row, _mm512_set1_epi8(byte as i8))
    }
    fn below(row: &Row, limit: u8) -> u64 {
        // SAFETY: a row has the 64 bytes that are loaded, and any alignment will do.
        let row = unsafe { _mm512_loadu_si512(row.as_ptr().cast()) };
        _mm512_cmplt_epu8_mask(row, _mm512_set1_epi8(limit as i8))
    }
    fn nonzero(words: &[u32; 64]) -> u64 {
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
