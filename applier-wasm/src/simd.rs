//! Masks by wasm's vector instructions. A module that has them runs only where they are, so nothing needs to be detected.
#![expect(
    unsafe_code,
    reason = "a vector is loaded through a pointer; the one function that does it says why it is sound"
)]

use core::arch::wasm32::*;
use pulse_format::masks::{Masks, Row};

/// The 128-bit instructions.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Simd128;

/// Bytes of a vector.
const VECTOR: usize = 16;

#[inline(always)]
fn load(bytes: &[u8; VECTOR]) -> v128 {
    // SAFETY: the array has the 16 bytes that are loaded, and any alignment will do.
    unsafe { v128_load(bytes.as_ptr().cast()) }
}

/// The top bit of each byte that `test` gives, gathered over a row.
#[inline(always)]
fn gather(row: &Row, test: impl Fn(v128) -> v128) -> u64 {
    let vectors = row.as_chunks::<VECTOR>().0.iter().zip((0..).step_by(VECTOR));
    vectors.fold(0, |mask, (vector, place)| mask | u64::from(i8x16_bitmask(test(load(vector)))) << place)
}

impl Masks for Simd128 {
    #[inline(always)]
    fn equal(self, row: &Row, byte: u8) -> u64 {
        let pattern = u8x16_splat(byte);
        gather(row, |vector| i8x16_eq(vector, pattern))
    }

    #[inline(always)]
    fn below(self, row: &Row, limit: u8) -> u64 {
        let limit = u8x16_splat(limit);
        gather(row, |vector| u8x16_lt(vector, limit))
    }

    #[inline(always)]
    fn nonzero(self, words: &[u32; 64]) -> u64 {
        const GROUP: usize = 4;
        let mut mask = 0;
        for (group, place) in words.as_chunks::<GROUP>().0.iter().zip((0..).step_by(GROUP)) {
            let [a, b, c, d] = *group;
            let zero = i32x4_eq(u32x4(a, b, c, d), u32x4_splat(0));
            mask |= u64::from(i32x4_bitmask(zero)) << place;
        }
        !mask
    }

    #[inline(always)]
    fn count(self, rows: &[Row], byte: u8) -> u32 {
        let pattern = u8x16_splat(byte);
        // A byte lane for each of a row's four vectors: fewer than 256 rows do not overflow it.
        let mut lanes = [u8x16_splat(0); 4];
        for row in rows {
            for (lane, vector) in lanes.iter_mut().zip(row.as_chunks::<VECTOR>().0) {
                // Where equal, -1 is taken away.
                *lane = i8x16_sub(*lane, i8x16_eq(load(vector), pattern));
            }
        }
        let pairs =
            lanes.into_iter().fold(u16x8_splat(0), |sum, lane| i16x8_add(sum, u16x8_extadd_pairwise_u8x16(lane)));
        let sum = u32x4_extadd_pairwise_u16x8(pairs);
        u32x4_extract_lane::<0>(sum)
            + u32x4_extract_lane::<1>(sum)
            + u32x4_extract_lane::<2>(sum)
            + u32x4_extract_lane::<3>(sum)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn instructions_fit_the_definition() {
        pulse_format::masks::check(super::Simd128);
    }
}
