//! `sparse_codec` of grail (`one-covenant/grail`), the codec of the PULSE paper: v2, v3 and v3.1.
//!
//! ```text
//! zstd-1( u32 header length | header JSON | payload )                integers little-endian
//! header  {"version": 2 | 3 | 31, "tensors": [...]}                  changed tensors only, names ascending
//! payload per tensor, back to back: positions | values               values are the new BF16 cells
//! ```
//!
//! Positions are differences. v2: of flat positions, as i32. v3 takes a tensor as a matrix of `shape[0]` rows and
//! codes all row differences, then all columns, as i32; a column is absolute where the row moved on, else the
//! difference to the one before. v3.1 is v3 in narrower integers: row differences as u8 where the largest allows it,
//! else u16, else i32; columns as u16, else i32. A vector is a matrix of one column. The steps, and any digest, are
//! kept outside the file.
//!
//! The original reader refuses scalars (it takes an empty shape for a missing one); this one takes them.

mod header;
mod matrix;

use crate::bytes::{Cursor, cells_as_bytes, cells_from_bytes, push_le};
use crate::diff::{ChangedTensor, changed_tensors};
use crate::limits::Budget;
use crate::{Checkpoint, Error, Limits, PatchFormat, SparsePatch, Steps, TensorChanges, zstd_frame};

use header::{Header, IndexType, MatrixEntry, TensorEntry};
use matrix::Matrix;

/// A version to write. All read all.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Grail {
    /// Differences of flat positions.
    V2,
    /// Rows and columns, in four bytes each.
    V3,
    /// Rows and columns, in as few bytes as they need: what grail uses.
    V3_1,
}

impl Grail {
    const fn version(self) -> u32 {
        match self {
            Self::V2 => 2,
            Self::V3 => 3,
            Self::V3_1 => 31,
        }
    }

    fn from_version(version: u32) -> Result<Self, Error> {
        match version {
            2 => Ok(Self::V2),
            3 => Ok(Self::V3),
            31 => Ok(Self::V3_1),
            _ => Err(Error::unsupported("header", format!("version {version}"))),
        }
    }
}

impl PatchFormat for Grail {
    fn name(&self) -> &'static str {
        match self {
            Self::V2 => "grail-v2",
            Self::V3 => "grail-v3",
            Self::V3_1 => "grail-v3.1",
        }
    }

    fn encode(&self, _steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error> {
        let changed = changed_tensors(base, target)?;
        let mut payload = Vec::with_capacity(changed.iter().map(|tensor| tensor.positions.len() * 10).sum());
        let mut tensors = Vec::with_capacity(changed.len());
        for tensor in &changed {
            tensors.push(write_tensor(*self, tensor, &mut payload)?);
        }
        let header = serde_json::to_vec(&Header { version: self.version(), tensors })
            .map_err(|error| Error::misuse(format!("the header cannot be written: {error}")))?;
        let header_len = u32::try_from(header.len()).map_err(|_| Error::unsupported("header", "more than 4 GiB"))?;
        let mut bytes = Vec::with_capacity(4 + header.len() + payload.len());
        bytes.extend_from_slice(&header_len.to_le_bytes());
        bytes.extend_from_slice(&header);
        bytes.extend_from_slice(&payload);
        zstd_frame::compress(&bytes)
    }

    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error> {
        let mut budget = Budget::new(limits);
        let bytes = zstd_frame::decompress(bytes, u64::MAX, &mut budget, "zstd frame")?;
        let mut cursor = Cursor::new(&bytes, "header");
        let header_len = cursor.u32()?;
        let json = cursor.take_u64(header_len.into())?;
        budget.spend_header(json.len())?;
        let header: Header =
            serde_json::from_slice(json).map_err(|error| Error::damaged("header", error.to_string()))?;
        budget.check_tensors(header.tensors.len())?;
        let version = Self::from_version(header.version)?;
        if !header.tensors.is_sorted_by(|a, b| a.name < b.name) {
            return Err(Error::damaged("header", "tensor names are not strictly ascending"));
        }
        let payload = cursor.rest();
        let mut cursor = Cursor::new(payload, "payload");
        let mut position = 0;
        let mut tensors = Vec::with_capacity(header.tensors.len());
        for entry in header.tensors {
            tensors.push(read_tensor(version, entry, &mut cursor, &mut position, base, &mut budget)?);
        }
        cursor.finish()?;
        Ok(SparsePatch { base_step: None, target_step: None, tensors })
    }
}

