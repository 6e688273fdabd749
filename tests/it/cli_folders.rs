//! A folder in, a folder out: the whole tree, without what would now lie. A part is not a whole.

use crate::support::binary::{example, fails, json, run, succeed};
use crate::support::cells::{Pair, TestTensor, safetensors_file};
use crate::support::listing;
use std::path::Path;

fn write(path: &Path, bytes: impl AsRef<[u8]>) {
    std::fs::create_dir_all(path.parent().unwrap()).unwrap();
    std::fs::write(path, bytes).unwrap();
}

/// Every file below `folder`, by path from it.
fn tree(folder: &Path) -> Vec<String> {
    let mut found = Vec::new();
    for name in listing(folder) {
        let path = folder.join(&name);
        if path.is_dir() {
            found.push(format!("{name}/"));
            found.extend(tree(&path).into_iter().map(|below| format!("{name}/{below}")));
        } else {
            found.push(name);
        }
    }
    found
}

/// What a checkpoint's folder may hold, of every kind.
const GO_ALONG: [&str; 10] = [
    "1_Pooling/config.json",
    "2_Dense/pytorch_model.bin",
    "config.json",
    "empty/",
    "model.py",
    "nested/deeper/vocab.txt",
    "tokenizer.model",
    "training_args.bin",
    "voices/af.pt",
    ".gitattributes",
];
const UNPATCHED: [&str; 2] = ["2_Dense/model.safetensors", "mtp.safetensors"];
const STALE: [&str; 14] = [
    "consolidated.00.pth",
    "consolidated.safetensors",
    "flax_model.msgpack",
    "model-00001-of-00009.safetensors",
    "model.fp16.safetensors",
    "model.q4.GGUF",
    "onnx/model.onnx",
    "onnx/model.onnx_data",
    "optimizer.pt",
    "original/consolidated.00.pth",
    "pytorch_model-00001-of-00002.bin",
    "pytorch_model.bin",
    "pytorch_model.bin.index.json",
    "tf_model.h5",
];

#[test]
fn a_result_is_the_whole_tree_without_stale_weights() {
    let (folder, pair) = example();
    let at = folder.path();
    let base = at.join("base");
    write(&base.join("model.safetensors"), pair.base_file());
    for name in GO_ALONG.iter().chain(&UNPATCHED).chain(&STALE).chain(&[".git/config", ".cache/huggingface/x"]) {
        match name.strip_suffix('/') {
            Some(folder) => std::fs::create_dir_all(base.join(folder)).unwrap(),
            None => write(&base.join(name), format!("bytes of {name}")),
        }
    }
    let text = succeed(at, &["apply", "patch", "base", "-o", "text"]);
    for line in [
        "copied: .gitattributes, 1_Pooling/config.json, 2_Dense/pytorch_model.bin, config.json",
        "copied as they are, though they hold weights that the patch does not: 2_Dense/model.safetensors, mtp.safetensors",
        "left out, stale copies of the weights: consolidated.00.pth, ",
        " and 6 more",
        "left out: .cache (says where the base came from), .git (says where the base came from)",
    ] {
        assert!(text.contains(line), "{line:?} in {text}");
    }
    let found = json(&succeed(at, &["apply", "patch", "base", "-o", "new", "--json"]));
    let list = |key: &str| {
        let entries = found[key].as_array().unwrap().iter();
        entries.map(|path| path.as_str().unwrap().replace('\\', "/")).collect::<Vec<_>>()
    };
    let sorted = |names: &[&str]| {
        let mut names: Vec<String> =
            names.iter().filter(|name| !name.ends_with('/')).map(ToString::to_string).collect();
        names.sort();
        names
    };
    assert_eq!(list("copied"), sorted(&GO_ALONG));
    assert_eq!(list("unpatched"), sorted(&UNPATCHED));
    assert_eq!(list("stale"), sorted(&STALE));
    assert_eq!(found["left_out"][1], serde_json::json!({ "path": ".git", "reason": "says where the base came from" }));
    for result in ["text", "new"] {
        let result = at.join(result);
        assert_eq!(std::fs::read(result.join("model.safetensors")).unwrap(), pair.target_file());
        let mut files: Vec<_> = tree(&result).into_iter().filter(|name| !name.ends_with('/')).collect();
        files.sort();
        assert_eq!(files, sorted(&[&GO_ALONG[..], &UNPATCHED, &["model.safetensors"]].concat()));
        assert!(result.join("empty").is_dir());
        for name in sorted(&[&GO_ALONG[..], &UNPATCHED].concat()) {
            assert_eq!(std::fs::read_to_string(result.join(&name)).unwrap(), format!("bytes of {name}"));
        }
    }
    // A file has no tree to report.
    assert!(json(&succeed(at, &["apply", "patch", "base.safetensors", "-o", "f", "--json"])).get("copied").is_none());
}

