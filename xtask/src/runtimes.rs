//! `cargo xtask runtimes`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use pulse_tests::fixtures::{ChainName, ExcerptChain, StepFile};
use serde_json::{Value, json};

use crate::process::{cargo, output, program, run as run_command};
use crate::{install, wasm, workspace};

const CHAIN: ChainName = ChainName::Mature;

/// Run the applier's tests in Chromium, Deno, Node, Bun and workerd
///
/// Builds the wasm modules and makes the patches they need. Installs, where they are missing, the npm packages of
/// tests/runtimes and, by apt-get, chromium, mesa-vulkan-drivers and libvulkan1.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One runtime only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<Runtime>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Runtime {
    Node,
    Bun,
    Deno,
    Workerd,
    Chromium,
}

/// A module that runtimes run.
struct Test {
    module: &'static str,
    /// Where it runs, workerd aside.
    only: &'static [Runtime],
    /// What workerd runs, which imports wasm statically; none if it needs a GPU, which workerd lacks.
    in_workerd: Option<&'static str>,
    /// Without a GPU.
    cpu: bool,
}

impl Test {
    fn module_in(&self, runtime: Runtime) -> Option<&'static str> {
        match runtime {
            Runtime::Workerd => self.in_workerd,
            _ => self.only.contains(&runtime).then_some(self.module),
        }
    }
}

const WITH_GPU: &[Runtime] = &[Runtime::Node, Runtime::Bun, Runtime::Deno, Runtime::Chromium];

const TESTS: [Test; 6] = [
    Test { module: "tests/js/cpu.mjs", only: WITH_GPU, in_workerd: Some("tests/js/cpu-workerd.mjs"), cpu: true },
    Test { module: "tests/js/inline.mjs", only: WITH_GPU, in_workerd: None, cpu: true },
    Test { module: "tests/js/gpu.mjs", only: WITH_GPU, in_workerd: None, cpu: false },
    Test { module: "tests/js/tour.mjs", only: WITH_GPU, in_workerd: Some("tests/js/tour-workerd.mjs"), cpu: false },
    // Where wgpu finds a browser's globals.
    Test { module: "tests/js/own-gpu.mjs", only: &[Runtime::Deno, Runtime::Chromium], in_workerd: None, cpu: false },
    // Where onnxruntime-web opens a device.
    Test { module: "tests/js/engine.mjs", only: &[Runtime::Deno, Runtime::Chromium], in_workerd: None, cpu: false },
];

pub(crate) fn run(args: &Args) -> Result<()> {
    let only = |runtime: &&Runtime| args.only.is_empty() || args.only.contains(runtime);
    let runtimes: Vec<Runtime> = Runtime::value_variants().iter().filter(only).copied().collect();
    run_in(&runtimes)
}

/// Runs every test in every runtime.
pub(crate) fn run_all() -> Result<()> {
    run_in(Runtime::value_variants())
}

fn run_in(runtimes: &[Runtime]) -> Result<()> {
    install_runtimes()?;
    wasm::build_all()?;
    make_chain()?;
    units()?;
    for runtime in runtimes {
        let name = runtime.to_possible_value().context("a runtime without a name")?;
        for test in &TESTS {
            let Some(module) = test.module_in(*runtime) else { continue };
            let mut node = program("node");
            node.arg("tests/runtimes/run.mjs").args(["--runtime", name.get_name(), "--timeout", "300"]);
            run_command(node.args(test.cpu.then_some("--cpu")).arg(module))?;
        }
    }
    Ok(())
}

/// The crate's unit tests as wasm: its vector instructions are held to the definition there.
fn units() -> Result<()> {
    let runner = format!("node {}", workspace::root().join("tests/js/units.mjs").display());
    let mut test = cargo();
    test.env("CARGO_ENCODED_RUSTFLAGS", wasm::FLAGS).env("CARGO_TARGET_WASM32_UNKNOWN_UNKNOWN_RUNNER", runner);
    test.args(["test", "--locked", "--lib", "--package", "pulse-applier-wasm", "--no-default-features"]);
    test.args(["--features", "cpu"]);
    run_command(test.args(["--target", wasm::TARGET]).arg("--target-dir").arg(workspace::target_dir().join("wasm")))
}

/// What `run.mjs --check` finds missing.
pub(crate) fn install_runtimes() -> Result<()> {
    let folder = workspace::root().join("tests/runtimes");
    install::npm(&folder)?;
    let check = || output(program("node").arg(folder.join("run.mjs")).arg("--check"));
    if check().is_ok() {
        return Ok(());
    }
    let packages = ["chromium", "mesa-vulkan-drivers", "libvulkan1"];
    let message =
        "a browser or a Vulkan driver is missing; please run apt-get install chromium mesa-vulkan-drivers libvulkan1";
    packages.iter().try_for_each(|package| install::apt(package)).context(message)?;
    check().context(message).map(|_| ())
}

/// The excerpt's checkpoints and the patches between them, where the runtimes can read them: inside the repository.
fn make_chain() -> Result<()> {
    let folder = workspace::root().join("target/runtimes/chain");
    fs::create_dir_all(&folder)?;
    run_command(cargo().args(["build", "--quiet", "--locked", "--package", "pulse-cli"]))?;
    let pulse = workspace::target_dir().join("debug").join(format!("pulse{}", std::env::consts::EXE_SUFFIX));
    let files = ExcerptChain::load(CHAIN).materialise_all(&folder);
    let mut steps: Vec<Value> = Vec::new();
    for (index, file) in files.iter().enumerate() {
        let relative =
            file.path.strip_prefix(&folder)?.to_str().context("a path that is not UTF-8")?.replace('\\', "/");
        let mut step = json!({ "step": file.step, "file": relative });
        if let Some(base) = index.checked_sub(1).and_then(|before| files.get(before)) {
            step["patch"] = encode(&pulse, base, file, &folder, "contextual")?.into();
            step["absolute"] = encode(&pulse, base, file, &folder, "absolute")?.into();
        }
        step["anchor"] = pack(&pulse, file, &folder)?.into();
        steps.push(step);
    }
    ensure!(steps.len() > 8, "the chain has too few steps");
    fs::write(folder.join("chain.json"), json!({ "steps": steps }).to_string())?;
    Ok(())
}

/// Returns the name of the anchor.
fn pack(pulse: &Path, file: &StepFile, folder: &Path) -> Result<String> {
    let name = format!("{:03}.anchor.pulse", file.step);
    let mut pack = program(&pulse.to_string_lossy());
    pack.arg("pack").arg(&file.path).arg("-o").arg(folder.join(&name)).arg("--quiet");
    output(pack.args(["--step", &file.step.to_string()]))?;
    Ok(name)
}

/// Returns the name of the patch.
fn encode(pulse: &Path, base: &StepFile, target: &StepFile, folder: &Path, profile: &str) -> Result<String> {
    let name = format!("{:03}.{profile}.pulse", target.step);
    let patch: PathBuf = folder.join(&name);
    let mut encode = program(&pulse.to_string_lossy());
    encode.arg("encode").args([&base.path, &target.path]).arg("-o").arg(patch).args(["--quiet", "--profile", profile]);
    output(encode.args(["--base-step", &base.step.to_string(), "--target-step", &target.step.to_string()]))?;
    Ok(name)
}
