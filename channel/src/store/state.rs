//! Small files of our own: read whole or not at all, written whole or not at all.

use super::error::Error;
use super::folder::{TEMPORARY, sync_folder};
use serde::Serialize;
use serde::de::DeserializeOwned;
use std::fs;
use std::io::Write as _;
use std::path::Path;

/// Reads a file; `None` if it is not there, or is not what it should be: a torn write never is, so somebody else wrote there.
pub(crate) fn read_json<T: DeserializeOwned>(path: &Path) -> Result<Option<T>, Error> {
    match fs::read(path) {
        Ok(bytes) => match serde_json::from_slice(&bytes) {
            Ok(value) => Ok(Some(value)),
            Err(error) => {
                tracing::warn!(path = %path.display(), %error, "a file of pulse's own state cannot be read and is not used");
                Ok(None)
            }
        },
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(Error::io("cannot read", path)(error)),
    }
}

/// Writes a file and waits until it is on disk.
pub(crate) fn write_json<T: Serialize>(path: &Path, value: &T) -> Result<(), Error> {
    let folder = path.parent().unwrap_or(Path::new("."));
    fs::create_dir_all(folder).map_err(Error::io("cannot create", folder))?;
    let mut file = tempfile::Builder::new()
        .prefix(TEMPORARY)
        .tempfile_in(folder)
        .map_err(Error::io("cannot write into", folder))?;
    let text = serde_json::to_vec_pretty(value).map_err(|error| Error::Usage(error.to_string()))?;
    let written = file.write_all(&text).and_then(|()| file.as_file().sync_all());
    written.map_err(Error::io("cannot write", path))?;
    file.persist(path).map_err(|error| Error::io("cannot name", path)(error.error))?;
    sync_folder(folder)
}