/// A download cache links every file out of the folder; a link to a folder may lead anywhere, or round.
#[cfg(unix)]
#[test]
fn links_to_files_are_followed_and_links_to_folders_are_not() {
    use std::os::unix::fs::symlink;
    let (folder, pair) = example();
    let at = folder.path();
    write(&at.join("blobs/weights"), pair.base_file());
    write(&at.join("blobs/config"), "{}");
    std::fs::create_dir(at.join("base")).unwrap();
    for (leads, name) in [
        ("../blobs/weights", "model.safetensors"),
        ("../blobs/config", "config.json"),
        ("..", "round"),
        ("gone", "broken"),
    ] {
        symlink(leads, at.join("base").join(name)).unwrap();
    }
    assert!(std::process::Command::new("mkfifo").arg(at.join("base/pipe")).status().unwrap().success());
    let text = succeed(at, &["apply", "patch", "base", "-o", "new"]);
    assert!(
        text.contains("left out: broken (a link to nothing), pipe (not a file), round (a link to a folder)"),
        "{text}"
    );
    assert_eq!(listing(&at.join("new")), ["config.json", "model.safetensors"]);
    assert!(listing(&at.join("new")).iter().all(|name| !at.join("new").join(name).is_symlink()));
    assert_eq!(std::fs::read(at.join("new/model.safetensors")).unwrap(), pair.target_file());
}

/// Files of a folder, each with one tensor.
fn shards(folder: &Path, files: &[(&str, &str)]) {
    for (file, name) in files {
        let tensor = TestTensor::weights(name, &[50], 0, 1);
        write(&folder.join(file), safetensors_file([(&tensor, tensor.base.as_slice())].into_iter()));
    }
}

fn index(folder: &Path, entries: &[(&str, &str)]) {
    let map: serde_json::Map<_, _> = entries.iter().map(|(name, file)| ((*name).into(), (*file).into())).collect();
    write(&folder.join("model.safetensors.index.json"), serde_json::json!({ "weight_map": map }).to_string());
}

const FIRST: &str = "model-00001-of-00002.safetensors";
const SECOND: &str = "model-00002-of-00002.safetensors";

#[test]
fn a_part_is_not_a_whole() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |path: &str, text: &str| fails(at, &["diff", path, path], 1, text, "checkpoint");
    shards(&at.join("part"), &[(FIRST, "a")]);
    let missing = "model-00001-of-00002.safetensors: this is part 1 of 2; missing: model-00002-of-00002.safetensors";
    refused("part", missing);
    refused(&format!("part/{FIRST}"), missing);
    shards(&at.join("parts"), &[(FIRST, "a"), (SECOND, "b")]);
    refused(&format!("parts/{SECOND}"), "this is part 2 of 2, not a checkpoint; name its folder");
    refused("parts", "several .safetensors files but no model.safetensors.index.json");
    shards(&at.join("many"), &[("model-00007-of-99999.safetensors", "a")]);
    refused(
        "many",
        "missing: model-00001-of-99999.safetensors, model-00002-of-99999.safetensors, model-00003-of-99999.safetensors and more",
    );
    shards(&at.join("one"), &[("model-00001-of-00001.safetensors", "a")]);
    succeed(at, &["diff", "one", "one/model-00001-of-00001.safetensors"]);
}

