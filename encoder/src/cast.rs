//! Master weights to the cells that receivers hold.

use half::{bf16, f16};
use pulse_format::Dtype;

const NAN: bf16 = bf16::from_bits(0x7fc0);

/// What to cast FP32 and FP16 tensors to before comparing; other tensors stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// To BF16, rounding to nearest even, as trainers do. Every NaN becomes the one NaN 0x7FC0, without its sign and payload, which no two
    /// devices round alike; infinities, both zeros and subnormals stay.
    Bf16,
}

impl Cast {
    /// Casts little-endian cells of `from`, which is F32 or F16.
    pub(crate) fn cells(self, from: Dtype, bytes: &[u8]) -> Vec<u8> {
        let Self::Bf16 = self;
        match from {
            Dtype::F32 => {
                bytes.as_chunks().0.iter().flat_map(|cell| round(f32::from_le_bytes(*cell)).to_le_bytes()).collect()
            }
            Dtype::F16 => {
                let widened = bytes.as_chunks().0.iter().map(|cell| f16::from_le_bytes(*cell).to_f32());
                widened.flat_map(|value| round(value).to_le_bytes()).collect()
            }
            other => unreachable!("{} is never cast", other.name()),
        }
    }
}

fn round(value: f32) -> bf16 {
    if value.is_nan() { NAN } else { bf16::from_f32(value) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cast(value: f32) -> u16 {
        u16::from_le_bytes(Cast::Bf16.cells(Dtype::F32, &value.to_le_bytes()).try_into().unwrap())
    }

    #[test]
    fn rounds_to_nearest_even() {
        assert_eq!(cast(1.0), 0x3f80);
        assert_eq!(cast(f32::from_bits(0x3f80_8000)), 0x3f80, "a tie goes to the even cell below");
        assert_eq!(cast(f32::from_bits(0x3f81_8000)), 0x3f82, "a tie goes to the even cell above");
        assert_eq!(cast(f32::from_bits(0x3f80_8001)), 0x3f81);
        assert_eq!(cast(-0.0), 0x8000);
        assert_eq!(cast(f32::MAX), 0x7f80, "overflow rounds to infinity");
        assert_eq!([f32::INFINITY, f32::NEG_INFINITY].map(cast), [0x7f80, 0xff80]);
    }

    #[test]
    fn every_nan_becomes_one() {
        // Quiet and signalling, either sign, payloads in the bits that are kept, cut off, and both.
        for bits in [0x7fc0_0000u32, 0x7f80_0001, 0xff80_0001, 0xffff_ffff, 0x7fbf_ffff, 0xffc1_2345, 0x7f81_0000] {
            assert_eq!(cast(f32::from_bits(bits)), 0x7fc0, "{bits:08x}");
        }
        let halves = [0x7c01u16, 0xfc01, 0x7e00, 0xffff].map(u16::to_le_bytes).concat();
        assert_eq!(Cast::Bf16.cells(Dtype::F16, &halves), [0x7fc0u16; 4].map(u16::to_le_bytes).concat());
    }

    #[test]
    fn widens_half_precision_exactly() {
        let cells =
            Cast::Bf16.cells(Dtype::F16, &[f16::from_f32(0.5), f16::from_bits(1)].map(f16::to_le_bytes).concat());
        assert_eq!(cells, [0x3f00u16, 0x3380].map(u16::to_le_bytes).concat());
    }
}
