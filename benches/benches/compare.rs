//! Question: how small and how fast are our patches, beside every peer's and beside the entropy of our own model?
//!
//! Data: step 25 -> 26 of both real chains (`--chain`), and synthetic pairs of `--cells` cells from 0.05 % to 20 % density. Every
//! codec runs on one thread in a process of its own, the codecs in turn, is timed in memory (median of `--runs` rounds), and its result is
//! compared with the target bit for bit before its line is printed. With `--regular`: sizes alone, of updates that are regular. "decode" is bytes to changes; "apply" is bytes and base to the target's cells in memory.

use clap::Parser;
use pulse_benches::codec::{self, Cells, Codec};
use pulse_benches::entropy::bound;
use pulse_benches::external::TOOLS;
use pulse_benches::measure::{peak_memory, timed};
use pulse_benches::{PairFiles, excerpt_pair, is_bench, real_pairs, synthetic};
use pulse_encoder::Checkpoint;
use pulse_tests::regular::updates;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};

const DENSITIES: &[f64] = &[0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2];

/// Sizes, speeds and memory of patch formats.
#[derive(Debug, Parser)]
struct Options {
    /// Folder with the rebuilt chains (`cargo xtask chain`)
    #[arg(long, env = "PULSE_CHAIN")]
    chain: Option<PathBuf>,
    /// Cells of each synthetic pair
    #[arg(long, default_value_t = 128 << 20)]
    cells: u64,
    /// Densities to synthesise, in percent [default: 0.05 to 20]
    #[arg(long, value_delimiter = ',')]
    densities: Vec<f64>,
    /// Rounds, each with every codec
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Instead: the sizes of regular updates (doubled, zeroed, exchanged) of 1 Mi cells
    #[arg(long)]
    regular: bool,
    /// The codecs to run, as the table names them [default: all]
    #[arg(long, value_delimiter = ',')]
    only: Vec<String>,
    /// Also run external tools where installed: minutes each
    #[arg(long)]
    external: bool,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
    /// Run one codec and print its result: how this program calls itself
    #[arg(long, hide = true, num_args = 3)]
    one: Option<Vec<String>>,
}

/// Of which a process takes the median.
const TIMED_RUNS: usize = 3;

/// What one codec did with one pair.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Row {
    bytes: u64,
    encode_seconds: f64,
    decode_seconds: f64,
    apply_seconds: f64,
    encode_memory: u64,
    decode_memory: u64,
}

impl Row {
    /// Field by field.
    fn median(rows: &[Self]) -> Self {
        let seconds = |field: fn(&Self) -> f64| {
            let mut all: Vec<f64> = rows.iter().map(field).collect();
            all.sort_by(f64::total_cmp);
            all[all.len() / 2]
        };
        let most = |field: fn(&Self) -> u64| rows.iter().map(field).max().unwrap_or_default();
        Self {
            bytes: most(|row| row.bytes),
            encode_seconds: seconds(|row| row.encode_seconds),
            decode_seconds: seconds(|row| row.decode_seconds),
            apply_seconds: seconds(|row| row.apply_seconds),
            encode_memory: most(|row| row.encode_memory),
            decode_memory: most(|row| row.decode_memory),
        }
    }
}

fn main() {
    let options = Options::parse();
    if let Some(one) = &options.one {
        return run_one(&one[0], one[1].as_ref(), one[2].as_ref());
    }
    let folder = tempfile::tempdir().expect("a temporary folder");
    if options.regular || !is_bench() {
        regular(folder.path());
    }
    if options.regular {
        return;
    }
    let mut pairs = match &options.chain {
        Some(chain) => real_pairs(chain),
        None => {
            println!(
                "SKIPPED: the full chains (name them with --chain or PULSE_CHAIN; `cargo xtask chain` builds them)"
            );
            vec![excerpt_pair(folder.path())]
        }
    };
    for pair in pairs.drain(..) {
        compare(&pair, &options, folder.path());
    }
    let quick = !is_bench();
    let chosen: Vec<f64> = options.densities.iter().map(|percent| percent / 100.0).collect();
    let densities = if quick {
        &[0.01][..]
    } else if chosen.is_empty() {
        DENSITIES
    } else {
        &chosen
    };
    for density in densities {
        let pair = synthetic::write_pair(folder.path(), if quick { 1 << 20 } else { options.cells }, *density);
        compare(&pair, &options, folder.path());
        for path in [&pair.base, &pair.target] {
            std::fs::remove_file(path).expect("it was just written");
        }
    }
}

/// A line for each update with the bytes of every codec. Nothing is timed.
fn regular(folder: &Path) {
    let codecs = codec::all();
    let names: Vec<String> = codecs.iter().map(|codec| codec.name()).collect();
    println!("\n| regular update of 1 Mi cells | changed | {} | best peer |", names.join(" | "));
    println!("|---|---|{}---|", "---|".repeat(names.len()));
    for update in updates() {
        let pair = synthetic::write_cells(folder, update.name, &update.base, &update.target);
        let (base, target) = (open(&pair.base), open(&pair.target));
        let bytes: Vec<usize> = codecs.iter().map(|codec| size(codec.as_ref(), &base, &target)).collect();
        let changes = update.base.iter().zip(&update.target).filter(|(base, target)| base != target).count();
        let best =
            names.iter().zip(&bytes).filter(|(name, _)| !name.starts_with("Pulse")).min_by_key(|(_, bytes)| **bytes);
        let (best, least) = best.expect("there are peers");
        let cells: Vec<String> = bytes.iter().map(usize::to_string).collect();
        println!("| {} | {changes} | {} | {least} ({best}) |", update.name, cells.join(" | "));
    }
}

