//! The JSON header, and the integer types that positions are written in.

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::bytes::push_le;

/// The only dtype of values that this crate writes or reads.
pub(super) const VALUE_DTYPE: &str = "bfloat16";

#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Header {
    pub(super) version: u32,
    pub(super) tensors: Vec<TensorEntry>,
}

/// One changed tensor. Fields in the order in which the original writes them.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct TensorEntry {
    pub(super) name: String,
    pub(super) shape: Vec<u64>,
    pub(super) num_nonzero: u64,
    pub(super) value_dtype: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) row_dtype: Option<IndexType>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) col_dtype: Option<IndexType>,
    pub(super) indices_offset: u64,
    pub(super) indices_size: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) rows_size: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cols_size: Option<u64>,
    pub(super) values_offset: u64,
    pub(super) values_size: u64,
}

/// What v3 and v3.1 add to an entry.
pub(super) struct MatrixEntry {
    pub(super) rows_size: u64,
    pub(super) cols_size: u64,
    pub(super) dtypes: Option<(IndexType, IndexType)>,
}

impl TensorEntry {
    /// Checks dtype, value size and that the tensor's bytes begin at `position`, which is moved behind them.
    pub(super) fn check(&self, position: &mut u64) -> Result<(), Error> {
        if self.value_dtype != VALUE_DTYPE {
            return Err(Error::unsupported(&self.name, format!("values of dtype {}", self.value_dtype)));
        }
        if Some(self.values_size) != self.num_nonzero.checked_mul(2) {
            let (bytes, count) = (self.values_size, self.num_nonzero);
            return Err(Error::damaged(&self.name, format!("{bytes} bytes of values for {count} changes")));
        }
        let values_offset = self.indices_offset.checked_add(self.indices_size);
        let end = self.values_offset.checked_add(self.values_size);
        match end {
            Some(end) if self.indices_offset == *position && values_offset == Some(self.values_offset) => {
                *position = end;
                Ok(())
            }
            _ => Err(Error::damaged(&self.name, format!("bytes that do not begin at {position} of the payload"))),
        }
    }

    pub(super) fn check_indices_size(&self, expected: Option<u64>) -> Result<(), Error> {
        if expected == Some(self.indices_size) {
            return Ok(());
        }
        let (bytes, count) = (self.indices_size, self.num_nonzero);
        Err(Error::damaged(&self.name, format!("{bytes} bytes of indices for {count} changes")))
    }
}

/// How wide the integers of a list of positions are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum IndexType {
    #[serde(rename = "uint8")]
    U8,
    #[serde(rename = "uint16")]
    U16,
    #[serde(rename = "int32")]
    I32,
}

impl IndexType {
    pub(super) fn narrowest_row(max: u32) -> Self {
        if max <= u32::from(u8::MAX) { Self::U8 } else { Self::narrowest_col(max) }
    }

    /// The original never narrows columns to u8.
    pub(super) fn narrowest_col(max: u32) -> Self {
        if max <= u32::from(u16::MAX) { Self::U16 } else { Self::I32 }
    }

    pub(super) const fn size(self) -> u64 {
        match self {
            Self::U8 => 1,
            Self::U16 => 2,
            Self::I32 => 4,
        }
    }

    /// Appends `numbers`, which must fit.
    pub(super) fn write(self, numbers: &[u32], out: &mut Vec<u8>) {
        let numbers = numbers.iter();
        match self {
            Self::U8 => out.extend(numbers.map(|&number| number as u8)),
            Self::U16 => push_le(out, numbers.map(|&number| (number as u16).to_le_bytes())),
            Self::I32 => push_le(out, numbers.map(|&number| number.to_le_bytes())),
        }
    }

    /// Reads all of `bytes`, whose length the caller has checked.
    pub(super) fn read(self, name: &str, bytes: &[u8]) -> Result<Vec<u32>, Error> {
        let numbers: Vec<u32> = match self {
            Self::U8 => bytes.iter().map(|&byte| byte.into()).collect(),
            Self::U16 => bytes.as_chunks().0.iter().map(|&two| u16::from_le_bytes(two).into()).collect(),
            Self::I32 => bytes.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four)).collect(),
        };
        if numbers.iter().fold(0, |all, number| all | number) > i32::MAX as u32 {
            return Err(Error::damaged(name, "a negative difference of positions"));
        }
        Ok(numbers)
    }
}
