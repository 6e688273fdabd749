//! Master weights to the cells that receivers hold.

use half::{bf16, f16};
use pulse_format::Dtype;

/// What to cast FP32 and FP16 tensors to before comparing; other tensors stay as they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cast {
    /// To BF16, rounding to nearest even, as trainers do. A NaN stays a NaN, its payload cut off.
    Bf16,
}

impl Cast {
    /// Casts little-endian cells of `from`, which is F32 or F16.
    pub(crate) fn cells(self, from: Dtype, bytes: &[u8]) -> Vec<u8> {
        let Self::Bf16 = self;
        match from {
            Dtype::F32 => bytes
                .as_chunks()
                .0
                .iter()
                .flat_map(|cell| bf16::from_f32(f32::from_le_bytes(*cell)).to_le_bytes())
                .collect(),
            Dtype::F16 => {
                let widened = bytes.as_chunks().0.iter().map(|cell| f16::from_le_bytes(*cell).to_f32());
                widened.flat_map(|value| bf16::from_f32(value).to_le_bytes()).collect()
            }
            other => unreachable!("{} is never cast", other.name()),
        }
    }
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
        assert!(bf16::from_bits(cast(f32::from_bits(0x7f80_0001))).is_nan());
    }

    #[test]
    fn widens_half_precision_exactly() {
        let cells =
            Cast::Bf16.cells(Dtype::F16, &[f16::from_f32(0.5), f16::from_bits(1)].map(f16::to_le_bytes).concat());
        assert_eq!(cells, [0x3f00u16, 0x3380].map(u16::to_le_bytes).concat());
    }
}
