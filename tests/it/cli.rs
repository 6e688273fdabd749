//! The binary `pulse` as its users run it.

use crate::support::binary::{example, fails, has_unnamed_file, json, pulse, read, succeed};
use crate::support::cells::{Pair, TestTensor};
use crate::support::listing;
use crate::support::raw::RawPatch;
use pulse_encoder::{Cast, EncodeOptions, ProfileChoice, Zstd};
use pulse_format::{Dtype, Header, Limits};

const ENCODE: [&str; 5] = ["encode", "base.safetensors", "target.safetensors", "-o", "new"];

#[test]
fn the_default_run_from_encode_to_verify() {
    let (folder, pair) = example();
    let at = folder.path();
    let text = succeed(at, &ENCODE);
    assert!(text.starts_with(&format!("step 0 -> 1: {} of ", pair.changes())), "{text}");
    assert!(text.contains("encoded in "), "{text}");
    assert_eq!(read(at, "new"), read(at, "patch"), "the defaults are those of the library");
    let text = succeed(at, &["apply", "new", "base.safetensors", "--output", "rebuilt"]);
    assert!(text.contains("applied and verified in "), "{text}");
    assert_eq!(read(at, "rebuilt"), pair.target_file());
    assert!(succeed(at, &["verify", "new", "--base", "base.safetensors"]).contains("verified in "));
    let text = succeed(at, &["verify", "new", "--base", "base.safetensors", "--target", "rebuilt"]);
    assert!(text.contains("verified, and equal to the target, in "), "{text}");
    let text = succeed(at, &["inspect", "new", "--tensors"]);
    for line in ["step 0 -> 1: ", "layers.0.w", "contextual", "absolute", "unchanged"] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    let text = succeed(at, &["diff", "base.safetensors", "target.safetensors"]);
    for line in ["counts U16 [1300]", "BF16: exponent", "ULP step"] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    assert_eq!(listing(at), ["base.safetensors", "new", "patch", "rebuilt", "target.safetensors"]);
}

#[test]
fn options_reach_the_patch() {
    let (folder, pair) = example();
    let given =
        ["--profile", "absolute", "--base-step", "20", "--run-id", "r", "--seed", "9", "--threads", "1", "--quiet"];
    succeed(folder.path(), &[&ENCODE[..], &given].concat());
    let options = EncodeOptions {
        profile: ProfileChoice::Absolute,
        base_step: pulse_format::Step(20),
        target_step: pulse_format::Step(21),
        run_id: "r".into(),
        seed: 9,
        ..EncodeOptions::default()
    };
    assert_eq!(read(folder.path(), "new"), pair.encode(&options));
    succeed(folder.path(), &[&ENCODE[..], &["--target-step", "7", "--cast", "bf16"]].concat());
    let options =
        EncodeOptions { target_step: pulse_format::Step(7), cast: Some(Cast::Bf16), ..EncodeOptions::default() };
    assert_eq!(read(folder.path(), "new"), pair.encode(&options));
}

