//! XOR of whole tensors, as slime (`THUDM/slime` #1806, #2181), miles (#1235), ModelExpress and SkyRL (#1935) ship it.
//!
//! A safetensors file in which each changed tensor is a U8 vector: one zstd-1 frame of the XOR of its old and new
//! bytes, cells little-endian. Metadata: `version` and `base_version` (decimal, at least six digits),
//! `delta_encoding` = `xor`, `compression_format` = `zstd`, `checksum_format` = `xxh3-128`, and under each tensor's
//! name the digest of its new bytes.
//!
//! **What is theirs and what is not.** The frames are those of all four systems, bit for bit. The file around them is
//! ours: those systems ship a version as a folder, and keep what the metadata here say beside the tensors: slime, miles
//! and ModelExpress in `model.safetensors.index.json`, SkyRL in `manifest.json`, with file names, numbering and choice
//! of checksum of their own. No such folder is read or written here. **Do not hand a bare file to an SGLang receiver:**
//! without the index it takes the version for a full checkpoint, and deletes its local model first.
//!
//! Applying a patch twice takes it back, and a patch applied to a wrong base yields neither checkpoint: the checksum
//! of the result is the only guard.

use std::collections::BTreeMap;

use zstd::bulk::Decompressor;

use crate::diff::{changed_positions, gather};
use crate::limits::Budget;
use crate::safetensors_file::{HeaderWriter, SafetensorsFile, View};
use crate::zstd_frame::{FrameWriter, decompress_into};
use crate::{Checkpoint, Digest, Error, Limits, PatchFormat, SparsePatch, Steps, Tensor, TensorChanges};

/// Metadata that every file carries and its only supported value.
const CONSTANTS: [(&str, &str); 3] =
    [("checksum_format", "xxh3-128"), ("compression_format", "zstd"), ("delta_encoding", "xor")];
const VERSION: &str = "version";
const BASE_VERSION: &str = "base_version";

/// The XOR format.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Xor;

impl PatchFormat for Xor {
    fn name(&self) -> &'static str {
        "xor-zstd"
    }

    fn encode(&self, steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error> {
        base.check_same_layout(target)?;
        let mut metadata: BTreeMap<String, String> =
            CONSTANTS.iter().map(|&(key, value)| (key.into(), value.into())).collect();
        metadata.insert(VERSION.into(), format!("{:06}", steps.target));
        metadata.insert(BASE_VERSION.into(), format!("{:06}", steps.base));

        let mut writer = FrameWriter::new()?;
        let (mut xor, mut data, mut frames) = (Vec::new(), Vec::new(), Vec::new());
        for (old, new) in base.tensors().iter().zip(target.tensors()) {
            let xor = room(&mut xor, old.cells.len() * 2);
            if !write_xor(old.cells, new.cells, xor) {
                continue;
            }
            let frame = writer.compress(xor)?;
            data.extend_from_slice(frame);
            frames.push((new.name, frame.len()));
            if metadata.insert(new.name.into(), Digest::of_cells(new.cells).to_string()).is_some() {
                return Err(Error::unsupported(new.name, "a tensor named as a metadata key of the format"));
            }
        }
        let mut header = HeaderWriter::new(&metadata);
        for (name, len) in frames {
            header.add(name, "U8", len);
        }
        let mut file = header.finish();
        file.extend_from_slice(&data);
        Ok(file)
    }

    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error> {
        let mut reader = Reader::new(bytes, base, limits)?;
        let mut tensors = Vec::new();
        let mut result = Vec::new();
        while let Some(next) = reader.next_tensor()? {
            result.clear();
            result.extend(
                next.tensor
                    .cells
                    .iter()
                    .zip(next.xor.as_chunks().0)
                    .map(|(&cell, &xor)| cell ^ u16::from_le_bytes(xor)),
            );
            next.check(&result)?;
            let indices = changed_positions(next.tensor.cells, &result);
            next.budget.spend_elements::<(u64, u16)>(indices.len())?;
            if !indices.is_empty() {
                let values = gather(&result, &indices);
                let (name, shape) = (next.tensor.name.to_owned(), next.tensor.shape.clone());
                tensors.push(TensorChanges { name, shape, indices, values });
            }
        }
        Ok(SparsePatch { base_step: Some(reader.steps.base), target_step: Some(reader.steps.target), tensors })
    }

    fn apply(&self, bytes: &[u8], base: &Checkpoint<'_>, cells: &mut [Vec<u16>], limits: &Limits) -> Result<(), Error> {
        base.check_room(cells)?;
        let mut reader = Reader::new(bytes, base, limits)?;
        let mut touched = Vec::new();
        let outcome = apply_all(&mut reader, cells, &mut touched);
        if outcome.is_err() {
            for place in touched {
                if let (Some(cells), Some(tensor)) = (cells.get_mut(place), base.tensors().get(place)) {
                    cells.copy_from_slice(tensor.cells);
                }
            }
        }
        outcome
    }
}

