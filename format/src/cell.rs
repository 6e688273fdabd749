//! Cells as bit patterns: exponent classes and ULP steps. No float arithmetic anywhere.

use crate::layout::{BF16_FIRST_EXPONENT, CLASSES};

/// A float format of one or two bytes, seen as sign, exponent field and mantissa.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum FloatFormat {
    /// bfloat16: 8 exponent bits, of which a window of 32 values has classes of its own.
    Bf16,
    /// IEEE half precision: 5 exponent bits.
    F16,
    /// FP8 E4M3: 4 exponent bits.
    E4m3,
    /// FP8 E5M2: 5 exponent bits.
    E5m2,
}

/// One float format at compile time, so that the kernels are compiled for each.
pub trait FloatCell: Copy {
    /// The format.
    const FORMAT: FloatFormat;
    /// Bytes of a cell: 1 or 2.
    const BYTES: usize;
    /// Mantissa bits below the exponent field.
    const MANTISSA_BITS: u32;
    /// Mask of the exponent field, shifted down.
    const EXPONENT_MASK: u16;
    /// Exponent field of class 0.
    const FIRST_EXPONENT: u8 = 0;

    /// The exponent class of a base cell: below [`CLASSES`].
    #[inline(always)]
    fn class(cell: u16) -> u8 {
        let exponent = ((cell >> Self::MANTISSA_BITS) & Self::EXPONENT_MASK) as u8;
        exponent.saturating_sub(Self::FIRST_EXPONENT).min(CLASSES as u8 - 1)
    }

    /// The cell's place on the number line: sign-magnitude order made unsigned. A bijection.
    #[inline(always)]
    fn ordinal(cell: u16) -> u16 {
        let (sign, all) = (1u16 << (8 * Self::BYTES - 1), u16::MAX >> (16 - 8 * Self::BYTES));
        if cell & sign != 0 { cell ^ all } else { cell ^ sign }
    }

    /// The inverse of [`FloatCell::ordinal`].
    #[inline(always)]
    fn from_ordinal(ordinal: u16) -> u16 {
        let (sign, all) = (1u16 << (8 * Self::BYTES - 1), u16::MAX >> (16 - 8 * Self::BYTES));
        if ordinal & sign != 0 { ordinal ^ sign } else { ordinal ^ all }
    }

    /// The signed distance from `base` to `target` on the number line, modulo its length; 0 only if they are equal.
    #[inline(always)]
    fn ulp_step(base: u16, target: u16) -> i16 {
        let distance = Self::ordinal(target).wrapping_sub(Self::ordinal(base));
        if Self::BYTES == 1 { i16::from(distance as i8) } else { distance as i16 }
    }

    /// The cell that lies `step` from `base`.
    #[inline(always)]
    fn step_from(base: u16, step: i16) -> u16 {
        let all = u16::MAX >> (16 - 8 * Self::BYTES);
        Self::from_ordinal(Self::ordinal(base).wrapping_add(step as u16) & all)
    }
}

macro_rules! float_cell {
    ($name:ident, $bytes:literal, $mantissa:literal, $mask:literal $(, $first:expr)?) => {
        #[doc = concat!("[`FloatFormat::", stringify!($name), "`] at compile time.")]
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl FloatCell for $name {
            const FORMAT: FloatFormat = FloatFormat::$name;
            const BYTES: usize = $bytes;
            const MANTISSA_BITS: u32 = $mantissa;
            const EXPONENT_MASK: u16 = $mask;
            $(const FIRST_EXPONENT: u8 = $first;)?
        }
    };
}

float_cell!(Bf16, 2, 7, 0xff, BF16_FIRST_EXPONENT as u8);
float_cell!(F16, 2, 10, 0x1f);
float_cell!(E4m3, 1, 3, 0x0f);
float_cell!(E5m2, 1, 2, 0x1f);

