//! How a buffer of the engine holds a tensor, and which bytes of it a piece needs.

use super::kernels::{Params, Storage};
use super::port::{Binding, DeviceLimits, Port};
use crate::error::Error;
use pulse_format::layout::{BLOCK_CELLS, MAX_SEGMENT_CELLS};
use pulse_format::{Dtype, Salt, Tensor};
use std::ops::Range;

/// What holds a cell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Element {
    /// Its bytes, as in a checkpoint; BF16 two to a word.
    #[default]
    Packed,
    /// An f32 that holds a BF16 cell exactly.
    F32,
    /// The f16 nearest to a BF16 cell, as [`half::from_bf16`](super::half::from_bf16) has it.
    F16,
}

/// How a buffer holds a tensor of any number of dimensions: as rows of its last one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Layout {
    /// What holds a cell.
    pub element: Element,
    /// Where the tensor begins, in bytes; a multiple of the element's size.
    pub offset: u64,
    /// Whether columns follow one another instead of rows.
    pub transposed: bool,
    /// From a row (or, transposed, a column) to the next, in elements; as many as it has, if `None`.
    pub stride: Option<u64>,
}

/// A tensor in a buffer.
#[derive(Debug, Clone)]
pub struct Located<B> {
    buffer: B,
    buffer_bytes: u64,
    storage: Storage,
    /// Its side table's number.
    side: Option<usize>,
    /// Kernel cells in a cell: 2 for cells of 8 bytes, which are two words.
    split: u32,
    /// Kernel cells of a row; 0 where all cells follow one another.
    columns: u32,
    row_step: u32,
    column_step: u32,
    /// The element of cell 0.
    first: u64,
    /// From its first byte to behind its last.
    bytes: Range<u64>,
    rows: Rows,
    format: Option<pulse_format::FloatFormat>,
}

/// Rows of a tensor as its buffer holds them (columns, if transposed), in bytes.
#[derive(Debug, Clone, Copy)]
struct Rows {
    stride: u64,
    across: u64,
}

/// The part of a piece that one binding covers.
#[derive(Debug, Clone)]
pub(crate) struct Window<B> {
    pub(crate) storage: Storage,
    /// The number of the tensor's side table.
    pub(crate) side: Option<usize>,
    pub(crate) binding: Binding<B>,
    /// Geometry, format and keys; places in scratch buffers are 0.
    pub(crate) params: Params,
}

impl<B> Window<B> {
    pub(crate) fn blocks(&self) -> u32 {
        self.params.cells.div_ceil(BLOCK_CELLS as u32)
    }
}

