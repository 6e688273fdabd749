//! The calls that read and write whole files: what the command line tool does, one function each.

use crate::apply::{Discard, Sink, apply};
use crate::checkpoint::{Checkpoint, CheckpointFile, StoredTensor};
use crate::encode::{EncodeOptions, encode};
use crate::error::{Error, TensorMismatch};
use crate::output::{OutputFile, OutputFolder};
use crate::pair::describe;
use crate::patch_file::PatchFile;
use crate::progress::Progress;
use pulse_format::Header;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;

/// Encodes the patch from `base` to `target` into the file `patch`; returns its header.
///
/// # Errors
/// Any; `patch` is then as it was before.
pub fn encode_file(
    base: &Path,
    target: &Path,
    patch: &Path,
    options: &EncodeOptions,
    progress: &dyn Progress,
) -> Result<Header, Error> {
    let (base, target) = (Checkpoint::open(base)?, Checkpoint::open(target)?);
    let mut output = OutputFile::create(patch)?;
    let mut encoded = encode(&base, &target, options, progress)?;
    let mut writer = BufWriter::with_capacity(1 << 20, output.file());
    encoded.write_to(&mut writer).and_then(|()| writer.flush()).map_err(Error::io("cannot write", patch))?;
    drop(writer);
    output.finish()?;
    Ok(encoded.header().clone())
}

/// Applies the file `patch` to `base` and writes `target`, in the layout of the base: a file for a file, a folder for a folder,
/// with the same shards and header bytes. Other files of a folder are copied. `target` may be `base` if it is a file.
///
/// # Errors
/// Any; `target` is then as it was before.
pub fn apply_file(patch: &Path, base: &Path, target: &Path, progress: &dyn Progress) -> Result<Header, Error> {
    let (patch, base) = (PatchFile::open(patch)?, Checkpoint::open(base)?);
    if !base.is_folder() {
        let mut output = OutputFile::create(target)?;
        let file = base.files().first().ok_or_else(|| Error::Usage("the base has no file".into()))?;
        let sink = FileSink { files: vec![start_file(output.file(), file, target)?], base: &base, target };
        apply(&patch, &base, &sink, progress)?;
        output.finish()?;
        return Ok(patch.header().clone());
    }
    let output = OutputFolder::create(target)?;
    let mut files = Vec::new();
    for file in base.files() {
        let path = output.path().join(file.path.file_name().unwrap_or_default());
        let mut created = File::create_new(&path).map_err(Error::io("cannot create", &path))?;
        files.push(start_file(&mut created, file, &path)?);
    }
    let sink = FileSink { files, base: &base, target };
    apply(&patch, &base, &sink, progress)?;
    for file in &sink.files {
        file.sync_all().map_err(Error::io("cannot write", target))?;
    }
    copy_other_files(&base, output.path())?;
    output.finish()?;
    Ok(patch.header().clone())
}

/// Checks that `patch` is whole and applies to `base`, and, if `target` is given, that the result is it, bit for bit. Writes nothing.
///
/// # Errors
/// Any; [`Error::TargetDiffers`] names the first difference found.
pub fn verify_file(patch: &Path, base: &Path, target: Option<&Path>, progress: &dyn Progress) -> Result<Header, Error> {
    let (patch, base) = (PatchFile::open(patch)?, Checkpoint::open(base)?);
    match target {
        None => apply(&patch, &base, &Discard, progress)?,
        Some(target) => {
            let target = Checkpoint::open(target)?;
            apply(&patch, &base, &CompareSink::new(&base, &target)?, progress)?;
        }
    }
    Ok(patch.header().clone())
}

/// Gives a file its length and the base's header bytes.
fn start_file(output: &mut File, base: &CheckpointFile, path: &Path) -> Result<File, Error> {
    let refuse = || Error::io("cannot write", path);
    output.set_len(base.map.len() as u64).map_err(refuse())?;
    output.write_all(&base.map[..base.data_start]).map_err(refuse())?;
    output.try_clone().map_err(refuse())
}

/// What a checkpoint folder holds besides shards: configuration, tokenizer, the index itself.
fn copy_other_files(base: &Checkpoint, folder: &Path) -> Result<(), Error> {
    let entries = std::fs::read_dir(base.path()).map_err(Error::io("cannot list", base.path()))?;
    for path in entries.filter_map(Result::ok).map(|entry| entry.path()) {
        let weights = path.extension().is_some_and(|extension| extension == "safetensors");
        if weights || !path.is_file() {
            continue;
        }
        let copy = folder.join(path.file_name().unwrap_or_default());
        std::fs::copy(&path, &copy).map_err(Error::io("cannot copy", &path))?;
        File::open(&copy).and_then(|file| file.sync_all()).map_err(Error::io("cannot write", &copy))?;
    }
    Ok(())
}

/// Writes cells where the base has them.
struct FileSink<'a> {
    files: Vec<File>,
    base: &'a Checkpoint,
    target: &'a Path,
}

impl Sink for FileSink<'_> {
    fn take(&self, stored: &StoredTensor, start: usize, bytes: &[u8]) -> Result<(), Error> {
        debug_assert!(stored.file < self.base.files().len());
        let offset = (stored.range.start + start) as u64;
        write_at(&self.files[stored.file], bytes, offset).map_err(Error::io("cannot write", self.target))
    }
}

#[cfg(unix)]
fn write_at(file: &File, bytes: &[u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::write_all_at(file, bytes, offset)
}

#[cfg(windows)]
fn write_at(file: &File, mut bytes: &[u8], mut offset: u64) -> std::io::Result<()> {
    while !bytes.is_empty() {
        let written = std::os::windows::fs::FileExt::seek_write(file, bytes, offset)?;
        bytes = &bytes[written..];
        offset += written as u64;
    }
    Ok(())
}

/// Compares cells with another checkpoint's.
struct CompareSink<'a> {
    target: &'a Checkpoint,
    by_name: std::collections::BTreeMap<&'a str, &'a StoredTensor>,
}

impl<'a> CompareSink<'a> {
    fn new(base: &Checkpoint, target: &'a Checkpoint) -> Result<Self, Error> {
        let by_name = target.by_name();
        let mut mismatch = TensorMismatch::default();
        for stored in base.tensors() {
            match by_name.get(stored.tensor.name.as_str()) {
                None => mismatch.removed.push(stored.tensor.name.clone()),
                Some(other) if other.tensor != stored.tensor => {
                    mismatch.changed.push((
                        stored.tensor.name.clone(),
                        describe(&stored.tensor),
                        describe(&other.tensor),
                    ));
                }
                Some(_) => {}
            }
        }
        let bases = base.by_name();
        mismatch.added.extend(by_name.keys().filter(|name| !bases.contains_key(*name)).map(ToString::to_string));
        if mismatch.is_empty() { Ok(Self { target, by_name }) } else { Err(Error::Tensors(mismatch)) }
    }
}

impl Sink for CompareSink<'_> {
    fn take(&self, stored: &StoredTensor, start: usize, bytes: &[u8]) -> Result<(), Error> {
        let name = stored.tensor.name.as_str();
        let expected = self.by_name.get(name).map(|stored| self.target.bytes(stored)).unwrap_or_default();
        let expected = expected.get(start..start + bytes.len()).unwrap_or_default();
        if expected == bytes {
            return Ok(());
        }
        let byte = expected.iter().zip(bytes).take_while(|(a, b)| a == b).count();
        Err(Error::TargetDiffers { tensor: name.into(), byte: (start + byte) as u64 })
    }
}
