//! What can go wrong, split by who is at fault.

use crate::fingerprint::Fingerprint;
use core::fmt;

/// Everything that reading, checking or applying a patch can answer.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The bytes are not what a writer made. Fetch them again once, then take an anchor.
    #[error("damaged patch, {part}: {damage}")]
    Damaged {
        /// Where in the patch.
        part: Part,
        /// Which rule is broken.
        damage: Damage,
    },
    /// The bytes end too early. Fetch the rest.
    #[error("the patch ends early, {part}: {missing} more bytes expected")]
    Truncated {
        /// Where in the patch.
        part: Part,
        /// How many bytes are known to be missing.
        missing: u64,
    },
    /// A newer writer made this. Update the reader.
    #[error("unsupported {what} {found}")]
    Unsupported {
        /// Which field.
        what: &'static str,
        /// Its value.
        found: u64,
    },
    /// The cells at hand are not the patch's base: plan another path. Nothing was changed.
    #[error("wrong base: segment {segment} has fingerprint {found}, the patch starts from {expected}")]
    WrongBase {
        /// Index into the segment table.
        segment: usize,
        /// Of the cells at hand.
        found: Fingerprint,
        /// Of the base the patch was made from.
        expected: Fingerprint,
    },
    /// The result is not the target that the patch promises.
    #[error("wrong result: segment {segment} has fingerprint {found} after the patch, expected {expected}")]
    WrongTarget {
        /// Index into the segment table.
        segment: usize,
        /// Of the cells after the patch.
        found: Fingerprint,
        /// Of the target the patch was made for.
        expected: Fingerprint,
    },
    /// A limit set by the receiver stops this. Raise it, if the source is trusted.
    #[error("{what} is {found}, over the limit of {allowed}")]
    Limit {
        /// Which limit.
        what: &'static str,
        /// What the patch asks for.
        found: u64,
        /// What the limit allows.
        allowed: u64,
    },
    /// The caller passed something that does not fit.
    #[error("misuse: {what}")]
    Misuse {
        /// What does not fit.
        what: &'static str,
    },
}

impl Error {
    /// A stable name for programs; JS and Python carry the same one.
    pub fn code(&self) -> &'static str {
        match self {
            Self::Damaged { .. } => "damaged",
            Self::Truncated { .. } => "truncated",
            Self::Unsupported { .. } => "unsupported",
            Self::WrongBase { .. } => "wrong_base",
            Self::WrongTarget { .. } => "wrong_target",
            Self::Limit { .. } => "limit",
            Self::Misuse { .. } => "misuse",
        }
    }

    pub(crate) fn header(damage: Damage) -> Self {
        Self::Damaged { part: Part::Header, damage }
    }

    /// The same error, said of segment `index` where it was said of a payload on its own.
    pub fn in_segment(self, index: usize) -> Self {
        match self {
            Self::Damaged { part: Part::Payload, damage } => Self::Damaged { part: Part::Segment(index), damage },
            Self::Truncated { part: Part::Payload, missing } => Self::Truncated { part: Part::Segment(index), missing },
            other => other,
        }
    }
}

/// Where in a patch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Part {
    /// The fixed bytes in front.
    Preamble,
    /// The header.
    Header,
    /// The payload of one segment, by its index in the segment table.
    Segment(usize),
    /// The payload of a segment read on its own.
    Payload,
    /// After the last segment.
    End,
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Preamble => f.write_str("preamble"),
            Self::Header => f.write_str("header"),
            Self::Segment(index) => write!(f, "segment {index}"),
            Self::Payload => f.write_str("payload"),
            Self::End => f.write_str("end"),
        }
    }
}

macro_rules! damages {
    ($($(#[doc = $doc:literal])+ $name:ident = $number:literal => $text:literal,)+) => {
        /// The rules a patch can break, numbered as in the must-reject list of FORMAT.md.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        #[repr(u8)]
        pub enum Damage { $($(#[doc = $doc])+ $name = $number,)+ }

        impl Damage {
            /// All rules, in the order of their numbers.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// The number in the must-reject list of FORMAT.md.
            pub fn number(self) -> u8 {
                self as u8
            }

            fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)+ }
            }
        }
    };
}

damages! {
    /// Not a patch at all.
    Magic = 1 => "this is not a Pulse patch (magic bytes differ)",
    /// The hash over preamble and packed header differs.
    HeaderHash = 2 => "the header's hash differs",
    /// The header's zstd frame does not give the declared length.
    HeaderFrame = 3 => "the header's zstd frame is broken or of another length than declared",
    /// A number is not in its shortest form, or too large for its field.
    Number = 4 => "a number is not in its shortest form or out of range",
    /// Bytes that should be UTF-8 are not.
    Text = 5 => "a name or the run id is not UTF-8 or too long",
    /// The target step is not after the base step.
    Steps = 6 => "the target step is not after the base step",
    /// An unknown dtype code.
    Dtype = 7 => "a tensor has an unknown dtype",
    /// Tensors must be strictly ascending by dtype and name.
    TensorOrder = 8 => "tensors are not in strictly ascending order of dtype and name",
    /// A shape's element count overflows, or does not fill whole bytes.
    Shape = 9 => "a tensor's shape overflows or does not fill whole bytes",
    /// Frequencies do not sum to 4,096, or end in a zero, or an alphabet is too long.
    Frequencies = 10 => "token frequencies do not sum to 4096 or have trailing zeros",
    /// A segment covers no cell, too many, or the cells of two dtypes; or the segments do not cover all tensors.
    Coverage = 11 => "segments do not cover the tensors exactly",
    /// A cut inside a tensor is not a multiple of the block.
    Cut = 12 => "a segment cuts a tensor off the block grid",
    /// An unknown profile, one that the dtype or an anchor does not allow, or a model that is not there.
    Profile = 13 => "a segment's profile or model does not fit",
    /// More changes than cells, none in a segment with a payload, or bytes that cannot hold them.
    Changes = 14 => "a segment's changes do not fit its cells or bytes",
    /// Bytes after the last field of the header.
    HeaderTrailing = 15 => "bytes follow the header's last field",
    /// The hash of a segment's bytes differs.
    SegmentHash = 16 => "the segment's hash differs",
    /// Class counts do not sum to the segment's changes, or a class has no model.
    ClassCounts = 17 => "changes per class do not sum to the segment's changes",
    /// The rANS stream does not end where its encoder began.
    EntropyStream = 18 => "the entropy coded stream does not end where it began",
    /// Raw bits are missing, left over, or padded with ones, or their frame is broken.
    RawBits = 19 => "raw bits are missing, left over, badly packed or not padded with zeros",
    /// A rank or a position lies outside the segment.
    OutOfRange = 20 => "a change lies outside the segment",
    /// A byte plane's method is unknown, its frame is broken, or its length differs; or bytes follow the last.
    Plane = 21 => "a byte plane is broken or of another length than declared",
    /// Bytes after the last segment.
    Trailing = 22 => "bytes follow the last segment",
    /// A step that a cell of this width cannot take.
    Step = 23 => "a ULP step is out of range for the cell width",
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} (rule {})", self.text(), self.number())
    }
}
