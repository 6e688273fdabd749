//! One way to a channel, wherever it lies.

use super::clock::backoff;
use super::cloud::Cloud;
use super::error::Error;
use super::folder::Folder;
use super::location::Location;
use super::place::{Place, Read, Small, Tag, Wanted};
use super::web::Web;
use crate::entry::Entry;
use crate::hex::{Hash, hash};
use crate::layout::{HEAD, MAX_HEAD_BYTES};
use crate::page::PageRef;
use pulse_encoder::Progress;
use std::fs::{File, OpenOptions};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How a channel is reached.
#[derive(Debug, Clone)]
pub struct StoreOptions {
    /// How long a place may be silent before a request counts as failed. There is no limit on a transfer that goes on.
    pub idle: Duration,
    /// How many failures in a row, without a byte between them, end a transfer.
    pub attempts: u32,
    /// Where unfinished uploads are noted, so that the next run goes on with them; without it they begin anew.
    pub uploads: Option<PathBuf>,
}

impl Default for StoreOptions {
    fn default() -> Self {
        Self { idle: Duration::from_secs(60), attempts: 6, uploads: None }
    }
}

/// A channel's folder, bucket or address.
pub struct Store {
    place: Box<dyn Place>,
    shown: String,
    attempts: u32,
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Store at {}", self.shown)
    }
}

/// The head as it was served, not yet believed.
#[derive(Debug, Clone)]
pub struct ServedHead(Small);

impl ServedHead {
    /// Its bytes, for [`crate::receive`].
    pub fn bytes(&self) -> &[u8] {
        &self.0.bytes
    }

    /// The server's time, where it says.
    pub fn date(&self) -> Option<crate::Time> {
        self.0.date
    }

    /// The same head, forgotten by what a cache might know it: asking for a newer one brings whatever is there.
    pub(crate) fn unconditional(mut self) -> Self {
        self.0.tag = None;
        self
    }

    /// Where the server tells of new heads, relative to the head's address, if it does.
    pub fn events(&self) -> Option<&str> {
        self.0.events.as_deref()
    }
}

impl Store {
    /// Opens a path, or a URL with `file`, `s3`, `gs`, `az`, `abfs`, `http` or `https`. Credentials come from the environment, in each
    /// cloud's standard way. Nothing is asked of the place yet.
    ///
    /// # Errors
    /// [`Error::Usage`] for an address that is none of these, or lacks what its cloud needs.
    pub fn open(address: &str, options: StoreOptions) -> Result<Self, Error> {
        let location = Location::parse(address)?;
        let shown = location.shown();
        let runtime = || {
            let mut builder = tokio::runtime::Builder::new_multi_thread();
            let runtime = builder.worker_threads(2).enable_all().build();
            runtime
                .map(Arc::new)
                .map_err(|error| Error::Usage(format!("cannot start threads for the network: {error}")))
        };
        let StoreOptions { idle, attempts, uploads } = options;
        let place: Box<dyn Place> = match location {
            Location::Folder(path) => Box::new(Folder::new(path)),
            Location::Cloud(url) => Box::new(Cloud::new(runtime()?, &url, shown.clone(), idle, uploads)?),
            Location::Web(url) => Box::new(Web::new(runtime()?, url, shown.clone(), idle)?),
        };
        Ok(Self { place, shown, attempts })
    }

    /// The address for people: no credentials.
    pub fn shown(&self) -> &str {
        &self.shown
    }

    /// The head that is served now; `None` if the place says that there is none.
    ///
    /// # Errors
    /// [`Error::Denied`], [`Error::Store`] and others of the place: none of them means that there is no head.
    pub fn head(&self) -> Result<Option<ServedHead>, Error> {
        match self.place.read_small(HEAD, MAX_HEAD_BYTES, None, true)? {
            Read::Found(small) => Ok(Some(ServedHead(small))),
            Read::Unchanged | Read::Absent => Ok(None),
        }
    }

