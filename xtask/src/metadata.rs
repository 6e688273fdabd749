//! What `cargo metadata` says of packages.

use std::path::Path;

use anyhow::{Context, Result};
use serde_json::Value;

use crate::process::{cargo, output};

/// The packages that a manifest holds, as `cargo metadata` describes them.
pub(crate) fn packages(manifest: &Path) -> Result<Vec<Value>> {
    let mut metadata = cargo();
    metadata.args(["metadata", "--no-deps", "--format-version=1", "--manifest-path"]).arg(manifest);
    let metadata: Value = serde_json::from_str(&output(&mut metadata)?)?;
    let packages = metadata["packages"].as_array().context("cargo metadata listed no packages")?;
    Ok(packages.clone())
}

/// The names of a package's targets of one kind (`bin`, `bench`, ...), sorted.
pub(crate) fn targets(package: &Value, kind: &str) -> Vec<String> {
    let targets = package["targets"].as_array().into_iter().flatten();
    let mut names: Vec<String> = targets
        .filter(|target| target["kind"].as_array().is_some_and(|kinds| kinds.iter().any(|found| found == kind)))
        .filter_map(|target| target["name"].as_str().map(str::to_owned))
        .collect();
    names.sort();
    names
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::workspace;

    #[test]
    fn targets_are_listed_by_kind() {
        let packages = packages(&workspace::root().join("Cargo.toml")).unwrap();
        let xtask = packages.iter().find(|package| package["name"] == "xtask").unwrap();
        assert_eq!(targets(xtask, "bin"), ["xtask"]);
        assert!(targets(xtask, "bench").is_empty());
    }
}
