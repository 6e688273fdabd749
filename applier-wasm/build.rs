//! Kernels without what only people read: a page downloads them inside the wasm module.

use std::path::Path;
use std::{env, fs, io};

/// Tokens that need no spaces around them.
const TIGHT: [&str; 14] =
    [", ", ": ", " = ", " {", " + ", " * ", " & ", " | ", " += ", " -> ", " && ", " || ", " == ", " != "];

fn main() -> io::Result<()> {
    let kernels = Path::new("src/gpu/kernels");
    let out = Path::new(&env::var_os("OUT_DIR").unwrap_or_default()).join("kernels");
    println!("cargo::rerun-if-changed={}", kernels.display());
    println!("cargo::rustc-check-cfg=cfg(web_sys_unstable_apis)");
    fs::create_dir_all(&out)?;
    for entry in fs::read_dir(kernels)? {
        let path = entry?.path();
        let (Some(name), true) = (path.file_name(), path.extension().is_some_and(|kind| kind == "wgsl")) else {
            continue;
        };
        let source = fs::read_to_string(&path)?;
        let lines = source.lines().map(|line| line.split("//").next().unwrap_or_default().trim());
        let lines: Vec<&str> = lines.filter(|line| !line.is_empty()).collect();
        let source = TIGHT.iter().fold(lines.join("\n") + "\n", |source, token| source.replace(token, token.trim()));
        fs::write(out.join(name), source)?;
    }
    Ok(())
}
