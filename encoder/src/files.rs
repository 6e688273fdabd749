//! The calls that read and write whole files: what the command line tool does, one function each.

use crate::apply::{Discard, Sink, apply};
use crate::checkpoint::{Checkpoint, CheckpointFile, StoredTensor};
use crate::encode::{EncodeOptions, Patch, encode};
use crate::error::{Error, TensorMismatch};
use crate::inputs::Inputs;
use crate::output::{OutputFile, OutputFolder};
use crate::pack::{PackOptions, pack};
use crate::pair::describe;
use crate::patch_file::PatchFile;
use crate::progress::Progress;
use crate::tree::OtherFiles;
use crate::unpack::{unpack, unpacked_layout};
use pulse_format::Header;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// What [`apply_file`] wrote.
#[derive(Debug, Clone, PartialEq)]
pub struct Rebuilt {
    /// The patch's header.
    pub header: Header,
    /// What became of the other files of the base's folder; none if the base is a file.
    pub others: OtherFiles,
}

/// Encodes the patch from `base` to `target` into the file `patch`; returns its header.
///
/// A pipe or a device gets the patch as a stream when it is complete, and so does standard output, which is named `-`.
///
/// # Errors
/// [`Error::Usage`] if `patch` is an input or lies in a folder that is one; any. `patch` is then as it was before.
pub fn encode_file(
    base: &Path,
    target: &Path,
    patch: &Path,
    options: &EncodeOptions,
    progress: &dyn Progress,
) -> Result<Header, Error> {
    let (base, target) = (Checkpoint::open(base)?, Checkpoint::open(target)?);
    let inputs = Inputs::default().checkpoint(&base).checkpoint(&target);
    let output = OutputFile::create(patch, None, &inputs)?;
    let encoded = encode(&base, &target, options, progress)?;
    drop((base, target));
    write_patch(encoded, patch, output)
}

fn write_patch(mut patch: Patch, path: &Path, output: OutputFile) -> Result<Header, Error> {
    let mut writer = BufWriter::with_capacity(1 << 20, output.file());
    patch.write_to(&mut writer).and_then(|()| writer.flush()).map_err(Error::io("cannot write", path))?;
    drop(writer);
    output.finish()?;
    Ok(patch.header().clone())
}

/// Packs a checkpoint into the file `anchor`; returns its header. What `anchor` may be is as for [`encode_file`].
///
/// # Errors
/// As those of [`encode_file`].
pub fn pack_file(
    checkpoint: &Path,
    anchor: &Path,
    options: &PackOptions,
    progress: &dyn Progress,
) -> Result<Header, Error> {
    let checkpoint = Checkpoint::open(checkpoint)?;
    let output = OutputFile::create(anchor, None, &Inputs::default().checkpoint(&checkpoint))?;
    let packed = pack(&checkpoint, options, progress)?;
    drop(checkpoint);
    write_patch(packed, anchor, output)
}

/// Unpacks the file `anchor` into a `.safetensors` file, its tensors in the order of that library; returns the anchor's header. What the
/// two may be is as for [`apply_file`].
///
/// # Errors
/// [`Error::Usage`] if `anchor` needs a base; any. `checkpoint` is then as it was before.
pub fn unpack_file(anchor: &Path, checkpoint: &Path, progress: &dyn Progress) -> Result<Header, Error> {
    let anchor = PatchFile::open(anchor)?;
    let output = OutputFile::create(checkpoint, None, &Inputs::default().patch(&anchor))?;
    let (header, stored) = unpacked_layout(&anchor, "use `pulse apply` with its base")?;
    let refuse = || Error::io("cannot write", checkpoint);
    let mut file = output.file();
    let bytes = stored.iter().map(|stored| stored.range.end).max().unwrap_or(header.len());
    file.set_len(bytes as u64).map_err(refuse())?;
    file.write_all(&header).map_err(refuse())?;
    let sink = FileSink { files: vec![file.try_clone().map_err(refuse())?], target: checkpoint };
    unpack(&anchor, &stored, &sink, progress)?;
    drop(sink);
    output.finish()?;
    Ok(anchor.header().clone())
}

/// Applies the file `patch` to `base` and writes `target`, in the layout of the base: a file for a file, a folder for a folder,
/// with the same shards and header bytes. Other files of a folder go along, save those that would be stale: see [`OtherFiles`].
///
/// `patch` may be a pipe, or `-`, standard input. `target` may be `base` if it is a file. As a pipe, a device, or `-`, standard output, it
/// gets the file as a stream when all of it is verified.
///
/// # Errors
/// [`Error::Usage`] if `target` is the patch, or the base's folder or in it; any. `target` is then as it was before.
pub fn apply_file(patch: &Path, base: &Path, target: &Path, progress: &dyn Progress) -> Result<Rebuilt, Error> {
    let (patch, base) = (PatchFile::open(patch)?, Checkpoint::open(base)?);
    if base.is_folder() {
        apply_to_folder(patch, base, target, progress)
    } else {
        apply_to_file(patch, base, target, progress)
    }
}

fn apply_to_file(patch: PatchFile, base: Checkpoint, target: &Path, progress: &dyn Progress) -> Result<Rebuilt, Error> {
    let output = OutputFile::create(target, Some(base.path()), &Inputs::default().patch(&patch))?;
    let file = base.files().first().ok_or_else(|| Error::Usage("the base has no file".into()))?;
    let sink = FileSink { files: vec![start_file(output.file(), file, target)?], target };
    apply(&patch, &base, &sink, progress).map_err(advise)?;
    drop((sink, base));
    output.finish()?;
    Ok(Rebuilt { header: patch.header().clone(), others: OtherFiles::default() })
}