#[test]
fn every_command_speaks_json() {
    let (folder, pair) = example();
    let at = folder.path();
    let header = Header::read(&read(at, "patch"), &Zstd::default(), &Limits::default()).unwrap();
    for arguments in [
        &ENCODE[..],
        &["apply", "patch", "base.safetensors", "-o", "rebuilt"],
        &["verify", "patch", "--base", "base.safetensors"],
        &["inspect", "patch"],
    ] {
        let json = json(&succeed(at, &[arguments, &["--json"]].concat()));
        assert_eq!(json["changes"], pair.changes(), "{arguments:?}");
        assert_eq!(json["cells"], header.cells().get());
        assert_eq!(json["patch_bytes"], read(at, "patch").len());
        assert_eq!(json["base_fingerprint"], header.base_fingerprint().to_string());
        assert_eq!(json["target_fingerprint"], header.target_fingerprint().to_string());
        assert_eq!((&json["base_step"], &json["target_step"]), (&0.into(), &1.into()));
        assert_eq!(json["dense_bytes"], pair.tensors.iter().map(|tensor| tensor.base.len()).sum::<usize>());
        assert!(json["bytes_per_change"].as_f64().unwrap() > 0.0 && json["density"].as_f64().unwrap() < 1.0);
        assert!(arguments[0] == "inspect" || json["seconds"].as_f64().unwrap() >= 0.0);
    }
    let inspected = json(&succeed(at, &["--json", "inspect", "patch"]));
    let segments = inspected["segment_table"].as_array().unwrap();
    assert_eq!(segments.len(), header.segments.len());
    for (segment, expected) in segments.iter().zip(&header.segments) {
        assert_eq!(segment["profile"], expected.profile.name());
        assert_eq!(segment["offset"], expected.offset.get());
        let payload = &read(at, "patch")[expected.byte_range().start as usize..expected.byte_range().end as usize];
        let hash = (expected.bytes > 0).then(|| blake3::hash(payload).to_hex().to_string());
        assert_eq!(segment["blake3"].as_str(), hash.as_deref());
    }
    assert_eq!(inspected["tensor_table"].as_array().unwrap().len(), pair.tensors.len());
    let diff = json(&succeed(at, &["diff", "base.safetensors", "target.safetensors", "--json"]));
    assert_eq!(diff["changes"], pair.changes());
    for entry in diff["tensors"].as_array().unwrap() {
        let tensor = pair.tensors.iter().find(|tensor| entry["name"] == tensor.name).unwrap();
        assert_eq!((&entry["changes"], &entry["dtype"]), (&tensor.changes().into(), &tensor.dtype.name().into()));
    }
}

#[test]
fn exit_code_1_input_or_output() {
    let (folder, _) = example();
    let at = folder.path();
    fails(at, &["inspect", "nowhere"], 1, "cannot open nowhere: No such file", "io");
    fails(at, &["encode", "nowhere", "target.safetensors", "-o", "new"], 1, "cannot open nowhere", "io");
    fails(
        at,
        &["encode", "patch", "target.safetensors", "-o", "new"],
        1,
        "patch: not a safetensors file",
        "checkpoint",
    );
    fails(at, &["apply", "patch", "base.safetensors", "-o", "no/where"], 1, "cannot create a file in no", "io");
    fails(at, &["apply", "patch", ".", "-o", "new"], 1, "several .safetensors files", "checkpoint");
}

#[test]
fn exit_code_2_arguments() {
    let (folder, _) = example();
    let at = folder.path();
    fails(at, &[], 2, "Usage", "");
    fails(at, &["encode", "base.safetensors"], 2, "--output", "");
    fails(at, &["frobnicate"], 2, "unrecognized", "");
    fails(at, &["verify", "patch", "--base", "base.safetensors", "--threads", "0"], 2, "--threads", "");
    fails(at, &[&ENCODE[..], &["--profile", "smallest"]].concat(), 2, "possible values", "");
    let steps = [&ENCODE[..], &["--base-step", "5", "--target-step", "5"]].concat();
    fails(at, &steps, 2, "the target step (5) must be greater than the base step (5)", "usage");
    fails(at, &[&ENCODE[..], &["--run-id", &"r".repeat(257)]].concat(), 2, "longer than 256 bytes", "usage");
    fails(at, &["apply", "patch", "base.safetensors", "-o", "."], 2, "is a folder; name a file", "usage");
}

#[test]
fn exit_code_3_damaged_or_cut_short() {
    let (folder, _) = example();
    let at = folder.path();
    let patch = read(at, "patch");
    let mut flipped = patch.clone();
    *flipped.last_mut().unwrap() ^= 1;
    std::fs::write(at.join("flipped"), flipped).unwrap();
    std::fs::write(at.join("cut"), &patch[..patch.len() - 1]).unwrap();
    std::fs::write(at.join("empty"), []).unwrap();
    fails(at, &["verify", "flipped", "--base", "base.safetensors"], 3, "flipped: damaged patch, segment ", "damaged");
    fails(at, &["apply", "flipped", "base.safetensors", "-o", "new"], 3, "(rule 16)", "damaged");
    fails(at, &["inspect", "cut"], 3, "1 more bytes expected", "truncated");
    fails(at, &["inspect", "empty"], 3, "the patch ends early, preamble", "truncated");
    fails(at, &["inspect", "base.safetensors"], 3, "this is not a Pulse patch", "damaged");
}

