//! Output that is either complete or not there. Where it goes is checked before the work begins: never to an input, never over what is
//! no regular file.

use crate::error::Error;
use crate::inputs::Inputs;
use crate::names::{STANDARD, parent};
use crate::printable::shown;
use crate::temporary::{Temporary, temporary_folder};
use std::ffi::OsStr;
use std::fs::{File, Metadata};
use std::io::{IsTerminal, Seek, Write};
use std::path::{Path, PathBuf};

/// Mode of a file that has no model, as umask cuts it.
const FILE_MODE: u32 = 0o666;
/// Links that are followed to a file that is not there yet.
const MOST_LINKS: usize = 40;

/// Whether a path names this process's standard output: `-`, or what the system calls it.
pub fn is_standard_output(path: &Path) -> bool {
    [STANDARD, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"].iter().any(|name| path == Path::new(name))
}

/// A file that takes its name only when it is finished, or a stream that gets its bytes only then.
#[derive(Debug)]
pub(crate) enum OutputFile {
    Named {
        /// Where it goes: what `-o` names, or what the link there leads to.
        path: PathBuf,
        temporary: Temporary,
        replaced: Option<Box<Metadata>>,
    },
    Stream {
        path: PathBuf,
        spool: File,
        /// A pipe or a device; standard output if there is none.
        stream: Option<File>,
    },
}

impl OutputFile {
    /// Begins a file that is to be `path`. It gets the mode of what it replaces, else that of `model` as umask cuts it, else what umask says.
    pub(crate) fn create(path: &Path, model: Option<&Path>, inputs: &Inputs) -> Result<Self, Error> {
        if is_standard_output(path) {
            if std::io::stdout().is_terminal() {
                return Err(Error::Usage("standard output is a terminal; redirect it, or name a file".into()));
            }
            return Self::stream(Path::new("standard output"), None);
        }
        inputs.refuse(path)?;
        if path.to_string_lossy().ends_with(std::path::is_separator) {
            return Err(Error::Usage(format!("{} names a folder, but the result is a file; name a file", shown(path))));
        }
        let replaced = std::fs::metadata(path).ok();
        if let Some(metadata) = replaced.as_ref().filter(|metadata| !metadata.is_file()) {
            if metadata.is_dir() {
                return Err(Error::Usage(format!("{} is a folder; name a file", shown(path))));
            }
            if !is_stream(metadata) {
                return Err(Error::Usage(format!("{} is a socket or a block device; name a file", shown(path))));
            }
            let stream = File::options().write(true).open(path).map_err(Error::io("cannot write", path))?;
            return Self::stream(path, Some(stream));
        }
        let path = follow(path);
        let folder = parent(&path);
        let mode = model.map_or(Ok(FILE_MODE), mode_of)?;
        let temporary = Temporary::create(&folder, mode).map_err(Error::io("cannot create a file in", &folder))?;
        Ok(Self::Named { path, temporary, replaced: replaced.map(Box::new) })
    }

    fn stream(path: &Path, stream: Option<File>) -> Result<Self, Error> {
        let folder = std::env::temp_dir();
        let spool = tempfile::tempfile().map_err(Error::io("cannot create a file in", &folder))?;
        Ok(Self::Stream { path: path.to_path_buf(), spool, stream })
    }

    pub(crate) fn file(&self) -> &File {
        match self {
            Self::Named { temporary, .. } => temporary.file(),
            Self::Stream { spool, .. } => spool,
        }
    }

    /// Makes the file durable and gives it its name, or sends it down the stream. No input may be mapped any more: Windows replaces no
    /// file that is.
    pub(crate) fn finish(self) -> Result<(), Error> {
        match self {
            Self::Named { path, temporary, replaced } => {
                sync(temporary.file()).map_err(Error::io("cannot write", &path))?;
                if let Some(replaced) = &replaced {
                    take_over(temporary.file(), replaced).map_err(Error::io("cannot set the mode of", &path))?;
                }
                temporary.persist(&path).map_err(|error| cannot_replace(&path, replaced.is_some(), error))?;
                sync_folder(&parent(&path))
            }
            Self::Stream { path, mut spool, stream } => {
                let mut stream: Box<dyn Write> = match stream {
                    Some(stream) => Box::new(stream),
                    None => Box::new(std::io::stdout().lock()),
                };
                let sent = spool.rewind().and_then(|()| std::io::copy(&mut spool, &mut stream));
                sent.and_then(|_| stream.flush()).map_err(Error::io("cannot write", &path))
            }
        }
    }
}

/// A folder that takes its name only when it is finished. Until then its files lie beside it, without names where the system has such.
#[derive(Debug)]
pub(crate) struct OutputFolder {
    path: PathBuf,
    mode: u32,
    files: Vec<(PathBuf, Temporary)>,
}

impl OutputFolder {
    /// Begins a folder that is to be `path`, which must not exist or be empty. It gets the mode of `model` as umask cuts it.
    pub(crate) fn create(path: &Path, model: &Path, inputs: &Inputs) -> Result<Self, Error> {
        if is_standard_output(path) {
            return Err(Error::Usage(
                "the result is a folder, which standard output cannot hold; name a folder".into(),
            ));
        }
        inputs.refuse(path)?;
        match std::fs::read_dir(path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    let what = format!("{} exists and is not empty; remove it or name another folder", shown(path));
                    return Err(Error::Usage(what));
                }
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotADirectory => {
                return Err(Error::Usage(format!("{} is not a folder, as the result is; name a folder", shown(path))));
            }
            Err(error) => return Err(Error::io("cannot use", path)(error)),
        }
        Ok(Self { path: follow(path), mode: mode_of(model)?, files: Vec::new() })
    }

    /// Begins a file of the folder with the mode of `model` as umask cuts it.
    pub(crate) fn add(&mut self, name: &OsStr, model: &Path) -> Result<&File, Error> {
        let folder = parent(&self.path);
        let temporary =
            Temporary::create(&folder, mode_of(model)?).map_err(Error::io("cannot create a file in", &folder))?;
        self.files.push((PathBuf::from(name), temporary));
        Ok(self.files[self.files.len() - 1].1.file())
    }

    /// Makes the files durable, puts them into a folder, lets `fill` add to it, and gives it its name.
    pub(crate) fn finish(self, fill: impl FnOnce(&Path) -> Result<(), Error>) -> Result<(), Error> {
        let parent = parent(&self.path);
        let folder = temporary_folder(&parent, self.mode).map_err(Error::io("cannot create a folder in", &parent))?;
        for (name, temporary) in self.files {
            sync(temporary.file()).map_err(Error::io("cannot write", &name))?;
            let path = folder.path().join(&name);
            temporary.persist(&path).map_err(Error::io("cannot rename to", &path))?;
        }
        fill(folder.path())?;
        sync_folder(folder.path())?;
        if let Err(error) = std::fs::rename(folder.path(), &self.path) {
            // Not every system renames over an empty folder.
            let emptied = self.path.is_dir() && std::fs::remove_dir(&self.path).is_ok();
            let renamed = if emptied { std::fs::rename(folder.path(), &self.path) } else { Err(error) };
            renamed.map_err(Error::io("cannot rename to", &self.path))?;
        }
        // Renamed away: nothing is left to remove.
        let _ = folder.keep();
        sync_folder(&parent)
    }
}

