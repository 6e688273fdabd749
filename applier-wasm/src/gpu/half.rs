//! BF16 cells in f16: which of them f16 holds exactly, and the nearest to the others. Integer arithmetic only.
//!
//! Exact are zeros, magnitudes from 2^-17 up to f16's largest, smaller ones that are multiples of 2^-24, infinities, and every NaN
//! with its payload. The others are exceptions: an f16 tensor is bound with a list of them.
//!
//! ```
//! use pulse_applier_wasm::gpu::half;
//!
//! let cells = [1.5f32, 1e-6].map(|value| ((value.to_bits() >> 16) as u16).to_le_bytes()).concat(); // as in a checkpoint
//! let (halves, exceptions) = half::convert(&cells);
//! assert_eq!(halves, [0x3e00u16, 0x0011].map(u16::to_le_bytes).concat());
//! assert_eq!(exceptions, [(1, 0x3586)]); // cell 1, and its BF16
//! ```

use pulse_format::FloatFormat;
use pulse_format::contextual::ContextualChanges;

const SIGN: u16 = 0x8000;
pub(super) const INFINITY: u16 = 0x7c00;
/// 2^-17: the largest f16 that a smaller BF16 may be rounded to.
pub(super) const LARGEST_ROUNDED: u16 = 0x0080;
/// The BF16 exponent fields of 2^-24 (f16's smallest), 2^-17, 2^-14 (its smallest normal) and 2^16, where it ends.
pub(super) const SMALLEST: u16 = 103;
const EXACT: u16 = 110;
pub(super) const NORMAL: u16 = 113;
pub(super) const TOO_LARGE: u16 = 143;
const BF16_MANTISSA_BITS: u32 = 7;

/// The f16 nearest to a BF16, ties to even, an infinity beyond f16's largest; and whether it is exact.
pub fn from_bf16(bits: u16) -> (u16, bool) {
    let half = nearest(bits);
    (half, to_bf16(half) == Some(bits))
}

/// The BF16 that is exactly this f16, if there is one.
pub fn to_bf16(half: u16) -> Option<u16> {
    let (bits, exact) = truncated(half);
    exact.then_some(bits)
}

/// BF16 cells, fewer than 2^32 of them, as f16, and those that it does not hold exactly: index and BF16, ascending.
pub fn convert(cells: &[u8]) -> (Vec<u8>, Vec<(u32, u16)>) {
    let cells = cells.as_chunks::<2>().0;
    let (mut halves, mut exceptions) = (Vec::with_capacity(2 * cells.len()), Vec::new());
    for (index, cell) in cells.iter().enumerate() {
        let bits = u16::from_le_bytes(*cell);
        let (half, exact) = from_bf16(bits);
        halves.extend_from_slice(&half.to_le_bytes());
        if !exact {
            exceptions.push((index as u32, bits));
        }
    }
    (halves, exceptions)
}

fn nearest(bits: u16) -> u16 {
    let (sign, exponent, mantissa) = (bits & SIGN, bits >> BF16_MANTISSA_BITS & 0xff, bits & 0x7f);
    let magnitude = match exponent {
        0xff => INFINITY | mantissa << 3,
        TOO_LARGE.. => INFINITY,
        NORMAL.. => (exponent - (NORMAL - 1)) << 10 | mantissa << 3,
        // Less than half of f16's smallest.
        0..=101 => 0,
        _ => {
            // In quarters of 2^-24, a shift short.
            let (quarters, shift) = ((0x80 | mantissa) << 2, NORMAL - 1 - exponent);
            let (kept, rest, tie) = (quarters >> shift, quarters & ((1 << shift) - 1), (1 << shift) >> 1);
            kept + u16::from(rest > tie || (rest == tie && kept & 1 == 1))
        }
    };
    sign | magnitude
}

/// An f16 as BF16, without the mantissa bits that do not fit, and whether those are zeros.
pub(crate) fn truncated(half: u16) -> (u16, bool) {
    let (sign, magnitude) = (half & SIGN, half & !SIGN);
    let (exponent, mantissa) = match magnitude {
        0 => return (sign, true),
        INFINITY.. => (0xff, magnitude & 0x3ff),
        0x0400.. => ((magnitude >> 10) + (NORMAL - 1), magnitude & 0x3ff),
        _ => {
            let top = magnitude.ilog2();
            (SMALLEST + top as u16, magnitude << (10 - top) & 0x3ff)
        }
    };
    (sign | exponent << BF16_MANTISSA_BITS | mantissa >> 3, mantissa & 7 == 0)
}

