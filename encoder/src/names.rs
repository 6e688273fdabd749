//! What the names of files say.

use std::path::{Path, PathBuf};

/// Names standard output as the output, and standard input as the patch.
pub(crate) const STANDARD: &str = "-";
/// The index that a folder of several shards has.
pub(crate) const INDEX_NAME: &str = "model.safetensors.index.json";

/// The folder that a path is in.
pub(crate) fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}

/// The name of one shard of several, as `model-00001-of-00002.safetensors`, taken apart.
pub(crate) struct ShardName {
    pub(crate) stem: String,
    digits: usize,
    pub(crate) number: u64,
    pub(crate) count: u64,
}

impl ShardName {
    pub(crate) fn of(path: &Path) -> Option<Self> {
        let name = path.file_name()?.to_str()?.strip_suffix(".safetensors")?;
        let (rest, count) = name.rsplit_once("-of-")?;
        let (stem, number) = rest.rsplit_once('-')?;
        let shard =
            Self { stem: stem.into(), digits: number.len(), number: number.parse().ok()?, count: count.parse().ok()? };
        (1..=shard.count).contains(&shard.number).then_some(shard)
    }

    pub(crate) fn name(&self, number: u64) -> String {
        let Self { stem, digits, count, .. } = self;
        format!("{stem}-{number:0digits$}-of-{count:0digits$}.safetensors")
    }

    pub(crate) fn beside(&self, path: &Path, number: u64) -> PathBuf {
        if number == self.number { path.to_path_buf() } else { path.with_file_name(self.name(number)) }
    }
}
