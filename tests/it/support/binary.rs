//! The binary `pulse`, built once and run.

use super::cells::Pair;
use super::listing;
use pulse_encoder::EncodeOptions;
use serde_json::Value;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

/// The binary of the profile that this test was built with. Cargo hands it to no other package's tests, so it is asked to build it:
/// at once where it is fresh already.
pub(crate) fn pulse() -> &'static Path {
    static BINARY: OnceLock<PathBuf> = OnceLock::new();
    BINARY.get_or_init(|| {
        let test = std::env::current_exe().unwrap();
        // target/<profile>/deps/it-<hash>
        let folder = test.ancestors().nth(2).unwrap();
        let profile = match folder.file_name().and_then(OsStr::to_str).unwrap() {
            "debug" => "dev",
            other => other,
        };
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let status = Command::new(cargo)
            .args(["build", "--quiet", "--locked", "--package", "pulse-cli", "--bin", "pulse", "--profile", profile])
            .arg("--target-dir")
            .arg(folder.parent().unwrap())
            .current_dir(super::workspace())
            .status()
            .unwrap();
        assert!(status.success(), "the binary pulse does not build");
        folder.join("pulse").with_extension(std::env::consts::EXE_EXTENSION)
    })
}

/// What a run printed, and how it ended.
#[derive(Debug)]
pub(crate) struct Run {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl From<Output> for Run {
    fn from(output: Output) -> Self {
        let text = |bytes| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), stdout: text(output.stdout), stderr: text(output.stderr) }
    }
}

/// Runs `pulse` in `folder` with its output in pipes.
pub(crate) fn run(folder: &Path, arguments: &[&str]) -> Run {
    Command::new(pulse()).args(arguments).current_dir(folder).output().unwrap().into()
}

/// Runs it, expects success without a word on standard error, returns standard output.
pub(crate) fn succeed(folder: &Path, arguments: &[&str]) -> String {
    let run = run(folder, arguments);
    assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "pulse {arguments:?}");
    run.stdout
}

/// A folder with `base.safetensors`, `target.safetensors` and `patch` between them.
pub(crate) fn example() -> (tempfile::TempDir, Pair) {
    let (folder, pair) = (tempfile::tempdir().unwrap(), Pair::mixed());
    pair.write(folder.path());
    std::fs::write(folder.path().join("patch"), pair.encode(&EncodeOptions::default())).unwrap();
    (folder, pair)
}

pub(crate) fn read(folder: &Path, name: &str) -> Vec<u8> {
    std::fs::read(folder.join(name)).unwrap()
}

pub(crate) fn json(text: &str) -> Value {
    assert_eq!(text.lines().count(), 1, "one object on one line");
    serde_json::from_str(text).unwrap()
}

/// The code, what standard error says, and nothing on standard output; with `--json`, the error there.
pub(crate) fn fails(folder: &Path, arguments: &[&str], code: i32, text: &str, name: &str) {
    let before = listing(folder);
    let found = run(folder, arguments);
    assert_eq!(found.code, Some(code), "pulse {arguments:?}: {}", found.stderr);
    assert_eq!(found.stdout, "", "pulse {arguments:?}");
    assert!(found.stderr.contains(text), "pulse {arguments:?}: {text:?} in {}", found.stderr);
    if !name.is_empty() {
        assert!(found.stderr.starts_with("pulse: "), "{}", found.stderr);
        let found = run(folder, &[arguments, &["--json"]].concat());
        assert_eq!((found.code, found.stderr.as_str()), (Some(code), ""), "pulse {arguments:?} --json");
        let error = &json(&found.stdout)["error"];
        assert_eq!(error["code"], name);
        assert!(error["message"].as_str().unwrap().contains(text), "{error}");
    }
    assert_eq!(listing(folder), before, "a failed run leaves no file");
}

/// Whether a process holds a file open that has no name: on Linux, what it writes.
#[cfg(unix)]
pub(crate) fn has_unnamed_file(process: u32) -> bool {
    let Ok(open) = std::fs::read_dir(format!("/proc/{process}/fd")) else { return false };
    open.flatten()
        .filter_map(|entry| std::fs::read_link(entry.path()).ok())
        .any(|path| path.to_string_lossy().ends_with("(deleted)"))
}
