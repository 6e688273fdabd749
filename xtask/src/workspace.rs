//! Where things are.

use std::env;
use std::path::{Path, PathBuf};

/// The workspace's root folder.
pub(crate) fn root() -> PathBuf {
    // What `cargo run` says now counts: two checkouts that share a target folder share this binary.
    let xtask = env::var_os("CARGO_MANIFEST_DIR").unwrap_or_else(|| env!("CARGO_MANIFEST_DIR").into());
    Path::new(&xtask).parent().map_or_else(PathBuf::new, Path::to_owned)
}

/// Cargo's target folder; whatever else we make goes into it too.
pub(crate) fn target_dir() -> PathBuf {
    env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), |dir| root().join(dir))
}
