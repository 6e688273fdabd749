//! What a checkpoint's folder holds besides the checkpoint, and what of it goes with the result.

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::output::{mode_of, sync, sync_folder};
use crate::progress::Progress;
use crate::stale::is_stale;
use crate::temporary::{create_folder, create_new};
use std::fs::File;
use std::path::{Path, PathBuf};

/// The other files of a base's folder, by what became of them in the result; paths from the folder, in order.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OtherFiles {
    /// Copied: configuration, tokenizer, the index, whatever is no weights.
    pub copied: Vec<PathBuf>,
    /// Copied as they are though they hold weights: safetensors files outside the checkpoint, of which the patch says nothing.
    pub unpatched: Vec<PathBuf>,
    /// Left out, for they hold the base's weights once more, in another format, sharding or precision, and would now be stale.
    pub stale: Vec<PathBuf>,
    /// Left out for another reason, which is given.
    pub left_out: Vec<(PathBuf, &'static str)>,
    folders: Vec<PathBuf>,
}

/// Folders that say where the base came from, which the result did not.
const ORIGIN: [&str; 2] = [".git", ".cache"];

/// The safetensors files of a folder, and of those below, that are not part of the checkpoint in it: a patch says nothing of them.
/// Paths from the folder, in order.
///
/// # Errors
/// Those of [`Checkpoint::open`], and of listing.
pub fn weights_outside(folder: &Path) -> Result<Vec<PathBuf>, Error> {
    Ok(OtherFiles::of(&Checkpoint::open(folder)?)?.unpatched)
}

impl OtherFiles {
    /// Lists what there is, and decides.
    pub(crate) fn of(base: &Checkpoint) -> Result<Self, Error> {
        let mut files = Self::default();
        files.walk(base, Path::new(""))?;
        Ok(files)
    }

    fn walk(&mut self, base: &Checkpoint, relative: &Path) -> Result<(), Error> {
        let folder = base.path().join(relative);
        let refuse = || Error::io("cannot list", &folder);
        let entries = std::fs::read_dir(&folder).map_err(refuse())?;
        let mut entries = entries.collect::<Result<Vec<_>, _>>().map_err(refuse())?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let (path, kind) = (relative.join(entry.file_name()), entry.file_type().map_err(refuse())?);
            if kind.is_dir() {
                if ORIGIN.iter().any(|name| entry.file_name() == *name) {
                    self.left_out.push((path, "says where the base came from"));
                } else {
                    self.folders.push(path.clone());
                    self.walk(base, &path)?;
                }
                continue;
            }
            // A link to a file is copied as that file; one to a folder may lead out of the tree, or round in it.
            match std::fs::metadata(entry.path()) {
                Ok(metadata) if metadata.is_file() => self.file(base, path),
                Ok(metadata) if metadata.is_dir() => self.left_out.push((path, "a link to a folder")),
                Ok(_) => self.left_out.push((path, "not a file")),
                Err(_) => self.left_out.push((path, "a link to nothing")),
            }
        }
        Ok(())
    }

    fn file(&mut self, base: &Checkpoint, path: PathBuf) {
        let full = base.path().join(&path);
        if base.files().iter().any(|file| file.path == full) {
            return;
        }
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        // In a folder below there may be other models, whose weights are theirs alone.
        let beside = path.components().count() == 1;
        let is_index = base.index() == Some(&full);
        let list = if !is_index && is_stale(&name, beside) {
            &mut self.stale
        } else if name.ends_with(".safetensors") {
            &mut self.unpatched
        } else {
            &mut self.copied
        };
        list.push(path);
    }

    /// Copies what goes along from the base's folder into another, with modes as umask cuts them.
    pub(crate) fn copy(&self, base: &Path, folder: &Path, progress: &dyn Progress) -> Result<(), Error> {
        for relative in &self.folders {
            let path = folder.join(relative);
            let mode = mode_of(&base.join(relative))?;
            create_folder(&path, mode).map_err(Error::io("cannot create", &path))?;
        }
        for relative in self.copied.iter().chain(&self.unpatched) {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let (from, to) = (base.join(relative), folder.join(relative));
            let mut source = File::open(&from).map_err(Error::io("cannot copy", &from))?;
            let mut copy = create_new(&to, mode_of(&from)?).map_err(Error::io("cannot create", &to))?;
            std::io::copy(&mut source, &mut copy).map_err(Error::io("cannot copy", &from))?;
            sync(&copy).map_err(Error::io("cannot write", &to))?;
        }
        self.folders.iter().rev().try_for_each(|relative| sync_folder(&folder.join(relative)))
    }
}