    /// The head, if it is another than `known`, which was verified. `None` if it is the same.
    ///
    /// # Errors
    /// [`Error::NoHead`] if it is gone, and those of the place.
    pub fn newer_head(&self, known: Option<&ServedHead>) -> Result<Option<ServedHead>, Error> {
        let tag: Option<&Tag> = known.and_then(|known| known.0.tag.as_ref());
        match self.place.read_small(HEAD, MAX_HEAD_BYTES, tag, tag.is_none())? {
            Read::Found(small) if known.is_some_and(|known| known.0.bytes == small.bytes) => Ok(None),
            Read::Found(small) => Ok(Some(ServedHead(small))),
            Read::Unchanged => Ok(None),
            Read::Absent => Err(Error::NoHead { place: self.shown.clone() }),
        }
    }

    /// Waits until the place tells of another head than `known`, at most for `limit`; whether it told. What was told is still to be looked
    /// at.
    ///
    /// # Errors
    /// Those of the place, also when the stream ends with an error.
    pub fn wait(&self, known: &ServedHead, limit: Duration, progress: &dyn Progress) -> Result<bool, Error> {
        let name = |events: &&str| events.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_/.".contains(&byte));
        // A name in the channel's own folder: nobody is to be sent elsewhere.
        match known.events().filter(name).filter(|events| !events.starts_with('/') && !events.contains("..")) {
            Some(events) => self.place.wait(events, known.0.tag.as_ref(), limit, progress),
            None => Ok(false),
        }
    }

    /// A history page, whose hash is right.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Swapped`], and those of the place.
    pub fn page(&self, page: &PageRef) -> Result<Vec<u8>, Error> {
        let (path, limit) = (page.path(), page.bytes as usize);
        let mut last = Error::Missing { place: format!("{}/{path}", self.shown) };
        // Once more past all caches: one of them may remember that it was not there.
        for fresh in [false, true] {
            match self.place.read_small(&path, limit, None, fresh)? {
                Read::Found(small) if hash(&small.bytes) == page.hash => return Ok(small.bytes),
                Read::Found(_) => {
                    let why = "its bytes have another hash".to_string();
                    last = Error::Swapped { place: format!("{}/{path}", self.shown), why };
                }
                Read::Unchanged | Read::Absent => {}
            }
        }
        Err(last)
    }

    /// Fetches an object into the file `part`, whose bytes from an earlier attempt are kept; the result is whole and its hash is right.
    ///
    /// # Errors
    /// [`Error::Missing`], [`Error::Swapped`], [`Error::Interrupted`], and those of the place after `attempts` failures in a row.
    pub fn fetch(&self, entry: &Entry, part: &Path, progress: &dyn Progress) -> Result<(), Error> {
        let path = entry.path();
        let out = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(part);
        let out = &mut out.map_err(Error::io("cannot open", part))?;
        let length = |out: &mut File| out.seek(SeekFrom::End(0)).map_err(Error::io("cannot read", part));
        let (mut failures, mut swapped, mut missed) = (0, 0, false);
        loop {
            let from = length(out)?;
            let wanted = Wanted { path: &path, from, bytes: entry.bytes, fresh: failures > 0 || swapped > 0 || missed };
            let result = match from.cmp(&entry.bytes) {
                std::cmp::Ordering::Less => self.place.download(wanted, out, progress),
                _ => Ok(()),
            };
            let now = length(out)?;
            match result {
                Ok(()) if now >= entry.bytes && file_hash(part)? == entry.hash => return Ok(()),
                Ok(()) if now < entry.bytes && now > from => failures = 0,
                Ok(()) if now < entry.bytes => failures += 1,
                // Damaged on the way, or by an earlier attempt: once more from the beginning, past caches.
                Ok(()) | Err(Error::Swapped { .. }) if swapped == 0 => {
                    swapped = 1;
                    out.set_len(0).map_err(Error::io("cannot empty", part))?;
                    continue;
                }
                Ok(()) => {
                    out.set_len(0).map_err(Error::io("cannot empty", part))?;
                    let why = "its bytes have another hash".to_string();
                    return Err(Error::Swapped { place: format!("{}/{path}", self.shown), why });
                }
                Err(error @ (Error::Interrupted | Error::Io { .. } | Error::Denied { .. } | Error::Swapped { .. })) => {
                    return Err(error);
                }
                // A cache on the way may remember that it was not there.
                Err(Error::Missing { .. }) if !missed => {
                    missed = true;
                    continue;
                }
                Err(error @ Error::Missing { .. }) => return Err(error),
                Err(error) => {
                    failures = if now > from { 1 } else { failures + 1 };
                    tracing::warn!(%error, attempt = failures, "a transfer was cut");
                    if failures >= self.attempts {
                        return Err(error);
                    }
                }
            }
            if failures >= self.attempts {
                let why = "the place sends nothing more".to_string();
                return Err(Error::Store { action: "fetch", place: format!("{}/{path}", self.shown), why });
            }
            std::thread::sleep(backoff(failures.max(1)));
        }
    }

