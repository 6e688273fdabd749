//! The committed excerpt of the SmolLM2 chains, and the whole chains where somebody has rebuilt them.

use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use sha2::{Digest, Sha256};

mod excerpt;
mod full;

pub use excerpt::ExcerptChain;
pub use full::{FULL_CHAIN_VARIABLE, full_chain, full_chain_or_skip};

/// One of the two chains of checkpoints, as `tests/fixtures/smollm2-excerpt/README.md` describes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ChainName {
    /// The masters began on the BF16 grid; fewer changes. Steps 20 to 32.
    Young,
    /// The masters are spread inside their cells, as after a long run; more changes. Steps 20 to 28.
    Mature,
}

impl ChainName {
    /// Both chains.
    pub const ALL: [Self; 2] = [Self::Young, Self::Mature];

    /// The name that folders and files of the chain carry.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Young => "young",
            Self::Mature => "mature",
        }
    }
}

impl fmt::Display for ChainName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A checkpoint on disk, as one safetensors file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFile {
    /// The checkpoint's number.
    pub step: u32,
    /// The file.
    pub path: PathBuf,
}

impl StepFile {
    /// Where `step` lies in a chain's folder: `step_NNN/model.safetensors`.
    #[must_use]
    pub fn in_folder(folder: &Path, step: u32) -> Self {
        Self { step, path: folder.join(format!("step_{step:03}")).join("model.safetensors") }
    }
}

/// The checkpoints in a chain's folder (`step_NNN/model.safetensors`), in order of their steps.
///
/// # Panics
///
/// If the folder cannot be read.
#[must_use]
pub fn steps_in(folder: &Path) -> Vec<StepFile> {
    let entries = fs::read_dir(folder).unwrap_or_else(|e| panic!("chain folder {}: {e}", folder.display()));
    let mut files: Vec<StepFile> = entries
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.strip_prefix("step_")?.parse().ok())
        .map(|step| StepFile::in_folder(folder, step))
        .filter(|file| file.path.is_file())
        .collect();
    files.sort_by_key(|file| file.step);
    files
}

/// The SHA-256, in hexadecimal, of a safetensors file's tensor bytes: all that follows the header.
///
/// # Errors
///
/// If the file cannot be read or ends inside its header.
pub fn tensor_sha256(path: &Path) -> io::Result<String> {
    let mut file = fs::File::open(path)?;
    let mut header_len = [0; 8];
    file.read_exact(&mut header_len)?;
    let header_len = u64::from_le_bytes(header_len);
    if io::copy(&mut file.by_ref().take(header_len), &mut io::sink())? != header_len {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    let mut digest = Sha256::new();
    let mut chunk = vec![0; 1 << 20];
    loop {
        match file.read(&mut chunk)? {
            0 => return Ok(hex(&digest.finalize())),
            len => digest.update(&chunk[..len]),
        }
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_found_in_order_and_other_entries_are_ignored() {
        let dir = tempfile::tempdir().unwrap();
        for step in [100, 3, 20] {
            let file = StepFile::in_folder(dir.path(), step);
            fs::create_dir_all(file.path.parent().unwrap()).unwrap();
            fs::write(&file.path, b"").unwrap();
        }
        fs::create_dir(dir.path().join("step_007")).unwrap();
        fs::create_dir(dir.path().join("step_last")).unwrap();
        fs::write(dir.path().join("config.json"), b"{}").unwrap();
        let steps: Vec<u32> = steps_in(dir.path()).iter().map(|file| file.step).collect();
        assert_eq!(steps, [3, 20, 100]);
    }

    #[test]
    fn tensor_hash_leaves_the_header_out() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("model.safetensors");
        fs::write(&path, b"\x02\0\0\0\0\0\0\0{}abc").unwrap();
        // The test vector "abc" of FIPS 180-2, appendix B.1.
        let expected = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(tensor_sha256(&path).unwrap(), expected);
        fs::write(&path, b"\x09\0\0\0\0\0\0\0{}abc").unwrap();
        assert_eq!(tensor_sha256(&path).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}
