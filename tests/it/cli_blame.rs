//! Whose fault it is, what the file looks like, and what to do.

use crate::support::binary::{example, fails, json, read, run, succeed};
use crate::support::cells::{Pair, TestTensor, safetensors_file};
use pulse_format::Dtype;

/// A wrong base is said, also when the target is wrong or has other tensors.
#[test]
fn a_wrong_base_is_blamed_before_the_target() {
    let (folder, pair) = example();
    let at = folder.path();
    let other = Pair::new([pair.tensors[0].clone()]);
    std::fs::write(at.join("other"), other.base_file()).unwrap();
    for target in ["base.safetensors", "target.safetensors", "other"] {
        let verify = ["verify", "patch", "--base", "target.safetensors", "--target", target];
        fails(at, &verify, 4, "patch: wrong base: segment ", "wrong_base");
    }
    fails(
        at,
        &["verify", "patch", "--base", "base.safetensors", "--target", "other"],
        4,
        "only in the base",
        "tensors",
    );
    // Of several differences the first in the order of names, whichever thread found one first.
    let mut wrong = pair.clone();
    for (tensor, byte) in [(0, 77), (0, 40), (1, 0)] {
        wrong.tensors[tensor].target[byte] ^= 1;
    }
    std::fs::write(at.join("wrong"), wrong.target_file()).unwrap();
    let verify = ["verify", "patch", "--base", "base.safetensors", "--target", "wrong"];
    fails(at, &verify, 4, "tensor layers.0.w differs from the target at byte 40 of its data", "wrong_target");
}

#[test]
fn what_is_no_checkpoint_and_no_patch_is_named() {
    let (folder, _) = example();
    let at = folder.path();
    let whole = read(at, "base.safetensors");
    let cases: [(&str, &[u8], &str, &str); 8] = [
        ("page", b"\n<!doctype HTML><title>404", "an HTML page", "check the address"),
        ("pointer", b"version https://git-lfs.github.com/spec/v1\noid sha256:0\n", "a Git LFS pointer", "git lfs pull"),
        ("pickle", b"\x80\x02}q\0.", "a pickled PyTorch checkpoint", "safetensors.torch.save_file"),
        ("zip", b"PK\x03\x04\0\0\0\0\0\0", "a zip archive", "safetensors.torch.save_file"),
        ("gguf", b"GGUF\x03\0\0\0\0\0\0\0\0", "a GGUF model", "use the safetensors checkpoint"),
        ("gzip", b"\x1f\x8b\x08\0\0\0\0\0\0\0", "a gzip archive", "unpack it first"),
        ("xml", b"<?xml version='1.0'?><Error>", "an XML document", "check the address"),
        ("empty", b"", "an empty file", "again"),
    ];
    for (name, bytes, what, advice) in cases {
        std::fs::write(at.join(name), bytes).unwrap();
        let looks = format!("it looks like {what}");
        for text in [looks.as_str(), advice] {
            fails(at, &["diff", name, "target.safetensors"], 1, text, "checkpoint");
            fails(at, &["inspect", name], 3, text, "");
        }
        fails(
            at,
            &["encode", "base.safetensors", name, "-o", "new"],
            1,
            &format!("{name}: not a safetensors file"),
            "checkpoint",
        );
    }
    fails(
        at,
        &["apply", "base.safetensors", "patch", "-o", "new"],
        3,
        "it looks like a safetensors checkpoint",
        "damaged",
    );
    fails(at, &["diff", "patch", "base.safetensors"], 1, "it looks like a Pulse patch", "checkpoint");
    for length in [whole.len() - 1, whole.len() / 2, 20] {
        std::fs::write(at.join("cut"), &whole[..length]).unwrap();
        let numbers = format!("by its header, {length} there; fetch it again");
        fails(at, &["diff", "cut", "base.safetensors"], 1, &numbers, "checkpoint");
    }
    let declared = format!("cut: cut short: at least {} bytes", whole.len());
    std::fs::write(at.join("cut"), &whole[..whole.len() - 1]).unwrap();
    fails(at, &["diff", "cut", "base.safetensors"], 1, &declared, "checkpoint");
    std::fs::write(at.join("long"), [&whole[..], b"more"].concat()).unwrap();
    fails(
        at,
        &["diff", "long", "base.safetensors"],
        1,
        &format!("{} there: what follows", whole.len() + 4),
        "checkpoint",
    );
}

