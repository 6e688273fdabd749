//! What a command reads, so that nothing it writes takes its place.

use crate::checkpoint::Checkpoint;
use crate::error::Error;
use crate::patch_file::PatchFile;
use crate::printable::shown;
use std::path::{Path, PathBuf};

/// Files and folders that are read while the output is made.
#[derive(Debug, Default)]
pub(crate) struct Inputs {
    files: Vec<PathBuf>,
    folders: Vec<PathBuf>,
}

impl Inputs {
    /// Adds a patch, if it is a file.
    pub(crate) fn patch(mut self, patch: &PatchFile) -> Self {
        self.files.extend(patch.path().map(Path::to_path_buf));
        self
    }

    /// Adds a checkpoint: its file, or its folder and all that is in it.
    pub(crate) fn checkpoint(mut self, checkpoint: &Checkpoint) -> Self {
        self.files.extend(checkpoint.files().iter().map(|file| file.path.clone()));
        if checkpoint.is_folder() {
            self.folders.push(checkpoint.path().to_path_buf());
        }
        self
    }

    /// Refuses an output that is an input, by whatever name, or lies in a folder that is one.
    pub(crate) fn refuse(&self, output: &Path) -> Result<(), Error> {
        if let Some(input) = self.files.iter().find(|input| is_same(input, output)) {
            let what = if input == output { "an input".into() } else { format!("{}, an input", shown(input)) };
            return Err(Error::Usage(format!("{} is {what}; name another output", shown(output))));
        }
        let Some(place) = real(output) else { return Ok(()) };
        let inside = |folder: &&PathBuf| real(folder).is_some_and(|folder| place.starts_with(folder));
        match self.folders.iter().find(inside) {
            Some(folder) => {
                let what = format!(
                    "{} is or lies in {}, which is an input; name a place outside",
                    shown(output),
                    shown(folder)
                );
                Err(Error::Usage(what))
            }
            None => Ok(()),
        }
    }
}

/// Whether two paths lead to one file.
fn is_same(a: &Path, b: &Path) -> bool {
    #[cfg(unix)]
    if let (Ok(a), Ok(b)) = (std::fs::metadata(a), std::fs::metadata(b)) {
        use std::os::unix::fs::MetadataExt;
        return (a.dev(), a.ino()) == (b.dev(), b.ino());
    }
    real(a).is_some_and(|a| real(b) == Some(a))
}

/// The absolute path without links, also of what does not exist yet but its folder does.
fn real(path: &Path) -> Option<PathBuf> {
    path.canonicalize().ok().or_else(|| {
        let folder = crate::names::parent(path).canonicalize().ok()?;
        Some(folder.join(path.file_name()?))
    })
}
