//! The element types of safetensors, and the float formats whose cells may use the contextual profile.

use crate::cell::FloatFormat;

macro_rules! dtypes {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal, $text:literal, bits $bits:literal, cell $cell:literal;)+) => {
        /// An element type, by the name safetensors gives it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Dtype { $($(#[doc = $doc])+ $name = $code,)+ }

        impl Dtype {
            /// All dtypes, in the order of their codes.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The dtype of a code in a header.
            pub fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)+ _ => None }
            }

            /// The name in a safetensors header.
            pub fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }

            /// Bits of one element.
            pub fn element_bits(self) -> u64 {
                match self { $(Self::$name => $bits,)+ }
            }

            /// Bytes of one cell. Elements narrower than a byte share cells of one byte.
            pub fn cell_bytes(self) -> usize {
                match self { $(Self::$name => $cell,)+ }
            }
        }
    };
}

dtypes! {
    /// bfloat16.
    Bf16 = 1, "BF16", bits 16, cell 2;
    /// IEEE half precision.
    F16 = 2, "F16", bits 16, cell 2;
    /// FP8 with 4 exponent bits.
    F8E4m3 = 3, "F8_E4M3", bits 8, cell 1;
    /// FP8 with 5 exponent bits.
    F8E5m2 = 4, "F8_E5M2", bits 8, cell 1;
    /// IEEE single precision.
    F32 = 5, "F32", bits 32, cell 4;
    /// IEEE double precision.
    F64 = 6, "F64", bits 64, cell 8;
    /// Boolean, a byte each.
    Bool = 7, "BOOL", bits 8, cell 1;
    /// Unsigned byte.
    U8 = 8, "U8", bits 8, cell 1;
    /// Signed byte.
    I8 = 9, "I8", bits 8, cell 1;
    /// Unsigned 16-bit integer.
    U16 = 10, "U16", bits 16, cell 2;
    /// Signed 16-bit integer.
    I16 = 11, "I16", bits 16, cell 2;
    /// Unsigned 32-bit integer.
    U32 = 12, "U32", bits 32, cell 4;
    /// Signed 32-bit integer.
    I32 = 13, "I32", bits 32, cell 4;
    /// Unsigned 64-bit integer.
    U64 = 14, "U64", bits 64, cell 8;
    /// Signed 64-bit integer.
    I64 = 15, "I64", bits 64, cell 8;
    /// FP4, two elements a cell.
    F4 = 16, "F4", bits 4, cell 1;
    /// FP6 with 2 exponent bits, packed.
    F6E2m3 = 17, "F6_E2M3", bits 6, cell 1;
    /// FP6 with 3 exponent bits, packed.
    F6E3m2 = 18, "F6_E3M2", bits 6, cell 1;
    /// A power-of-two scale.
    F8E8m0 = 19, "F8_E8M0", bits 8, cell 1;
    /// Complex of two single precision floats.
    C64 = 20, "C64", bits 64, cell 8;
    /// FP8 E4M3 without negative zero.
    F8E4m3Fnuz = 21, "F8_E4M3FNUZ", bits 8, cell 1;
    /// FP8 E5M2 without negative zero.
    F8E5m2Fnuz = 22, "F8_E5M2FNUZ", bits 8, cell 1;
}

impl Dtype {
    /// The dtype of a name in a safetensors header.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|dtype| dtype.name() == name)
    }

    /// How cells split into exponent classes; `None` where the contextual profile is not allowed.
    pub fn float_format(self) -> Option<FloatFormat> {
        match self {
            Self::Bf16 => Some(FloatFormat::Bf16),
            Self::F16 => Some(FloatFormat::F16),
            Self::F8E4m3 => Some(FloatFormat::E4m3),
            Self::F8E5m2 => Some(FloatFormat::E5m2),
            _ => None,
        }
    }

    /// Cells of a tensor with `elements` elements; `None` if they do not fill whole bytes or overflow.
    pub fn cells(self, elements: u64) -> Option<u64> {
        let bits = elements.checked_mul(self.element_bits())?;
        if !bits.is_multiple_of(8) {
            return None;
        }
        // Whole elements fill whole cells: the width of a cell divides the width of an element, or is one byte.
        Some(bits / 8 / self.cell_bytes() as u64)
    }
}
