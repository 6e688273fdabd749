//! What the tests share: checkpoints made up, patches made by hand, every way to apply one, and a count of memory.

pub(crate) mod adapter;
pub(crate) mod binary;
pub(crate) mod cells;
pub(crate) mod check;
pub(crate) mod gpu;
pub(crate) mod inflate;
pub(crate) mod memory;
pub(crate) mod paths;
pub(crate) mod payload;
pub(crate) mod raw;

use std::path::{Path, PathBuf};

/// The root of the workspace.
pub(crate) fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The names in a folder, sorted; for tests that nothing was left behind.
pub(crate) fn listing(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Every file of a folder with its bytes, sorted by name.
pub(crate) fn contents(folder: &Path) -> Vec<(String, Vec<u8>)> {
    listing(folder).into_iter().map(|name| (name.clone(), std::fs::read(folder.join(&name)).unwrap())).collect()
}
