//! Question: how much memory beyond the mapped files do `pulse encode` and `pulse apply` hold at their peak?
//!
//! Data: a synthetic pair of `--gigabytes` each at `--percent` density. A look at RssAnon every 2 ms; the result is verified.

use clap::Parser;
use pulse_benches::measure::anonymous_bytes;
use pulse_benches::{is_bench, pulse, synthetic};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

/// Peak memory of the command line tool.
#[derive(Debug, Parser)]
struct Options {
    /// Size of each file
    #[arg(long, default_value_t = 4.0)]
    gigabytes: f64,
    /// Changed cells
    #[arg(long, default_value_t = 1.0)]
    percent: f64,
    /// Worker threads
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Where the pair goes
    #[arg(long)]
    folder: Option<PathBuf>,
    /// Passed by cargo
    #[arg(long, hide = true)]
    bench: bool,
}

fn main() {
    let options = Options::parse();
    let folder =
        options.folder.as_ref().map_or_else(tempfile::tempdir, tempfile::tempdir_in).expect("a temporary folder");
    let bytes = if is_bench() { (options.gigabytes * 1e9) as u64 } else { 4 << 20 };
    let pair = synthetic::write_pair(folder.path(), bytes / 2, options.percent / 100.0);
    let (patch, out) = (folder.path().join("patch"), folder.path().join("out.safetensors"));
    let threads = options.threads.to_string();
    let common = ["--quiet", "--threads", &threads];
    println!("{}, {bytes} bytes each, {threads} threads\n", pair.name);
    println!("| what | peak anonymous MiB |\n|---|---|");
    let encode = peak(pulse().arg("encode").args(common).args([&pair.base, &pair.target]).arg("-o").arg(&patch));
    println!("| encode | {:.1} |", encode as f64 / 1048576.0);
    let apply = peak(pulse().arg("apply").args(common).args([&patch, &pair.base]).arg("-o").arg(&out));
    println!("| apply | {:.1} |", apply as f64 / 1048576.0);
    let equal = Command::new("cmp").args([&out, &pair.target]).status().expect("cmp starts");
    assert!(equal.success(), "another target");
}

fn peak(command: &mut Command) -> u64 {
    let mut child = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().expect("the program starts");
    let id = child.id().to_string();
    let mut peak = 0;
    loop {
        peak = peak.max(anonymous_bytes(&id).unwrap_or_default());
        if let Some(status) = child.try_wait().expect("the child is ours") {
            assert!(status.success(), "{command:?} failed");
            return peak;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}
