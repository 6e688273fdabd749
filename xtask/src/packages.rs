//! `cargo xtask packages`

use anyhow::Result;

use crate::process::{program, run as run_command};
use crate::{runtimes, wasm};

/// Use the npm package as it is installed: packed, in runtimes, bundlers, and TypeScript
///
/// Builds the wasm modules, packs the package, installs it into an empty folder beside Vite 7 and 8, webpack, Next, esbuild, rollup and
/// TypeScript (tests/packages/package.json), and runs what comes out in Chromium, Node, Bun and Deno. CI does not run it.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    runtimes::install_runtimes()?;
    wasm::build_all()?;
    run_command(program("node").arg("tests/packages/run.mjs"))
}
