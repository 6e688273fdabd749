//! What a channel asks of the place it lies in.

use super::error::Error;
use crate::time::Time;
use pulse_encoder::Progress;
use std::fs::File;
use std::path::Path;
use std::time::Duration;

/// A small file that was read whole.
#[derive(Debug, Clone)]
pub(crate) struct Small {
    pub(crate) bytes: Vec<u8>,
    /// What the place calls this version, if it does.
    pub(crate) tag: Option<Tag>,
    /// The server's clock, where it says.
    pub(crate) date: Option<Time>,
    /// Where changes of the head are told, where that is.
    pub(crate) events: Option<String>,
}

/// A version of a file, by the words of its place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) etag: Option<String>,
    pub(crate) version: Option<String>,
}

/// An answer to [`Place::read_small`].
#[derive(Debug)]
pub(crate) enum Read {
    Found(Small),
    /// As it was under the tag that was handed in.
    Unchanged,
    Absent,
}

/// A listed object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Listed {
    /// From the channel's folder.
    pub(crate) path: String,
    pub(crate) bytes: u64,
    pub(crate) modified: Time,
}

/// Which part of an object is wanted.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) path: &'a str,
    /// What is there already.
    pub(crate) from: u64,
    /// How long the object is.
    pub(crate) bytes: u64,
    /// An earlier answer was no good: go round caches.
    pub(crate) fresh: bool,
}

/// A folder, a bucket, a web server. Paths go from the channel's folder, with `/`.
pub(crate) trait Place: Send + Sync {
    /// Reads a file of at most `limit` bytes; `known` is the tag of what the caller has.
    fn read_small(&self, path: &str, limit: usize, known: Option<&Tag>, fresh: bool) -> Result<Read, Error>;

    /// Waits until the place tells at `events` that its head is another than `known`, at most for `limit`; whether it told.
    fn wait(&self, events: &str, known: Option<&Tag>, limit: Duration, progress: &dyn Progress) -> Result<bool, Error> {
        let _ = (events, known, limit, progress);
        Ok(false)
    }

    /// Appends what is missing of an object to `out`, one attempt; what came before an error is kept.
    fn download(&self, wanted: Wanted<'_>, out: &mut File, progress: &dyn Progress) -> Result<(), Error>;

    /// Writes the head if the one there is still `expected`. What an error leaves behind is for the caller to find out.
    fn put_head(&self, bytes: &[u8], expected: Option<&Small>) -> Result<(), Error>;

    /// Stores a file whole, or not at all.
    fn put_file(&self, path: &str, file: &Path, progress: &dyn Progress) -> Result<(), Error>;

    /// The length of an object, if it is there.
    fn size(&self, path: &str) -> Result<Option<u64>, Error>;

    /// Everything below a folder of the channel.
    fn list(&self, folder: &str) -> Result<Vec<Listed>, Error>;

    /// Deletes an object; one that is not there is no error.
    fn delete(&self, path: &str) -> Result<(), Error>;

    /// Uploads of this publisher that were never finished are given up; how many there were.
    fn abort_uploads(&self, dry_run: bool) -> Result<Vec<Listed>, Error>;
}