/// Calls a function that is generic over [`FloatCell`] for the format that `$format` names at run time.
#[macro_export]
macro_rules! with_float_cell {
    ($format:expr, $cell:ident => $body:expr) => {
        match $format {
            $crate::FloatFormat::Bf16 => {
                type $cell = $crate::cell::Bf16;
                $body
            }
            $crate::FloatFormat::F16 => {
                type $cell = $crate::cell::F16;
                $body
            }
            $crate::FloatFormat::E4m3 => {
                type $cell = $crate::cell::E4m3;
                $body
            }
            $crate::FloatFormat::E5m2 => {
                type $cell = $crate::cell::E5m2;
                $body
            }
        }
    };
}

impl FloatFormat {
    /// Bytes of a cell: 1 or 2.
    pub fn cell_bytes(self) -> usize {
        with_float_cell!(self, C => C::BYTES)
    }

    /// Mantissa bits, mask of the exponent field shifted down, and exponent of class 0: what [`FloatCell::class`] is made of.
    pub fn class_parameters(self) -> (u32, u32, u32) {
        with_float_cell!(self, C => (C::MANTISSA_BITS, C::EXPONENT_MASK.into(), C::FIRST_EXPONENT.into()))
    }

    /// See [`FloatCell::class`].
    pub fn class(self, cell: u16) -> u8 {
        with_float_cell!(self, C => C::class(cell))
    }

    /// See [`FloatCell::ulp_step`].
    pub fn ulp_step(self, base: u16, target: u16) -> i16 {
        with_float_cell!(self, C => C::ulp_step(base, target))
    }

    /// See [`FloatCell::step_from`].
    pub fn step_from(self, base: u16, step: i16) -> u16 {
        with_float_cell!(self, C => C::step_from(base, step))
    }

    /// The exponent fields that share a class, first and last.
    pub fn exponents(self, class: u8) -> core::ops::RangeInclusive<u16> {
        let (first, last_exponent) = with_float_cell!(self, C => (u16::from(C::FIRST_EXPONENT), C::EXPONENT_MASK));
        let own = first + u16::from(class);
        let start = if class == 0 { 0 } else { own };
        let end = if usize::from(class) == CLASSES - 1 { last_exponent } else { own };
        start..=end.min(last_exponent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_bijection<C: FloatCell>() {
        let cells = 1u32 << (8 * C::BYTES);
        for cell in (0..cells).map(|cell| cell as u16) {
            assert_eq!(C::from_ordinal(C::ordinal(cell)), cell);
            assert!(usize::from(C::class(cell)) < CLASSES);
            let exponent = (cell >> C::MANTISSA_BITS) & C::EXPONENT_MASK;
            assert!(C::FORMAT.exponents(C::class(cell)).contains(&exponent));
            for target in (0..cells).step_by(if C::BYTES == 1 { 1 } else { 509 }).map(|cell| cell as u16) {
                let step = C::ulp_step(cell, target);
                assert_eq!(step == 0, cell == target);
                assert_eq!(C::step_from(cell, step), target);
                assert_eq!(C::step_from(target, step.wrapping_neg()), cell, "steps run backwards");
            }
        }
    }

    #[test]
    fn ulp_steps_are_a_bijection() {
        check_bijection::<Bf16>();
        check_bijection::<F16>();
        check_bijection::<E4m3>();
        check_bijection::<E5m2>();
    }

    #[test]
    fn neighbours_are_one_step_apart() {
        assert_eq!(Bf16::ulp_step(0x8000, 0x0000), 1, "-0 to +0");
        assert_eq!(Bf16::ulp_step(0x0000, 0x0001), 1, "+0 to the smallest subnormal");
        assert_eq!(Bf16::ulp_step(0x3fff, 0x4000), 1, "across a binade");
        assert_eq!(Bf16::ulp_step(0xbf81, 0xbf80), 1, "towards zero from below");
    }

    #[test]
    fn bf16_classes_are_a_window_of_exponents() {
        assert_eq!(Bf16::class(0x0000), 0);
        assert_eq!(Bf16::class(100 << 7), 0);
        assert_eq!(Bf16::class(101 << 7), 1);
        assert_eq!(Bf16::class(131 << 7), 31);
        assert_eq!(Bf16::class(0xffff), 31);
    }
}
