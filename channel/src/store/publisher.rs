//! The publisher: checkpoints in, a channel out.
//!
//! It is a follower of itself: the base of the next patch is never the trainer's file but what the published patches give, on this disk and
//! under this publisher's name. So a trainer may delete or rewrite whatever it likes after a step, a patch has been applied once before anybody
//! else applies it, and a base that was lost is rebuilt from the channel like any receiver's.
//!
//! [`Publisher::prepare`] makes everything a step needs, on this disk; [`Publisher::commit`] uploads it and then replaces the head; only then
//! does the base move. Whatever ends the process in between, the same call again goes on from there.

use super::access::{ServedHead, Store, StoreOptions};
use super::clock::now;
use super::error::Error;
use super::keys::{SecretKey, verify};
use super::rebuild::rebuild;
use super::snapshot::Seen;
use super::state::{read_json, write_json};
use crate::entry::Entry;
use crate::head::Head;
use crate::hex::Hash;
use crate::trust::Mark;
use crate::{Held, Kind, SignedHead, TrustedHead, plan, trusted_key};
use pulse_encoder::{Cast, EncodeOptions, PackOptions, Progress, apply_file, encode_file, pack_file, unpack_file};
use pulse_format::{Fingerprint, Header, Step};
use serde::{Deserialize, Serialize};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// How a channel is published.
#[derive(Debug, Clone)]
pub struct PublishOptions {
    /// Where base, prepared objects and the high-water mark lie: a folder of this channel's own.
    pub state: PathBuf,
    /// Names the run in the first head; later it only has to be the same.
    pub run: Option<String>,
    /// Cast checkpoints before comparing.
    pub cast: Option<Cast>,
    /// An anchor at least every so many steps.
    pub anchor_every: u64,
    /// Seconds from a head to its expiry.
    pub expires: u64,
    /// How the channel is reached.
    pub store: StoreOptions,
}

impl PublishOptions {
    /// The usual ones: an anchor every 100 steps, heads that expire after a day.
    pub fn new(state: PathBuf) -> Self {
        let store = StoreOptions { uploads: Some(state.join("uploads")), ..StoreOptions::default() };
        Self { state, run: None, cast: None, anchor_every: 100, expires: 86_400, store }
    }
}

/// Publishes steps into one channel. Holds its state folder: a second publisher on it is told so.
#[derive(Debug)]
pub struct Publisher {
    pub(super) store: Store,
    pub(super) key: SecretKey,
    pub(super) options: PublishOptions,
    _lock: File,
}

/// A step that is ready to be committed. On disk; dropping it loses nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Prepared {
    /// The step.
    pub step: u64,
    /// What is to be uploaded.
    pub entries: Vec<Entry>,
    /// The step was published before, with the same weights; there is nothing to commit.
    pub done: bool,
    run: String,
    #[serde(with = "crate::entry::fingerprint")]
    fingerprint: Fingerprint,
    /// The head that this follows.
    after: Option<Hash>,
    /// The number that its own head will have.
    sequence: u64,
    seen: Seen,
}

/// The checkpoint that the next patch starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Base {
    pub(super) step: u64,
    #[serde(with = "crate::entry::fingerprint")]
    pub(super) fingerprint: Fingerprint,
}

/// The published weights of the newest step, and those of the step before; each beside a note of what it is.
pub(super) const BASE: &str = "base.safetensors";
pub(super) const BASE_NOTE: &str = "base.json";
pub(super) const PREVIOUS: &str = "previous.safetensors";
pub(super) const PREVIOUS_NOTE: &str = "previous.json";