/// Bytes of a patch that gives the target.
fn size(codec: &dyn Codec, base: &Checkpoint, target: &Checkpoint) -> usize {
    let patch = codec.encode(base, target);
    let mut cells = copy(base);
    codec.apply(&patch, base, &mut cells);
    assert!(cells == copy(target), "{} gives another target", codec.name());
    patch.len()
}

fn open(path: &Path) -> Checkpoint {
    Checkpoint::open(path).expect("a bench file")
}

fn copy(checkpoint: &Checkpoint) -> Cells {
    checkpoint.tensors().iter().map(|stored| codec::cells(checkpoint, stored).to_vec()).collect()
}

fn compare(pair: &PairFiles, options: &Options, folder: &Path) {
    let (base, target) = (open(&pair.base), open(&pair.target));
    let bound = bound(&base, &target);
    let (changes, cells) = (bound.changes as f64, base.tensor_bytes() as f64 / 2.0);
    println!("\n{}: {cells} cells, {changes} changed ({:.3} %)", pair.name, 100.0 * changes / cells);
    println!(
        "order-0 entropy of the contextual model: {:.4} B/change (positions {:.3} bits, steps {:.3} bits)\n",
        bound.bytes_per_change(),
        bound.position_bits / changes,
        bound.step_bits / changes
    );
    println!(
        "| codec | bytes | B/change | over entropy | smaller than dense | encode ns/change | ns/cell | decode ns/change | apply ns/change | ns/cell | encode MiB | apply MiB |"
    );
    println!("|---|---|---|---|---|---|---|---|---|---|---|---|");
    let mut codecs = codec::all();
    codecs.retain(|codec| options.only.is_empty() || options.only.contains(&codec.name()));
    assert!(!codecs.is_empty(), "--only names no codec");
    let rounds = if is_bench() { options.runs } else { 1 };
    // In turn, so that what else the machine does meets all alike.
    let mut rows = vec![Vec::new(); codecs.len()];
    for _ in 0..rounds {
        codecs.iter().zip(&mut rows).for_each(|(codec, rows)| rows.push(in_own_process(&codec.name(), pair)));
    }
    for (codec, rows) in codecs.iter().zip(&rows) {
        let row = Row::median(rows);
        let per_change = row.bytes as f64 / changes;
        let nanoseconds = |seconds: f64, each: f64| seconds * 1e9 / each;
        println!(
            "| {} | {} | {per_change:.4} | {:+.2} % | {:.0}x | {:.1} | {:.3} | {:.1} | {:.1} | {:.3} | {:.1} | {:.1} |",
            codec.name(),
            row.bytes,
            100.0 * (per_change / bound.bytes_per_change() - 1.0),
            2.0 * cells / row.bytes as f64,
            nanoseconds(row.encode_seconds, changes),
            nanoseconds(row.encode_seconds, cells),
            nanoseconds(row.decode_seconds, changes),
            nanoseconds(row.apply_seconds, changes),
            nanoseconds(row.apply_seconds, cells),
            row.encode_memory as f64 / 1048576.0,
            row.decode_memory as f64 / 1048576.0,
        );
    }
    for tool in TOOLS.iter().filter(|_| options.external) {
        match tool.run(pair, folder) {
            Some(run) => {
                let each = |seconds: f64| seconds * 1e9 / changes;
                println!(
                    "| {} (process, files) | {} | {:.4} | | {:.0}x | {:.0} | | | {:.0} | | | |",
                    tool.name,
                    run.bytes,
                    run.bytes as f64 / changes,
                    2.0 * cells / run.bytes as f64,
                    each(run.encode.as_secs_f64()),
                    each(run.decode.as_secs_f64())
                );
            }
            None => println!("| {} | not installed | | | | | | | | | | |", tool.name),
        }
    }
}

/// A fresh process for each codec, so that none sees another's memory.
fn in_own_process(codec: &str, pair: &PairFiles) -> Row {
    let program = std::env::current_exe().expect("this program has a path");
    let output = std::process::Command::new(program)
        .args(["--one", codec])
        .args([&pair.base, &pair.target])
        .env("RAYON_NUM_THREADS", "1")
        .output()
        .expect("this program can be started");
    assert!(output.status.success(), "{codec} on {}: {}", pair.name, String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("a row")
}

fn run_one(name: &str, base: &Path, target: &Path) {
    let codec = codec::all().into_iter().find(|codec| codec.name() == name).expect("a known codec");
    let (base, target) = (open(base), open(target));
    // The first runs measure memory and warm the page cache.
    let (patch, encode_memory) = peak_memory(|| codec.encode(&base, &target));
    let mut cells = copy(&base);
    let ((), decode_memory) = peak_memory(|| codec.apply(&patch, &base, &mut cells));
    assert!(cells == copy(&target), "{name} gives another target");
    let (again, encode) = timed(TIMED_RUNS, || codec.encode(&base, &target));
    assert!(again == patch, "{name} encodes differently the second time");
    let (_, decode) = timed(TIMED_RUNS, || codec.decode(&patch, &base));
    cells = copy(&base);
    let ((), apply) = timed(1, || codec.apply(&patch, &base, &mut cells));
    let row = Row {
        bytes: patch.len() as u64,
        encode_seconds: encode.as_secs_f64(),
        decode_seconds: decode.as_secs_f64(),
        apply_seconds: apply.as_secs_f64(),
        encode_memory,
        decode_memory,
    };
    println!("{}", serde_json::to_string(&row).expect("numbers serialise"));
}
