//! `cargo xtask wasm`

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use wasm_bindgen_cli_support::Bindgen;

use crate::process::{cargo, output, program, run as run_command};
use crate::{install, workspace};

pub(crate) const TARGET: &str = "wasm32-unknown-unknown";
/// Every runtime we know has these instructions, and web-sys has WebGPU behind this name; whatever the caller's flags say, the
/// module is the same.
pub(crate) const FLAGS: &str = "-Ctarget-feature=+simd128,+bulk-memory\x1f--cfg=web_sys_unstable_apis";
const PACKAGE: &str = "pulse-applier-wasm";
const LIBRARY: &str = "pulse_applier_wasm.wasm";

/// Build the npm package's wasm modules into applier-wasm/npm/dist, and hold them to their sizes
///
/// Installs, where they are missing, the Rust target wasm32-unknown-unknown (rustup) and the npm packages of
/// tests/runtimes, whose wasm-opt is used.
#[derive(clap::Args)]
pub(crate) struct Args {}

pub(crate) fn run(_: &Args) -> Result<()> {
    build_all()
}

/// A module of the package.
struct Module {
    /// Its folder in `dist`.
    name: &'static str,
    features: &'static [&'static str],
    /// Whether size counts more than speed: where kernels run on a GPU, what is left for wasm is short.
    small: bool,
    /// What it may take on the wire: bytes of `gzip -9`.
    most_bytes: u64,
}

const MODULES: [Module; 3] = [
    // Decoding, planning, and GPUs through the page's own handles.
    Module { name: "core", features: &[], small: true, most_bytes: 100_000 },
    // The same and the receiver over memory, whose loops are as long as the weights.
    Module { name: "full", features: &["cpu"], small: false, most_bytes: 140_000 },
    // The core and a GPU of our own.
    Module { name: "wgpu", features: &["wgpu"], small: true, most_bytes: 140_000 },
];

/// The module that `pulse-applier/inline` has in its script.
const INLINED: &str = "full";

/// Builds every module; fails if one is larger than it may be.
pub(crate) fn build_all() -> Result<()> {
    MODULES.iter().try_for_each(|module| build(module.name))
}

/// Builds one module; fails if it is larger than it may be.
pub(crate) fn build(name: &str) -> Result<()> {
    install::rust_target(TARGET)?;
    install::npm(&runtimes())?;
    let module = MODULES.iter().find(|module| module.name == name);
    let module = module.with_context(|| format!("the package has no wasm module {name}"))?;
    let wasm = module.build()?;
    let (bytes, packed) = (fs::metadata(&wasm)?.len(), gzip_bytes(&wasm)?);
    println!("{name}: {bytes} bytes, {packed} with gzip -9, at most {}", module.most_bytes);
    if name == INLINED {
        inline(&wasm)?;
    }
    ensure!(packed <= module.most_bytes, "the wasm module {name} has become too large");
    Ok(())
}

/// Fails if the module was never built.
pub(crate) fn find(name: &str) -> Result<()> {
    let wasm = dist().join(name).join("pulse.wasm");
    ensure!(wasm.is_file(), "{} is missing; please run `cargo xtask wasm`", wasm.display());
    Ok(())
}

impl Module {
    /// Compiles, binds and optimises; returns where the module is.
    fn build(&self) -> Result<PathBuf> {
        // One folder for all modules: dependencies, and the macros that they need, are compiled once.
        let target = workspace::target_dir().join("wasm");
        let mut build = cargo();
        build.args(["build", "--locked", "--lib", "--package", PACKAGE, "--profile", "wasm", "--target", TARGET]);
        build.args(["--no-default-features", "--features", &self.features.join(",")]).arg("--target-dir").arg(&target);
        if self.small {
            build.env("CARGO_PROFILE_WASM_OPT_LEVEL", "z");
            for package in ["blake3", "pulse-format"] {
                build.arg("--config").arg(format!("profile.wasm.package.{package}.opt-level=\"s\""));
            }
        }
        run_command(build.env("CARGO_ENCODED_RUSTFLAGS", flags()))?;

        let folder = dist().join(self.name);
        fs::create_dir_all(&folder)?;
        let bound = target.join("bound");
        bind(&target.join(TARGET).join("wasm").join(LIBRARY), &bound)?;
        fs::copy(bound.join("pulse.js"), folder.join("pulse.js"))?;
        let wasm = folder.join("pulse.wasm");
        optimise(&bound.join("pulse_bg.wasm"), &wasm)?;
        Ok(wasm)
    }
}

