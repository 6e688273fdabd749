//! Delta tools that may be installed: each makes a patch of whole files, applies it, and is checked.

use crate::PairFiles;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A tool's two command lines, with `BASE`, `TARGET`, `PATCH` and `OUT` for file names.
#[derive(Debug)]
pub struct Tool {
    /// What the table calls it.
    pub name: &'static str,
    encode: &'static [&'static str],
    decode: &'static [&'static str],
}

/// All known; [`Tool::run`] says which are installed.
pub const TOOLS: &[Tool] = &[
    Tool {
        name: "zstd -3 --patch-from",
        encode: &["zstd", "-q", "-3", "--long=31", "--single-thread", "--patch-from=BASE", "TARGET", "-o", "PATCH"],
        decode: &["zstd", "-q", "-d", "--long=31", "--patch-from=BASE", "PATCH", "-o", "OUT"],
    },
    Tool {
        name: "xdelta3 -9",
        encode: &["xdelta3", "-9", "-e", "-s", "BASE", "TARGET", "PATCH"],
        decode: &["xdelta3", "-d", "-s", "BASE", "PATCH", "OUT"],
    },
    Tool {
        name: "bsdiff",
        encode: &["bsdiff", "BASE", "TARGET", "PATCH"],
        decode: &["bspatch", "BASE", "OUT", "PATCH"],
    },
];

/// What a tool took.
#[derive(Debug)]
pub struct ToolRun {
    /// Of the patch.
    pub bytes: u64,
    /// Whole process.
    pub encode: Duration,
    /// Whole process.
    pub decode: Duration,
}

impl Tool {
    /// Runs both ways and compares; `None` if it is not installed.
    ///
    /// # Panics
    /// If the tool fails or its result differs.
    pub fn run(&self, pair: &PairFiles, folder: &Path) -> Option<ToolRun> {
        let (patch, out) = (folder.join("tool.patch"), folder.join("tool.out"));
        let mut times = Vec::new();
        for line in [self.encode, self.decode] {
            let arguments = line.iter().map(|word| {
                let names = [("BASE", &pair.base), ("TARGET", &pair.target), ("PATCH", &patch), ("OUT", &out)];
                names.iter().fold((*word).to_string(), |word, (name, path)| word.replace(name, &path.to_string_lossy()))
            });
            let arguments: Vec<String> = arguments.collect();
            let start = Instant::now();
            let status = Command::new(&arguments[0]).args(&arguments[1..]).stdin(Stdio::null()).status();
            if status.as_ref().is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound) {
                return None;
            }
            assert!(status.is_ok_and(|status| status.success()), "{} failed", self.name);
            times.push(start.elapsed());
        }
        let read = |path: &Path| std::fs::read(path).expect("the tool wrote it");
        assert!(read(&out) == read(&pair.target), "{} gives another target", self.name);
        let bytes = read(&patch).len() as u64;
        for path in [patch, out] {
            std::fs::remove_file(path).expect("it was just there");
        }
        Some(ToolRun { bytes, encode: times[0], decode: times[1] })
    }
}
