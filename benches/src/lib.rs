//! What the benches share: data with known answers, and ways to measure.
#![forbid(unsafe_code)]

pub mod codec;
pub mod entropy;
pub mod external;
pub mod measure;
pub mod synthetic;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Once;

/// A base and a target to compare codecs on.
#[derive(Debug, Clone)]
pub struct PairFiles {
    /// What the tables call it.
    pub name: String,
    /// A `.safetensors` file.
    pub base: PathBuf,
    /// Another with the same tensors.
    pub target: PathBuf,
}

/// Step 25 and 26 of both real chains in the folder that `cargo xtask chain` made.
pub fn real_pairs(chain: &Path) -> Vec<PairFiles> {
    let file = |name: &str, step: u32| chain.join(name).join(format!("step_{step:03}/model.safetensors"));
    ["mature", "young"]
        .map(|name| PairFiles { name: format!("{name} 25 -> 26"), base: file(name, 25), target: file(name, 26) })
        .to_vec()
}

/// The committed excerpt, for runs without the whole chains.
pub fn excerpt_pair(folder: &Path) -> PairFiles {
    use pulse_tests::fixtures::{ChainName, ExcerptChain};
    let chain = ExcerptChain::load(ChainName::Mature);
    let write = |step: u32| {
        let path = folder.join(format!("excerpt_{step}.safetensors"));
        std::fs::write(&path, chain.step_bytes(step)).expect("the temporary folder takes the excerpt");
        path
    };
    PairFiles { name: "mature excerpt 25 -> 26".into(), base: write(25), target: write(26) }
}

/// Whether this run is a bench (`cargo bench`) or a test (`cargo test --benches`), which needs only to run once.
pub fn is_bench() -> bool {
    std::env::args().any(|argument| argument == "--bench")
}

/// The binary `pulse` in this program's profile, built first if it is not current.
///
/// # Panics
/// If it cannot be built.
pub fn pulse() -> Command {
    let bench = std::env::current_exe().expect("this program has a path");
    let folder = bench.parent().and_then(Path::parent).expect("cargo puts benches in target/<profile>/deps");
    static BUILT: Once = Once::new();
    BUILT.call_once(|| {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let profile = if folder.ends_with("debug") { "dev" } else { "release" };
        let package = ["--package", "pulse-cli", "--bin", "pulse"];
        let build = [&["build", "--quiet", "--profile", profile, "--locked"], &package[..]].concat();
        let status = Command::new(cargo).args(&build).current_dir(env!("CARGO_MANIFEST_DIR")).status();
        assert!(status.is_ok_and(|status| status.success()), "`cargo {}` failed", build.join(" "));
    });
    Command::new(folder.join("pulse"))
}
