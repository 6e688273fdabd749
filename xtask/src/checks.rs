//! What `test` and `lint` check, one by one.

use anyhow::{Result, ensure};
use clap::ValueEnum;

use crate::process::{cargo, output, program, run};
use crate::steps::Steps;
use crate::{demo, fuzz, install, metadata, runtimes, workspace};

const WASM: &str = "wasm32-unknown-unknown";
const I686: &str = "i686-unknown-linux-gnu";
/// Which packages are tested together. Cargo settles the features of dependencies for what it builds at once: xtask has been built
/// by itself, and beside the others its dependencies would be built a second time.
const TESTED: [&str; 3] = ["--workspace", "--exclude", "xtask"];

/// One step, in the order in which `test` runs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Check {
    /// Formatting
    Fmt,
    /// Clippy over everything, warnings are errors
    Clippy,
    /// Documentation builds without a warning
    Doc,
    /// All tests of the workspace
    Test,
    /// The format crate compiles for wasm32
    Wasm,
    /// The format crate's tests pass where usize has 32 bits
    I686,
    /// The applier's wasm modules keep to their sizes, and pass its tests in every JavaScript runtime
    Runtimes,
    /// The page in web-demo/ passes its tests, and takes Chromium's GPU through the chain bit for bit
    Demo,
    /// Every bench runs once, as a test
    Benches,
    /// Every fuzz target runs for some seconds
    Fuzz,
    /// The steps before have left the work tree as it was
    Tree,
}

/// Runs `checks` as steps and prints the summary.
pub(crate) fn run_all(checks: &[Check], keep_going: bool, skip: &[Check], fuzz_seconds: u64) -> Result<()> {
    let tree = tree_status();
    let mut steps = Steps::new(keep_going, skip.iter().map(|check| check.name()).collect());
    for check in checks {
        let built_wasm = steps.passed(Check::Runtimes.name());
        steps.run(check.name(), || check.run(fuzz_seconds, built_wasm, tree.as_deref()));
    }
    steps.finish()
}

impl Check {
    fn name(self) -> &'static str {
        match self {
            Self::Fmt => "fmt",
            Self::Clippy => "clippy",
            Self::Doc => "doc",
            Self::Test => "test",
            Self::Wasm => "wasm",
            Self::I686 => "i686",
            Self::Runtimes => "runtimes",
            Self::Demo => "demo",
            Self::Benches => "benches",
            Self::Fuzz => "fuzz",
            Self::Tree => "tree",
        }
    }

    /// `built_wasm`: a step before has built the wasm modules.
    fn run(self, fuzz_seconds: u64, built_wasm: bool, tree_before: Option<&str>) -> Result<()> {
        match self {
            Self::Fmt => {
                run(cargo().args(["fmt", "--all", "--check"]))?;
                run(cargo().args(["fmt", "--check", "--manifest-path", fuzz::MANIFEST]))
            }
            Self::Clippy => {
                run(cargo().args(["clippy", "--workspace", "--all-targets", "--locked", "--", "-D", "warnings"]))
            }
            Self::Doc => {
                let mut doc = cargo();
                run(doc.env("RUSTDOCFLAGS", "-D warnings").args(["doc", "--workspace", "--no-deps", "--locked"]))
            }
            Self::Test => {
                // The tests of GPU kernels fail without a Vulkan driver.
                runtimes::install_runtimes()?;
                run(cargo().args(["test", "--locked"]).args(TESTED))?;
                run(cargo().args(["test", "--locked", "--package", "xtask"]))
            }
            Self::Wasm => {
                install::rust_target(WASM)?;
                run(cargo().args(["check", "--package", "pulse-format", "--target", WASM, "--locked"]))
            }
            Self::I686 => {
                install::rust_target(I686)?;
                install::multilib()?;
                run(cargo().args(["test", "--package", "pulse-format", "--target", I686, "--locked"]))
            }
            Self::Runtimes => runtimes::run_all(),
            Self::Demo => demo::check(built_wasm),
            Self::Benches => benches(),
            Self::Fuzz => fuzz::run_targets(None, fuzz_seconds),
            Self::Tree => tree(tree_before),
        }
    }
}

/// In the profile of the tests, and selected like them, so that nothing is compiled again but the benches.
fn benches() -> Result<()> {
    let packages = metadata::packages(&workspace::root().join("Cargo.toml"))?;
    let benches = packages.iter().flat_map(|package| metadata::targets(package, "bench")).count();
    ensure!(benches > 0, "the workspace has no bench");
    run(cargo().args(["test", "--locked", "--bench", "*"]).args(TESTED))
}

/// What git thinks of the work tree; `None` outside a repository.
fn tree_status() -> Option<String> {
    output(program("git").args(["status", "--porcelain"])).ok()
}

fn tree(before: Option<&str>) -> Result<()> {
    let (Some(before), Some(after)) = (before, tree_status()) else {
        println!("SKIPPED: not in a git repository");
        return Ok(());
    };
    let new = new_lines(before, &after);
    ensure!(new.is_empty(), "the run changed the work tree:\n{}", new.join("\n"));
    Ok(())
}

fn new_lines<'a>(before: &str, after: &'a str) -> Vec<&'a str> {
    after.lines().filter(|line| !before.lines().any(|old| old == *line)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_have_the_names_that_skip_takes() {
        for check in Check::value_variants() {
            assert_eq!(Check::from_str(check.name(), false).as_ref(), Ok(check));
        }
    }

    #[test]
    fn only_what_the_run_changed_counts() {
        assert_eq!(new_lines(" M edited\n", " M edited\n?? left/behind\n"), ["?? left/behind"]);
        assert!(new_lines(" M edited\n", "").is_empty());
    }
}
