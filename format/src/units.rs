//! Numbers with a meaning, so that a count of cells cannot pass for a count of bytes.

use core::fmt;

macro_rules! unit {
    ($(#[doc = $doc:literal])+ $name:ident) => {
        $(#[doc = $doc])+
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default)]
        pub struct $name(pub u64);

        impl $name {
            /// The bare number.
            pub const fn get(self) -> u64 {
                self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                self.0.fmt(f)
            }
        }
    };
}

unit! {
    /// A checkpoint's number.
    Step
}
unit! {
    /// The place of a cell in its tensor, from 0, in row-major order.
    CellIndex
}
unit! {
    /// How many cells.
    CellCount
}
unit! {
    /// How many bytes.
    ByteLength
}
