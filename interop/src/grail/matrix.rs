//! Flat positions as rows and columns, and back.

use crate::Error;
use crate::checkpoint::cell_count;

/// How a tensor is cut into rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Matrix {
    cols: u32,
}

/// Positions as the formats code them.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct MatrixDeltas {
    /// Differences of rows.
    pub(super) rows: Vec<u32>,
    /// Columns: absolute in a new row, else the difference to the one before.
    pub(super) cols: Vec<u32>,
    pub(super) max_row: u32,
    pub(super) max_col: u32,
}

impl Matrix {
    /// The first dimension counts rows, the others together columns; a scalar is one row of one column.
    pub(super) fn of_shape(name: &str, shape: &[u64]) -> Result<Self, Error> {
        let (rows, cols) = match shape.split_first() {
            Some((&rows, rest)) => (rows, cell_count(rest)),
            None => (1, Some(1)),
        };
        let fits = |extent: u64| i32::try_from(extent).ok();
        match (fits(rows), cols.and_then(fits)) {
            (Some(_), Some(cols)) => Ok(Self { cols: cols.max(1).unsigned_abs() }),
            _ => Err(Error::unsupported(name, "more rows or columns than an i32 can count")),
        }
    }

    /// Codes strictly ascending positions of a tensor of this shape.
    pub(super) fn split(self, positions: &[u64]) -> MatrixDeltas {
        let width = u64::from(self.cols);
        let mut rows = vec![0; positions.len()];
        let mut cols = vec![0; positions.len()];
        let (mut max_row, mut max_col) = (0, 0);
        let (mut row, mut row_start, mut before) = (0, 0, 0);
        for ((&position, row_delta), col_delta) in positions.iter().zip(&mut rows).zip(&mut cols) {
            // Divide only where a row begins: most changes share one with their predecessor.
            if position - row_start >= width {
                let new_row = position / width;
                *row_delta = (new_row - row) as u32;
                max_row = max_row.max(*row_delta);
                (row, row_start) = (new_row, new_row * width);
                before = row_start;
            }
            *col_delta = (position - before) as u32;
            max_col = max_col.max(*col_delta);
            before = position;
        }
        MatrixDeltas { rows, cols, max_row, max_col }
    }

    /// Undoes [`split`](Matrix::split); positions come out strictly ascending, but may lie outside the tensor.
    pub(super) fn join(self, name: &str, rows: &[u32], cols: &[u32]) -> Result<Vec<u64>, Error> {
        let width = u64::from(self.cols);
        let mut positions = vec![0; rows.len()];
        let (mut row_start, mut col) = (0u64, 0u64);
        let mut first = true;
        for ((&row_delta, &col_delta), position) in rows.iter().zip(cols).zip(&mut positions) {
            if row_delta != 0 || first {
                // Both factors are below 2^31, and there are fewer than 2^33 differences in memory's reach.
                row_start = row_start.saturating_add(u64::from(row_delta) * width);
                col = u64::from(col_delta);
            } else {
                if col_delta == 0 {
                    return Err(Error::damaged(name, "positions do not ascend strictly"));
                }
                col += u64::from(col_delta);
            }
            if col >= width {
                return Err(Error::damaged(name, format!("column {col} in rows of {width}")));
            }
            first = false;
            *position = row_start.saturating_add(col);
        }
        Ok(positions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_absolute_in_a_new_row() {
        let matrix = Matrix::of_shape("w", &[4, 2, 5]).unwrap();
        let deltas = matrix.split(&[3, 7, 10, 39]);
        assert_eq!(deltas, MatrixDeltas { rows: vec![0, 0, 1, 2], cols: vec![3, 4, 0, 9], max_row: 2, max_col: 9 });
        assert_eq!(matrix.join("w", &deltas.rows, &deltas.cols).unwrap(), [3, 7, 10, 39]);
    }

    #[test]
    fn a_vector_has_one_column() {
        let matrix = Matrix::of_shape("w", &[9]).unwrap();
        let deltas = matrix.split(&[0, 1, 8]);
        assert_eq!((deltas.rows, deltas.cols), (vec![0, 1, 7], vec![0, 0, 0]));
    }

    #[test]
    fn unrepresentable_and_malformed_positions_are_errors() {
        assert_eq!(Matrix::of_shape("w", &[1 << 31]).unwrap_err().code(), "unsupported");
        assert_eq!(Matrix::of_shape("w", &[1, 1 << 31]).unwrap_err().code(), "unsupported");
        let matrix = Matrix::of_shape("w", &[2, 3]).unwrap();
        for (rows, cols) in [([0, 0], [1, 0]), ([0, 0], [2, 1]), ([0, 1], [0, 3])] {
            assert_eq!(matrix.join("w", &rows, &cols).unwrap_err().code(), "damaged");
        }
    }
}
