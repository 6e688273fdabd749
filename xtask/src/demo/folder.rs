//! The folder that the page takes its patches from: `chain.json`, the base, and a patch for each step.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use pulse_tests::fixtures::{StepFile, tensor_sha256};
use serde_json::{Value, json};

use crate::workspace;

const NOTICE: &str = "The weights derive from SmolLM2, (c) Hugging Face TB (HuggingFaceTB), under the Apache License 2.0 \
                      (LICENSE-APACHE in the chain's folder), and are a modified work: dequantised from Q4_1 with \
                      seeded noise, and fine-tuned by this project.";

/// A chain's folder while it is being filled. Its manifest is written last.
pub(super) struct ChainFolder {
    folder: PathBuf,
    manifest: Value,
    patches: Vec<Value>,
}

impl ChainFolder {
    /// An empty folder but for the base and the licence of the weights; whatever was there is gone.
    pub(super) fn begin(folder: &Path, name: &str, base: &StepFile) -> Result<Self> {
        if folder.exists() {
            fs::remove_dir_all(folder).with_context(|| format!("emptying {}", folder.display()))?;
        }
        fs::create_dir_all(folder)?;
        let base_file = format!("step_{}.safetensors", base.step);
        fs::copy(&base.path, folder.join(&base_file))?;
        fs::copy(workspace::root().join("LICENSE-APACHE"), folder.join("LICENSE-APACHE"))?;
        let manifest = json!({ "name": name, "notice": NOTICE, "base": base_file, "baseStep": base.step });
        Ok(Self { folder: folder.to_owned(), manifest, patches: Vec::new() })
    }

    /// Where the patch to `target` goes.
    pub(super) fn patch(&self, target: &StepFile) -> PathBuf {
        self.folder.join(patch_name(target))
    }

    /// Lists the patch from `base` to `target`, which lies in its place.
    pub(super) fn add(&mut self, base: &StepFile, target: &StepFile, bytes: u64) -> Result<()> {
        self.patches.push(json!({
            "file": patch_name(target),
            "from": base.step,
            "to": target.step,
            "bytes": bytes,
            "sha256OfTarget": tensor_sha256(&target.path)?,
        }));
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<()> {
        self.manifest["patches"] = self.patches.into();
        let text = serde_json::to_string_pretty(&self.manifest)?;
        fs::write(self.folder.join("chain.json"), text + "\n").context("writing chain.json")
    }
}

fn patch_name(target: &StepFile) -> String {
    format!("{:03}.pulse", target.step)
}

#[cfg(test)]
mod tests {
    use pulse_tests::fixtures::{ChainName, ExcerptChain};

    use super::*;

    #[test]
    fn the_folder_holds_what_the_page_needs() {
        let work = tempfile::tempdir().unwrap();
        let excerpt = ExcerptChain::load(ChainName::Young);
        let (base, target) = (excerpt.materialise(20, work.path()), excerpt.materialise(21, work.path()));
        let folder = work.path().join("chain");
        fs::create_dir(&folder).unwrap();
        fs::write(folder.join("of_another_run.pulse"), b"").unwrap();

        let mut chain = ChainFolder::begin(&folder, "model", &base).unwrap();
        fs::write(chain.patch(&target), b"patch").unwrap();
        chain.add(&base, &target, 5).unwrap();
        chain.finish().unwrap();

        let manifest: Value = serde_json::from_slice(&fs::read(folder.join("chain.json")).unwrap()).unwrap();
        assert_eq!((&manifest["base"], &manifest["baseStep"]), (&json!("step_20.safetensors"), &json!(20)));
        let patch = &manifest["patches"][0];
        assert_eq!((&patch["file"], &patch["from"], &patch["to"]), (&json!("021.pulse"), &json!(20), &json!(21)));
        assert_eq!(patch["sha256OfTarget"], tensor_sha256(&target.path).unwrap());
        let mut files: Vec<_> = fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        files.sort();
        assert_eq!(files, ["021.pulse", "LICENSE-APACHE", "chain.json", "step_20.safetensors"]);
    }
}
