//! Masks by wasm's vector instructions. A module that has them runs only where they are, so nothing needs to be detected.
#![expect(
    unsafe_code,
    reason = "a vector is loaded through a pointer; the one function that does it says why it is sound"
)]

use core::arch::wasm32::*;
use pulse_format::layout::CLASSES;
use pulse_format::masks::{Masks, ROW_CELLS, Row, RowPair};

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
    fn count_classes(self, rows: &RowPair, wanted: u32) -> [u8; CLASSES] {
        let mut vectors = [u8x16_splat(0); 2 * ROW_CELLS / VECTOR];
        let bytes = rows.as_flattened().as_chunks::<VECTOR>().0;
        vectors.iter_mut().zip(bytes).for_each(|(vector, bytes)| *vector = load(bytes));
        let all =
            |merge: fn(v128, v128) -> v128| vectors[1..].iter().fold(vectors[0], |all, vector| merge(all, *vector));
        let (first, last) = (extreme(all(u8x16_min), u8x16_min), extreme(all(u8x16_max), u8x16_max));
        let mut counts = [0; CLASSES];
        // Of weights, 128 have some nine exponents side by side.
        for (class, count) in (0u8..).zip(&mut counts).take(usize::from(last) + 1).skip(usize::from(first)) {
            if wanted >> class & 1 == 0 {
                continue;
            }
            let pattern = u8x16_splat(class);
            // Where equal, -1 is taken away.
            let sum = vectors.iter().fold(u8x16_splat(0), |sum, vector| i8x16_sub(sum, i8x16_eq(*vector, pattern)));
            let sum = u32x4_extadd_pairwise_u16x8(u16x8_extadd_pairwise_u8x16(sum));
            let sum = i32x4_add(sum, i64x2_shuffle::<1, 0>(sum, sum));
            *count = (u32x4_extract_lane::<0>(sum) + u32x4_extract_lane::<1>(sum)) as u8;
        }
        counts
    }
}

/// The least or the greatest of sixteen bytes.
#[inline(always)]
fn extreme(all: v128, merge: fn(v128, v128) -> v128) -> u8 {
    let eight = merge(all, i64x2_shuffle::<1, 0>(all, all));
    let four = merge(eight, i32x4_shuffle::<1, 0, 3, 2>(eight, eight));
    let two = merge(four, u32x4_shr(four, 16));
    u8x16_extract_lane::<0>(merge(two, u32x4_shr(two, 8)))
}

#[cfg(test)]
mod tests {
    #[test]
    fn instructions_fit_the_definition() {
        pulse_format::masks::check(super::Simd128);
    }
}
