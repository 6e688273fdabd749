//! Question: how long do `pulse encode` and `pulse apply` take beside `cmp` of two equal files of the same size, and `pulse pack` and
//! `pulse unpack` beside `cp`?
//!
//! Whole processes, from page cache, fingerprints and fsync included, in turn (A B C A B C …), output on `--out`, which should be tmpfs.
//! Reported are medians of the ratios within a round, since absolute times drift; beside them a plain comparison of the two mapped
//! files in memory. Every output is compared before it counts.

use clap::Parser;
use pulse_benches::{PairFiles, excerpt_pair, is_bench, pulse, real_pairs};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

/// Encode and apply beside `cmp`, pack and unpack beside `cp`.
#[derive(Debug, Parser)]
struct Options {
    /// Folder with the rebuilt chains (`cargo xtask chain`)
    #[arg(long, env = "PULSE_CHAIN")]
    chain: Option<PathBuf>,
    /// Rounds
    #[arg(long, default_value_t = 15)]
    runs: usize,
    /// Where outputs go
    #[arg(long, default_value = "/dev/shm")]
    out: PathBuf,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let inputs = tempfile::tempdir().expect("a temporary folder");
    let out_parent = if options.out.is_dir() { options.out.clone() } else { std::env::temp_dir() };
    let outputs = tempfile::tempdir_in(out_parent).expect("a temporary folder for outputs");
    let runs = if is_bench() { options.runs } else { 1 };
    let pairs = match &options.chain {
        Some(chain) => real_pairs(chain),
        None => {
            println!(
                "SKIPPED: the full chains (name them with --chain or PULSE_CHAIN; `cargo xtask chain` builds them)"
            );
            vec![excerpt_pair(inputs.path())]
        }
    };
    for pair in pairs {
        compare(&pair, inputs.path(), outputs.path(), runs);
    }
}

fn compare(pair: &PairFiles, inputs: &Path, outputs: &Path, runs: usize) {
    let copy = inputs.join("copy.safetensors");
    std::fs::copy(&pair.base, &copy).expect("the temporary folder takes a copy");
    let [patch, anchor, out] = ["patch", "anchor", "out.safetensors"].map(|name| outputs.join(name));
    let mut times = vec![Vec::new(); BESIDE_CMP.len() + BESIDE_CP.len()];
    // The first round warms the page cache and does not count.
    for round in 0..=runs {
        let encode = |threads: &str| {
            process(pulse().args(["encode", "--quiet", "--threads", threads, "-o"]).args([
                &patch,
                &pair.base,
                &pair.target,
            ]))
        };
        let apply = |threads: &str| {
            process(pulse().args(["apply", "--quiet", "--threads", threads, "-o"]).args([&out, &patch, &pair.base]))
        };
        let mut row = vec![process(Command::new("cmp").args([&copy, &pair.base])), in_memory(&copy, &pair.base)];
        row.extend([encode("1"), encode("2")]);
        for threads in ["1", "2"] {
            // A fresh file each time: overwriting would reuse its pages.
            let _ = std::fs::remove_file(&out);
            row.push(apply(threads));
        }
        assert!(
            std::fs::read(&out).expect("apply wrote it") == std::fs::read(&pair.target).expect("the target"),
            "another target"
        );
        row.extend(anchors(&pair.target, &anchor, &out));
        if round > 0 {
            times.iter_mut().zip(row).for_each(|(times, time)| times.push(time));
        }
    }
    let (beside_cmp, beside_cp) = times.split_at(BESIDE_CMP.len());
    println!(
        "\n{}, {} MB, {runs} rounds",
        pair.name,
        std::fs::metadata(&copy).map_or(0, |file| file.len()) / 1_000_000
    );
    print_table(&BESIDE_CMP, beside_cmp);
    print_table(&BESIDE_CP, beside_cp);
}

/// What is timed; the first two of each are what the others are compared with.
const BESIDE_CMP: [&str; 6] =
    ["cmp", "compare in memory", "encode, 1 thread", "encode, 2 threads", "apply, 1 thread", "apply, 2 threads"];
const BESIDE_CP: [&str; 6] =
    ["cp", "copy in memory", "pack, 1 thread", "pack, 2 threads", "unpack, 1 thread", "unpack, 2 threads"];

/// Packs a checkpoint and unpacks it; gives the seconds of [`BESIDE_CP`].
fn anchors(checkpoint: &Path, anchor: &Path, out: &Path) -> [f64; 6] {
    // A fresh file each time: overwriting would reuse its pages.
    let fresh = |work: &mut dyn FnMut() -> f64| {
        let _ = std::fs::remove_file(out);
        work()
    };
    let pulse = |verb: &str, threads: &str, from: &Path, to: &Path| {
        let mut command = pulse();
        command.args([verb, "--quiet", "--threads", threads, "-o"]).args([to, from]);
        process(if verb == "pack" { command.args(["--step", "1"]) } else { &mut command })
    };
    let cp = fresh(&mut || process(Command::new("cp").args([checkpoint, out])));
    let bytes = std::fs::read(checkpoint).expect("a bench file");
    let start = Instant::now();
    let copy = std::hint::black_box(bytes.clone());
    let in_memory = start.elapsed().as_secs_f64();
    let pack = ["1", "2"].map(|threads| {
        let _ = std::fs::remove_file(anchor);
        pulse("pack", threads, checkpoint, anchor)
    });
    let unpack = ["1", "2"].map(|threads| fresh(&mut || pulse("unpack", threads, anchor, out)));
    let open = |path: &Path| pulse_encoder::Checkpoint::open(path).expect("a bench file");
    let (before, after) = (open(checkpoint), open(out));
    let equal = before.tensors().iter().zip(after.tensors()).all(|(x, y)| before.bytes(x) == after.bytes(y));
    assert!(equal && before.tensors().len() == after.tensors().len() && copy == bytes, "another checkpoint");
    [cp, in_memory, pack[0], pack[1], unpack[0], unpack[1]]
}

fn print_table(names: &[&str], times: &[Vec<f64>]) {
    println!("\n| what | median s | least s | median ratio to {} | to {} |\n|---|---|---|---|---|", names[0], names[1]);
    for (name, series) in names.iter().zip(times) {
        let against = |other: &[f64]| median(series.iter().zip(other).map(|(a, b)| a / b).collect());
        println!(
            "| {name} | {:.3} | {:.3} | {:.2} | {:.2} |",
            median(series.clone()),
            series.iter().copied().fold(f64::MAX, f64::min),
            against(&times[0]),
            against(&times[1])
        );
    }
}

fn median(mut series: Vec<f64>) -> f64 {
    series.sort_by(f64::total_cmp);
    series[series.len() / 2]
}

fn process(command: &mut Command) -> f64 {
    let start = Instant::now();
    let status = command.stdin(Stdio::null()).stdout(Stdio::null()).status().expect("the program starts");
    assert!(status.success(), "{command:?} failed");
    start.elapsed().as_secs_f64()
}

/// Maps both files and compares all bytes of their tensors.
fn in_memory(a: &Path, b: &Path) -> f64 {
    let start = Instant::now();
    let open = |path: &Path| pulse_encoder::Checkpoint::open(path).expect("a bench file");
    let (a, b) = (open(a), open(b));
    let equal = a.tensors().iter().zip(b.tensors()).all(|(x, y)| a.bytes(x) == b.bytes(y));
    assert!(equal, "the copy differs");
    start.elapsed().as_secs_f64()
}
