//! How a run ends when its surroundings fail: closed and full outputs, files that shrink, file systems that lack something.
#![cfg(unix)]

use crate::support::binary::{Run, example, fails, has_unnamed_file, json, pulse, read, run};
use crate::support::listing;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

fn command(folder: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(pulse());
    command.args(arguments).current_dir(folder);
    command
}

fn full() -> Stdio {
    File::options().write(true).open("/dev/full").unwrap().into()
}

/// A pipe whose reader has gone.
fn closed() -> Stdio {
    std::io::pipe().unwrap().1.into()
}

const COMMANDS: [&[&str]; 6] = [
    &["--help"],
    &["--version"],
    &["encode", "--help"],
    &["inspect", "patch"],
    &["diff", "base.safetensors", "target.safetensors", "--json"],
    &["verify", "patch", "--base", "base.safetensors"],
];

#[test]
fn a_closed_output_is_a_quiet_end() {
    let (folder, _) = example();
    let at = folder.path();
    for arguments in COMMANDS {
        let run: Run = command(at, arguments).stdout(closed()).output().unwrap().into();
        assert_eq!((run.code, run.stderr.as_str()), (Some(0), ""), "{arguments:?}");
    }
    for arguments in [&["inspect", "nowhere"][..], &["inspect", "nowhere", "--json"], &["inspect"]] {
        let mut both = command(at, arguments);
        let status = both.stdout(closed()).stderr(closed()).status().unwrap();
        assert_eq!(status.code(), Some(if arguments.len() == 1 { 2 } else { 1 }), "{arguments:?}");
    }
    let run: Run = Command::new("sh")
        .args(["-c", "\"$0\" inspect patch >&-; \"$0\" inspect nowhere 2>&-"])
        .arg(pulse())
        .current_dir(at)
        .output()
        .unwrap()
        .into();
    assert_eq!((run.code, run.stdout.as_str(), run.stderr.as_str()), (Some(1), "", ""));
    // A patch that nobody reads to its end is no success.
    let mut encode = command(at, &["encode", "base.safetensors", "target.safetensors", "-o", "-"]);
    let run: Run = encode.stdout(closed()).output().unwrap().into();
    assert_eq!(
        (run.code, run.stderr.as_str()),
        (Some(1), "pulse: cannot write standard output: Broken pipe (os error 32)\n")
    );
}

#[test]
fn a_full_output_is_a_failure_with_a_word() {
    let (folder, _) = example();
    let at = folder.path();
    for arguments in COMMANDS {
        let run: Run = command(at, arguments).stdout(full()).output().unwrap().into();
        assert_eq!(run.code, Some(1), "{arguments:?}");
        assert_eq!(run.stderr, "pulse: cannot write to standard output: No space left on device (os error 28)\n");
        assert_eq!(command(at, arguments).stdout(full()).stderr(full()).status().unwrap().code(), Some(1));
    }
    let run: Run = command(at, &["inspect", "nowhere", "--json"]).stdout(full()).output().unwrap().into();
    assert_eq!(run.code, Some(1));
    assert!(run.stderr.contains("cannot open nowhere"), "{}", run.stderr);
    assert_eq!(command(at, &["inspect", "nowhere"]).stderr(full()).status().unwrap().code(), Some(1));
    assert_eq!(command(at, &["inspect"]).stderr(full()).status().unwrap().code(), Some(1), "the parser's own words");
}