fn write_tensor(version: Grail, tensor: &ChangedTensor<'_, '_>, payload: &mut Vec<u8>) -> Result<TensorEntry, Error> {
    let name = tensor.base.name;
    let indices_offset = payload.len();
    let matrix = if version == Grail::V2 {
        if i32::try_from(tensor.base.cells.len()).is_err() {
            return Err(Error::unsupported(name, "a tensor of more cells than an i32 index can reach"));
        }
        let mut before = 0;
        let deltas = tensor.positions.iter().map(|&position| {
            let delta = (position - before) as u32;
            before = position;
            delta.to_le_bytes()
        });
        push_le(payload, deltas);
        None
    } else {
        let deltas = Matrix::of_shape(name, &tensor.base.shape)?.split(&tensor.positions);
        let (row_type, col_type) = match version {
            Grail::V3_1 => (IndexType::narrowest_row(deltas.max_row), IndexType::narrowest_col(deltas.max_col)),
            _ => (IndexType::I32, IndexType::I32),
        };
        row_type.write(&deltas.rows, payload);
        let rows_size = payload.len() - indices_offset;
        col_type.write(&deltas.cols, payload);
        let cols_size = payload.len() - indices_offset - rows_size;
        let dtypes = (version == Grail::V3_1).then_some((row_type, col_type));
        Some(MatrixEntry { rows_size: rows_size as u64, cols_size: cols_size as u64, dtypes })
    };
    let values_offset = payload.len();
    payload.extend_from_slice(&cells_as_bytes(&tensor.values()));
    Ok(TensorEntry {
        name: name.to_owned(),
        shape: tensor.base.shape.clone(),
        num_nonzero: tensor.positions.len() as u64,
        value_dtype: header::VALUE_DTYPE.to_owned(),
        indices_offset: indices_offset as u64,
        indices_size: (values_offset - indices_offset) as u64,
        values_offset: values_offset as u64,
        values_size: (payload.len() - values_offset) as u64,
        row_dtype: matrix.as_ref().and_then(|matrix| matrix.dtypes).map(|dtypes| dtypes.0),
        col_dtype: matrix.as_ref().and_then(|matrix| matrix.dtypes).map(|dtypes| dtypes.1),
        rows_size: matrix.as_ref().map(|matrix| matrix.rows_size),
        cols_size: matrix.as_ref().map(|matrix| matrix.cols_size),
    })
}

fn read_tensor(
    version: Grail,
    entry: TensorEntry,
    payload: &mut Cursor<'_>,
    position: &mut u64,
    base: &Checkpoint<'_>,
    budget: &mut Budget,
) -> Result<TensorChanges, Error> {
    let (_, tensor) = base.find(&entry.name, Some(&entry.shape))?;
    let cell_count = tensor.cells.len() as u64;
    entry.check(position)?;
    if entry.num_nonzero == 0 || entry.num_nonzero > cell_count {
        let what = format!("{} changes in a tensor of {cell_count} cells", entry.num_nonzero);
        return Err(Error::damaged(entry.name, what));
    }
    let indices = payload.take_u64(entry.indices_size)?;
    let values = payload.take_u64(entry.values_size)?;
    // Positions, values and, on the way, differences of rows and columns.
    budget.spend_elements::<(u64, u64, u16)>(values.len() / 2)?;
    let indices = match version {
        Grail::V2 => read_flat(&entry, indices),
        Grail::V3 | Grail::V3_1 => read_matrix(version, &entry, indices),
    }?;
    if indices.last().is_none_or(|&last| last >= cell_count) {
        return Err(Error::damaged(entry.name, format!("an index outside the tensor's {cell_count} cells")));
    }
    Ok(TensorChanges { name: entry.name, shape: entry.shape, indices, values: cells_from_bytes(values) })
}

fn read_flat(entry: &TensorEntry, bytes: &[u8]) -> Result<Vec<u64>, Error> {
    entry.check_indices_size(entry.num_nonzero.checked_mul(4))?;
    let deltas = IndexType::I32.read(&entry.name, bytes)?;
    if deltas.iter().skip(1).any(|&delta| delta == 0) {
        return Err(Error::damaged(&entry.name, "indices do not ascend strictly"));
    }
    let positions = deltas.iter().scan(0u64, |position, &delta| {
        *position += u64::from(delta);
        Some(*position)
    });
    Ok(positions.collect())
}

fn read_matrix(version: Grail, entry: &TensorEntry, bytes: &[u8]) -> Result<Vec<u64>, Error> {
    let (row_type, col_type) = match version {
        Grail::V3_1 => (entry.row_dtype.unwrap_or(IndexType::I32), entry.col_dtype.unwrap_or(IndexType::I32)),
        _ => (IndexType::I32, IndexType::I32),
    };
    let rows_size = entry.num_nonzero.checked_mul(row_type.size());
    let cols_size = entry.num_nonzero.checked_mul(col_type.size());
    if entry.rows_size != rows_size || entry.cols_size != cols_size {
        let (rows, cols) = (entry.rows_size, entry.cols_size);
        return Err(Error::damaged(&entry.name, format!("rows_size {rows:?} and cols_size {cols:?}")));
    }
    let both = rows_size.zip(cols_size).and_then(|(rows, cols)| rows.checked_add(cols));
    entry.check_indices_size(both)?;
    let mut cursor = Cursor::new(bytes, &entry.name);
    let rows = row_type.read(&entry.name, cursor.take_u64(rows_size.unwrap_or(u64::MAX))?)?;
    let cols = col_type.read(&entry.name, cursor.rest())?;
    Matrix::of_shape(&entry.name, &entry.shape)?.join(&entry.name, &rows, &cols)
}

#[cfg(test)]
mod tests;
