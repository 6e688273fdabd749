//! What a fresh machine lacks: each function installs one thing if it is missing, or says how to.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::process::{self, cargo, program};

/// The standard library of a Rust target.
pub(crate) fn rust_target(target: &str) -> Result<()> {
    if has_rust_target(target) {
        return Ok(());
    }
    let installed = process::run(program("rustup").args(["target", "add", target]));
    installed.with_context(|| format!("please install the Rust target: rustup target add {target}"))?;
    ensure!(has_rust_target(target), "rustup added {target}, and this rustc still does not find it");
    Ok(())
}

fn has_rust_target(target: &str) -> bool {
    let folder = process::output(program("rustc").args(["--print=target-libdir", "--target", target]));
    folder.is_ok_and(|folder| Path::new(folder.trim()).is_dir())
}

/// Libraries for 32-bit x86, which linking for `i686-unknown-linux-gnu` needs.
pub(crate) fn multilib() -> Result<()> {
    if links_32_bit()? {
        return Ok(());
    }
    // Not gcc-multilib: it would throw out the compiler that `cross` needs.
    let version = process::output(program("cc").arg("-dumpversion")).context("no C compiler; please install gcc")?;
    let package = format!("gcc-{}-multilib", version.trim().split('.').next().unwrap_or_default());
    let message = format!("cannot link 32-bit programs; please run apt-get install {package}");
    apt(&package).context(message.clone())?;
    ensure!(links_32_bit()?, "{message}");
    Ok(())
}

fn links_32_bit() -> Result<bool> {
    let folder = tempfile::tempdir()?;
    let source = folder.path().join("probe.c");
    fs::write(&source, "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n")?;
    Ok(process::succeeds(program("cc").args(["-m32", "-o"]).arg(folder.path().join("probe")).arg(&source)))
}

/// The npm packages of a folder, as its lock file has them.
pub(crate) fn npm(folder: &Path) -> Result<()> {
    // npm writes the second when it has installed what the first says.
    let [lock, installed] = ["package-lock.json", "node_modules/.package-lock.json"].map(|name| folder.join(name));
    let changed = |path: &Path| fs::metadata(path).and_then(|file| file.modified());
    if changed(&installed).is_ok_and(|installed| changed(&lock).is_ok_and(|lock| lock <= installed)) {
        return Ok(());
    }
    let message = "npm packages are missing; please install Node.js 20 or newer with npm, and run `npm ci` there";
    process::run(program("npm").args(["ci", "--no-audit", "--no-fund"]).current_dir(folder)).context(message)
}

/// A Debian package.
pub(crate) fn apt(package: &str) -> Result<()> {
    println!("installing the Debian package {package}");
    // Without root, through sudo, if that asks for no password.
    let prefix: &[&str] =
        if process::output(program("id").arg("-u"))?.trim() == "0" { &["env"] } else { &["sudo", "-n", "env"] };
    for arguments in [&["update", "-qq"][..], &["install", "-y", "-qq", "--no-install-recommends", package]] {
        let mut apt = program(prefix[0]);
        apt.args(&prefix[1..]).args(["DEBIAN_FRONTEND=noninteractive", "apt-get"]).args(arguments);
        process::output(&mut apt)?;
    }
    Ok(())
}

/// A C++ compiler, which libFuzzer is built with.
pub(crate) fn cxx() -> Result<()> {
    if process::succeeds(program("c++").arg("--version")) {
        return Ok(());
    }
    apt("g++").context("no C++ compiler; please install g++ (apt-get install g++)")
}

/// The subcommand `cargo fuzz`.
pub(crate) fn cargo_fuzz() -> Result<()> {
    if process::succeeds(cargo().args(["fuzz", "--version"])) {
        return Ok(());
    }
    // It only starts other programs, which needs no optimisation.
    let installed = process::run(cargo().args(["install", "cargo-fuzz", "--locked", "--debug"]));
    installed.context("please install cargo-fuzz: cargo install cargo-fuzz --locked")
}

/// Whether there is a nightly toolchain, after trying to install one.
pub(crate) fn nightly() -> bool {
    let has_nightly = || {
        let list = process::output(program("rustup").args(["toolchain", "list"]));
        list.is_ok_and(|list| list.lines().any(|line| line.starts_with("nightly")))
    };
    has_nightly()
        || (process::run(program("rustup").args(["toolchain", "install", "nightly", "--profile=minimal"])).is_ok()
            && has_nightly())
}
