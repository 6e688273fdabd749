//! The page in web-demo/: built, served, and shown or driven.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, program};
use crate::{install, runtimes, wasm, workspace};

/// The wasm module behind the package's main entry, which the page imports.
const MODULE: &str = "full";

/// Builds the page, from the wasm module that it imports, which is built first unless `built_wasm` says it is, and installs what drives it.
pub(super) fn build(headless: bool, built_wasm: bool) -> Result<()> {
    if built_wasm {
        wasm::find(MODULE)?;
    } else {
        wasm::build(MODULE)?;
    }
    install::npm(&folder())?;
    if headless {
        runtimes::install_runtimes()?;
    }
    process::run(npm().args(["run", "--silent", "build"])).context("building the page")
}

/// The page's own tests, which need no browser.
pub(super) fn test() -> Result<()> {
    install::npm(&folder())?;
    process::run(npm().arg("test")).context("testing the page")
}

/// Serves the page until Ctrl-C, and opens it.
pub(super) fn show(chain: &Path, port: u16, no_open: bool, cpu: bool) -> Result<()> {
    let mut serve = demo(chain, cpu);
    serve.args(["--port", &port.to_string()]);
    if no_open {
        serve.arg("--no-open");
    }
    process::run(&mut serve)
}

/// Takes Chromium through every step; its report, if wanted as JSON. Otherwise a step that is not bit-identical is an
/// error.
pub(super) fn drive(chain: &Path, screenshot: &Path, json: bool, cpu: bool) -> Result<Option<Value>> {
    let mut drive = demo(chain, cpu);
    drive.arg("--headless").arg("--screenshot").arg(screenshot);
    if !json {
        process::run(&mut drive)?;
        return Ok(None);
    }
    // A report of steps that differ comes with exit code 1.
    let output = drive.arg("--json").output().context("cannot start node")?;
    match serde_json::from_slice(&output.stdout) {
        Ok(report) => Ok(Some(report)),
        Err(_) => bail!("the page could not be driven: {}", String::from_utf8_lossy(&output.stderr).trim_end()),
    }
}

fn demo(chain: &Path, cpu: bool) -> Command {
    let mut command = program("node");
    command.arg(folder().join("demo.mjs")).arg("--chain").arg(chain).args(cpu.then_some("--cpu"));
    command
}

fn npm() -> Command {
    let mut npm = program("npm");
    npm.current_dir(folder());
    npm
}

fn folder() -> PathBuf {
    workspace::root().join("web-demo")
}
