//! Hugging Face TRL's sparse weight sync (`huggingface/trl` #5417, #5932, #5937), as its two branches write it.
//!
//! A safetensors file that lists every tensor, changed or not, with the positions and the new BF16 cells of its changes:
//!
//! | | branch | positions | cells | names |
//! |---|---|---|---|---|
//! | [`Trl::V1`] | `delta-weight-sync` | `{name}.indices`, I32, in the flattened tensor | `{name}.values` | metadata `changed_params`, a JSON list |
//! | [`Trl::GapDelta`] | `delta-weight-sync-v3` | `{name}.idx`, how many cells lie between a change and the one before; U16 if all fit, else U32 | `{name}.val` | those of the `.val` |
//!
//! Metadata are what Python's `str` makes of TRL's fields: `sparse` = `True`, without which TRL takes the file for a
//! full checkpoint; `format`, `version`, `model_version` = target step, `num_changed_params` = number of tensors,
//! `total_changed_elements`, `total_elements`, `sparsity`; and `encoding` = `gap_delta` in the second. Data lie as the
//! safetensors library puts them, by type and then by key. Nothing tells the base, the shapes or a digest.
//!
//! The reader takes both, and the second branch's `raw` encoding (`.idx` as I32 positions). It is stricter than TRL,
//! which skips tensors that its model lacks, and those that `changed_params` does not name.

use std::collections::BTreeMap;

use crate::bytes::{cells_as_bytes, cells_from_bytes, push_le};
use crate::diff::{changed_positions, gather};
use crate::limits::Budget;
use crate::safetensors_file::{HeaderWriter, SafetensorsFile, View};
use crate::{Checkpoint, Error, Limits, PatchFormat, SparsePatch, Steps, Tensor, TensorChanges};

/// Metadata that every file carries, and the only value of each that is supported.
const CONSTANTS: [(&str, &str); 3] = [("format", "sparse_weight_patch"), ("sparse", "True"), ("version", "1")];
const CHANGED_PARAMS: &str = "changed_params";
const ENCODING: &str = "encoding";
const GAP_DELTA: &str = "gap_delta";
const MODEL_VERSION: &str = "model_version";
const METADATA: &str = "safetensors metadata";

/// What to write. Either value reads both.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Trl {
    /// Positions as they are: 6 bytes a change.
    V1,
    /// Gaps, in 2 bytes where a tensor's gaps allow: TRL's default since, and the smallest that needs no GPU.
    GapDelta,
}

