//! The rules of style that a machine can hold.

use crate::support::workspace;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Where the compiler is told to trust us: mapped files, CPU features, vector loads, and the allocator that these tests count with.
const UNSAFE_FILES: [&str; 5] =
    ["encoder/src/map.rs", "simd/src/dispatch.rs", "simd/src/wasm.rs", "simd/src/x86.rs", "tests/it/support/memory.rs"];
/// Longest files, in lines.
const MOST_LINES: [(&str, usize); 3] = [("lib.rs", 100), ("main.rs", 60), ("", 500)];

/// The folders of the workspace's members, and of the fuzz targets, which have a workspace of their own.
fn packages() -> Vec<String> {
    let manifest = std::fs::read_to_string(workspace().join("Cargo.toml")).unwrap();
    let list = |key: &str| {
        let line = manifest.split(&format!("\n{key} = [")).nth(1).unwrap_or_else(|| panic!("Cargo.toml has {key}"));
        let entries = line
            .split(']')
            .next()
            .unwrap_or_default()
            .split(',')
            .map(|entry| entry.trim().trim_matches('"').to_string());
        entries.filter(|entry| !entry.is_empty()).collect::<Vec<_>>()
    };
    let members = list("members");
    assert!(members.len() > 3, "{members:?}");
    members
}

/// Rust files below a folder, by path from the root.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() && path.file_name().is_some_and(|name| name != "target" && name != "node_modules") {
            rust_files(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// Every source of the workspace: path from the root, with `/`, and text.
fn sources() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for package in packages().iter().map(String::as_str).chain(["fuzz"]) {
        let folder = workspace().join(package);
        if folder.is_dir() {
            rust_files(&folder, &mut files);
        }
    }
    let source = |path: PathBuf| {
        let name = path.strip_prefix(workspace()).unwrap().to_string_lossy().replace('\\', "/");
        (name, std::fs::read_to_string(&path).unwrap())
    };
    let sources: Vec<_> = files.into_iter().map(source).collect();
    assert!(sources.len() > 60, "{} sources found", sources.len());
    sources
}

/// The words of code: comments cut off, identifiers whole.
fn words(line: &str) -> impl Iterator<Item = &str> {
    let code = line.split("//").next().unwrap_or_default();
    code.split(|letter: char| !letter.is_alphanumeric() && letter != '_').filter(|word| !word.is_empty())
}

fn fail_on(faults: &[String]) {
    assert!(faults.is_empty(), "\n{}", faults.join("\n"));
}

#[test]
fn files_are_short() {
    let mut faults = Vec::new();
    for (name, text) in sources() {
        let lines = text.lines().count();
        let file = name.rsplit('/').next().unwrap_or_default();
        let (_, most) = MOST_LINES.iter().find(|(limited, _)| limited.is_empty() || *limited == file).unwrap();
        if lines > *most {
            faults.push(format!("{name} has {lines} lines, at most {most}"));
        }
    }
    fail_on(&faults);
}

#[test]
fn trust_is_asked_for_in_few_files() {
    let keyword = concat!("un", "safe");
    let found: BTreeSet<String> = sources()
        .into_iter()
        .filter(|(_, text)| text.lines().any(|line| words(line).any(|word| word == keyword)))
        .map(|(name, _)| name)
        .collect();
    assert_eq!(found, UNSAFE_FILES.map(String::from).into());
}

