//! Where output goes: never to an input, never over what is no regular file, with the right mode; streams.
#![cfg(unix)]

use crate::support::binary::{Run, example, fails, json, pulse, read, run, succeed};
use crate::support::listing;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::process::{Command, Stdio};

/// Runs a line of shell in `folder`; `$0` is the binary.
fn shell(folder: &Path, script: &str) -> Run {
    let mut command = Command::new("bash");
    command.arg("-c").arg(script).arg(pulse()).current_dir(folder).stdin(Stdio::null());
    command.output().unwrap().into()
}

fn mode(path: &Path) -> u32 {
    std::fs::metadata(path).unwrap().permissions().mode() & 0o7777
}

/// A node of our own for a device of the system, so that a fault of ours cannot replace the system's; where none may be made, none may be
/// replaced either.
fn device(folder: &Path, name: &str, minor: u32) -> String {
    let node = folder.join(name);
    let made =
        Command::new("mknod").args(["-m", "666", name, "c", "1", &minor.to_string()]).current_dir(folder).output();
    let usable =
        made.is_ok_and(|made| made.status.success()) && std::fs::File::options().write(true).open(node).is_ok();
    if usable { name.into() } else { format!("/dev/{name}") }
}

fn encode_to(output: &str) -> [&str; 5] {
    ["encode", "base.safetensors", "target.safetensors", "-o", output]
}

/// By its own name, a hard link, a link, or another spelling.
#[test]
fn an_output_is_no_input() {
    let (folder, _) = example();
    let at = folder.path();
    std::fs::hard_link(at.join("base.safetensors"), at.join("hard")).unwrap();
    symlink("target.safetensors", at.join("soft")).unwrap();
    let before = (read(at, "base.safetensors"), read(at, "target.safetensors"), read(at, "patch"));
    fails(at, &encode_to("base.safetensors"), 2, "base.safetensors is an input; name another output", "usage");
    fails(at, &encode_to("target.safetensors"), 2, "is an input", "usage");
    fails(at, &encode_to("././target.safetensors"), 2, "target.safetensors, an input", "usage");
    fails(at, &encode_to("hard"), 2, "hard is base.safetensors, an input; name another output", "usage");
    fails(at, &encode_to("soft"), 2, "soft is target.safetensors, an input", "usage");
    fails(at, &["apply", "patch", "base.safetensors", "-o", "patch"], 2, "patch is an input", "usage");
    assert_eq!((read(at, "base.safetensors"), read(at, "target.safetensors"), read(at, "patch")), before);
    // The base by another name of its own: the result takes that name, and the base keeps the other.
    succeed(at, &["apply", "patch", "base.safetensors", "-o", "hard"]);
    assert_eq!((read(at, "base.safetensors"), read(at, "hard")), (before.0, before.1));
}

#[test]
fn an_output_lies_in_no_input_folder() {
    let (folder, pair) = example();
    let at = folder.path();
    for (name, file) in [("base", pair.base_file()), ("target", pair.target_file())] {
        std::fs::create_dir(at.join(name)).unwrap();
        std::fs::write(at.join(name).join("model.safetensors"), file).unwrap();
    }
    symlink("target", at.join("link")).unwrap();
    let encode = |output| ["encode", "base", "target", "-o", output];
    for output in ["base/model.safetensors", "target/model.safetensors", "link/model.safetensors"] {
        fails(at, &encode(output), 2, "an input; name another output", "usage");
    }
    fails(at, &encode("base/new.pulse"), 2, "lies in base, which is an input; name a place outside", "usage");
    fails(at, &encode("link/new.pulse"), 2, "lies in target, which is an input", "usage");
    for output in ["base", "base/new", "base/../base"] {
        fails(at, &["apply", "patch", "base", "-o", output], 2, "which is an input", "usage");
    }
    assert_eq!(listing(&at.join("base")), ["model.safetensors"]);
    // Outside, though its name begins alike.
    succeed(at, &encode("base.pulse"));
}

#[test]
fn a_link_stays_and_what_it_leads_to_is_written() {
    let (folder, pair) = example();
    let at = folder.path();
    std::fs::create_dir(at.join("sub")).unwrap();
    std::fs::write(at.join("sub/old"), "old").unwrap();
    for (link, leads) in [("link", "sub/old"), ("dangling", "sub/new")] {
        symlink(leads, at.join(link)).unwrap();
        succeed(at, &["apply", "patch", "base.safetensors", "-o", link]);
        assert!(at.join(link).is_symlink(), "{link}");
        assert_eq!(read(at, leads), pair.target_file(), "{link}");
    }
    assert_eq!(listing(&at.join("sub")), ["new", "old"]);
}