fn apply_to_folder(
    patch: PatchFile,
    base: Checkpoint,
    target: &Path,
    progress: &dyn Progress,
) -> Result<Rebuilt, Error> {
    let inputs = Inputs::default().patch(&patch).checkpoint(&base);
    let mut output = OutputFolder::create(target, base.path(), &inputs)?;
    let others = OtherFiles::of(&base)?;
    let mut files = Vec::new();
    for file in base.files() {
        let created = output.add(file.path.file_name().unwrap_or_default(), &file.path)?;
        files.push(start_file(created, file, target)?);
    }
    let sink = FileSink { files, target };
    apply(&patch, &base, &sink, progress).map_err(advise)?;
    let source = base.path().to_path_buf();
    drop((sink, base));
    output.finish(|folder| others.copy(&source, folder, progress))?;
    Ok(Rebuilt { header: patch.header().clone(), others })
}

/// Checks that `patch` is whole and applies to `base`, and, if `target` is given, that the result is it, bit for bit. Writes nothing.
///
/// # Errors
/// Any; those of patch and base before those of the target. [`Error::TargetDiffers`] names the first difference.
pub fn verify_file(patch: &Path, base: &Path, target: Option<&Path>, progress: &dyn Progress) -> Result<Header, Error> {
    let (patch, base) = (PatchFile::open(patch)?, Checkpoint::open(base)?);
    let Some(target) = target else {
        apply(&patch, &base, &Discard, progress).map_err(advise)?;
        return Ok(patch.header().clone());
    };
    let target = Checkpoint::open(target)?;
    match CompareSink::new(base.tensors(), &target) {
        Ok(sink) => {
            apply(&patch, &base, &sink, progress).map_err(advise)?;
            sink.finish()?;
        }
        Err(mismatch) => {
            apply(&patch, &base, &Discard, progress).map_err(advise)?;
            return Err(mismatch);
        }
    }
    Ok(patch.header().clone())
}

/// Checks that `anchor` is whole, and, if `target` is given, that the result is it, bit for bit. Writes nothing.
///
/// # Errors
/// [`Error::Usage`] if it is a patch that needs a base, else as those of [`verify_file`].
pub fn verify_anchor_file(anchor: &Path, target: Option<&Path>, progress: &dyn Progress) -> Result<Header, Error> {
    let anchor = PatchFile::open(anchor)?;
    let (_, stored) = unpacked_layout(&anchor, "name its base with --base")?;
    let Some(target) = target else {
        unpack(&anchor, &stored, &Discard, progress)?;
        return Ok(anchor.header().clone());
    };
    let target = Checkpoint::open(target)?;
    let sink = CompareSink::new(&stored, &target)?;
    unpack(&anchor, &stored, &sink, progress)?;
    sink.finish()?;
    Ok(anchor.header().clone())
}

/// Says which base is meant where a patch between BF16 checkpoints meets its masters.
fn advise(error: Error) -> Error {
    let Error::Tensors(mut mismatch) = error else { return error };
    let masters = |(_, base, patch): &(String, String, String)| {
        let shape = patch.strip_prefix("BF16 ");
        shape.is_some() && [base.strip_prefix("F32 "), base.strip_prefix("F16 ")].contains(&shape)
    };
    if mismatch.changed.iter().any(masters) {
        mismatch.advice =
            Some("the patch is one between BF16 checkpoints: name the base as receivers hold it, in BF16");
    }
    Error::Tensors(mismatch)
}

/// Gives a file its length and the base's header bytes.
fn start_file(mut output: &File, base: &CheckpointFile, path: &Path) -> Result<File, Error> {
    let refuse = || Error::io("cannot write", path);
    output.set_len(base.map.len() as u64).map_err(refuse())?;
    output.write_all(&base.map[..base.data_start]).map_err(refuse())?;
    output.try_clone().map_err(refuse())
}

/// Writes cells where the base has them.
struct FileSink<'a> {
    files: Vec<File>,
    target: &'a Path,
}

impl Sink for FileSink<'_> {
    fn take(&self, stored: &StoredTensor, start: usize, bytes: &[u8]) -> Result<(), Error> {
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
    /// The first one found so far, in the order of names and bytes. It counts only if patch and base are right.
    difference: Mutex<Option<(String, u64)>>,
}

impl<'a> CompareSink<'a> {
    /// For the tensors that will come.
    fn new(tensors: &[StoredTensor], target: &'a Checkpoint) -> Result<Self, Error> {
        let by_name = target.by_name();
        let mut mismatch = TensorMismatch::default();
        for stored in tensors {
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
        let coming: BTreeSet<_> = tensors.iter().map(|stored| stored.tensor.name.as_str()).collect();
        mismatch.added.extend(by_name.keys().filter(|name| !coming.contains(*name)).map(ToString::to_string));
        if mismatch.is_empty() {
            Ok(Self { target, by_name, difference: Mutex::default() })
        } else {
            Err(Error::Tensors(mismatch))
        }
    }
}

impl CompareSink<'_> {
    fn finish(self) -> Result<(), Error> {
        match self.difference.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some((tensor, byte)) => Err(Error::TargetDiffers { tensor, byte }),
            None => Ok(()),
        }
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
        let found = (name.to_string(), (start + byte) as u64);
        let mut difference = self.difference.lock().unwrap_or_else(PoisonError::into_inner);
        if difference.as_ref().is_none_or(|first| found < *first) {
            *difference = Some(found);
        }
        Ok(())
    }
}