#[test]
fn nothing_is_left_for_later() {
    let notes = [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
    let mut faults = Vec::new();
    for (name, text) in sources() {
        for (number, line) in (1..).zip(text.lines()) {
            if notes.iter().any(|note| line.contains(note)) {
                faults.push(format!("{name}:{number}: {}", line.trim()));
            }
        }
    }
    fail_on(&faults);
}

/// Names, the lints of the workspace, and no version of its own for what the workspace pins.
#[test]
fn manifests_follow_the_workspace() {
    for folder in packages() {
        let manifest = std::fs::read_to_string(workspace().join(&folder).join("Cargo.toml")).unwrap();
        let expected = if folder == "xtask" { folder.clone() } else { format!("pulse-{folder}") };
        assert!(
            manifest.contains(&format!("\nname = \"{expected}\"\n")),
            "{folder}/Cargo.toml does not name {expected}"
        );
        assert!(manifest.contains("\n[lints]\nworkspace = true\n"), "{folder}/Cargo.toml lacks the workspace's lints");
        for key in ["version", "edition", "rust-version", "license", "publish"] {
            assert!(
                manifest.contains(&format!("\n{key}.workspace = true\n")),
                "{folder}/Cargo.toml has a {key} of its own"
            );
        }
    }
}

/// The modules that a list of this binary declares.
fn modules(list: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(list).unwrap();
    let name =
        |line: &str| Some(line.trim_start_matches("pub(crate) ").strip_prefix("mod ")?.strip_suffix(';')?.to_string());
    text.lines().filter_map(name).collect()
}

/// Every module of this binary is in its list, and every file is a module.
#[test]
fn no_test_file_is_forgotten() {
    let folder = workspace().join("tests/it");
    for (folder, list) in [(folder.clone(), "main.rs"), (folder.join("support"), "mod.rs")] {
        let files = crate::support::listing(&folder).into_iter().filter(|name| name != list);
        let files: BTreeSet<String> = files.map(|name| name.trim_end_matches(".rs").to_string()).collect();
        assert_eq!(files, modules(&folder.join(list)));
    }
}

/// Every suite has a row, with the command that runs it alone, and no row outlives its suite.
#[test]
fn every_suite_has_its_row() {
    let table = std::fs::read_to_string(workspace().join("tests/README.md")).unwrap();
    let rows = || table.lines().filter(|line| line.starts_with("| "));
    let suites: BTreeSet<String> =
        modules(&workspace().join("tests/it/main.rs")).into_iter().filter(|name| name != "support").collect();
    let named: BTreeSet<String> = rows()
        .flat_map(|row| row.split("`it/").skip(1).filter_map(|rest| Some(rest.split_once(".rs`")?.0.to_string())))
        .collect();
    assert_eq!(named, suites);
}

/// The codes that an error enum answers with, or, in TypeScript and JavaScript, that are listed.
fn codes(source: &str) -> BTreeSet<String> {
    let text = std::fs::read_to_string(workspace().join(source)).unwrap();
    let (begin, end, quote) = match source.rsplit_once('.') {
        Some((_, "rs")) => ("pub fn code(", "\n    }\n", '"'),
        Some((_, "js")) => ("const CODES =", ";", '\''),
        _ => ("type ErrorCode =", ";", '\''),
    };
    let body = text.split(begin).nth(1).unwrap_or_else(|| panic!("{source} has no {begin}"));
    let body = body.split(end).next().unwrap_or_default();
    let codes: BTreeSet<String> = body.split(quote).skip(1).step_by(2).map(String::from).collect();
    assert!(codes.len() > 4, "{source}: {codes:?}");
    codes
}

/// Whoever meets a code finds it where the tool, or the package, is explained.
#[test]
fn every_error_code_is_in_its_readme() {
    let of = [
        ("format/src/error.rs", &["README.md", "applier-wasm/npm/README.md"][..]),
        ("encoder/src/error.rs", &["README.md"]),
        ("interop/src/error.rs", &["README.md"]),
        ("channel/src/error.rs", &["README.md"]),
        ("channel/src/store/error.rs", &["README.md"]),
        ("applier-wasm/src/error.rs", &["applier-wasm/npm/README.md"]),
        ("applier-wasm/npm/types.d.ts", &["applier-wasm/npm/README.md"]),
    ];
    let mut faults = Vec::new();
    for (source, documents) in of {
        for document in documents {
            let text = std::fs::read_to_string(workspace().join(document)).unwrap();
            let missing = codes(source).into_iter().filter(|code| !text.contains(&format!("`{code}`")));
            faults.extend(missing.map(|code| format!("{document} lacks `{code}` of {source}")));
        }
    }
    let typed = codes("applier-wasm/npm/types.d.ts");
    let thrown = codes("format/src/error.rs").into_iter().chain(codes("applier-wasm/src/error.rs"));
    faults.extend(thrown.filter(|code| !typed.contains(code)).map(|code| format!("types.d.ts lacks `{code}`")));
    let known = codes("applier-wasm/npm/lib/errors.js");
    faults.extend(typed.symmetric_difference(&known).map(|code| format!("types.d.ts or errors.js lacks `{code}`")));
    fail_on(&faults);
}
