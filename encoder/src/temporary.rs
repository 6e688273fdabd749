//! A file without a name until it is finished, where the system has such; else one under a temporary name.
//!
//! What has no name needs no removal: a process that is killed, or ends by a fault, leaves nothing.

use std::fs::File;
use std::io;
use std::path::Path;

/// What the owner of a folder needs to fill it.
#[cfg(unix)]
const OWNER: u32 = 0o700;

/// Removed when dropped, unless it got its name.
#[derive(Debug)]
pub(crate) struct Temporary {
    file: File,
    /// Of a file that has a name already.
    name: Option<Name>,
}

#[derive(Debug)]
struct Name {
    path: tempfile::TempPath,
    #[cfg(all(unix, feature = "guard"))]
    _guard: crate::map::TemporaryName,
}

impl Temporary {
    /// Begins a file in `folder`, with `mode` as umask cuts it.
    pub(crate) fn create(folder: &Path, mode: u32) -> io::Result<Self> {
        #[cfg(target_os = "linux")]
        if let Some(file) = unnamed::create(folder, mode) {
            return Ok(Self { file, name: None });
        }
        let (file, path) = builder().make_in(folder, |path| create_new(path, mode))?.into_parts();
        #[cfg(all(unix, feature = "guard"))]
        let _guard = crate::map::TemporaryName::new(&path);
        let name = Name {
            path,
            #[cfg(all(unix, feature = "guard"))]
            _guard,
        };
        Ok(Self { file, name: Some(name) })
    }

    pub(crate) fn file(&self) -> &File {
        &self.file
    }

    /// Gives the file its name, in place of whatever has it. `path` is to be in the file system of the folder that it began in.
    pub(crate) fn persist(self, path: &Path) -> io::Result<()> {
        let name = match self.name {
            Some(name) => name.path,
            #[cfg(target_os = "linux")]
            None => {
                let link = |name: &Path| unnamed::link(&self.file, name);
                builder().make_in(crate::names::parent(path), link)?.into_temp_path()
            }
            #[cfg(not(target_os = "linux"))]
            None => return Err(io::ErrorKind::Unsupported.into()),
        };
        // Not of `name` itself, so that the name is kept only if this works.
        std::fs::rename(&name, path)?;
        name.keep().map(drop).map_err(|error| error.error)
    }
}

/// How temporary names are made.
fn builder() -> tempfile::Builder<'static, 'static> {
    let mut builder = tempfile::Builder::new();
    builder.prefix(".pulse-").suffix(".tmp");
    builder
}

/// A temporary folder in `parent`, with `mode` as umask cuts it. Its owner may always write to it.
pub(crate) fn temporary_folder(parent: &Path, mode: u32) -> io::Result<tempfile::TempDir> {
    #[cfg(unix)]
    return builder().permissions(std::os::unix::fs::PermissionsExt::from_mode(mode | OWNER)).tempdir_in(parent);
    #[cfg(not(unix))]
    {
        let _ = mode;
        builder().tempdir_in(parent)
    }
}

/// Creates a folder that is not there, with `mode` as umask cuts it. Its owner may always write to it.
pub(crate) fn create_folder(path: &Path, mode: u32) -> io::Result<()> {
    #[cfg(unix)]
    return std::os::unix::fs::DirBuilderExt::mode(&mut std::fs::DirBuilder::new(), mode | OWNER).create(path);
    #[cfg(not(unix))]
    {
        let _ = mode;
        std::fs::create_dir(path)
    }
}

/// Creates a file that is not there, with `mode` as umask cuts it.
pub(crate) fn create_new(path: &Path, mode: u32) -> io::Result<File> {
    let mut options = File::options();
    options.read(true).write(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, mode);
    #[cfg(not(unix))]
    let _ = mode;
    options.open(path)
}

#[cfg(target_os = "linux")]
mod unnamed {
    use rustix::fs::{AtFlags, CWD, OFlags, linkat};
    use std::fs::File;
    use std::io;
    use std::os::fd::AsRawFd;
    use std::os::unix::fs::OpenOptionsExt;
    use std::path::Path;

    /// `None` where the file system has no unnamed files, or would not name them later; that is tried, on another.
    pub(super) fn create(folder: &Path, mode: u32) -> Option<File> {
        let probe = open(folder, 0o600).ok()?;
        super::builder().make_in(folder, |name| link(&probe, name)).ok()?;
        open(folder, mode).ok()
    }

    fn open(folder: &Path, mode: u32) -> io::Result<File> {
        File::options()
            .read(true)
            .write(true)
            .custom_flags(OFlags::TMPFILE.bits().cast_signed())
            .mode(mode)
            .open(folder)
    }

    pub(super) fn link(file: &File, name: &Path) -> io::Result<()> {
        let open = format!("/proc/self/fd/{}", file.as_raw_fd());
        linkat(CWD, open, CWD, name, AtFlags::SYMLINK_FOLLOW).map_err(io::Error::from)
    }
}