/// A pipe and a device get the bytes and stay what they are; what can neither be replaced nor streamed to is refused.
#[test]
fn what_is_no_file_is_not_replaced() {
    let (folder, pair) = example();
    let at = folder.path();
    let found = shell(
        at,
        "mkfifo pipe && { cat pipe > got & \"$0\" encode base.safetensors target.safetensors -o pipe && wait; }",
    );
    assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""));
    assert_eq!(read(at, "got"), read(at, "patch"));
    let found = shell(at, "{ cat pipe > got & \"$0\" apply patch base.safetensors -o pipe && wait; }");
    assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""));
    assert_eq!(read(at, "got"), pair.target_file());
    assert!(std::fs::symlink_metadata(at.join("pipe")).unwrap().file_type().is_fifo());
    let found = shell(at, "\"$0\" encode base.safetensors target.safetensors -o >(cat > substituted); sleep 0.2");
    assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""));
    let null = device(at, "null", 3);
    for arguments in [&encode_to(&null)[..], &["apply", "patch", "base.safetensors", "-o", &null]] {
        succeed(at, arguments);
        assert!(std::fs::symlink_metadata(at.join(&null)).unwrap().file_type().is_char_device());
    }
    let full = device(at, "full", 7);
    fails(at, &encode_to(&full), 1, &format!("cannot write {full}: No space left"), "io");
    fails(at, &encode_to("new/"), 2, "new/ names a folder, but the result is a file; name a file", "usage");
    let _socket = std::os::unix::net::UnixListener::bind(at.join("socket")).unwrap();
    fails(at, &encode_to("socket"), 2, "socket is a socket or a block device; name a file", "usage");
}

/// `-`, and what the system calls the same: the patch there, the report on standard error.
#[test]
fn a_patch_goes_to_standard_output_and_comes_from_standard_input() {
    let (folder, pair) = example();
    let at = folder.path();
    for name in ["-", "/dev/stdout"] {
        for sink in ["| cat > got", "> got"] {
            let found = shell(at, &format!("\"$0\" encode base.safetensors target.safetensors -o {name} {sink}"));
            assert_eq!((found.code, found.stdout.as_str()), (Some(0), ""));
            assert!(found.stderr.contains("encoded in"), "{}", found.stderr);
            assert_eq!(read(at, "got"), read(at, "patch"), "{name} {sink}");
        }
    }
    let found = shell(at, "\"$0\" encode base.safetensors target.safetensors -o - --json | cat > got");
    assert_eq!(json(&found.stderr)["patch_bytes"], read(at, "patch").len());
    let found = shell(at, "cat patch | \"$0\" apply - base.safetensors -o - | cat > got");
    assert!(found.stderr.contains("applied and verified in"), "{}", found.stderr);
    assert_eq!(read(at, "got"), pair.target_file());
    assert!(!listing(at).contains(&"-".to_string()));
    for script in [
        "\"$0\" inspect <(cat patch)",
        "cat patch | \"$0\" inspect -",
        "\"$0\" verify - --base base.safetensors --target target.safetensors < patch",
        "cat patch | \"$0\" verify /dev/stdin --base base.safetensors",
    ] {
        let found = shell(at, script);
        assert_eq!((found.code, found.stderr.as_str()), (Some(0), ""), "{script}");
        assert!(found.stdout.starts_with("step 0 -> 1: "), "{script}: {}", found.stdout);
    }
    std::fs::create_dir(at.join("folder")).unwrap();
    std::fs::write(at.join("folder/model.safetensors"), pair.base_file()).unwrap();
    fails(at, &["apply", "patch", "folder", "-o", "-"], 2, "standard output cannot hold; name a folder", "");
}