#[test]
fn an_index_and_its_folder_agree() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let refused = |path: &str, texts: &[&str]| {
        for text in texts {
            fails(at, &["diff", path, path], 1, text, "checkpoint");
        }
    };
    shards(&at.join("gone"), &[(FIRST, "a")]);
    index(&at.join("gone"), &[("a", FIRST), ("b", SECOND)]);
    refused(
        "gone",
        &["model.safetensors.index.json: lists model-00002-of-00002.safetensors, which is missing; fetch it"],
    );
    let versions = "the index and its shards are of different versions: fetch all again";
    for (name, entries, text) in [
        (
            "more",
            &[("a", FIRST), ("b", SECOND), ("c", SECOND)][..],
            "lists tensor c in model-00002-of-00002.safetensors, which does not hold it",
        ),
        (
            "less",
            &[("a", FIRST), ("b", SECOND)],
            "does not list tensor x, which model-00002-of-00002.safetensors holds",
        ),
        (
            "other",
            &[("a", SECOND), ("b", FIRST)],
            "lists tensor a in model-00002-of-00002.safetensors, but it is in model-00001",
        ),
    ] {
        shards(&at.join(name), &[(FIRST, "a"), (SECOND, if name == "less" { "x" } else { "b" })]);
        if name == "less" {
            let tensors = ["b", "x"].map(|name| TestTensor::weights(name, &[50], 0, 1));
            write(
                &at.join(name).join(SECOND),
                safetensors_file(tensors.iter().map(|tensor| (tensor, tensor.base.as_slice()))),
            );
        }
        index(&at.join(name), entries);
        refused(name, &[text, versions]);
    }
    shards(&at.join("both"), &[(FIRST, "a"), (SECOND, "b"), ("model.safetensors", "a")]);
    index(&at.join("both"), &[("a", FIRST), ("b", SECOND)]);
    refused("both", &["holds both model.safetensors and model.safetensors.index.json", "remove the one"]);
    shards(
        &at.join("variant"),
        &[("model.fp16-00001-of-00002.safetensors", "a"), ("model.fp16-00002-of-00002.safetensors", "b")],
    );
    write(&at.join("variant/model.fp16.safetensors.index.json"), "{}");
    refused(
        "variant",
        &["variant: holds model.fp16.safetensors.index.json, the index of a variant", "put that variant alone"],
    );
    write(&at.join("html/model.safetensors.index.json"), "<!DOCTYPE html>");
    refused("html", &["model.safetensors.index.json: not an index of shards", "it looks like an HTML page"]);
    write(&at.join("pickle/pytorch_model.bin"), "PK");
    refused("pickle", &["no .safetensors file in this folder; it holds pytorch_model.bin: save that as safetensors"]);
    // The whole is the checkpoint, whatever lies beside it.
    shards(
        &at.join("beside"),
        &[("model.safetensors", "a"), ("mtp.safetensors", "b"), ("model.fp16.safetensors", "a")],
    );
    let found = json(&succeed(at, &["diff", "beside", "beside/model.safetensors", "--json"]));
    assert_eq!(found["tensors"].as_array().unwrap().len(), 1);
}

#[test]
fn shards_beside_an_index_are_judged_by_it() {
    let folder = tempfile::tempdir().unwrap();
    let at = folder.path();
    let (base, target) = (TestTensor::weights("a", &[5000], 9, 1), TestTensor::weights("b", &[5000], 9, 2));
    let pair = Pair::new([base.clone(), target.clone()]);
    pair.write(at);
    for (file, tensor) in [(FIRST, &base), (SECOND, &target)] {
        write(&at.join("base").join(file), safetensors_file([(tensor, tensor.base.as_slice())].into_iter()));
    }
    index(&at.join("base"), &[("a", FIRST), ("b", SECOND)]);
    shards(&at.join("base"), &[("mtp.safetensors", "m"), ("model-00001-of-00007.safetensors", "a")]);
    let text = succeed(at, &["encode", "target.safetensors", "base", "-o", "back"]);
    assert!(text.contains("not in the patch, for they are not part of the checkpoint: mtp.safetensors\n"), "{text}");
    let text = succeed(at, &["encode", "target.safetensors", "base", "-o", "back", "--json"]);
    assert_eq!(json(&text)["outside"], serde_json::json!(["mtp.safetensors"]));
    assert!(!succeed(at, &["encode", "base", "target.safetensors", "-o", "patch"]).contains("not in the patch"));
    let text = succeed(at, &["apply", "patch", "base", "-o", "new"]);
    assert!(text.contains("that the patch does not: mtp.safetensors\n"), "{text}");
    assert!(text.contains("left out, stale copies of the weights: model-00001-of-00007.safetensors\n"), "{text}");
    assert_eq!(listing(&at.join("new")), [FIRST, SECOND, "model.safetensors.index.json", "mtp.safetensors"]);
    assert_eq!(run(at, &["verify", "patch", "--base", "base", "--target", "new"]).code, Some(0));
}