impl Publisher {
    /// Opens a channel to publish into. `address` is a path, or a URL with `file`, `s3`, `gs`, `az` or `abfs`.
    ///
    /// # Errors
    /// [`Error::Busy`] if another publisher uses the same state, [`Error::Usage`], [`Error::Io`].
    pub fn open(address: &str, key: SecretKey, options: PublishOptions) -> Result<Self, Error> {
        let store = Store::open(address, options.store.clone())?;
        fs::create_dir_all(&options.state).map_err(Error::io("cannot create", &options.state))?;
        let path = options.state.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(Error::io("cannot open", &path))?;
        match lock.try_lock() {
            Ok(()) => Ok(Self { store, key, options, _lock: lock }),
            Err(fs::TryLockError::WouldBlock) => Err(Error::Busy { path: options.state }),
            Err(fs::TryLockError::Error(error)) => Err(Error::io("cannot lock", &path)(error)),
        }
    }

    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.options.state.join(name)
    }

    /// The head that is there, believed: it is this publisher's own, or the channel is somebody else's.
    pub(super) fn head(&self) -> Result<Option<(ServedHead, TrustedHead)>, Error> {
        let Some(served) = self.store.head()? else { return Ok(None) };
        let (path, pinned) = (self.path("mark.json"), self.key.public());
        let mark: Option<Mark> = read_json(&path)?;
        let head = SignedHead::parse(served.bytes())?.verify(trusted_key(&pinned, mark.as_ref()), verify)?;
        let advanced = head.advance(&pinned, mark.as_ref())?;
        if mark.as_ref() != Some(&advanced) {
            write_json(&path, &advanced)?;
        }
        Ok(Some((served, head)))
    }

    /// Makes what `step` needs from the checkpoint at `path`: a patch from the newest step, an anchor where one is due.
    ///
    /// # Errors
    /// [`Error::WentBack`], [`Error::Published`], and whatever is wrong with checkpoint, store or disk. The channel is as it was.
    pub fn prepare(&self, path: &Path, step: u64, progress: &dyn Progress) -> Result<Prepared, Error> {
        let seen = Seen::look(path)?;
        let head = self.head()?.map(|(_, head)| head);
        let run = self.run(head.as_ref().map(|head| &head.head))?;
        let note = self.path("prepared.json");
        let after = head.as_ref().map(|head| head.hash);
        if let Some(prepared) = read_json::<Prepared>(&note)?
            && (prepared.step, prepared.after, &prepared.seen) == (step, after, &seen)
        {
            return Ok(prepared);
        }
        let newest = head.as_ref().map(|head| (head.head.step, head.head.fingerprint));
        if let Some((newest, _)) = newest.filter(|(newest, _)| step < *newest) {
            return Err(Error::WentBack { step, newest, kept: step.saturating_sub(1) });
        }
        self.clear()?;
        let folder = self.path("prepared");
        fs::create_dir_all(&folder).map_err(Error::io("cannot create", &folder))?;
        let (entries, fingerprint) = match (&head, newest) {
            (Some(head), Some((newest, _))) if newest < step => self.update(path, step, &run, &head.head, progress)?,
            _ => self.anchor(path, step, &run, progress).map(|entry| (vec![entry.clone()], entry.fingerprint))?,
        };
        if Seen::look(path)? != seen {
            let why = format!("{} changed while it was read; publish it when it is complete", path.display());
            return Err(Error::Usage(why));
        }
        let done = newest.is_some_and(|(newest, _)| newest == step);
        if let Some((_, published)) = newest.filter(|(_, published)| done && *published != fingerprint) {
            let (published, found) = (published.to_string(), fingerprint.to_string());
            return Err(Error::Published { step, published, found });
        }
        let entries = if done { Vec::new() } else { entries };
        let sequence = head.as_ref().map_or(0, |head| head.head.sequence + 1);
        let prepared = Prepared { step, entries, done, run, fingerprint, after, sequence, seen };
        write_json(&note, &prepared)?;
        Ok(prepared)
    }

    fn run(&self, head: Option<&Head>) -> Result<String, Error> {
        match (head, &self.options.run) {
            (Some(head), Some(run)) if head.run != *run => {
                Err(crate::Error::WrongRun { found: head.run.clone(), expected: run.clone() }.into())
            }
            (Some(head), _) => Ok(head.run.clone()),
            (None, Some(run)) => Ok(run.clone()),
            (None, None) => Err(Error::Usage(format!(
                "{} has no channel yet: name the run to begin one (--run NAME)",
                self.store.shown()
            ))),
        }
    }

    /// The patch to `step`, an anchor if one is due, and the base of the next step beside them.
    fn update(
        &self,
        path: &Path,
        step: u64,
        run: &str,
        head: &Head,
        progress: &dyn Progress,
    ) -> Result<(Vec<Entry>, Fingerprint), Error> {
        let base = self.base(head, progress)?;
        let patch = self.path("prepared/patch");
        let options = EncodeOptions {
            cast: self.options.cast,
            run_id: run.to_string(),
            base_step: Step(head.step),
            target_step: Step(step),
            ..EncodeOptions::default()
        };
        let header = encode_file(&base, path, &patch, &options, progress)?;
        // What receivers will do, done once before any of them.
        apply_file(&patch, &base, &self.path("prepared/base.safetensors"), progress)?;
        let mut entries = vec![entry(Kind::Patch, Some(head.step), step, &header, &patch)?];
        if self.anchor_is_due(head, header.patch_bytes().get())? {
            let anchor = self.path("prepared/anchor");
            entries.insert(0, self.pack(path, step, run, &anchor, progress)?);
        }
        Ok((entries, header.target_fingerprint()))
    }

    /// The anchor that a channel begins with.
    fn anchor(&self, path: &Path, step: u64, run: &str, progress: &dyn Progress) -> Result<Entry, Error> {
        let anchor = self.path("prepared/anchor");
        let entry = self.pack(path, step, run, &anchor, progress)?;
        unpack_file(&anchor, &self.path("prepared/base.safetensors"), progress)?;
        Ok(entry)
    }

    fn pack(&self, path: &Path, step: u64, run: &str, out: &Path, progress: &dyn Progress) -> Result<Entry, Error> {
        let options = PackOptions {
            cast: self.options.cast,
            run_id: run.to_string(),
            step: Step(step),
            ..PackOptions::default()
        };
        let header = pack_file(path, out, &options, progress)?;
        entry(Kind::Anchor, None, step, &header, out)
    }

    /// Whether a joiner would fetch as much after its anchor as a new anchor costs, or anchors lie too far apart.
    fn anchor_is_due(&self, head: &Head, patch_bytes: u64) -> Result<bool, Error> {
        let path = plan(head, None, None, &|entry| entry.bytes, |page| self.store.page(page))?;
        let Some(anchor) = path.entries.first() else { return Ok(true) };
        let steps: u64 = path.entries.iter().skip(1).map(|_| 1).sum::<u64>() + 1;
        Ok(steps >= self.options.anchor_every || path.bytes - anchor.bytes + patch_bytes >= anchor.bytes)
    }

    /// The published weights of the head's step, on this disk: kept, left by a commit that was cut, or rebuilt from the channel.
    pub(super) fn base(&self, head: &Head, progress: &dyn Progress) -> Result<PathBuf, Error> {
        let path = self.path(BASE);
        let wanted = Base { step: head.step, fingerprint: head.fingerprint };
        if read_json::<Base>(&self.path(BASE_NOTE))? == Some(wanted) && path.is_file() {
            return Ok(path);
        }
        tracing::info!(step = head.step, "the base is not here; it is rebuilt from the channel");
        let held: Option<Held> = None;
        let way = plan(head, None, held, &|entry| entry.bytes, |page| self.store.page(page))?;
        rebuild(&self.store, &way, &self.path("rebuild"), &path, progress)?;
        write_json(&self.path(BASE_NOTE), &wanted)?;
        Ok(path)
    }

    /// Publishes what was prepared: objects first, then the head that names them, then the base moves.
    ///
    /// # Errors
    /// [`Error::Conflict`] if somebody else published in the meantime, [`Error::Swapped`] for an upload that did not arrive whole, and those of
    /// the place. The same call again goes on from there.
    pub fn commit(&self, prepared: &Prepared, progress: &dyn Progress) -> Result<(), Error> {
        if prepared.done {
            return self.clear();
        }
        for entry in &prepared.entries {
            self.store.store(&entry.path(), &self.path("prepared").join(entry.kind.name()), progress)?;
        }
        let before = self.head()?;
        if before.as_ref().map(|(_, head)| head.hash) != prepared.after {
            let found = before.as_ref().map_or(0, |(_, head)| head.head.sequence);
            if before.is_some_and(|(_, head)| {
                head.head.step == prepared.step && head.head.fingerprint == prepared.fingerprint
            }) {
                // This step's own head, of a commit that was cut before the base moved.
                return self.advance(prepared);
            }
            self.clear()?;
            return Err(Error::Conflict { expected: prepared.sequence, found });
        }
        let mut head = match &before {
            Some((_, before)) => self.next_head(before)?,
            None => self.first_head(&prepared.run, prepared.step, prepared.fingerprint),
        };
        (head.step, head.fingerprint) = (prepared.step, prepared.fingerprint);
        head.entries.extend(prepared.entries.iter().cloned());
        self.put_head(head, &self.key, before.as_ref().map(|(served, _)| served), progress)?;
        // A cleaning that began before this head may have taken an object that was there already.
        for entry in &prepared.entries {
            self.store.store(&entry.path(), &self.path("prepared").join(entry.kind.name()), progress)?;
        }
        self.advance(prepared)
    }

    /// Gives up what was prepared.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn rollback(&self, prepared: Prepared) -> Result<(), Error> {
        drop(prepared);
        self.clear()
    }

    /// The published step becomes the base of the next, and the base before it is kept for what folds over both.
    fn advance(&self, prepared: &Prepared) -> Result<(), Error> {
        let (next, base) = (self.path("prepared/base.safetensors"), self.path(BASE));
        let (note, previous_note) = (self.path(BASE_NOTE), self.path(PREVIOUS_NOTE));
        if next.is_file() {
            let before: Option<Base> = read_json(&note)?;
            // Without a note a base is rebuilt: at no instant does one stand beside other weights.
            remove(&previous_note)?;
            remove(&note)?;
            if let Some(before) = before.filter(|before| before.step < prepared.step && base.is_file()) {
                let previous = self.path(PREVIOUS);
                fs::rename(&base, &previous).map_err(Error::io("cannot name", &previous))?;
                write_json(&previous_note, &before)?;
            }
            fs::rename(&next, &base).map_err(Error::io("cannot name", &base))?;
            write_json(&note, &Base { step: prepared.step, fingerprint: prepared.fingerprint })?;
        }
        self.clear()
    }

    fn clear(&self) -> Result<(), Error> {
        remove(&self.path("prepared.json"))?;
        let folder = self.path("prepared");
        match fs::remove_dir_all(&folder) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(Error::io("cannot delete", &folder)(error))
            }
            _ => Ok(()),
        }
    }
}

pub(super) fn remove(path: &Path) -> Result<(), Error> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("cannot delete", path)(error)),
        _ => Ok(()),
    }
}

/// The entry of an object that was made.
pub(super) fn entry(kind: Kind, from: Option<u64>, to: u64, header: &Header, file: &Path) -> Result<Entry, Error> {
    Ok(Entry {
        kind,
        from,
        to,
        bytes: header.patch_bytes().get(),
        hash: super::access::file_hash(file)?,
        fingerprint: header.target_fingerprint(),
        created: now(),
    })
}