/// Checks that `layout` can hold `tensor` in `buffer`, and that kernels can work on it there.
pub(crate) fn locate<P: Port>(
    tensor: &Tensor,
    buffer: &P::Buffer,
    layout: Layout,
    port: &P,
) -> Result<Located<P::Buffer>, Error> {
    let (buffer_bytes, limits) = (port.size(buffer), &port.limits());
    let refuse = |problem: String| Error::Binding { tensor: tensor.name.clone(), problem };
    if !port.usable(buffer) {
        return Err(refuse("its buffer lacks one of the usages STORAGE, COPY_SRC, COPY_DST".into()));
    }
    let cell_bytes = tensor.dtype.cell_bytes() as u32;
    let (storage, split) = match (layout.element, cell_bytes) {
        (Element::Packed, 1) => (Storage::Packed8, 1),
        (Element::Packed, 2) => (Storage::Packed16, 1),
        (Element::Packed, 4) => (Storage::Packed32, 1),
        (Element::Packed, 8) => (Storage::Packed32, 2),
        (Element::F32, _) if tensor.dtype == Dtype::Bf16 => (Storage::Widened, 1),
        (Element::F16, _) if tensor.dtype == Dtype::Bf16 => (Storage::Half, 1),
        _ => return Err(refuse(format!("cells of {} are not held so", tensor.dtype.name()))),
    };
    let cells = tensor.cells().map(|cells| cells.get() * u64::from(split)).filter(|cells| *cells < 1 << 31);
    let cells = cells.ok_or_else(|| refuse("it has 2^31 cells or more".into()))?;
    // Elements smaller than a byte have no rows of cells.
    let whole = tensor.dtype.element_bits() == 8 * u64::from(cell_bytes);
    if !whole && (layout.transposed || layout.stride.is_some()) {
        return Err(refuse(format!("elements of {} have no rows", tensor.dtype.name())));
    }
    let columns = tensor.shape.last().filter(|_| whole).map_or(cells, |columns| columns * u64::from(split));
    let rows = cells.checked_div(columns).unwrap_or_default();
    let element_bytes = u64::from(storage.stored_bits() / 8);
    if !layout.offset.is_multiple_of(element_bytes) {
        return Err(refuse(format!("its offset is no multiple of {element_bytes}")));
    }
    let (across, along) = if layout.transposed { (rows, columns) } else { (columns, rows) };
    if layout.transposed && split > 1 {
        return Err(refuse("cells of 8 bytes cannot be transposed".into()));
    }
    let stride = layout.stride.map_or(Some(across), |stride| stride.checked_mul(u64::from(split)));
    let stride = stride.filter(|stride| *stride >= across && *stride < 1 << 32);
    let stride = stride.ok_or_else(|| refuse(format!("its stride is not at least {across} elements")))?;
    let extent = if cells == 0 { 0 } else { (along - 1).checked_mul(stride).map_or(u64::MAX, |last| last + across) };
    let end = extent.checked_mul(element_bytes).and_then(|bytes| bytes.checked_add(layout.offset));
    let end = end.filter(|end| *end <= buffer_bytes);
    let end = end.ok_or_else(|| refuse(format!("it ends behind its buffer of {buffer_bytes} bytes")))?;
    let contiguous = !layout.transposed && stride == across;
    let located = Located {
        buffer: buffer.clone(),
        buffer_bytes,
        storage,
        side: None,
        split,
        columns: if contiguous { 0 } else { columns as u32 },
        row_step: if layout.transposed { 1 } else { stride as u32 },
        column_step: if layout.transposed { stride as u32 } else { 1 },
        first: layout.offset / element_bytes,
        bytes: layout.offset..end,
        rows: Rows { stride: stride * element_bytes, across: across * element_bytes },
        format: tensor.dtype.float_format(),
    };
    // What one binding cannot cover is cut, down to a block of rows; columns that follow one another cannot be.
    let least = if layout.transposed { cells as u32 } else { (cells as u32).min(BLOCK_CELLS as u32) };
    let (needed, most) = (located.range(0, least, limits).1 + limits.offset_alignment, limits.binding_bytes);
    if needed > most {
        return Err(refuse(format!(
            "laid out so, {needed} bytes must fit one binding, which this device limits to {most}"
        )));
    }
    Ok(located)
}

impl<B: PartialEq> Located<B> {
    /// Whether the two share a byte. Of tensors with one stride, as those of a fused matrix are, each row is looked at; others are taken
    /// as whole ranges.
    pub(crate) fn overlaps(&self, other: &Self) -> bool {
        if self.buffer != other.buffer || self.bytes.is_empty() || other.bytes.is_empty() {
            return false;
        }
        if self.bytes.end <= other.bytes.start || other.bytes.end <= self.bytes.start {
            return false;
        }
        let (one, two) = (&self.rows, &other.rows);
        if one.stride != two.stride || one.stride == 0 {
            return true;
        }
        // Around a circle of one stride each row covers an arc, and arcs that do not meet are rows that never do.
        let [one_start, two_start] = [self, other].map(|tensor| tensor.bytes.start % one.stride);
        let distance = (two_start + one.stride - one_start) % one.stride;
        distance < one.across || distance + two.across > one.stride
    }
}

