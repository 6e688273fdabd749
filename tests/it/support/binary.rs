//! The binary `pulse`, built once and run.

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
            .args([
                "build",
                "--quiet",
                "--locked",
                "--package",
                "pulse-encoder",
                "--bin",
                "pulse",
                "--profile",
                profile,
            ])
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