impl PatchFormat for Trl {
    fn name(&self) -> &'static str {
        match self {
            Self::V1 => "trl",
            Self::GapDelta => "trl-gap-delta",
        }
    }

    fn encode(&self, steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error> {
        base.check_same_layout(target)?;
        let mut entries = Vec::new();
        let mut change_count = 0;
        for (old, new) in base.tensors().iter().zip(target.tensors()) {
            if i32::try_from(old.cells.len()).is_err() {
                return Err(Error::unsupported(old.name, "a tensor of more cells than TRL's I32 positions can reach"));
            }
            let positions = changed_positions(old.cells, new.cells);
            change_count += positions.len();
            entries.push(self.write_positions(old.name, &positions));
            let cells = cells_as_bytes(&gather(new.cells, &positions)).into_owned();
            entries.push(Entry { key: self.keys(old.name).1, dtype: "BF16", count: positions.len(), data: cells });
        }
        // The safetensors library's order: U32, I32, BF16, U16.
        let rank = |dtype: &str| ["U32", "I32", "BF16", "U16"].iter().position(|other| *other == dtype);
        entries.sort_by(|a, b| rank(a.dtype).cmp(&rank(b.dtype)).then_with(|| a.key.cmp(&b.key)));

        let mut header = HeaderWriter::new(&self.metadata(steps, base, change_count));
        for entry in &entries {
            header.add(&entry.key, entry.dtype, entry.count);
        }
        let mut file = header.finish();
        for entry in &entries {
            file.extend_from_slice(&entry.data);
        }
        Ok(file)
    }

    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error> {
        let mut budget = Budget::new(limits);
        let mut file = SafetensorsFile::parse(bytes, &mut budget)?;
        for (key, supported) in CONSTANTS {
            let value = file.required(key)?;
            if value != supported {
                return Err(Error::unsupported(METADATA, format!("{key} is {value:?}, not {supported:?}")));
            }
        }
        let target_step = Some(file.required_number(MODEL_VERSION)?);
        let (version, is_gaps) = match file.metadata.get(ENCODING).map(String::as_str) {
            None => (Self::V1, false),
            Some("raw") => (Self::GapDelta, false),
            Some(GAP_DELTA) => (Self::GapDelta, true),
            Some(other) => return Err(Error::unsupported(METADATA, format!("{ENCODING} {other:?}"))),
        };
        let mut tensors = Vec::new();
        for name in version.names(&file, &mut budget)? {
            let (positions_key, cells_key) = version.keys(&name);
            let views = (file.tensors.remove(&positions_key), file.tensors.remove(&cells_key));
            let (Some(positions), Some(cells)) = views else {
                return Err(Error::damaged(name, format!("no {positions_key}, or no {cells_key}")));
            };
            let (_, tensor) = base.find(&name, None)?;
            let changes = read_changes(tensor, is_gaps, &positions, &cells, &mut budget)?;
            tensors.extend((!changes.indices.is_empty()).then_some(changes));
        }
        match file.tensors.keys().next() {
            Some(key) => Err(Error::damaged(key, "no tensor of the patch has such a part")),
            None => Ok(SparsePatch { base_step: None, target_step, tensors }),
        }
    }
}

/// A tensor of the file that is written.
struct Entry {
    key: String,
    dtype: &'static str,
    count: usize,
    data: Vec<u8>,
}

impl Trl {
    /// Under which the file has a tensor's positions and cells.
    fn keys(self, name: &str) -> (String, String) {
        match self {
            Self::V1 => (format!("{name}.indices"), format!("{name}.values")),
            Self::GapDelta => (format!("{name}.idx"), format!("{name}.val")),
        }
    }

    /// Names of the tensors that the file is about, ascending.
    fn names(self, file: &SafetensorsFile<'_>, budget: &mut Budget) -> Result<Vec<String>, Error> {
        if self == Self::GapDelta {
            let names = file.tensors.keys().filter_map(|key| key.strip_suffix(".val"));
            let mut names: Vec<String> = names.map(str::to_owned).collect();
            names.sort_unstable();
            return Ok(names);
        }
        let list = file.required(CHANGED_PARAMS)?;
        budget.spend_header(list.len())?;
        let names: Result<Vec<String>, _> = serde_json::from_str(list);
        let mut names = names
            .map_err(|error| Error::damaged(METADATA, format!("{CHANGED_PARAMS} is no list of names: {error}")))?;
        names.sort_unstable();
        Ok(names)
    }

    fn metadata(self, steps: Steps, base: &Checkpoint<'_>, change_count: usize) -> BTreeMap<String, String> {
        let cell_count = base.cell_count();
        let sparsity = 1.0 - change_count as f64 / cell_count.max(1) as f64;
        let mut metadata: BTreeMap<String, String> =
            CONSTANTS.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        metadata.insert(MODEL_VERSION.into(), steps.target.to_string());
        metadata.insert("num_changed_params".into(), base.tensors().len().to_string());
        metadata.insert("total_changed_elements".into(), change_count.to_string());
        metadata.insert("total_elements".into(), cell_count.to_string());
        metadata.insert("sparsity".into(), format!("{sparsity:?}"));
        if self == Self::V1 {
            let names = base.tensors().iter().map(|tensor| tensor.name).collect::<Vec<_>>();
            metadata.insert(CHANGED_PARAMS.into(), python_list(&names));
        } else {
            metadata.insert(ENCODING.into(), GAP_DELTA.into());
        }
        metadata
    }