#[test]
fn exit_code_4_does_not_fit() {
    let (folder, pair) = example();
    let at = folder.path();
    fails(at, &["apply", "patch", "target.safetensors", "-o", "new"], 4, "patch: wrong base: segment ", "wrong_base");
    let verify = ["verify", "patch", "--base", "base.safetensors", "--target", "base.safetensors"];
    fails(at, &verify, 4, "differs from the target at byte ", "wrong_target");
    let other = Pair::new([pair.tensors[0].clone()]);
    std::fs::write(at.join("other"), other.base_file()).unwrap();
    fails(at, &["encode", "base.safetensors", "other", "-o", "new"], 4, "publish an anchor", "tensors");
    fails(
        at,
        &["diff", "base.safetensors", "other"],
        4,
        "only in the base: counts, ids, layers.1.norm, mask, scale",
        "tensors",
    );
}

#[test]
fn exit_code_5_unsupported_or_over_a_limit() {
    let (folder, _) = example();
    let at = folder.path();
    let patch = read(at, "patch");
    let mut newer = patch.clone();
    newer[8] = 2;
    std::fs::write(at.join("newer"), newer).unwrap();
    let mut large = RawPatch::of(&patch, &Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap());
    large.extra_segments = 1 << 21;
    std::fs::write(at.join("large"), large.patch()).unwrap();
    fails(at, &["inspect", "newer"], 5, "unsupported format version 2", "unsupported");
    fails(at, &["inspect", "large"], 5, "number of segments is ", "limit");
}

#[test]
fn help_and_version() {
    let folder = tempfile::tempdir().unwrap();
    let help = succeed(folder.path(), &["--help"]);
    for line in
        ["encode", "apply", "verify", "inspect", "diff", "Exit codes:", "130  interrupted", "--json", "--threads"]
    {
        assert!(help.contains(line), "{line:?} in {help}");
    }
    assert!(succeed(folder.path(), &["encode", "--help"]).contains("[default: auto]"));
    assert!(succeed(folder.path(), &["--version"]).starts_with("pulse "));
}

/// A second run with other results replaces the file of the first; what was not renamed into place is gone.
#[test]
fn output_is_replaced_as_a_whole() {
    let (folder, pair) = example();
    let at = folder.path();
    std::fs::write(at.join("new"), vec![7; 1 << 20]).unwrap();
    succeed(at, &ENCODE);
    assert_eq!(read(at, "new"), read(at, "patch"));
    succeed(at, &["apply", "patch", "base.safetensors", "-o", "base.safetensors"]);
    assert_eq!(read(at, "base.safetensors"), pair.target_file(), "in place");
    assert_eq!(listing(at), ["base.safetensors", "new", "patch", "target.safetensors"]);
}

/// Ctrl-C in the middle of the work: exit code 130, no output, no temporary file.
#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_nothing() {
    use std::process::{Command, Stdio};
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    // Work for a while: 24 segments, one thread.
    let cells = 24 << 22;
    let base = vec![0x3c; 2 * cells];
    let mut target = base.clone();
    target.iter_mut().step_by(4099).for_each(|byte| *byte ^= 1);
    let pair = Pair::new([TestTensor::new("w", Dtype::Bf16, &[cells as u64], base, target)]);
    pair.write(at);
    drop(pair);
    succeed(at, &["encode", "base.safetensors", "target.safetensors", "-o", "patch"]);
    let before = listing(at);
    for arguments in [&ENCODE[..], &["apply", "patch", "base.safetensors", "-o", "new"]] {
        let mut child = Command::new(pulse())
            .args(arguments)
            .args(["--threads", "1"])
            .current_dir(at)
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        // The temporary file tells that the work has begun: by its name, or open without one.
        while listing(at) == before && !has_unnamed_file(child.id()) && child.try_wait().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        let kill = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        assert!(kill.success(), "it was over before it could be interrupted");
        assert_eq!(output.status.code(), Some(130), "{arguments:?}");
        assert_eq!(String::from_utf8(output.stderr).unwrap(), "pulse: interrupted; nothing was written\n");
        assert_eq!((output.stdout, listing(at)), (vec![], before.clone()));
    }
}
