//! `cargo xtask demo`

use std::env::{self, consts::EXE_SUFFIX};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail, ensure};
use pulse_tests::fixtures::{ChainName, ExcerptChain, StepFile, steps_in};
use serde_json::json;

use crate::pulse;
use crate::workspace;

mod folder;
mod measure;
mod page;

use folder::ChainFolder;
use measure::Row;

const CHAIN: ChainName = ChainName::Young;
/// Where the chain's consecutive steps begin.
const FIRST_STEP: u32 = 20;
/// So many patches, one after another, are the least that shows a chain.
const FEWEST_PATCHES: usize = 8;

/// Encode a real chain of checkpoints, and apply it: to files, and in a browser to GPU buffers
///
/// Two receivers start from the first step and apply one patch after another. The first is a file; after each step it is
/// compared with the trainer's, byte for byte. The second is the page in web-demo/, which keeps the weights in buffers
/// of its GPU; it checks fingerprints, and reads the weights back to compare their SHA-256.
///
/// Installs, where they are missing, the npm packages of web-demo and, for --headless, what `cargo xtask runtimes` installs.
#[derive(Default, clap::Args)]
pub(crate) struct Args {
    /// A chain rebuilt by `cargo xtask chain`, the folder with young/ in it; by default, the excerpt in tests/fixtures
    #[arg(long, value_name = "DIR")]
    chain: Option<PathBuf>,
    /// Run without a person: Chromium is taken through every step, and leaves target/demo/screenshot.png
    #[arg(long)]
    headless: bool,
    /// Where the page is served on localhost [default: a free port]
    #[arg(long, default_value_t = 0, hide_default_value = true)]
    port: u16,
    /// Serve the page, and open no browser
    #[arg(long, conflicts_with = "headless")]
    no_open: bool,
    /// Keep the weights in the page's memory, not in GPU buffers; without this, a missing GPU fails --headless
    #[arg(long)]
    cpu: bool,
    /// One JSON object on standard output instead of tables
    #[arg(long, requires = "headless")]
    json: bool,
    /// Take the wasm module as `cargo xtask wasm` left it
    #[arg(long)]
    built_wasm: bool,
    /// Build and install what the demo needs, and end
    #[arg(long, hide = true)]
    prepare: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.json {
        // Builds say what they do on standard output, which is the report's.
        let mut prepare = Command::new(env::current_exe()?);
        prepare.args(["demo", "--headless", "--prepare"]).args(args.built_wasm.then_some("--built-wasm"));
        let status = prepare.stdout(io::stderr()).status()?;
        ensure!(status.success(), "the demo could not be prepared");
    } else {
        prepare(args.headless, args.built_wasm)?;
    }
    if args.prepare {
        return Ok(());
    }
    let demo = workspace::target_dir().join("demo");
    let chain = demo.join("chain");
    let rows = encode(args, &chain)?;
    if !args.headless {
        return page::show(&chain, args.port, args.no_open, args.cpu);
    }
    let report = page::drive(&chain, &demo.join("screenshot.png"), args.json, args.cpu)?;
    if let Some(report) = report {
        let encode: Vec<_> = rows.iter().map(Row::to_json).collect();
        println!("{}", json!({ "encode": encode, "page": report }));
        ensure!(report["passed"] == true, "the page did not bring every step into its buffers bit for bit");
    }
    Ok(())
}

/// The page's own tests, and the demo without a person.
pub(crate) fn check(built_wasm: bool) -> Result<()> {
    page::test()?;
    run(&Args { headless: true, built_wasm, ..Args::default() })
}

fn prepare(headless: bool, built_wasm: bool) -> Result<()> {
    pulse::build()?;
    page::build(headless, built_wasm)
}

/// Encodes the chain into `folder`, applying every patch to files on the way.
fn encode(args: &Args, folder: &Path) -> Result<Vec<Row>> {
    let pulse = pulse::built("", EXE_SUFFIX)?;
    fs::create_dir_all(workspace::target_dir())?;
    let work = tempfile::tempdir_in(workspace::target_dir())?;
    let steps = match &args.chain {
        Some(folder) => steps_in(&folder.join(CHAIN.as_str()).canonicalize().context("the chain's folder")?),
        None => ExcerptChain::load(CHAIN).materialise_all(work.path()),
    };
    let steps: Vec<StepFile> = steps.into_iter().filter(|file| file.step >= FIRST_STEP).collect();
    ensure!(steps.len() > FEWEST_PATCHES, "the chain has no {FEWEST_PATCHES} patches from step {FIRST_STEP} on");
    let say = |line: String| {
        if !args.json {
            println!("{line}");
        }
    };

    let name = if args.chain.is_some() { "SmolLM2-135M" } else { "SmolLM2-135M, excerpt" };
    let mut chain = ChainFolder::begin(folder, &format!("{name} ({CHAIN})"), &steps[0])?;
    let mut receiver = steps[0].path.clone();
    let mut rows = Vec::new();
    say(measure::header());
    for pair in steps.windows(2) {
        let (base, target) = (&pair[0], &pair[1]);
        let row = Row::measure(&pulse, (base, target), &chain.patch(target), &mut receiver, work.path())?;
        chain.add(base, target, row.patch_bytes())?;
        say(row.to_string());
        rows.push(row);
    }
    chain.finish()?;
    say(measure::total(&rows));
    match rows.iter().filter(|row| !row.is_verified()).count() {
        0 => Ok(rows),
        wrong => bail!("{wrong} of {} steps are not verified", rows.len()),
    }
}