/// Whether a BF16 that is not exact may be rounded to this f16.
pub(crate) fn may_be_rounded(half: u16) -> bool {
    matches!(half & !SIGN, 0..=LARGEST_ROUNDED | INFINITY)
}

/// How many of the changes may give a cell that f16 does not hold exactly; the base is not looked at.
pub(crate) fn inexact_after_steps(changes: &ContextualChanges) -> u32 {
    let distance = |exponent: u16| i32::from(exponent << BF16_MANTISSA_BITS);
    let of_class = |(class, steps): (u8, &Vec<i16>)| {
        let exponents = FloatFormat::Bf16.exponents(class);
        // How far a cell of the class may be from where exactness ends, at the least.
        let down = distance(*exponents.start()) - distance(EXACT);
        let up = distance(TOO_LARGE) - distance(*exponents.end()) - 0x7f;
        let reaches = |step: &&i16| i32::from(**step).abs() > down || i32::from(**step).abs() >= up;
        steps.iter().filter(reaches).count() as u32
    };
    (0..).zip(changes.classes.iter().map(|class| &class.steps)).map(of_class).sum()
}

/// How many of these BF16 values f16 does not hold exactly.
pub(crate) fn inexact_values(values: &[u8]) -> u32 {
    let inexact = |value: &&[u8; 2]| !from_bf16(u16::from_le_bytes(**value)).1;
    values.as_chunks::<2>().0.iter().filter(inexact).count() as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::half::{bf16, f16};

    /// As the crate `half` has it; f32 holds both formats, and its conversions make NaNs quiet.
    #[test]
    fn every_bf16_becomes_the_nearest_f16() {
        for bits in 0..=u16::MAX {
            let value = bf16::from_bits(bits).to_f32();
            let (half, exact) = from_bf16(bits);
            if value.is_nan() {
                assert!(exact && f16::from_bits(half).is_nan(), "{bits:#06x}");
                assert_eq!((half & SIGN, half & 0x3ff), (bits & SIGN, (bits & 0x7f) << 3));
                continue;
            }
            assert_eq!(half, f16::from_f32(value).to_bits(), "{bits:#06x}");
            assert_eq!(exact, f16::from_f32(value).to_f32().to_bits() == value.to_bits(), "{bits:#06x}");
            let magnitude = value.abs();
            let promised =
                magnitude == 0.0 || magnitude.is_infinite() || (2f32.powi(-17)..=65504.0).contains(&magnitude);
            assert!(exact || !promised, "{bits:#06x}");
            assert!(exact || may_be_rounded(half), "{bits:#06x}");
        }
    }

    #[test]
    fn every_f16_is_a_bf16_or_is_not() {
        for half in 0..=u16::MAX {
            let value = f16::from_bits(half).to_f32();
            let bits = value.to_bits();
            if value.is_nan() {
                assert_eq!(to_bf16(half).is_some(), half & 7 == 0, "{half:#06x}");
            } else {
                let expected = (bits & 0xffff == 0).then_some((bits >> 16) as u16);
                assert_eq!(to_bf16(half), expected, "{half:#06x}");
                assert_eq!(truncated(half).0, (bits >> 16) as u16, "{half:#06x}");
            }
            if let Some(bits) = to_bf16(half) {
                assert_eq!(from_bf16(bits), (half, true), "{half:#06x}");
            }
        }
    }

    #[test]
    fn a_step_that_gives_an_inexact_cell_is_counted() {
        for base in (0..=u16::MAX).filter(|base| base & 0x7f < 3 || base & 0x7f > 0x7c) {
            for step in [1, -1, 2, -3, 127, -128, 129, 500, -1537, 4000, -9000, 20_000, i16::MAX, i16::MIN] {
                let target = FloatFormat::Bf16.step_from(base, step);
                let mut changes = ContextualChanges::default();
                let class = &mut changes.classes[usize::from(FloatFormat::Bf16.class(base))];
                class.ranks.push(0);
                class.steps.push(step);
                let counted = inexact_after_steps(&changes) == 1;
                assert!(counted || from_bf16(target).1, "{base:#06x} {step}");
            }
        }
        let mut changes = ContextualChanges::default();
        changes.classes[11].steps = vec![1, -128, 128, 129];
        changes.classes[26].steps = vec![1, -400];
        assert_eq!(inexact_after_steps(&changes), 1, "most weights are out of reach");
        assert_eq!(inexact_values(&[0x80, 0x3f, 0x01, 0x00, 0x80, 0x7f, 0x80, 0x47]), 2);
    }
}