/// The module says nothing of the machine it was built on, and is the same on every one: panics name files from their package on.
fn flags() -> String {
    let home = std::env::var("CARGO_HOME").unwrap_or_else(|_| {
        let home = std::env::var("HOME").or_else(|_| std::env::var("USERPROFILE")).unwrap_or_default();
        format!("{home}/.cargo")
    });
    let sources = fs::read_dir(Path::new(&home).join("registry/src")).into_iter().flatten().flatten();
    let remap = sources.map(|source| format!("\x1f--remap-path-prefix={}/=", source.path().display()));
    std::iter::once(FLAGS.to_owned()).chain(remap).collect()
}

/// What the tool `wasm-bindgen --target web` does. The wrapper says where the module is.
fn bind(input: &Path, folder: &Path) -> Result<()> {
    let mut bindgen = Bindgen::new();
    bindgen.input_path(input).out_name("pulse").typescript(false).omit_default_module_path(true);
    bindgen.remove_name_section(true).remove_producers_section(true);
    bindgen.web(true)?.generate(folder).context("wasm-bindgen")
}

fn optimise(input: &Path, to: &Path) -> Result<()> {
    let features =
        ["simd", "bulk-memory", "bulk-memory-opt", "sign-ext", "mutable-globals", "nontrapping-float-to-int"];
    let features = [&features[..], &["reference-types", "multivalue"]].concat();
    let mut command = program("node");
    command.arg(runtimes().join("node_modules/binaryen/bin/wasm-opt")).arg("-Oz");
    // What it would inline costs more than the call.
    command.args(["--always-inline-max-function-size", "1", "--flexible-inline-max-function-size", "1"]);
    command.args(["--one-caller-inline-max-function-size", "1"]);
    command.args(features.iter().map(|feature| format!("--enable-{feature}")));
    run_command(command.arg(input).arg("-o").arg(to))
}

/// Writes a module as a script, in base64, beside it.
fn inline(wasm: &Path) -> Result<()> {
    let script = "const [from, to] = process.argv.slice(1);
        fs.writeFileSync(to, `export default '${fs.readFileSync(from, 'base64')}';\n`)";
    let to = wasm.with_file_name("inlined.js");
    run_command(program("node").args(["-e", script]).arg(wasm).arg(&to))?;
    println!("{INLINED}, in a script: {} with gzip -9", gzip_bytes(&to)?);
    Ok(())
}

fn gzip_bytes(path: &Path) -> Result<u64> {
    let script = "process.stdout.write(String(zlib.gzipSync(fs.readFileSync(process.argv[1]), { level: 9 }).length))";
    output(program("node").args(["-e", script]).arg(path))?.parse().context("node printed no number")
}

fn runtimes() -> PathBuf {
    workspace::root().join("tests/runtimes")
}

fn dist() -> PathBuf {
    workspace::root().join("applier-wasm/npm/dist")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// They read what the other wrote, and understand only their own version.
    #[test]
    fn library_and_tool_have_one_version() {
        let lock = fs::read_to_string(workspace::root().join("Cargo.lock")).unwrap();
        let version = |name: &str| {
            let entry = lock.split(&format!("name = \"{name}\"\nversion = \"")).nth(1).unwrap();
            entry.split('"').next().unwrap().to_owned()
        };
        assert_eq!(version("wasm-bindgen"), version("wasm-bindgen-cli-support"));
    }
}
