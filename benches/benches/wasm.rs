//! Question: how fast does the wasm receiver apply a patch to memory, beside the same receiver compiled for this CPU, on one thread?
//!
//! Both are the session of `pulse_applier_wasm::cpu` over a whole checkpoint, in turn: Node runs the module that `cargo xtask wasm` made.
//! The native one takes the widest instructions that this CPU has. Every result is compared.

use clap::Parser;
use pulse_applier_wasm::NoHooks;
use pulse_applier_wasm::cpu::Session;
use pulse_benches::{PairFiles, excerpt_pair, is_bench, real_pairs};
use pulse_encoder::{Checkpoint, EncodeOptions, Silent, encode_file};
use pulse_format::Step;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

/// The wasm receiver beside the native one.
#[derive(Debug, Parser)]
struct Options {
    /// Folder with the rebuilt chains (`cargo xtask chain`)
    #[arg(long, env = "PULSE_CHAIN")]
    chain: Option<PathBuf>,
    /// Rounds
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    if !root.join("applier-wasm/npm/dist/full/pulse.wasm").is_file() {
        println!("SKIPPED: there is no wasm module (`cargo xtask wasm` builds it)");
        return;
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    let runs = if is_bench() { options.runs } else { 1 };
    let pairs = match &options.chain {
        Some(chain) => real_pairs(chain),
        None => {
            println!(
                "SKIPPED: the full chains (name them with --chain or PULSE_CHAIN; `cargo xtask chain` builds them)"
            );
            vec![excerpt_pair(folder.path())]
        }
    };
    println!("| pair | wasm apply s | native apply s | wasm / native speed |\n|---|---|---|---|");
    for pair in pairs {
        compare(&pair, &root, folder.path(), runs);
    }
}

/// Seconds of each round, and the number of changes.
#[derive(Debug, Default, serde::Deserialize)]
struct Times {
    applies: Vec<f64>,
    changes: u64,
}

fn compare(pair: &PairFiles, root: &Path, folder: &Path, runs: usize) {
    let patch = folder.join("patch");
    let options = EncodeOptions { target_step: Step(1), ..EncodeOptions::default() };
    encode_file(&pair.base, &pair.target, &patch, &options, &Silent).expect("a bench pair");
    let (mut wasm, mut native) = (Times::default(), Times::default());
    // In turn, since the speed of a shared machine drifts.
    for _ in 0..runs {
        for (all, one) in [(&mut wasm, in_node(pair, root, &patch)), (&mut native, natively(pair, &patch))] {
            all.applies.extend(one.applies);
            all.changes = one.changes;
        }
    }
    assert_eq!(wasm.changes, native.changes);
    println!(
        "| {} | {:.3} | {:.3} | {:.2} |",
        pair.name,
        median(&wasm.applies),
        median(&native.applies),
        median(&native.applies) / median(&wasm.applies),
    );
}

fn in_node(pair: &PairFiles, root: &Path, patch: &Path) -> Times {
    let mut node = Command::new("node");
    node.arg(root.join("benches/js/decode.mjs")).args([patch, &pair.base, &pair.target]).arg("1");
    let output = node.output().expect("node starts");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("node prints times")
}

fn natively(pair: &PairFiles, patch: &Path) -> Times {
    let patch = std::fs::read(patch).expect("a patch");
    let (base, target) = [&pair.base, &pair.target].map(|path| Checkpoint::open(path).expect("a checkpoint")).into();
    let mut session = Session::new(Default::default());
    for stored in base.tensors() {
        session.bind(stored.tensor.clone(), base.bytes(stored).to_vec(), 0).expect("a tensor and its bytes");
    }
    let start = Instant::now();
    let applied = pollster::block_on(session.apply(patch.as_slice(), &NoHooks)).expect("a patch that fits");
    let seconds = start.elapsed().as_secs_f64();
    for stored in target.tensors() {
        let found = session.memory(&stored.tensor.name).map(Vec::as_slice);
        assert!(found == Some(target.bytes(stored)), "{} is not the target's", stored.tensor.name);
    }
    Times { applies: vec![seconds], changes: applied.changes }
}

fn median(series: &[f64]) -> f64 {
    let mut series = series.to_vec();
    series.sort_by(f64::total_cmp);
    series[series.len() / 2]
}