/// The permission bits of a file or folder; 0 where the system has none.
pub(crate) fn mode_of(path: &Path) -> Result<u32, Error> {
    let metadata = std::fs::metadata(path).map_err(Error::io("cannot read", path))?;
    #[cfg(unix)]
    return Ok(std::os::unix::fs::PermissionsExt::mode(&metadata.permissions()) & 0o777);
    #[cfg(not(unix))]
    {
        let _ = metadata;
        Ok(0)
    }
}

/// Makes a file durable, where its file system can.
pub(crate) fn sync(file: &File) -> std::io::Result<()> {
    use std::io::ErrorKind::{InvalidInput, Unsupported};
    file.sync_all()
        .or_else(|error| if matches!(error.kind(), InvalidInput | Unsupported) { Ok(()) } else { Err(error) })
}

/// Makes renames in a folder durable, where its file system can; a folder that may not be read cannot be synced either.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    #[cfg(unix)]
    if let Ok(file) = File::open(folder) {
        sync(&file).map_err(Error::io("the result is written, but not durable: cannot sync", folder))?;
    }
    #[cfg(not(unix))]
    let _ = folder;
    Ok(())
}

/// Where a path leads, so that a link stays and what it points at is written.
fn follow(path: &Path) -> PathBuf {
    let mut path = path.to_path_buf();
    for _ in 0..MOST_LINKS {
        match std::fs::read_link(&path) {
            Ok(link) => path = parent(&path).join(link),
            Err(_) => break,
        }
    }
    path
}

/// What can be written from the beginning to the end, and is not replaced.
fn is_stream(metadata: &Metadata) -> bool {
    #[cfg(unix)]
    {
        use std::os::unix::fs::FileTypeExt;
        metadata.file_type().is_char_device() || metadata.file_type().is_fifo()
    }
    #[cfg(not(unix))]
    {
        let _ = metadata;
        true
    }
}

/// Gives a file the owner, where that is allowed, and the mode of the one that it replaces.
fn take_over(file: &File, replaced: &Metadata) -> std::io::Result<()> {
    #[cfg(unix)]
    {
        use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
        let _ = fchown(file, Some(replaced.uid()), Some(replaced.gid()));
        file.set_permissions(PermissionsExt::from_mode(replaced.mode() & 0o777))
    }
    #[cfg(not(unix))]
    {
        let _ = (file, replaced);
        Ok(())
    }
}

fn cannot_replace(path: &Path, replaced: bool, error: std::io::Error) -> Error {
    if !replaced {
        return Error::io("cannot rename to", path)(error);
    }
    let hint =
        format!("{error}; its file system or a mount may not let one file take the place of another: name a new file");
    Error::io("cannot replace", path)(std::io::Error::new(error.kind(), hint))
}
