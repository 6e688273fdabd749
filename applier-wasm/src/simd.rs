//! Masks by wasm's vector instructions. A module that has them runs only where they are, so nothing needs to be detected.
#![expect(
    unsafe_code,
    reason = "a vector is loaded through a pointer; the one function that does it says why it is sound"
)]

use core::arch::wasm32::*;
use pulse_format::layout::CLASSES;
use pulse_format::masks::{Masks, Portable, Row, RowPair};

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
    fn count_classes(self, rows: &RowPair) -> [u8; CLASSES] {
        Portable.count_classes(rows)
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn instructions_fit_the_definition() {
        pulse_format::masks::check(super::Simd128);
    }
}