/// A stream is judged as a file is, and no more is read of it than is right.
#[test]
fn a_streamed_patch_is_checked_as_a_file_is() {
    let (folder, _) = example();
    let at = folder.path();
    for (script, code, text) in [
        ("head -c -1 patch | \"$0\" inspect -", 3, "standard input: the patch ends early"),
        ("head -c 50 patch | \"$0\" inspect -", 3, "standard input: the patch ends early"),
        ("\"$0\" inspect - < /dev/null", 3, "it looks like an empty file"),
        ("(cat patch; echo) | \"$0\" inspect -", 3, "bytes follow the last segment (rule 22)"),
        ("\"$0\" inspect /dev/zero", 3, "/dev/zero: damaged patch, preamble: this is not a Pulse patch"),
        ("cat base.safetensors | \"$0\" inspect -", 3, "it looks like a safetensors checkpoint"),
        ("\"$0\" diff base.safetensors <(cat target.safetensors)", 1, ": is not a file but a pipe or a device"),
        ("mkfifo pipe; \"$0\" apply patch pipe -o new", 1, "pipe: is not a file but a pipe or a device"),
    ] {
        let found = shell(at, script);
        assert_eq!(found.code, Some(code), "{script}: {}", found.stderr);
        assert!(found.stderr.contains(text), "{script}: {text:?} in {}", found.stderr);
    }
}

#[test]
fn files_have_the_mode_that_umask_says() {
    let (folder, _) = example();
    let at = folder.path();
    std::fs::create_dir(at.join("base")).unwrap();
    std::fs::copy(at.join("base.safetensors"), at.join("base/model.safetensors")).unwrap();
    for (umask, file, directory) in [("022", 0o644, 0o755), ("027", 0o640, 0o750), ("077", 0o600, 0o700)] {
        let script = format!(
            "umask {umask}; \"$0\" encode base.safetensors target.safetensors -o p{umask} && \
             \"$0\" apply patch base.safetensors -o f{umask} && \"$0\" apply patch base -o d{umask}"
        );
        let status =
            std::process::Command::new("sh").arg("-c").arg(script).arg(pulse()).current_dir(at).output().unwrap();
        assert!(status.status.success(), "{status:?}");
        let mode = |name: String| mode(&at.join(name));
        assert_eq!((mode(format!("p{umask}")), mode(format!("f{umask}"))), (file, file), "umask {umask}");
        assert_eq!(
            (mode(format!("d{umask}/model.safetensors")), mode(format!("d{umask}"))),
            (file, directory),
            "umask {umask}"
        );
    }
}

/// A result has the mode of what it replaces, else that of the base as umask cuts it; what replaces a file keeps its owner.
#[test]
fn a_result_keeps_its_mode() {
    let (folder, pair) = example();
    let at = folder.path();
    let set = |name: &str, mode| std::fs::set_permissions(at.join(name), PermissionsExt::from_mode(mode)).unwrap();
    set("base.safetensors", 0o600);
    succeed(at, &["apply", "patch", "base.safetensors", "-o", "new"]);
    assert_eq!(mode(&at.join("new")), 0o600, "that of the base");
    for replaced in [0o640, 0o666, 0o444] {
        set("new", replaced);
        succeed(at, &["apply", "patch", "base.safetensors", "-o", "new"]);
        assert_eq!(mode(&at.join("new")), replaced, "that of what is replaced");
    }
    let owner = std::fs::metadata(at.join("base.safetensors")).unwrap().uid();
    succeed(at, &["apply", "patch", "base.safetensors", "-o", "base.safetensors"]);
    assert_eq!((mode(&at.join("base.safetensors")), read(at, "base.safetensors")), (0o600, pair.target_file()));
    assert_eq!(std::fs::metadata(at.join("base.safetensors")).unwrap().uid(), owner);
    std::fs::write(at.join("p"), "").unwrap();
    set("p", 0o604);
    std::fs::write(at.join("base.safetensors"), pair.base_file()).unwrap();
    succeed(at, &encode_to("p"));
    assert_eq!(mode(&at.join("p")), 0o604);

    // A folder, its shards, its other files and folders.
    std::fs::create_dir_all(at.join("base/sub")).unwrap();
    std::fs::write(at.join("base/model.safetensors"), pair.base_file()).unwrap();
    std::fs::write(at.join("base/sub/secret.json"), "{}").unwrap();
    for (name, mode) in
        [("base/model.safetensors", 0o600), ("base/sub/secret.json", 0o400), ("base/sub", 0o700), ("base", 0o750)]
    {
        set(name, mode);
    }
    succeed(at, &["apply", "patch", "base", "-o", "copy"]);
    let modes = ["copy", "copy/sub", "copy/sub/secret.json", "copy/model.safetensors"].map(|name| mode(&at.join(name)));
    assert_eq!(modes, [0o750, 0o700, 0o400, 0o600]);
    assert_eq!(run(at, &["verify", "patch", "--base", "base", "--target", "copy"]).code, Some(0));
}
