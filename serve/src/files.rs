//! What of the folder is served: a channel's files by their names, and nothing that lies elsewhere.

use pulse_channel::layout::{HEAD, HISTORY, MAX_HEAD_BYTES, OBJECTS};
use pulse_channel::{Hash, object_path, parse_object_name};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::fs::File;
use tokio::io::AsyncReadExt as _;

/// A channel's folder.
#[derive(Debug, Clone)]
pub(crate) struct Folder(Arc<PathBuf>);

/// An immutable file, open.
pub(crate) struct Object {
    pub(crate) file: File,
    pub(crate) bytes: u64,
    /// By its name.
    pub(crate) hash: Hash,
}

impl Folder {
    /// # Errors
    /// If it is not there or no folder.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        match path.is_dir() {
            true => Ok(Self(Arc::new(path))),
            false => Err(io::Error::other("it is not a folder")),
        }
    }

    /// The head's bytes, at most one more than it may have.
    pub(crate) async fn head(&self) -> io::Result<Option<Vec<u8>>> {
        let Some(file) = self.file(HEAD).await? else { return Ok(None) };
        let mut bytes = Vec::new();
        file.take(MAX_HEAD_BYTES as u64 + 1).read_to_end(&mut bytes).await?;
        Ok(Some(bytes))
    }

    /// The object that is called so; `None` for names that are no object's.
    pub(crate) async fn object(&self, name: &str) -> io::Result<Option<Object>> {
        let Some((to, kind, hash)) = parse_object_name(name) else { return Ok(None) };
        // The name is written anew: one object has one name.
        self.immutable(&object_path(to, &kind, &hash), name, OBJECTS, hash).await
    }

    /// The history page that is called so.
    pub(crate) async fn page(&self, name: &str) -> io::Result<Option<Object>> {
        let Some(Ok(hash)) = name.strip_suffix(".json").map(str::parse::<Hash>) else { return Ok(None) };
        self.immutable(&format!("{HISTORY}{hash}.json"), name, HISTORY, hash).await
    }

    async fn immutable(&self, path: &str, name: &str, folder: &str, hash: Hash) -> io::Result<Option<Object>> {
        if path.strip_prefix(folder) != Some(name) {
            return Ok(None);
        }
        let Some(file) = self.file(path).await? else { return Ok(None) };
        let bytes = file.metadata().await?.len();
        Ok(Some(Object { file, bytes, hash }))
    }

    /// Opens a file; `None` if it is not there, no file, or a link that leads out of the folder.
    async fn file(&self, path: &str) -> io::Result<Option<File>> {
        let absent = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        };
        let real = match tokio::fs::canonicalize(self.0.join(path)).await {
            Ok(real) if real.starts_with(&*self.0) => real,
            Ok(_) => {
                tracing::warn!(path, "a link leads out of the folder and is not served");
                return Ok(None);
            }
            Err(error) => return absent(error),
        };
        match File::open(real).await {
            Ok(file) if file.metadata().await?.is_file() => Ok(Some(file)),
            Ok(_) => Ok(None),
            Err(error) => absent(error),
        }
    }
}