    /// Stores `file` under the name of an object or page, unless it is there in this length already, and makes sure that it is.
    ///
    /// # Errors
    /// [`Error::Swapped`] if the place has another length than was sent, and those of the place.
    pub fn store(&self, path: &str, file: &Path, progress: &dyn Progress) -> Result<(), Error> {
        let bytes = std::fs::metadata(file).map_err(Error::io("cannot look at", file))?.len();
        if self.place.size(path)? == Some(bytes) {
            return Ok(());
        }
        self.place.put_file(path, file, progress)?;
        match self.place.size(path)? {
            Some(there) if there == bytes => Ok(()),
            there => {
                let why = there.map_or("it is not there after its upload".into(), |there| {
                    format!("{there} of {bytes} bytes are there")
                });
                Err(Error::Swapped { place: format!("{}/{path}", self.shown), why })
            }
        }
    }

    /// Replaces the head that was read as `expected`. Whatever the place answers, what counts is which head is there afterwards.
    ///
    /// # Errors
    /// [`Error::Conflict`] if another head is there now; else what the place answered.
    pub fn replace_head(&self, bytes: &[u8], expected: Option<&ServedHead>) -> Result<(), Error> {
        let put = self.place.put_head(bytes, expected.map(|head| &head.0));
        match (self.head(), put) {
            (Ok(Some(there)), _) if there.bytes() == bytes => Ok(()),
            (Ok(there), put) => {
                let same = there.as_ref().map(ServedHead::bytes) == expected.map(ServedHead::bytes);
                let number =
                    |head: &ServedHead| crate::SignedHead::parse(head.bytes()).map(|head| head.unverified().sequence);
                match (same, put, there.as_ref().map(number)) {
                    (false, _, Some(Ok(found))) => {
                        let expected = expected.map(number).and_then(Result::ok).map_or(0, |before| before + 1);
                        Err(Error::Conflict { expected, found })
                    }
                    (_, Err(error), _) => Err(error),
                    (_, Ok(()), _) => {
                        let why = "it was accepted, and is not there".to_string();
                        Err(Error::Store { action: "write", place: format!("{}/{HEAD}", self.shown), why })
                    }
                }
            }
            (Err(error), _) => Err(error),
        }
    }

    /// Objects and pages that are there: path from the channel's folder, and bytes.
    ///
    /// # Errors
    /// Those of the place; a listing is whole or fails.
    pub fn list(&self, folder: &str) -> Result<Vec<(String, u64, crate::Time)>, Error> {
        let listed = self.place.list(folder)?;
        Ok(listed.into_iter().map(|listed| (listed.path, listed.bytes, listed.modified)).collect())
    }

    /// Deletes an object; one that is not there is no error.
    ///
    /// # Errors
    /// Those of the place.
    pub fn delete(&self, path: &str) -> Result<(), Error> {
        self.place.delete(path)
    }

    /// Gives up this publisher's unfinished uploads, or, in a dry run, only names them: path, bytes, when begun.
    ///
    /// # Errors
    /// Those of the place.
    pub fn abort_uploads(&self, dry_run: bool) -> Result<Vec<(String, u64, crate::Time)>, Error> {
        let uploads = self.place.abort_uploads(dry_run)?;
        Ok(uploads.into_iter().map(|upload| (upload.path, upload.bytes, upload.modified)).collect())
    }
}