fn apply_all(reader: &mut Reader<'_, '_>, cells: &mut [Vec<u16>], touched: &mut Vec<usize>) -> Result<(), Error> {
    while let Some(next) = reader.next_tensor()? {
        let Some(cells) = cells.get_mut(next.place) else { continue };
        touched.push(next.place);
        for (cell, &xor) in cells.iter_mut().zip(next.xor.as_chunks().0) {
            *cell ^= u16::from_le_bytes(xor);
        }
        next.check(cells)?;
    }
    Ok(())
}

/// Fills `xor` with the bytes of `old ^ new`; says whether any is set.
fn write_xor(old: &[u16], new: &[u16], xor: &mut [u8]) -> bool {
    let mut any = 0;
    for ((out, old), new) in xor.as_chunks_mut().0.iter_mut().zip(old).zip(new) {
        any |= old ^ new;
        *out = (old ^ new).to_le_bytes();
    }
    any != 0
}

/// The first `len` bytes of a buffer that only ever grows, so that it need not be cleared for each tensor.
fn room(buffer: &mut Vec<u8>, len: usize) -> &mut [u8] {
    if buffer.len() < len {
        buffer.reserve_exact(len - buffer.len());
        buffer.resize(len, 0);
    }
    buffer.split_at_mut(len).0
}

/// Decompresses one tensor after the other into one buffer.
struct Reader<'r, 'a> {
    file: SafetensorsFile<'r>,
    base: &'r Checkpoint<'a>,
    steps: Steps,
    budget: Budget,
    decompressor: Decompressor<'static>,
    xor: Vec<u8>,
}

/// The next changed tensor.
struct Next<'n, 'a> {
    place: usize,
    tensor: &'n Tensor<'a>,
    /// XOR of old and new bytes, two for each cell of `tensor`.
    xor: &'n [u8],
    expected: Digest,
    budget: &'n mut Budget,
}

impl Next<'_, '_> {
    fn check(&self, result: &[u16]) -> Result<(), Error> {
        let found = Digest::of_cells(result);
        if found == self.expected {
            return Ok(());
        }
        Err(Error::wrong_base(self.tensor.name, format_args!("a result with digest {}", self.expected), found))
    }
}

impl<'r, 'a> Reader<'r, 'a> {
    fn new(bytes: &'r [u8], base: &'r Checkpoint<'a>, limits: &Limits) -> Result<Self, Error> {
        let mut budget = Budget::new(limits);
        let file = SafetensorsFile::parse(bytes, &mut budget)?;
        for (key, supported) in CONSTANTS {
            let value = file.required(key)?;
            if value != supported {
                return Err(Error::unsupported("safetensors metadata", format!("{key} {value:?}")));
            }
        }
        let steps = Steps { base: file.required_number(BASE_VERSION)?, target: file.required_number(VERSION)? };
        let decompressor =
            Decompressor::new().map_err(|error| Error::misuse(format!("the zstd decoder failed: {error}")))?;
        Ok(Self { file, base, steps, budget, decompressor, xor: Vec::new() })
    }

    fn next_tensor(&mut self) -> Result<Option<Next<'_, 'a>>, Error> {
        let Some((name, View { dtype, data, .. })) = self.file.tensors.pop_first() else { return Ok(None) };
        let (place, tensor) = self.base.find(&name, None)?;
        if dtype != "U8" {
            return Err(Error::unsupported(name, format!("an XOR of dtype {dtype}")));
        }
        let digest = self.file.metadata.get(&name).and_then(|text| Digest::from_hex(text));
        let expected = digest.ok_or_else(|| Error::damaged(&name, "no checksum, or a malformed one"))?;
        let len = tensor.cells.len().saturating_mul(2);
        self.budget.spend(len.saturating_sub(self.xor.len()) as u64)?;
        let xor = room(&mut self.xor, len);
        decompress_into(&mut self.decompressor, data, xor, &name)?;
        Ok(Some(Next { place, tensor, xor, expected, budget: &mut self.budget }))
    }
}
