//! Hugging Face TRL's sparse weight sync (`huggingface/trl` #5417, #5932, #5937).
//!
//! A safetensors file: for each changed tensor `{name}.indices`, I32 positions in the flattened tensor, and
//! `{name}.values`, the new BF16 cells. Metadata: `sparse` = `true`, `model_version` = target step, `sparsity` =
//! share of cells that stayed, `changed_params` = number of changed cells. Data lie as the safetensors library puts
//! them, wider types first, so all indices come before all values. Nothing tells the base, the shapes or a digest.

use std::collections::{BTreeMap, BTreeSet};

use crate::bytes::{cells_as_bytes, cells_from_bytes, push_le};
use crate::diff::{ChangedTensor, changed_tensors};
use crate::limits::Budget;
use crate::safetensors_file::{HeaderWriter, SafetensorsFile, View};
use crate::{Checkpoint, Error, Limits, PatchFormat, SparsePatch, Steps, TensorChanges, zstd_frame};

const INDICES: &str = ".indices";
const VALUES: &str = ".values";

/// TRL's format, as it is or with the whole file in one zstd-1 frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trl {
    compressed: bool,
}

impl Trl {
    /// The format as TRL writes it: 6 bytes a change.
    pub const fn raw() -> Self {
        Self { compressed: false }
    }

    /// The file in a zstd-1 frame, which TRL does not do but anyone would try first.
    pub const fn zstd() -> Self {
        Self { compressed: true }
    }
}

impl PatchFormat for Trl {
    fn name(&self) -> &'static str {
        if self.compressed { "trl-zstd" } else { "trl" }
    }

    fn encode(&self, steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error> {
        let changed = changed_tensors(base, target)?;
        let file = write_file(steps, base.cell_count(), &changed)?;
        if self.compressed { zstd_frame::compress(&file) } else { Ok(file) }
    }

    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error> {
        let mut budget = Budget::new(limits);
        if !self.compressed {
            return read_file(bytes, base, &mut budget);
        }
        let file = zstd_frame::decompress(bytes, u64::MAX, &mut budget, "zstd frame")?;
        read_file(&file, base, &mut budget)
    }
}

fn write_file(steps: Steps, cell_count: u64, changed: &[ChangedTensor<'_, '_>]) -> Result<Vec<u8>, Error> {
    let change_count: u64 = changed.iter().map(|tensor| tensor.positions.len() as u64).sum();
    let sparsity = if cell_count == 0 { 1.0 } else { 1.0 - change_count as f64 / cell_count as f64 };
    let mut header = HeaderWriter::new(&BTreeMap::from([
        ("changed_params".into(), change_count.to_string()),
        ("model_version".into(), steps.target.to_string()),
        ("sparse".into(), "true".into()),
        ("sparsity".into(), format!("{sparsity:.6}")),
    ]));
    for tensor in changed {
        if i32::try_from(tensor.base.cells.len()).is_err() {
            return Err(Error::unsupported(tensor.base.name, "a tensor of more cells than an I32 index can reach"));
        }
        header.add(&format!("{}{INDICES}", tensor.base.name), "I32", tensor.positions.len());
    }
    for tensor in changed {
        header.add(&format!("{}{VALUES}", tensor.base.name), "BF16", tensor.positions.len());
    }
    let mut file = header.finish();
    for tensor in changed {
        push_le(&mut file, tensor.positions.iter().map(|&position| (position as u32).to_le_bytes()));
    }
    for tensor in changed {
        file.extend_from_slice(&cells_as_bytes(&tensor.values()));
    }
    Ok(file)
}

fn read_file(bytes: &[u8], base: &Checkpoint<'_>, budget: &mut Budget) -> Result<SparsePatch, Error> {
    let file = SafetensorsFile::parse(bytes, budget)?;
    if !file.required("sparse")?.eq_ignore_ascii_case("true") {
        return Err(Error::unsupported("safetensors metadata", "a file that is not marked as sparse"));
    }
    let target_step = Some(file.required_number("model_version")?);
    let mut tensors = Vec::new();
    for name in tensor_names(&file)? {
        let (_, tensor) = base.find(name, None)?;
        let (indices_name, values_name) = (format!("{name}{INDICES}"), format!("{name}{VALUES}"));
        let (Some(indices), Some(values)) = (file.tensors.get(&indices_name), file.tensors.get(&values_name)) else {
            return Err(Error::damaged(name, "indices without values, or values without indices"));
        };
        budget.spend_elements::<(u64, u16)>(indices.data.len() / 4)?;
        if [indices, values].iter().any(|view| view.shape.len() != 1) {
            return Err(Error::damaged(name, "indices or values that are not one-dimensional"));
        }
        let indices = read_indices(name, indices, tensor.cells.len())?;
        if values.dtype != "BF16" {
            return Err(Error::unsupported(values_name, format!("values of dtype {}", values.dtype)));
        }
        let values = cells_from_bytes(values.data);
        if indices.len() != values.len() {
            return Err(Error::damaged(name, format!("{} indices but {} values", indices.len(), values.len())));
        }
        if !indices.is_empty() {
            tensors.push(TensorChanges { name: name.to_owned(), shape: tensor.shape.clone(), indices, values });
        }
    }
    Ok(SparsePatch { base_step: None, target_step, tensors })
}

/// Names of the tensors that the file is about, ascending.
fn tensor_names<'f>(file: &'f SafetensorsFile<'_>) -> Result<BTreeSet<&'f str>, Error> {
    let names = file.tensors.keys().map(|key| {
        let name = key.strip_suffix(INDICES).or_else(|| key.strip_suffix(VALUES));
        name.ok_or_else(|| Error::damaged(key, "neither indices nor values"))
    });
    names.collect()
}

fn read_indices(name: &str, view: &View<'_>, cell_count: usize) -> Result<Vec<u64>, Error> {
    if view.dtype != "I32" {
        return Err(Error::unsupported(name, format!("indices of dtype {}", view.dtype)));
    }
    // As u32, a negative index is out of any I32 tensor's range.
    let indices: Vec<u64> = view.data.as_chunks().0.iter().map(|&four| u64::from(u32::from_le_bytes(four))).collect();
    let in_range = indices.last().is_none_or(|&last| last < cell_count as u64);
    if in_range && indices.is_sorted_by(|a, b| a < b) {
        return Ok(indices);
    }
    Err(Error::damaged(name, format!("indices that do not ascend strictly, or leave the tensor's {cell_count} cells")))
}