impl<B: Clone> Located<B> {
    /// Cuts a piece (of cells as the checkpoint counts them) into windows that one binding covers each.
    pub(crate) fn windows(
        &self,
        salt: Salt,
        first_cell: u64,
        cells: u32,
        limits: &DeviceLimits,
    ) -> Result<Vec<Window<B>>, Error> {
        let (mut first, mut left) = ((first_cell * u64::from(self.split)) as u32, cells * self.split);
        let mut windows = Vec::new();
        while left > 0 {
            let mut cells = left;
            while self.range(first, cells, limits).1 > limits.binding_bytes && cells > BLOCK_CELLS as u32 {
                cells = (cells / 2).next_multiple_of(BLOCK_CELLS as u32);
            }
            let (offset, bytes) = self.range(first, cells, limits);
            if bytes > limits.binding_bytes {
                return Err(Error::Limit { what: "a binding", needed: bytes, allowed: limits.binding_bytes });
            }
            windows.push(self.window(salt, first, cells, offset, bytes));
            first += cells;
            left -= cells;
        }
        Ok(windows)
    }

    fn window(&self, salt: Salt, first: u32, cells: u32, offset: u64, bytes: u64) -> Window<B> {
        let before = offset / u64::from(self.storage.stored_bits() / 8);
        let contiguous = if self.columns == 0 { first } else { 0 };
        let mut params = Params {
            cells,
            first_word: first / (32 / self.storage.cell_bits()),
            first_cell: first,
            salt_a: salt.a,
            salt_b: salt.b,
            // Only the sum of this and the cell's own part lies within the binding; both wrap.
            origin: (self.first as u32).wrapping_sub(before as u32).wrapping_add(contiguous),
            columns: self.columns,
            row_step: self.row_step,
            column_step: self.column_step,
            ..Params::default()
        };
        if let Some(format) = self.format {
            (params.mantissa_bits, params.exponent_mask, params.first_exponent) = format.class_parameters();
        }
        let binding = Binding { buffer: self.buffer.clone(), offset, bytes };
        Window { storage: self.storage, side: self.side, binding, params }
    }

    /// Offset and length, in bytes, of a binding that covers these kernel cells, at least one.
    fn range(&self, first: u32, cells: u32, limits: &DeviceLimits) -> (u64, u64) {
        let (first, last) = (u64::from(first), u64::from(first) + u64::from(cells.max(1)) - 1);
        let (low, high) = if self.columns == 0 {
            (first, last)
        } else {
            let columns = u64::from(self.columns);
            let (row_step, column_step) = (u64::from(self.row_step), u64::from(self.column_step));
            let (first_row, last_row) = (first / columns, last / columns);
            // Several rows may use every column.
            let (low, high) = if first_row == last_row { (first % columns, last % columns) } else { (0, columns - 1) };
            (first_row * row_step + low * column_step, last_row * row_step + high * column_step)
        };
        let element = u64::from(self.storage.stored_bits() / 8);
        let start = (self.first + low) * element / limits.offset_alignment * limits.offset_alignment;
        let end = ((self.first + high + 1) * element).next_multiple_of(4).min(self.buffer_bytes / 4 * 4);
        (start, end.saturating_sub(start))
    }

    /// The tensor in parts of at most a segment's cells, each cut into windows.
    pub(crate) fn all_windows(&self, salt: Salt, cells: u64, limits: &DeviceLimits) -> Result<Vec<Window<B>>, Error> {
        let mut windows = Vec::new();
        let most = u64::from(MAX_SEGMENT_CELLS / self.split);
        let mut first = 0;
        while first < cells {
            let part = most.min(cells - first);
            windows.extend(self.windows(salt, first, part as u32, limits)?);
            first += part;
        }
        Ok(windows)
    }

    /// With a side table, by its number.
    pub(crate) fn with_side(self, side: usize) -> Self {
        Self { side: Some(side), ..self }
    }

    /// The number of its side table.
    pub(crate) fn side(&self) -> Option<usize> {
        self.side
    }

    /// Kernel cells in a cell.
    pub(crate) fn split(&self) -> u32 {
        self.split
    }
}
