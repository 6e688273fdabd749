//! `cargo xtask cross`

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, ensure};
use clap::ValueEnum;
use pulse_tests::fixtures::{ChainName, ExcerptChain, StepFile};

use crate::process::{cargo, output, program, run as run_command, succeeds};
use crate::{install, pulse, workspace};

/// Build `pulse` for aarch64 Linux and for Windows, and run it under emulation
///
/// Warnings are errors. What was built there encodes the excerpt of both chains to the same patches, byte for byte, as
/// what was built here, and applies patches from here to the targets. Not part of `test`.
///
/// Installs, where they are missing, the Rust targets (rustup) and, by apt-get, a C compiler (gcc-aarch64-linux-gnu,
/// gcc-mingw-w64-x86-64) and what runs foreign programs (qemu-user, wine64).
#[derive(clap::Args)]
pub(crate) struct Args {
    /// One machine only; may be repeated
    #[arg(long, value_name = "NAME")]
    only: Vec<Machine>,
}

/// What we build for, from x86-64 Linux.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Machine {
    Aarch64,
    Windows,
}

/// How a machine is reached.
struct Route {
    triple: &'static str,
    /// The C compiler, which links too, and the Debian package that brings it.
    compiler: (&'static str, &'static str),
    /// What runs the machine's programs, wherever it may be.
    emulators: &'static [&'static str],
    emulator_package: &'static str,
    emulator_arguments: &'static [&'static str],
    suffix: &'static str,
    /// Whether `cross` fails where nothing runs the programs.
    must_run: bool,
}

const PROFILES: [&str; 2] = ["contextual", "absolute"];

pub(crate) fn run(args: &Args) -> Result<()> {
    let folder = tempfile::tempdir_in(workspace::target_dir())?;
    let pulse_here = pulse::build()?;
    let mut results = Vec::new();
    for machine in Machine::value_variants() {
        if args.only.is_empty() || args.only.contains(machine) {
            let route = machine.route();
            results.push(format!("{}: {}", route.triple, route.check(&pulse_here, folder.path())?));
        }
    }
    println!("\n{}", results.join("\n"));
    Ok(())
}

impl Machine {
    fn route(self) -> Route {
        match self {
            Self::Aarch64 => Route {
                triple: "aarch64-unknown-linux-gnu",
                compiler: ("aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu"),
                emulators: &["qemu-aarch64", "qemu-aarch64-static"],
                emulator_package: "qemu-user",
                emulator_arguments: &["-L", "/usr/aarch64-linux-gnu"],
                suffix: "",
                must_run: true,
            },
            Self::Windows => Route {
                triple: "x86_64-pc-windows-gnu",
                compiler: ("x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64"),
                emulators: &["wine64", "wine", "/usr/lib/wine/wine64"],
                emulator_package: "wine64",
                emulator_arguments: &[],
                suffix: ".exe",
                must_run: false,
            },
        }
    }
}

impl Route {
    /// Builds and, where that is possible, runs; returns what was done.
    fn check(&self, pulse_here: &Path, folder: &Path) -> Result<String> {
        self.build()?;
        let pulse_there = pulse::built(self.triple, self.suffix)?;
        let emulator = match self.emulator() {
            Ok(emulator) => emulator,
            Err(error) if !self.must_run => return Ok(format!("compiled only, nothing runs its programs: {error:#}")),
            Err(error) => return Err(error),
        };
        let there = || {
            let mut command = program(emulator);
            command.args(self.emulator_arguments).arg(&pulse_there);
            // Wine keeps a whole Windows in the first, and says much of it unless told not to.
            command.env("WINEPREFIX", workspace::target_dir().join("wine")).env("WINEDEBUG", "-all");
            command
        };
        // Debian's wine 8 lacks bcryptprimitives.dll, which Rust's standard library asks for.
        if !succeeds(there().arg("--version")) {
            let message = format!("{emulator} does not start what was built");
            ensure!(!self.must_run, "{message}");
            return Ok(format!("compiled only, {message}"));
        }
        let here = || program(&pulse_here.to_string_lossy());
        let mut patches = 0;
        for chain in ChainName::ALL {
            let folder = folder.join(self.triple).join(chain.as_str());
            fs::create_dir_all(&folder)?;
            let steps = ExcerptChain::load(chain).materialise_all(&folder);
            for pair in steps.windows(2) {
                for profile in PROFILES {
                    compare(here(), there, (&pair[0], &pair[1]), profile, &folder)?;
                    patches += 1;
                }
            }
        }
        ensure!(patches > 0, "the excerpt holds no pair of steps");
        Ok(format!("compiled and run ({emulator}), {patches} patches the same as here, and applied"))
    }

    fn build(&self) -> Result<()> {
        install::rust_target(self.triple)?;
        let (compiler, package) = self.compiler;
        if !succeeds(program(compiler).arg("--version")) {
            install::apt(package).with_context(|| format!("no {compiler}; please run apt-get install {package}"))?;
        }
        let variable = format!("CARGO_TARGET_{}_LINKER", self.triple.to_uppercase().replace('-', "_"));
        let mut build = cargo();
        build.env(variable, compiler).env("CARGO_ENCODED_RUSTFLAGS", "-Dwarnings");
        build.args(["build", "--release", "--locked", "--package", "pulse-cli", "--target", self.triple]);
        run_command(&mut build)
    }

    fn emulator(&self) -> Result<&'static str> {
        let find = || self.emulators.iter().find(|emulator| succeeds(program(emulator).arg("--version"))).copied();
        if let Some(emulator) = find() {
            return Ok(emulator);
        }
        let message = format!("please run apt-get install {}", self.emulator_package);
        install::apt(self.emulator_package).context(message.clone())?;
        find().context(message)
    }
}

/// Encodes one pair here and there to the same bytes, and applies the patch there to the target.
fn compare(
    mut here: Command,
    there: impl Fn() -> Command,
    (base, target): (&StepFile, &StepFile),
    profile: &str,
    folder: &Path,
) -> Result<()> {
    let [ours, theirs, result] = ["here.pulse", "there.pulse", "result.safetensors"].map(|name| folder.join(name));
    let encode = |command: &mut Command, patch: &PathBuf| {
        command.args(["encode", "--quiet", "--profile", profile]).args([&base.path, &target.path]).arg("-o").arg(patch);
        output(command.args(["--base-step", &base.step.to_string(), "--target-step", &target.step.to_string()]))
    };
    encode(&mut here, &ours)?;
    encode(&mut there(), &theirs)?;
    let step = target.step;
    ensure!(fs::read(&ours)? == fs::read(&theirs)?, "step {step}: the {profile} patch is another one there");
    output(there().args(["apply", "--quiet"]).args([&ours, &base.path]).arg("-o").arg(&result))?;
    ensure!(fs::read(&result)? == fs::read(&target.path)?, "step {step}: the {profile} patch gives another file there");
    Ok(())
}