/// BF16 on one side and its masters on the other: the option that bridges them is named, and bridges them.
#[test]
fn masters_beside_bf16_are_told_of_the_cast() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let tensor = TestTensor::weights("w", &[400], 5, 1);
    let widen = |cells: &[u8]| cells.chunks(2).flat_map(|cell| [0, 0, cell[0], cell[1]]).collect::<Vec<u8>>();
    let masters = TestTensor::new("w", Dtype::F32, &[400], widen(&tensor.base), widen(&tensor.target));
    let pair = Pair::new([tensor]);
    pair.write(at);
    for (name, cells) in [("f32_base", &masters.base), ("f32_target", &masters.target)] {
        std::fs::write(at.join(name), safetensors_file([(&masters, cells.as_slice())].into_iter())).unwrap();
    }
    for (base, target) in [("base.safetensors", "f32_target"), ("f32_base", "target.safetensors")] {
        fails(at, &["encode", base, target, "-o", "new"], 4, "--cast bf16 rounds them before comparing", "tensors");
        succeed(at, &["encode", base, target, "-o", "patch", "--cast", "bf16"]);
        std::fs::remove_file(at.join("new")).unwrap_or_default();
    }
    fails(
        at,
        &["apply", "patch", "f32_base", "-o", "new"],
        4,
        "name the base as receivers hold it, in BF16",
        "tensors",
    );
    // No cast bridges another shape or dtype.
    let other = Pair::new([TestTensor::noise("w", Dtype::U16, &[400], 0, 1)]);
    std::fs::write(at.join("other"), other.base_file()).unwrap();
    let found = run(at, &["diff", "base.safetensors", "other"]);
    assert!(found.code == Some(4) && !found.stderr.contains("--cast"), "{}", found.stderr);
}

/// Names come from files: they forge no line, and no terminal obeys them. Programs get them as they are.
#[test]
fn control_characters_in_names_are_escaped() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let name = "w\npulse: verified\u{1b}[2K\u{202e}";
    let shown = r"w\npulse: verified\u{1b}[2K\u{202e}";
    let pair = Pair::new([TestTensor::weights(name, &[3000], 9, 1)]);
    pair.write(at);
    let run_id = "r\nrun 7\u{1b}";
    succeed(at, &["encode", "base.safetensors", "target.safetensors", "-o", "patch", "--run-id", run_id]);
    for arguments in [&["diff", "base.safetensors", "target.safetensors"][..], &["inspect", "patch", "--tensors"]] {
        let text = succeed(at, arguments);
        assert!(text.contains(shown), "{text}");
        assert!(!text.contains('\u{1b}') && !text.contains("\npulse: verified"), "{text}");
    }
    assert!(succeed(at, &["inspect", "patch"]).contains("run r\\nrun 7\\u{1b}\n"));
    assert_eq!(json(&succeed(at, &["inspect", "patch", "--json"]))["tensor_table"][0]["name"], name);
    fails(
        at,
        &["verify", "patch", "--base", "base.safetensors", "--target", "base.safetensors"],
        4,
        shown,
        "wrong_target",
    );
    let other = Pair::new([TestTensor::weights("v", &[3000], 9, 1)]);
    std::fs::write(at.join("other"), other.base_file()).unwrap();
    fails(at, &["diff", "base.safetensors", "other"], 4, &format!("only in the base: {shown}\n"), "");
    let text = run(at, &["inspect", "no\n\u{1b}where"]).stderr;
    assert_eq!(text, "pulse: cannot open no\\n\\u{1b}where: No such file or directory (os error 2)\n");
}
