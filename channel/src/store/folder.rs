//! A channel in a local folder.

use super::error::Error;
use super::place::{Listed, Place, Read, Small, Wanted};
use crate::layout::HEAD;
use crate::time::Time;
use pulse_encoder::Progress;
use std::fs::{self, File};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::{Path, PathBuf};

/// Publishers take turns by a lock on this file; the system releases it when its holder ends, however it ends.
const LOCK: &str = ".lock";
/// What temporary files are called: with a dot, so that nobody serves them.
pub(crate) const TEMPORARY: &str = ".pulse-";
const CHUNK: usize = 1 << 20;

pub(crate) struct Folder {
    root: PathBuf,
}

impl Folder {
    pub(crate) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.root.join(path)
    }

    fn open(&self, path: &str) -> Result<Option<File>, Error> {
        let path = self.path(path);
        match File::open(&path) {
            Ok(file) => Ok(Some(file)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
                Err(Error::Denied { action: "read", place: path.display().to_string() })
            }
            Err(error) => Err(Error::io("cannot open", &path)(error)),
        }
    }

    /// Writes by `fill` under a temporary name, and gives the file its own once it is on disk.
    fn write(&self, path: &str, fill: impl FnOnce(&mut File) -> Result<(), Error>) -> Result<(), Error> {
        let path = self.path(path);
        let folder = path.parent().unwrap_or(&self.root);
        fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
        let mut builder = tempfile::Builder::new();
        #[cfg(unix)]
        builder.permissions(std::os::unix::fs::PermissionsExt::from_mode(0o666));
        let mut temporary =
            builder.prefix(TEMPORARY).tempfile_in(folder).map_err(Error::io("cannot write into", folder))?;
        fill(temporary.as_file_mut())?;
        temporary.as_file().sync_all().map_err(Error::io("cannot write", &path))?;
        temporary.persist(&path).map_err(|error| Error::io("cannot name", &path)(error.error))?;
        sync_folder(folder)
    }
}

/// A name is on disk once its folder is.
pub(crate) fn sync_folder(folder: &Path) -> Result<(), Error> {
    let synced = if cfg!(unix) { File::open(folder).and_then(|folder| folder.sync_all()) } else { Ok(()) };
    synced.map_err(Error::io("cannot sync", folder))
}

impl Place for Folder {
    fn read_small(&self, path: &str, limit: usize, _: Option<&super::place::Tag>, _: bool) -> Result<Read, Error> {
        let Some(file) = self.open(path)? else { return Ok(Read::Absent) };
        let mut bytes = Vec::new();
        file.take(limit as u64 + 1).read_to_end(&mut bytes).map_err(Error::io("cannot read", &self.path(path)))?;
        Ok(Read::Found(Small { bytes, tag: None, date: None, events: None }))
    }

    fn download(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error> {
        let shown = self.path(wanted.path);
        let Some(mut file) = self.open(wanted.path)? else {
            return Err(Error::Missing { place: shown.display().to_string() });
        };
        file.seek(SeekFrom::Start(wanted.from)).map_err(Error::io("cannot read", &shown))?;
        let mut left = wanted.bytes - wanted.from;
        while left > 0 {
            if progress.is_cancelled() {
                return Err(Error::Interrupted);
            }
            let copied = io::copy(&mut (&mut file).take(left.min(CHUNK as u64)), out);
            match copied.map_err(Error::io("cannot copy", &shown))? {
                0 => {
                    let why = "it is shorter than was announced".to_string();
                    return Err(Error::Swapped { place: shown.display().to_string(), why });
                }
                copied => left -= copied,
            }
        }
        Ok(())
    }

    fn put_head(&self, bytes: &[u8], expected: Option<&Small>) -> Result<(), Error> {
        fs::create_dir_all(&self.root).map_err(Error::io("cannot create", &self.root))?;
        let path = self.path(LOCK);
        let lock = fs::OpenOptions::new().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(Error::io("cannot open", &path))?;
        lock.lock().map_err(Error::io("cannot lock", &path))?;
        let there = match self.open(HEAD)? {
            None => None,
            Some(mut file) => {
                let mut there = Vec::new();
                file.read_to_end(&mut there).map_err(Error::io("cannot read", &self.path(HEAD)))?;
                Some(there)
            }
        };
        if there.as_deref() != expected.map(|head| head.bytes.as_slice()) {
            return Err(Error::Store { action: "replace", place: HEAD.to_string(), why: "it has changed".to_string() });
        }
        self.write(HEAD, |file| file.write_all(bytes).map_err(Error::io("cannot write", &self.path(HEAD))))
    }

    fn put_file(&self, path: &str, file: &Path, progress: &dyn Progress) -> Result<(), Error> {
        let mut source = File::open(file).map_err(Error::io("cannot open", file))?;
        self.write(path, |out| {
            loop {
                if progress.is_cancelled() {
                    return Err(Error::Interrupted);
                }
                let copied = io::copy(&mut (&mut source).take(CHUNK as u64), out);
                match copied.map_err(Error::io("cannot copy", file))? {
                    0 => return Ok(()),
                    copied => progress.advance(copied),
                }
            }
        })
    }

    fn size(&self, path: &str) -> Result<Option<u64>, Error> {
        let path = self.path(path);
        match fs::metadata(&path) {
            Ok(metadata) => Ok(Some(metadata.len())),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(Error::io("cannot look at", &path)(error)),
        }
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, Error> {
        let path = self.path(folder);
        let entries = match fs::read_dir(&path) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(Error::io("cannot list", &path)(error)),
        };
        let mut listed = Vec::new();
        for entry in entries {
            let entry = entry.map_err(Error::io("cannot list", &path))?;
            let metadata = entry.metadata().map_err(Error::io("cannot look at", &entry.path()))?;
            if let Some(name) = entry.file_name().to_str().filter(|_| metadata.is_file()) {
                let modified = metadata.modified().map_err(Error::io("cannot look at", &entry.path()))?;
                let modified = modified.duration_since(std::time::UNIX_EPOCH).unwrap_or_default().as_secs();
                listed.push(Listed {
                    path: format!("{folder}{name}"),
                    bytes: metadata.len(),
                    modified: Time(modified),
                });
            }
        }
        Ok(listed)
    }

    fn delete(&self, path: &str) -> Result<(), Error> {
        let path = self.path(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io("cannot delete", &path)(error)),
            _ => Ok(()),
        }
    }

    fn abort_uploads(&self, _: bool) -> Result<Vec<Listed>, Error> {
        // Uploads into a folder are temporary files, which a listing shows.
        Ok(Vec::new())
    }
}
