//! Output that is either complete or not there: temporary name, fsync, rename, permissions as umask says.

use crate::error::Error;
use std::fs::{File, Permissions};
use std::path::{Path, PathBuf};

/// A file that takes its name only when it is finished; removed if dropped before.
#[derive(Debug)]
pub(crate) struct OutputFile {
    path: PathBuf,
    file: tempfile::NamedTempFile,
}

impl OutputFile {
    /// Begins a file that is to be `path`, in the same folder.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        if path.is_dir() {
            return Err(Error::Usage(format!("{} is a folder; name a file", path.display())));
        }
        let folder = parent(path);
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o666));
        let file = builder
            .prefix(".pulse-")
            .suffix(".tmp")
            .tempfile_in(&folder)
            .map_err(Error::io("cannot create a file in", &folder))?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    pub(crate) fn file(&mut self) -> &mut File {
        self.file.as_file_mut()
    }

    /// Makes the file durable and gives it its name.
    pub(crate) fn finish(self) -> Result<(), Error> {
        self.file.as_file().sync_all().map_err(Error::io("cannot write", &self.path))?;
        self.file.persist(&self.path).map_err(|error| Error::io("cannot rename to", &self.path)(error.error))?;
        sync_folder(&parent(&self.path))
    }
}

/// A folder that takes its name only when it is finished; removed with all it holds if dropped before.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    path: PathBuf,
    folder: tempfile::TempDir,
}

impl OutputFolder {
    /// Begins a folder that is to be `path`, which must not exist or be empty.
    pub(crate) fn create(path: &Path) -> Result<Self, Error> {
        match std::fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(Error::Usage(format!(
                        "{} exists and is not empty; remove it or name another folder",
                        path.display()
                    )));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => return Err(Error::io("cannot use", path)(error)),
        }
        let parent = parent(path);
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(<Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o777));
        let folder = builder
            .prefix(".pulse-")
            .suffix(".tmp")
            .tempdir_in(&parent)
            .map_err(Error::io("cannot create a folder in", &parent))?;
        Ok(Self { path: path.to_path_buf(), folder })
    }

    pub(crate) fn path(&self) -> &Path {
        self.folder.path()
    }

    /// Gives the folder its name. Its files are to be durable already.
    pub(crate) fn finish(self) -> Result<(), Error> {
        sync_folder(self.folder.path())?;
        std::fs::rename(self.folder.path(), &self.path).map_err(Error::io("cannot rename to", &self.path))?;
        // Renamed away: nothing is left to remove.
        let _ = self.folder.keep();
        sync_folder(&parent(&self.path))
    }
}

/// Makes renames in a folder durable, where the system can.
fn sync_folder(folder: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    File::open(folder).and_then(|file| file.sync_all()).map_err(Error::io("cannot sync", folder))?;
    Ok(())
}

fn parent(path: &Path) -> PathBuf {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
        _ => PathBuf::from("."),
    }
}