pub(crate) fn file_hash(path: &Path) -> Result<Hash, Error> {
    let mut file = File::open(path).map_err(Error::io("cannot open", path))?;
    let mut hasher = blake3::Hasher::new();
    let mut piece = vec![0; 1 << 20];
    loop {
        match file.read(&mut piece).map_err(Error::io("cannot read", path))? {
            0 => return Ok(crate::hex::Hex(*hasher.finalize().as_bytes())),
            read => hasher.update(piece.get(..read).unwrap_or_default()),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Kind, Time};
    use pulse_encoder::Silent;

    fn entry(bytes: &[u8]) -> Entry {
        let fingerprint = pulse_format::Fingerprint { a: 1, b: 2 };
        let length = bytes.len() as u64;
        Entry { kind: Kind::Anchor, from: None, to: 3, bytes: length, hash: hash(bytes), fingerprint, created: Time(0) }
    }

    fn quick() -> StoreOptions {
        StoreOptions { attempts: 1, ..StoreOptions::default() }
    }

    #[test]
    fn objects_come_back_from_any_partial_download() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap(), quick()).unwrap();
        let bytes: Vec<u8> = (0..100_000u32).flat_map(u32::to_le_bytes).collect();
        let (source, part) = (folder.path().join("source"), folder.path().join("part"));
        std::fs::write(&source, &bytes).unwrap();
        let entry = entry(&bytes);
        store.store(&entry.path(), &source, &Silent).unwrap();
        // Nothing, a beginning, a beginning with a wrong byte, a tail of zeros, too much.
        let mut wrong = bytes[..1000].to_vec();
        wrong[7] ^= 1;
        let mut zeros = bytes.clone();
        zeros[300_000..].fill(0);
        for before in
            [Vec::new(), bytes[..12_345].to_vec(), wrong, zeros, [&bytes[..], b"more"].concat(), bytes.clone()]
        {
            std::fs::write(&part, &before).unwrap();
            store.fetch(&entry, &part, &Silent).unwrap();
            assert_eq!(std::fs::read(&part).unwrap(), bytes, "from {} bytes", before.len());
        }
    }

    #[test]
    fn objects_that_are_not_what_was_announced_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let store = Store::open(folder.path().to_str().unwrap(), quick()).unwrap();
        let (entry, part) = (entry(b"what was announced"), folder.path().join("part"));
        assert_eq!(store.fetch(&entry, &part, &Silent).unwrap_err().code(), "missing");
        let path = folder.path().join(entry.path());
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, b"what was Announced").unwrap();
        assert_eq!(store.fetch(&entry, &part, &Silent).unwrap_err().code(), "swapped");
        std::fs::write(&path, b"what was").unwrap();
        assert_eq!(store.fetch(&entry, &part, &Silent).unwrap_err().code(), "swapped", "shorter");
    }

    /// Many publishers at once, each from the head that it read: every number has one winner, and no head is lost.
    #[test]
    fn of_publishers_that_race_one_wins() {
        let folder = tempfile::tempdir().unwrap();
        let address = folder.path().to_str().unwrap();
        let open = || Store::open(address, quick()).unwrap();
        assert!(open().head().unwrap().is_none());
        let mut replaced: Vec<Option<Vec<u8>>> = std::thread::scope(|scope| {
            let racer = |name: usize| {
                let store = open();
                move || {
                    let replace = |attempt: usize| {
                        let before = store.head().unwrap();
                        let won = store.replace_head(format!("{name} {attempt}").as_bytes(), before.as_ref()).is_ok();
                        won.then(|| before.map(|head| head.bytes().to_vec()))
                    };
                    (0..50).filter_map(replace).collect::<Vec<_>>()
                }
            };
            let racers: Vec<_> = (0..4).map(|name| scope.spawn(racer(name))).collect();
            racers.into_iter().flat_map(|racer| racer.join().unwrap()).collect()
        });
        // Each head was replaced by one winner, and all but the last were.
        let won = replaced.len();
        replaced.sort();
        replaced.dedup();
        assert_eq!(replaced.len(), won);
        assert!(won >= 50, "{won}");
        let names: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
        assert!(names.iter().all(|name| name == HEAD || name == ".lock"), "{names:?}");
    }
}