/// Enough work for a while: a base and a target of zeros but for one cell, mostly holes. Returns their length.
fn large(folder: &Path) -> u64 {
    let bytes = 48u64 << 22;
    let header = format!(r#"{{"w":{{"dtype":"BF16","shape":[{}],"data_offsets":[0,{bytes}]}}}}"#, bytes / 2);
    let start = [&(header.len() as u64).to_le_bytes(), header.as_bytes()].concat();
    let length = start.len() as u64 + bytes;
    for (name, cell) in [("base.safetensors", 0), ("target.safetensors", 1)] {
        std::fs::write(folder.join(name), [&start[..], &[cell]].concat()).unwrap();
        set_length(&folder.join(name), length);
    }
    length
}

fn set_length(file: &Path, length: u64) {
    File::options().write(true).open(file).unwrap().set_len(length).unwrap();
}

/// Waits until the work has begun, then cuts a file that it reads.
fn cut_meanwhile(mut child: Child, folder: &Path, before: &[String], file: &str) -> Run {
    while listing(folder) == before && !has_unnamed_file(child.id()) && child.try_wait().unwrap().is_none() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    set_length(&folder.join(file), 1 << 20);
    child.wait_with_output().unwrap().into()
}

#[test]
fn a_file_that_shrinks_ends_the_work_cleanly() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let length = large(at);
    let encode = ["encode", "base.safetensors", "target.safetensors", "-o", "patch"];
    assert_eq!(run(at, &encode).code, Some(0));
    let shim = shim(at);
    let before = listing(at);
    let apply = ["apply", "patch", "base.safetensors", "-o", "new", "--threads", "1"];
    let apply_json = ["apply", "patch", "base.safetensors", "-o", "new", "--threads", "2", "--json"];
    let encode = ["encode", "base.safetensors", "target.safetensors", "-o", "new"];
    // With unnamed files and without.
    for (arguments, file, odd) in [
        (&apply[..], "base.safetensors", ""),
        (&apply, "base.safetensors", "tmpfile"),
        (&apply_json, "base.safetensors", "tmpfile"),
        (&encode, "target.safetensors", "tmpfile"),
    ] {
        for name in ["base.safetensors", "target.safetensors"] {
            set_length(&at.join(name), length);
        }
        let mut command = command(at, arguments);
        command.env("LD_PRELOAD", &shim).env("ODD", odd).stdout(Stdio::piped()).stderr(Stdio::piped());
        let run = cut_meanwhile(command.spawn().unwrap(), at, &before, file);
        let text = format!("cannot read {file}: the file was cut while it was read");
        assert_eq!(run.code, Some(1), "{arguments:?} {odd}: {}", run.stderr);
        if arguments.contains(&"--json") {
            assert_eq!(json(&run.stdout)["error"], serde_json::json!({ "code": "io", "message": text }));
        } else {
            assert_eq!((run.stderr, run.stdout.as_str()), (format!("pulse: {text}\n"), ""));
        }
        assert_eq!(listing(at), before, "nothing is left of {arguments:?} {odd}");
    }
}

/// Makes calls fail as file systems do that lack what they ask for; `ODD` names which.
const SHIM: &str = r#"
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
static int odd(const char *what) { const char *list = getenv("ODD"); return list && strstr(list, what) != NULL; }
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))
#define OPEN(name) int name(const char *path, int flags, ...) { \
    va_list list; va_start(list, flags); int mode = va_arg(list, int); va_end(list); \
    if ((flags & O_TMPFILE) == O_TMPFILE && odd("tmpfile")) { errno = EOPNOTSUPP; return -1; } \
    return NEXT(name)(path, flags, mode); }
OPEN(open) OPEN(open64)
#define MMAP(name, offset) void *name(void *at, size_t bytes, int protection, int flags, int file, offset from) { \
    if (file >= 0 && odd("mmap")) { errno = ENODEV; return MAP_FAILED; } \
    return NEXT(name)(at, bytes, protection, flags, file, from); }
MMAP(mmap, off_t) MMAP(mmap64, off64_t)
int fsync(int file) {
    struct stat found;
    if (odd("fsync") && fstat(file, &found) == 0 && S_ISDIR(found.st_mode)) { errno = EINVAL; return -1; }
    return NEXT(fsync)(file);
}
int rename(const char *from, const char *to) {
    if (odd("rename") && access(to, F_OK) == 0) { errno = EBUSY; return -1; }
    return NEXT(rename)(from, to);
}
"#;

fn shim(folder: &Path) -> PathBuf {
    let (source, library) = (folder.join("shim.c"), folder.join("shim.so"));
    std::fs::write(&source, SHIM).unwrap();
    let compiled = Command::new("cc").args(["-shared", "-fPIC", "-o"]).args([&library, &source]).status().unwrap();
    assert!(compiled.success(), "the shim does not compile");
    library
}

