//! Checkpoints on disk: a `.safetensors` file, or a folder in Hugging Face layout.

use crate::error::Error;
use crate::folder::{Shards, find_shards, read_index, refuse_shard};
use crate::map::Map;
use crate::safetensors_header::read_safetensors_header;
use pulse_format::Tensor;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};

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
    /// Opens a `.safetensors` file, or a folder: its `model.safetensors`, the shards that its `model.safetensors.index.json` lists, or its
    /// only `.safetensors` file.
    ///
    /// # Errors
    /// [`Error::Io`], or [`Error::Checkpoint`] if a file is not what it should be, is one part of several, or is missing.
    pub fn open(path: &Path) -> Result<Self, Error> {
        let metadata = std::fs::metadata(path).map_err(Error::io("cannot open", path))?;
        let Shards { index, paths } = if metadata.is_dir() {
            find_shards(path)?
        } else {
            refuse_shard(path)?;
            Shards { index: None, paths: BTreeSet::from([path.to_path_buf()]) }
        };
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

    pub(crate) fn index(&self) -> Option<&Path> {
        self.index.as_deref()
    }

    pub(crate) fn is_folder(&self) -> bool {
        self.path.is_dir()
    }

    /// Holds the index to what the shards really contain.
    fn check_index(&self) -> Result<(), Error> {
        let Some(index) = &self.index else { return Ok(()) };
        let refuse = |what: String| {
            Err(Error::checkpoint(
                index,
                format!("{what}; the index and its shards are of different versions: fetch all again"),
            ))
        };
        let weight_map = read_index(index)?;
        let tensors = self.by_name();
        for (name, shard) in &weight_map {
            let Some(stored) = tensors.get(name.as_str()) else {
                return refuse(format!("lists tensor {name} in {shard}, which does not hold it"));
            };
            let file = self.file_name(stored);
            if file != *shard {
                return refuse(format!("lists tensor {name} in {shard}, but it is in {file}"));
            }
        }
        match self.tensors.iter().find(|stored| !weight_map.contains_key(&stored.tensor.name)) {
            Some(stored) => {
                refuse(format!("does not list tensor {}, which {} holds", stored.tensor.name, self.file_name(stored)))
            }
            None => Ok(()),
        }
    }

    fn file_name(&self, stored: &StoredTensor) -> String {
        let name = self.files[stored.file].path.file_name();
        name.unwrap_or_default().to_string_lossy().into_owned()
    }
}

fn open_file(path: &Path, file: usize) -> Result<(CheckpointFile, Vec<StoredTensor>), Error> {
    let map = Map::open(path)?;
    let header = read_safetensors_header(&map).map_err(|what| Error::checkpoint(path, what))?;
    let tensors = header.tensors.into_iter().map(|(tensor, range)| StoredTensor { tensor, file, range }).collect();
    Ok((CheckpointFile { path: path.to_path_buf(), map, data_start: header.data_start }, tensors))
}
