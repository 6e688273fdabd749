//! Checkpoints on disk: a `.safetensors` file, or a folder in Hugging Face layout.

use crate::error::Error;
use crate::map::Map;
use pulse_format::{Dtype, Tensor};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// The index that a folder of several shards has.
const INDEX_NAME: &str = "model.safetensors.index.json";

/// Named tensors in one or more mapped files.
#[derive(Debug)]
pub struct Checkpoint {
    path: PathBuf,
    /// The index file of a sharded checkpoint.
    index: Option<PathBuf>,
    files: Vec<CheckpointFile>,
    /// Ascending by dtype and name, as a patch lists them.
    tensors: Vec<StoredTensor>,
}

/// One mapped `.safetensors` file.
#[derive(Debug)]
pub(crate) struct CheckpointFile {
    pub(crate) path: PathBuf,
    pub(crate) map: Map,
    /// Bytes before the first tensor.
    pub(crate) data_start: usize,
}

/// A tensor and where its bytes are.
#[derive(Debug, Clone)]
pub struct StoredTensor {
    /// Name, dtype and shape.
    pub tensor: Tensor,
    /// Index into the checkpoint's files.
    pub(crate) file: usize,
    /// Its bytes in that file.
    pub(crate) range: Range<usize>,
}

impl Checkpoint {
    /// Opens a `.safetensors` file, or a folder with `model.safetensors.index.json` or a single `.safetensors` file.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Checkpoint`] if a file is not what it should be.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        let (index, paths) =
            if metadata.is_dir() { shards(path)? } else { (None, BTreeSet::from([path.to_path_buf()])) };
        let mut files = Vec::new();
        let mut tensors: Vec<StoredTensor> = Vec::new();
        for path in paths {
            let (file, stored) = open_file(&path, files.len())?;
            files.push(file);
            tensors.extend(stored);
        }
        tensors.sort_by(|a, b| a.tensor.order().cmp(&b.tensor.order()));
        let mut names = BTreeMap::new();
        for stored in &tensors {
            if let Some(other) = names.insert(&stored.tensor.name, stored.file) {
                let (a, b) = (&files[other].path, &files[stored.file].path);
                return Err(Error::checkpoint(a, format!("tensor {} is also in {}", stored.tensor.name, b.display())));
            }
        }
        let checkpoint = Self { path: path.to_path_buf(), index, files, tensors };
        checkpoint.check_index()?;
        Ok(checkpoint)
    }

    /// What was opened.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// All tensors, ascending by dtype and name.
    pub fn tensors(&self) -> &[StoredTensor] {
        &self.tensors
    }

    /// The tensors by name.
    pub fn by_name(&self) -> BTreeMap<&str, &StoredTensor> {
        self.tensors.iter().map(|stored| (stored.tensor.name.as_str(), stored)).collect()
    }

    /// The bytes of a tensor of this checkpoint.
    pub fn bytes(&self, stored: &StoredTensor) -> &[u8] {
        self.files.get(stored.file).and_then(|file| file.map.get(stored.range.clone())).unwrap_or_default()
    }

    /// Bytes of all tensors.
    pub fn tensor_bytes(&self) -> u64 {
        self.tensors.iter().map(|stored| stored.range.len() as u64).sum()
    }

    pub(crate) fn files(&self) -> &[CheckpointFile] {
        &self.files
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// Holds the index to what the shards really contain.
    fn check_index(&self) -> Result<(), Error> {
        let Some(index) = &self.index else { return Ok(()) };
        let weight_map = read_index(index)?;
        let tensors = self.by_name();
        for (name, shard) in &weight_map {
            let stored = tensors
                .get(name.as_str())
                .ok_or_else(|| Error::checkpoint(index, format!("tensor {name} is in no shard")))?;
            if self.files[stored.file].path.file_name().is_none_or(|file| file != shard.as_str()) {
                return Err(Error::checkpoint(index, format!("tensor {name} is not in {shard}")));
            }
        }
        match self.tensors.iter().find(|stored| !weight_map.contains_key(&stored.tensor.name)) {
            Some(stored) => Err(Error::checkpoint(index, format!("tensor {} is not listed", stored.tensor.name))),
            None => Ok(()),
        }
    }
}

/// The index, if there is one, and the shards of a folder.
fn shards(folder: &Path) -> Result<(Option<PathBuf>, BTreeSet<PathBuf>), Error> {
    let index = folder.join(INDEX_NAME);
    if index.exists() {
        let shards = read_index(&index)?.into_values();
        let paths = shards.map(|shard| match Path::new(&shard).components().collect::<Vec<_>>().as_slice() {
            [std::path::Component::Normal(name)] => Ok(folder.join(name)),
            _ => Err(Error::checkpoint(&index, format!("shard {shard:?} is not a plain file name"))),
        });
        return Ok((Some(index.clone()), paths.collect::<Result<_, _>>()?));
    }
    let entries = std::fs::read_dir(folder).map_err(Error::io("cannot list", folder))?;
    let files = entries.filter_map(Result::ok).map(|entry| entry.path());
    let found: BTreeSet<_> =
        files.filter(|path| path.extension().is_some_and(|extension| extension == "safetensors")).collect();
    match found.len() {
        1 => Ok((None, found)),
        0 => Err(Error::checkpoint(folder, "no .safetensors file in this folder")),
        _ => {
            Err(Error::checkpoint(folder, format!("several .safetensors files but no {INDEX_NAME}; name one of them")))
        }
    }
}

fn read_index(index: &Path) -> Result<BTreeMap<String, String>, Error> {
    #[derive(serde::Deserialize)]
    struct Index {
        weight_map: BTreeMap<String, String>,
    }
    let text = std::fs::read(index).map_err(Error::io("cannot read", index))?;
    let parsed: Index = serde_json::from_slice(&text).map_err(|error| Error::checkpoint(index, error.to_string()))?;
    Ok(parsed.weight_map)
}

fn open_file(path: &Path, file: usize) -> Result<(CheckpointFile, Vec<StoredTensor>), Error> {
    let map = Map::open(path)?;
    let (header_bytes, metadata) = safetensors::SafeTensors::read_metadata(&map)
        .map_err(|error| Error::checkpoint(path, format!("not a safetensors file: {error}")))?;
    let data_start = 8 + header_bytes;
    let mut tensors = Vec::new();
    for (name, info) in metadata.tensors() {
        let dtype = info.dtype.to_string();
        let dtype = Dtype::from_name(&dtype)
            .ok_or_else(|| Error::checkpoint(path, format!("tensor {name} has the unknown dtype {dtype}")))?;
        let tensor = Tensor { name, dtype, shape: info.shape.iter().map(|dimension| *dimension as u64).collect() };
        let range = data_start + info.data_offsets.0..data_start + info.data_offsets.1;
        let cells = tensor
            .cells()
            .ok_or_else(|| Error::checkpoint(path, format!("tensor {} has an impossible shape", tensor.name)))?;
        if cells.get() * dtype.cell_bytes() as u64 != range.len() as u64 || range.end > map.len() {
            return Err(Error::checkpoint(
                path,
                format!("tensor {} has other bytes than its shape needs", tensor.name),
            ));
        }
        tensors.push(StoredTensor { tensor, file, range });
    }
    Ok((CheckpointFile { path: path.to_path_buf(), map, data_start }, tensors))
}
