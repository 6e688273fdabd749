//! `cargo xtask chain`

use std::env;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use pulse_tests::fixtures::{ChainName, ExcerptChain, FULL_CHAIN_VARIABLE, StepFile, tensor_sha256};
use serde_json::Value;

use crate::process::{self, program};
use crate::workspace;

/// Rebuild the whole SmolLM2-135M chains, 6.5 GB, for the tests and benches that read PULSE_CHAIN
///
/// Runs the data folder's build.py with numpy and gguf, which pip puts under target/ where Python lacks them. Steps that
/// are there and have the right SHA-256 are kept.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Folder with build.py, chain.json and the patches [default: ../shared/data/smollm2-chain beside the project]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// Where the chains go [default: target/chain, or target/excerpt]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Write the excerpt of nine tensors that this repository holds instead, 60 MB
    #[arg(long, conflicts_with = "data")]
    excerpt: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.excerpt {
        return write_excerpt(&args.out.clone().unwrap_or_else(|| workspace::target_dir().join("excerpt")));
    }
    let data = args.data.clone().unwrap_or_else(|| workspace::root().join("../shared/data/smollm2-chain"));
    let build = data.join("build.py");
    ensure!(
        build.is_file(),
        "{} is missing. The whole chains are not in this repository: name the folder that holds build.py, chain.json \
         and the steps' .xz files with --data. Tests and `cargo xtask demo` run without them, on the excerpt in \
         tests/fixtures.",
        build.display(),
    );
    let build = build.canonicalize()?;
    let description = fs::read(data.join("chain.json")).context("reading the data folder's chain.json")?;
    let description: Value = serde_json::from_slice(&description)?;
    let out = args.out.clone().unwrap_or_else(|| workspace::target_dir().join("chain"));
    fs::create_dir_all(&out)?;
    let out = out.canonicalize()?;

    for chain in ChainName::ALL {
        let folder = out.join(chain.as_str());
        let steps = steps(&description, chain)?;
        let missing = missing(&steps, &folder);
        println!("{chain}: {} of {} steps are there", steps.len() - missing.len(), steps.len());
        if missing.is_empty() {
            continue;
        }
        let missing: Vec<String> = missing.iter().map(u32::to_string).collect();
        let mut command = python()?;
        command.arg(&build).arg(&folder).args(["--chain", chain.as_str(), "--steps", &missing.join(",")]);
        process::run(&mut command)?;
    }
    println!("{FULL_CHAIN_VARIABLE}={}", out.display());
    Ok(())
}

fn write_excerpt(out: &Path) -> Result<()> {
    for chain in ChainName::ALL {
        let folder = out.join(chain.as_str());
        fs::create_dir_all(&folder)?;
        let steps = ExcerptChain::load(chain).materialise_all(&folder);
        println!("{chain}: {} steps in {}", steps.len(), folder.display());
    }
    Ok(())
}

/// Python with numpy and gguf in reach.
fn python() -> Result<Command> {
    let packages = workspace::target_dir().join("python");
    let python = || {
        let mut command = program("python3");
        let path = env::var_os("PYTHONPATH");
        let paths = [&packages].into_iter().cloned().chain(path.iter().flat_map(env::split_paths));
        env::join_paths(paths).map(|joined| command.env("PYTHONPATH", joined))?;
        anyhow::Ok(command)
    };
    let probe = ["-c", "import numpy, gguf"];
    if !process::succeeds(python()?.args(probe)) {
        let mut pip = program("python3");
        pip.args(["-m", "pip", "install", "--quiet", "--target"]).arg(&packages).args(["numpy", "gguf"]);
        process::run(&mut pip).context("please install the Python packages numpy and gguf")?;
        process::output(python()?.args(probe)).context("the installed numpy and gguf cannot be imported")?;
    }
    python()
}

/// Each step of a chain, with the SHA-256 of its tensor bytes.
fn steps(description: &Value, chain: ChainName) -> Result<Vec<(u32, String)>> {
    let steps = description["chains"][chain.as_str()].as_array();
    let steps = steps.with_context(|| format!("chain.json has no chain {chain}"))?;
    let step = |entry: &Value| {
        let number = entry["step"].as_u64().and_then(|step| u32::try_from(step).ok());
        Some((number?, entry["sha256"].as_str()?.to_owned()))
    };
    steps.iter().map(step).collect::<Option<_>>().context("chain.json has a step without number or sha256")
}

/// The steps that a folder lacks, or has with other contents.
fn missing(steps: &[(u32, String)], folder: &Path) -> Vec<u32> {
    let is_there = |step: u32, sha256: &str| {
        let path = StepFile::in_folder(folder, step).path;
        tensor_sha256(&path).is_ok_and(|found| found == sha256)
    };
    steps.iter().filter(|(step, sha256)| !is_there(*step, sha256)).map(|(step, _)| *step).collect()
}

#[cfg(test)]
mod tests {

    use super::*;

    #[test]
    fn steps_that_are_right_are_kept_and_others_rebuilt() {
        let dir = tempfile::tempdir().unwrap();
        let chain = ExcerptChain::load(ChainName::Mature);
        let right = chain.materialise(20, dir.path());
        let wrong = chain.materialise(21, dir.path());
        let description = serde_json::json!({ "chains": { "mature": [
            { "step": 20, "sha256": tensor_sha256(&right.path).unwrap() },
            { "step": 21, "sha256": tensor_sha256(&right.path).unwrap() },
            { "step": 22, "sha256": tensor_sha256(&wrong.path).unwrap() },
        ] } });
        let steps = steps(&description, ChainName::Mature).unwrap();
        assert_eq!(missing(&steps, dir.path()), [21, 22]);
    }

    #[test]
    fn an_incomplete_description_is_an_error() {
        let description = serde_json::json!({ "chains": { "young": [{ "step": 20 }] } });
        assert!(steps(&description, ChainName::Young).is_err());
        assert!(steps(&description, ChainName::Mature).is_err());
    }
}