    fn write_positions(self, name: &str, positions: &[u64]) -> Entry {
        let mut data = Vec::new();
        let dtype = match self {
            Self::V1 => {
                push_le(&mut data, positions.iter().map(|&position| (position as u32).to_le_bytes()));
                "I32"
            }
            Self::GapDelta => {
                let mut next = 0;
                let gaps: Vec<u32> = positions
                    .iter()
                    .map(|&position| (position - std::mem::replace(&mut next, position + 1)) as u32)
                    .collect();
                if gaps.iter().all(|&gap| gap <= u16::MAX.into()) {
                    push_le(&mut data, gaps.iter().map(|&gap| (gap as u16).to_le_bytes()));
                    "U16"
                } else {
                    push_le(&mut data, gaps.iter().map(|gap| gap.to_le_bytes()));
                    "U32"
                }
            }
        };
        Entry { key: self.keys(name).0, dtype, count: positions.len(), data }
    }
}

/// A JSON list with the space after each comma that Python's `json` puts.
fn python_list(names: &[&str]) -> String {
    let quoted: Vec<String> = names.iter().map(|name| serde_json::Value::from(*name).to_string()).collect();
    format!("[{}]", quoted.join(", "))
}

fn read_changes(
    tensor: &Tensor<'_>,
    is_gaps: bool,
    positions: &View<'_>,
    cells: &View<'_>,
    budget: &mut Budget,
) -> Result<TensorChanges, Error> {
    let name = tensor.name;
    if [positions, cells].iter().any(|view| view.shape.len() != 1) {
        return Err(Error::damaged(name, "positions or cells that are not one-dimensional"));
    }
    if positions.shape != cells.shape {
        let (positions, cells) = (&positions.shape, &cells.shape);
        return Err(Error::damaged(name, format!("positions of shape {positions:?} for cells of shape {cells:?}")));
    }
    if cells.dtype != "BF16" {
        return Err(Error::unsupported(name, format!("cells of dtype {}", cells.dtype)));
    }
    budget.spend_elements::<(u64, u16)>(cells.data.len() / 2)?;
    let indices = read_positions(name, is_gaps, positions)?;
    let in_range = indices.last().is_none_or(|&last| last < tensor.cells.len() as u64);
    if !in_range || !indices.is_sorted_by(|a, b| a < b) {
        let count = tensor.cells.len();
        return Err(Error::damaged(name, format!("positions that do not ascend, or leave the tensor's {count} cells")));
    }
    Ok(TensorChanges {
        name: name.to_owned(),
        shape: tensor.shape.clone(),
        indices,
        values: cells_from_bytes(cells.data),
    })
}

/// Positions, in or out of the tensor.
fn read_positions(name: &str, is_gaps: bool, view: &View<'_>) -> Result<Vec<u64>, Error> {
    // Fewer than 2^64 bytes are there, so gaps of four bytes cannot add up to more than a u64 holds.
    let mut next = 0;
    let mut after_gap = |gap: u64| {
        let position = next + gap;
        next = position + 1;
        position
    };
    let positions = match (view.dtype.as_str(), is_gaps) {
        // As u32, a negative position is out of any tensor that I32 can reach.
        ("I32", false) => view.data.as_chunks().0.iter().map(|&four| u32::from_le_bytes(four).into()).collect(),
        ("U16", true) => view.data.as_chunks().0.iter().map(|&two| after_gap(u16::from_le_bytes(two).into())).collect(),
        ("U32", true) => {
            view.data.as_chunks().0.iter().map(|&four| after_gap(u32::from_le_bytes(four).into())).collect()
        }
        (dtype, _) => return Err(Error::unsupported(name, format!("positions of dtype {dtype}"))),
    };
    Ok(positions)
}
