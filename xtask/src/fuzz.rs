//! `cargo xtask fuzz`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::SystemTime;

use anyhow::{Context, Result, bail, ensure};

use crate::process::{self, cargo};
use crate::{install, metadata, workspace};

/// The fuzz targets' own workspace.
pub(crate) const MANIFEST: &str = "fuzz/Cargo.toml";

/// Run fuzz targets (cargo-fuzz, libFuzzer)
///
/// The corpus grows under target/fuzz-corpus, starting from fuzz/seeds/TARGET. What makes a target fail is kept in
/// fuzz/artifacts/TARGET. Installs cargo-fuzz where it is missing. Uses the nightly toolchain and AddressSanitizer;
/// without a nightly, the default toolchain and no sanitizer.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// Only this target; all of them by default
    target: Option<String>,
    /// Seconds for each target
    #[arg(long, value_name = "N", default_value_t = 60)]
    seconds: u64,
    /// Run one input instead, such as one from fuzz/artifacts
    #[arg(long, value_name = "FILE", requires = "target")]
    replay: Option<PathBuf>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    match (&args.target, &args.replay) {
        (Some(target), Some(input)) => replay(target, input),
        (target, _) => run_targets(target.as_deref(), args.seconds),
    }
}

/// Runs one target, or all of them, for `seconds` each.
pub(crate) fn run_targets(only: Option<&str>, seconds: u64) -> Result<()> {
    let targets = select(targets()?, only)?;
    let tool = Tool::find()?;
    process::run(tool.command("build").args(if targets.len() == 1 { &targets[..] } else { &[] }))?;
    for target in &targets {
        fuzz(&tool, target, seconds)?;
    }
    println!("{} fuzz targets ran for {seconds} s each: {}", targets.len(), targets.join(", "));
    Ok(())
}

fn fuzz(tool: &Tool, target: &str, seconds: u64) -> Result<()> {
    let corpus = workspace::target_dir().join("fuzz-corpus").join(target);
    copy_files(&workspace::root().join("fuzz/seeds").join(target), &corpus)?;
    let artifacts = workspace::root().join("fuzz/artifacts").join(target);
    fs::create_dir_all(&artifacts)?;

    let start = SystemTime::now();
    let mut command = tool.command("run");
    command.arg(target).arg(&corpus).arg("--").args([
        format!("-max_total_time={seconds}"),
        format!("-artifact_prefix={}/", artifacts.display()),
        // An input that takes this long is a find as well.
        "-timeout=25".to_owned(),
        "-print_final_stats=1".to_owned(),
    ]);
    let Err(error) = process::run(&mut command) else { return Ok(()) };
    let finds = files_since(&artifacts, start)?;
    ensure!(!finds.is_empty(), "{error:#}; it left no artifact, so it was not an input that failed");
    let replays = finds.iter().map(|find| {
        let find = find.strip_prefix(workspace::root()).unwrap_or(find);
        format!("\n    cargo xtask fuzz {target} --replay {}", find.display())
    });
    bail!("fuzz target {target} found a failing input; replay it with{}", replays.collect::<String>());
}

fn replay(target: &str, input: &Path) -> Result<()> {
    ensure!(input.is_file(), "{} is not a file", input.display());
    let input = input.canonicalize()?;
    select(targets()?, Some(target))?;
    process::run(Tool::find()?.command("run").arg(target).arg(input))
}

/// `cargo fuzz` with the toolchain and flags that work on this machine.
struct Tool {
    nightly: bool,
}

impl Tool {
    fn find() -> Result<Self> {
        install::cxx()?;
        install::cargo_fuzz()?;
        let nightly = install::nightly();
        if !nightly {
            println!(
                "NO NIGHTLY TOOLCHAIN could be found or installed: fuzzing with the default one, WITHOUT sanitizer"
            );
        }
        Ok(Self { nightly })
    }

    fn command(&self, verb: &str) -> Command {
        let mut command = cargo();
        if self.nightly {
            command.arg("+nightly");
        }
        command.args(["fuzz", verb, "--fuzz-dir", "fuzz", "--target-dir"]);
        command.arg(workspace::target_dir().join("fuzz"));
        if !self.nightly {
            command.arg("--sanitizer=none");
        }
        command
    }
}

/// The names of the binaries in the fuzz workspace.
fn targets() -> Result<Vec<String>> {
    let manifest = workspace::root().join(MANIFEST);
    ensure!(manifest.is_file(), "{MANIFEST} is missing");
    let packages = metadata::packages(&manifest)?;
    Ok(packages.iter().flat_map(|package| metadata::targets(package, "bin")).collect())
}

fn select(targets: Vec<String>, only: Option<&str>) -> Result<Vec<String>> {
    let all = targets.join(", ");
    let selected: Vec<String> = targets.into_iter().filter(|target| only.is_none_or(|name| name == target)).collect();
    ensure!(!selected.is_empty(), "no fuzz target {}; {MANIFEST} has: {all}", only.unwrap_or("at all"));
    Ok(selected)
}

/// Copies the files of a folder, if there is one, into another, made if need be.
fn copy_files(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to)?;
    if !from.is_dir() {
        return Ok(());
    }
    for entry in fs::read_dir(from)? {
        let path = entry?.path();
        if let (true, Some(name)) = (path.is_file(), path.file_name()) {
            fs::copy(&path, to.join(name)).with_context(|| format!("copying {}", path.display()))?;
        }
    }
    Ok(())
}

fn files_since(folder: &Path, start: SystemTime) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if entry.metadata()?.modified()? >= start {
            found.push(entry.path());
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_unknown_target_is_answered_with_the_known_ones() {
        let known = || vec!["apply".to_owned(), "parse".to_owned()];
        assert_eq!(select(known(), Some("parse")).unwrap(), ["parse"]);
        assert_eq!(select(known(), None).unwrap(), known());
        let error = select(known(), Some("prase")).unwrap_err().to_string();
        assert_eq!(error, "no fuzz target prase; fuzz/Cargo.toml has: apply, parse");
    }

    #[test]
    fn seeds_are_copied_and_never_touched() {
        let dir = tempfile::tempdir().unwrap();
        let (seeds, corpus) = (dir.path().join("seeds"), dir.path().join("deep/corpus"));
        copy_files(&seeds, &corpus).unwrap();
        fs::create_dir(&seeds).unwrap();
        fs::write(seeds.join("one"), b"1").unwrap();
        copy_files(&seeds, &corpus).unwrap();
        copy_files(&seeds, &corpus).unwrap();
        assert_eq!(fs::read(corpus.join("one")).unwrap(), b"1");
    }

    #[test]
    fn only_new_artifacts_are_reported() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("crash-old"), b"").unwrap();
        let old = fs::metadata(dir.path().join("crash-old")).unwrap().modified().unwrap();
        let start = old + std::time::Duration::from_millis(1);
        assert!(files_since(dir.path(), start).unwrap().is_empty());
        assert_eq!(files_since(dir.path(), old).unwrap(), [dir.path().join("crash-old")]);
    }
}
