//! Who may depend on whom, as cargo sees it.

use crate::support::workspace;
use std::collections::BTreeSet;
use std::process::Command;

/// The packages that `package` is built with, itself left out.
fn dependencies(package: &str, features: &[&str]) -> BTreeSet<String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--package", package, "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p}"])
        .args(features)
        .current_dir(workspace())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let text = String::from_utf8(output.stdout).unwrap();
    let names: BTreeSet<String> = text.lines().filter_map(|line| line.split(' ').next()).map(String::from).collect();
    assert!(names.contains(package), "{package} in {names:?}");
    names.into_iter().filter(|name| !name.is_empty() && name != package).collect()
}

fn ours(names: &BTreeSet<String>) -> Vec<&str> {
    names.iter().map(String::as_str).filter(|name| name.starts_with("pulse-") || *name == "xtask").collect()
}

fn check_none_of(names: &BTreeSet<String>, unwanted: &[&str]) {
    for name in names {
        let found = unwanted.iter().any(|unwanted| name == unwanted || name.starts_with(&format!("{unwanted}-")));
        assert!(!found, "{name} is among {names:?}");
    }
}

/// The format has no IO, no threads, no codec of its own and no framework: it goes everywhere, wasm included.
#[test]
fn the_format_depends_on_next_to_nothing() {
    let names = dependencies("pulse-format", &[]);
    assert_eq!(ours(&names), [""; 0]);
    check_none_of(
        &names,
        &[
            "zstd",
            "ruzstd",
            "serde",
            "serde_json",
            "wgpu",
            "rayon",
            "memmap2",
            "tempfile",
            "clap",
            "half",
            "safetensors",
            "rand",
            "tokio",
        ],
    );
    for name in ["blake3", "thiserror"] {
        assert!(names.contains(name), "{name} is not among {names:?}");
    }
}

/// Its features keep the standard library out of its dependencies.
#[test]
fn the_format_is_built_without_std() {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["tree", "--offline", "--locked", "--package", "pulse-format", "--edges", "normal", "--prefix", "none"])
        .args(["--format", "{p} features:{f}"])
        .current_dir(workspace())
        .output()
        .unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    for name in ["blake3", "thiserror"] {
        let line = text
            .lines()
            .find(|line| line.starts_with(&format!("{name} ")))
            .unwrap_or_else(|| panic!("{name} in {text}"));
        let features = line.split("features:").nth(1).unwrap_or_default().trim_end_matches(" (*)");
        assert!(features.split(',').all(|feature| feature != "std" && feature != "default"), "{line}");
    }
}

/// The channel's core serves wasm too: no IO, no store, no client.
#[test]
fn the_core_of_a_channel_has_no_io() {
    let names = dependencies("pulse-channel", &[]);
    assert_eq!(ours(&names), ["pulse-format"]);
    check_none_of(&names, &["tokio", "object_store", "reqwest", "ed25519-dalek", "tempfile", "tracing", "getrandom"]);
    let with = dependencies("pulse-channel", &["--features", "store"]);
    assert_eq!(ours(&with), ["pulse-encoder", "pulse-format", "pulse-simd"]);
    assert!(with.contains("object_store"));
}

/// What serves a channel knows its names, and neither stores nor checkpoints.
#[test]
fn the_server_needs_the_core_of_a_channel_alone() {
    assert_eq!(ours(&dependencies("pulse-serve", &[])), ["pulse-channel", "pulse-format"]);
}

#[test]
fn who_rests_on_the_format() {
    assert_eq!(ours(&dependencies("pulse-simd", &[])), ["pulse-format"]);
    for receiver_or_encoder in ["pulse-encoder", "pulse-applier-wasm"] {
        assert_eq!(ours(&dependencies(receiver_or_encoder, &[])), ["pulse-format", "pulse-simd"]);
    }
    assert_eq!(ours(&dependencies("pulse-interop", &[])), [""; 0]);
    assert_eq!(ours(&dependencies("pulse-tests", &[])), [""; 0], "fixtures rest on no code under test");
}

/// What only the command line needs is in its package alone.
#[test]
fn the_library_has_no_command_line() {
    let command_line = ["clap", "indicatif", "ctrlc"];
    check_none_of(&dependencies("pulse-encoder", &["--all-features"]), &command_line);
    let with = dependencies("pulse-cli", &[]);
    for name in command_line {
        assert!(with.contains(name), "{name} is not among {with:?}");
    }
}

/// `encoder`, `applier-wasm` and `loco` never depend on one another, and nothing that ships depends on what only develops.
#[test]
fn siblings_do_not_depend_on_one_another() {
    let siblings = ["pulse-encoder", "pulse-applier-wasm", "pulse-loco"];
    let members = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    for package in siblings {
        let folder = package.strip_prefix("pulse-").unwrap();
        if !members.contains(&format!("\"{folder}\"")) {
            continue;
        }
        let names = dependencies(package, &[]);
        let others =
            siblings.iter().filter(|other| **other != package).chain(&["pulse-tests", "pulse-benches", "xtask"]);
        for other in others {
            assert!(!names.contains(*other), "{package} depends on {other}");
        }
    }
}
