//! The page in web-demo/: built, served, and shown or driven.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::process::{self, program};
use crate::{install, wasm, workspace};

/// Builds the wasm package and the page, and installs what drives it.
pub(super) fn build(headless: bool) -> Result<()> {
    wasm::build_all()?;
    install::npm(&folder())?;
    if headless {
        install::npm(&workspace::root().join("applier-wasm/runtimes"))?;
    }
    process::run(program("npm").current_dir(folder()).args(["run", "--silent", "build"])).context("building the page")
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

fn folder() -> PathBuf {
    workspace::root().join("web-demo")
}