/// No mmap, no unnamed files, no fsync of folders: all works. No rename over: a clear word, and nothing lost.
#[cfg(target_os = "linux")]
#[test]
fn a_file_system_that_lacks_something() {
    let (folder, pair) = example();
    let at = folder.path();
    let shim = shim(at);
    std::fs::create_dir_all(at.join("base/sub")).unwrap();
    std::fs::write(at.join("base/model.safetensors"), pair.base_file()).unwrap();
    let odd = |arguments: &[&str], odd: &str| -> Run {
        command(at, arguments).env("LD_PRELOAD", &shim).env("ODD", odd).output().unwrap().into()
    };
    for lacking in ["", "mmap", "tmpfile", "fsync", "mmap tmpfile fsync"] {
        std::fs::create_dir(at.join("empty")).unwrap();
        for arguments in [
            &["encode", "base.safetensors", "target.safetensors", "-o", "new"][..],
            &["apply", "patch", "base.safetensors", "-o", "file"],
            &["apply", "patch", "base", "-o", "folder"],
            &["apply", "patch", "base", "-o", "empty"],
        ] {
            let found = odd(arguments, lacking);
            assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""), "{arguments:?} without {lacking}");
        }
        assert_eq!(read(at, "new"), read(at, "patch"));
        for name in ["file", "folder/model.safetensors", "empty/model.safetensors"] {
            assert_eq!(read(at, name), pair.target_file(), "{name} without {lacking}");
        }
        for folder in ["folder", "empty"] {
            std::fs::remove_dir_all(at.join(folder)).unwrap();
        }
    }
    let before = listing(at);
    for lacking in ["rename", "rename tmpfile"] {
        let found = odd(&["apply", "patch", "base.safetensors", "-o", "base.safetensors"], lacking);
        assert_eq!(found.code, Some(1));
        for text in ["pulse: cannot replace base.safetensors: ", "name a new file"] {
            assert!(found.stderr.contains(text), "{}", found.stderr);
        }
        assert_eq!((read(at, "base.safetensors"), listing(at)), (pair.base_file(), before.clone()));
        // What replaces nothing needs none; an empty folder is taken away first.
        std::fs::create_dir(at.join("empty")).unwrap();
        assert_eq!(odd(&["apply", "patch", "base", "-o", "empty"], lacking).code, Some(0));
        std::fs::remove_dir_all(at.join("empty")).unwrap();
        assert_eq!(odd(&["apply", "patch", "base.safetensors", "-o", "fresh"], lacking).code, Some(0));
        std::fs::remove_file(at.join("fresh")).unwrap();
    }
}

/// A file that says it is empty, or cannot be mapped, is read all the same.
#[cfg(target_os = "linux")]
#[test]
fn files_without_a_length_are_read() {
    let folder = tempfile::tempdir().unwrap();
    fails(folder.path(), &["inspect", "/proc/version"], 3, "this is not a Pulse patch", "damaged");
    fails(folder.path(), &["diff", "/proc/version", "/proc/version"], 1, "not a safetensors file", "checkpoint");
}

/// Ctrl-C ends a run that waits for a pipe, where no work asks whether to stop.
#[cfg(target_os = "linux")]
#[test]
fn a_run_that_waits_can_be_interrupted() {
    let (folder, _) = example();
    let mut waiting = command(folder.path(), &["apply", "-", "base.safetensors", "-o", "new"]);
    let mut child = waiting.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let has_handler = |process: u32| {
        let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() & 2 != 0
    };
    while !has_handler(child.id()) {
        assert!(child.try_wait().unwrap().is_none(), "it did not wait");
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
    let _input = child.stdin.take();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let run: Run = child.wait_with_output().unwrap().into();
    assert_eq!((run.code, run.stderr.as_str()), (Some(130), "pulse: interrupted; nothing was written\n"));
    assert!(!folder.path().join("new").exists());
}
