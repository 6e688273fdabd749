//! The tensor table.

use crate::bytes::{Cursor, push_varint};
use crate::dtype::Dtype;
use crate::error::{Damage, Error, Part};
use crate::layout::{MAX_NAME_BYTES, MAX_RANK};
use crate::limits::Limits;
use crate::units::CellCount;
use alloc::string::String;
use alloc::vec::Vec;

/// A tensor of the checkpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tensor {
    /// Its name in the checkpoint.
    pub name: String,
    /// Its element type.
    pub dtype: Dtype,
    /// Its dimensions, outermost first; none for a scalar.
    pub shape: Vec<u64>,
}

impl Tensor {
    /// How many cells it holds; `None` if its shape overflows or does not fill whole bytes.
    pub fn cells(&self) -> Option<CellCount> {
        // No elements, however large the other dimensions are.
        let empty = self.shape.contains(&0);
        let mut dimensions = self.shape.iter().filter(|_| !empty);
        let product = dimensions.try_fold(1u64, |product, dimension| product.checked_mul(*dimension))?;
        let elements = if empty { 0 } else { product };
        let cells = self.dtype.cells(elements)?;
        // Byte offsets must fit as well.
        cells.checked_mul(self.dtype.cell_bytes() as u64)?;
        Some(CellCount(cells))
    }

    /// Whether a patch can hold it, by the code that reads one.
    ///
    /// # Errors
    /// [`Damage::Text`] if its name is too long, [`Damage::Number`] if it has too many dimensions, [`Damage::Shape`].
    pub fn check(&self) -> Result<(), Damage> {
        let mut entry = Vec::new();
        write_one(self, &[], &mut entry);
        match read_one(&mut Cursor::new(&entry, Part::Header), &[]) {
            Err(Error::Damaged { damage, .. }) => Err(damage),
            _ => self.cells().map(drop).ok_or(Damage::Shape),
        }
    }

    /// Table order.
    pub fn order(&self) -> (Dtype, &[u8]) {
        (self.dtype, self.name.as_bytes())
    }
}

pub(super) fn write(tensors: &[Tensor], out: &mut Vec<u8>) {
    push_varint(out, tensors.len() as u64);
    let mut previous: &[u8] = &[];
    for tensor in tensors {
        write_one(tensor, previous, out);
        previous = tensor.name.as_bytes();
    }
}

fn write_one(tensor: &Tensor, previous: &[u8], out: &mut Vec<u8>) {
    let name = tensor.name.as_bytes();
    let shared = previous.iter().zip(name).take_while(|(a, b)| a == b).count();
    let suffix = name.get(shared..).unwrap_or_default();
    out.push(tensor.dtype as u8);
    push_varint(out, shared as u64);
    push_varint(out, suffix.len() as u64);
    out.extend_from_slice(suffix);
    push_varint(out, tensor.shape.len() as u64);
    tensor.shape.iter().for_each(|dimension| push_varint(out, *dimension));
}

pub(super) fn read(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Vec<Tensor>, Error> {
    let count = cursor.varint()?;
    Limits::check("number of tensors", count, limits.tensors)?;
    let mut tensors: Vec<Tensor> = Vec::new();
    let (mut total_bytes, mut name_bytes) = (0u64, 0u64);
    for _ in 0..count {
        let previous = tensors.last();
        let tensor = read_one(cursor, previous.map_or(&[], |tensor| tensor.name.as_bytes()))?;
        if previous.is_some_and(|previous| previous.order() >= tensor.order()) {
            return Err(cursor.damaged(Damage::TensorOrder));
        }
        let cells = tensor.cells().ok_or(cursor.damaged(Damage::Shape))?;
        // Cells are not more than bytes, so their sum fits as well.
        let bytes = cells.get().checked_mul(tensor.dtype.cell_bytes() as u64);
        total_bytes = bytes.and_then(|bytes| bytes.checked_add(total_bytes)).ok_or(cursor.damaged(Damage::Shape))?;
        name_bytes += tensor.name.len() as u64;
        Limits::check("bytes of all tensor names", name_bytes, limits.header_bytes)?;
        tensors.push(tensor);
    }
    Ok(tensors)
}

fn read_one(cursor: &mut Cursor<'_>, previous: &[u8]) -> Result<Tensor, Error> {
    let dtype = Dtype::from_code(cursor.byte()?).ok_or(cursor.damaged(Damage::Dtype))?;
    let shared = cursor.varint_up_to(previous.len() as u64)? as usize;
    let suffix_bytes = cursor.varint()?;
    if suffix_bytes.saturating_add(shared as u64) > MAX_NAME_BYTES as u64 {
        return Err(cursor.damaged(Damage::Text));
    }
    let mut name = previous.get(..shared).unwrap_or_default().to_vec();
    let suffix = cursor.take(suffix_bytes as usize)?;
    // Sharing less than is shared would be a second way to write the same table.
    if previous.get(shared).is_some_and(|next| suffix.first() == Some(next)) {
        return Err(cursor.damaged(Damage::Number));
    }
    name.extend_from_slice(suffix);
    let name = String::from_utf8(name).map_err(|_| cursor.damaged(Damage::Text))?;
    let rank = cursor.varint_up_to(MAX_RANK as u64)?;
    let shape = (0..rank).map(|_| cursor.varint()).collect::<Result<Vec<_>, _>>()?;
    Ok(Tensor { name, dtype, shape })
}
