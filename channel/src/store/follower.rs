//! The follower: a channel in, a checkpoint that is always some published step out.
//!
//! ```no_run
//! use pulse_channel::store::{FollowOptions, Follower};
//! # fn main() -> Result<(), pulse_channel::store::Error> {
//! # let pinned = "00".repeat(32).parse().unwrap();
//! let mut follower = Follower::open("https://example.org/run", pinned, "model".as_ref(), FollowOptions::default())?;
//! if let Some(update) = follower.update(&pulse_encoder::Silent)? {
//!     println!("step {}, {} bytes", update.step, update.bytes);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Each call is one look: a head that is believed, the cheapest path to it, its objects, one rename. Whatever ends the process in between, the
//! file is the old step or the new one, downloads go on where they were, and nothing that was not verified is kept.

use super::access::{ServedHead, Store, StoreOptions};
use super::clock::now;
use super::error::Error;
use super::holdings::Holdings;
use super::keys::verify;
use super::rebuild::apply_entry;
use super::state::{read_json, write_json};
use crate::plan::Path as Way;
use crate::{Clock, Entry, Hash, Held, Mark, PublicKey, Time, TrustedHead, plan, receive};
use pulse_encoder::Progress;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// How a channel is followed.
#[derive(Debug, Clone)]
pub struct FollowOptions {
    /// What the followed file is called.
    pub file: String,
    /// The step to stay at; else the newest.
    pub goal: Option<u64>,
    /// Replace a file of that name that the follower did not write.
    pub overwrite: bool,
    /// How the channel is reached.
    pub store: StoreOptions,
}

impl Default for FollowOptions {
    fn default() -> Self {
        Self { file: "model.safetensors".into(), goal: None, overwrite: false, store: StoreOptions::default() }
    }
}

/// Keeps one file at a channel's newest step. Holds the folder: a second follower on it is told so.
#[derive(Debug)]
pub struct Follower {
    store: Store,
    pinned: PublicKey,
    state: PathBuf,
    options: FollowOptions,
    holdings: Holdings,
    /// The newest head that was believed; never one that was not.
    believed: Option<(ServedHead, TrustedHead)>,
    /// Objects that did not come as announced: the planner goes round them until the next update.
    bad: BTreeSet<Hash>,
    _lock: File,
}

/// What an update did.
#[derive(Debug, Clone, PartialEq)]
pub struct Update {
    /// The step that was held, if any.
    pub from: Option<u64>,
    /// The step that is held now.
    pub step: u64,
    /// When that was published.
    pub published: Time,
    /// Objects applied.
    pub objects: usize,
    /// Bytes fetched.
    pub bytes: u64,
    /// Time spent on fetching.
    pub fetching: Duration,
    /// Time spent on applying and verifying.
    pub applying: Duration,
}

/// Where a follower stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The step that is held.
    pub held: Option<u64>,
    /// The newest step that is known.
    pub newest: Option<u64>,
    /// When the newest head that was believed expires.
    pub expires: Option<Time>,
}

/// The step that was told of last.
#[derive(Serialize, Deserialize)]
struct Told(Held);

/// How often an update is planned anew, because what was planned was not to be had, before it is left to the next look.
const PLANS: usize = 4;
/// What an object costs that is not to be had.
const OUT_OF_REACH: u64 = 1 << 53;

impl Follower {
    /// Opens a channel to follow into `folder`. `address` is as for [`Store::open`]; `pinned` is the publisher's public key. Nothing is asked of the channel yet.
    ///
    /// # Errors
    /// [`Error::Busy`] if another follower uses the folder, [`Error::Foreign`] if the followed file is somebody else's, [`Error::Usage`],
    /// [`Error::Io`].
    pub fn open(address: &str, pinned: PublicKey, folder: &Path, options: FollowOptions) -> Result<Self, Error> {
        let store = Store::open(address, options.store.clone())?;
        let state = folder.join(".pulse");
        fs::create_dir_all(state.join("parts")).map_err(Error::io("cannot create", &state))?;
        let path = state.join("lock");
        let lock = File::options().create(true).truncate(false).write(true).open(&path);
        let lock = lock.map_err(Error::io("cannot open", &path))?;
        match lock.try_lock() {
            Ok(()) => {}
            Err(fs::TryLockError::WouldBlock) => return Err(Error::Busy { path: folder.to_path_buf() }),
            Err(fs::TryLockError::Error(error)) => return Err(Error::io("cannot lock", &path)(error)),
        }
        let holdings = Holdings::new(folder.join(&options.file), &state);
        holdings.settle()?;
        if !options.overwrite && holdings.is_foreign()? {
            return Err(Error::Foreign { path: folder.join(&options.file) });
        }
        Ok(Self { store, pinned, state, options, holdings, believed: None, bad: BTreeSet::new(), _lock: lock })
    }

    /// The key that was pinned in `folder` before.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn pinned_in(folder: &Path) -> Result<Option<PublicKey>, Error> {
        let mark: Option<Mark> = read_json(&folder.join(".pulse/mark.json"))?;
        Ok(mark.map(|mark| mark.pinned))
    }

    /// Where this follower stands, by what it knows already.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn standing(&self) -> Result<Standing, Error> {
        let held = self.holdings.held()?.map(|held| held.step);
        let head = self.believed.as_ref().map(|(_, head)| &head.head);
        Ok(Standing { held, newest: head.map(|head| head.step), expires: head.map(|head| head.expires) })
    }

    /// The channel, for people.
    pub fn shown(&self) -> &str {
        self.store.shown()
    }

    /// The followed file.
    pub fn file(&self) -> &Path {
        self.holdings.file()
    }

    /// The step that is held, if nobody was told of it yet: what was said before the process ended counts.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn untold(&self) -> Result<Option<u64>, Error> {
        let told: Option<Held> = read_json::<Told>(&self.state.join("told.json"))?.map(|told| told.0);
        Ok(self.holdings.held()?.filter(|held| told != Some(*held)).map(|held| held.step))
    }

    /// Notes that whoever is to know of `step` knows.
    ///
    /// # Errors
    /// [`Error::Io`].
    pub fn tell(&self, step: u64) -> Result<(), Error> {
        match self.holdings.held()?.filter(|held| held.step == step) {
            Some(held) => write_json(&self.state.join("told.json"), &Told(held)),
            None => Ok(()),
        }
    }

    /// Looks for a newer head. The head is believed and remembered, or an error says why not, and then what was believed before stays.
    ///
    /// # Errors
    /// [`Error::Channel`], [`Error::NoHead`], and those of the place.
    pub fn look(&mut self) -> Result<&TrustedHead, Error> {
        let known = self.believed.as_ref().map(|(served, _)| served);
        let looked = self.store.newer_head(known).and_then(|served| match served {
            Some(served) => self.believe(served),
            None => Ok(()),
        });
        if looked.is_err() {
            // What was served may be a cache's: the next question goes round it.
            self.believed = self.believed.take().map(|(served, head)| (served.unconditional(), head));
        }
        looked?;
        let (_, head) =
            self.believed.as_ref().ok_or_else(|| Error::NoHead { place: self.store.shown().to_string() })?;
        head.check_time(&Clock { local: now(), server: None })?;
        Ok(head)
    }

    fn believe(&mut self, served: ServedHead) -> Result<(), Error> {
        let path = self.state.join("mark.json");
        let mark: Option<Mark> = read_json(&path)?;
        let clock = Clock { local: now(), server: served.date() };
        let (head, advanced) = receive(served.bytes(), &self.pinned, mark.as_ref(), &clock, verify)?;
        if mark.as_ref() != Some(&advanced) {
            write_json(&path, &advanced)?;
        }
        self.believed = Some((served, head));
        Ok(())
    }

    /// The cheapest path from what is held to the goal: what an update would fetch.
    ///
    /// # Errors
    /// As [`Follower::look`], and [`crate::Error::NoPath`].
    pub fn plan(&mut self) -> Result<Way, Error> {
        self.look()?;
        self.way()
    }

    fn way(&self) -> Result<Way, Error> {
        let Some((_, head)) = &self.believed else {
            return Err(Error::NoHead { place: self.store.shown().to_string() });
        };
        let missing = |entry: &Entry| match self.bad.contains(&entry.hash) {
            true => OUT_OF_REACH,
            false => entry.bytes - fs::metadata(self.part(entry)).map_or(0, |part| part.len()).min(entry.bytes),
        };
        plan(&head.head, self.options.goal, self.holdings.held()?, &missing, |page| self.store.page(page))
    }

    fn part(&self, entry: &Entry) -> PathBuf {
        self.state.join("parts").join(entry.hash.to_string())
    }

    /// Looks once, and brings the file to the newest step, or the goal. `None` if it holds that already.
    ///
    /// # Errors
    /// Any: the file is then as it was, and the next call goes on from there.
    pub fn update(&mut self, progress: &dyn Progress) -> Result<Option<Update>, Error> {
        self.bad.clear();
        self.look()?;
        let mut last = None;
        for _ in 0..PLANS {
            let held = self.holdings.held()?;
            let way = self.way()?;
            // What is not to be had is part of every path that is left.
            if let Some(error) = last.take().filter(|_| way.bytes >= OUT_OF_REACH) {
                return Err(error);
            }
            if way.entries.is_empty() {
                self.clean()?;
                return Ok(None);
            }
            match self.follow(&way, held, progress) {
                Ok(update) => return Ok(Some(update)),
                // Of this machine: another path would end the same way.
                Err(error) if matches!(error.code(), "io" | "interrupted" | "denied" | "usage") => return Err(error),
                Err(error) => {
                    self.reconsider(&error)?;
                    tracing::warn!(%error, "another path is tried");
                    last = Some(error);
                }
            }
        }
        Err(last.unwrap_or_else(|| Error::NoHead { place: self.store.shown().to_string() }))
    }

    /// What to know before the next plan, after `error`.
    fn reconsider(&mut self, error: &Error) -> Result<(), Error> {
        match error {
            // The publisher may have cleaned up since: look again, past caches.
            Error::Missing { .. } | Error::Swapped { .. } => {
                self.believed = self.believed.take().map(|(served, head)| (served.unconditional(), head));
                self.look().map(|_| ())
            }
            // The file is not what was noted, though nobody touched it: join anew.
            Error::Encoder(pulse_encoder::Error::Patch { .. }) if error.code() == "wrong_base" => {
                self.holdings.forget()
            }
            _ => Ok(()),
        }
    }

    fn follow(&mut self, way: &Way, held: Option<Held>, progress: &dyn Progress) -> Result<Update, Error> {
        let (mut fetching, mut applying) = (Duration::ZERO, Duration::ZERO);
        for entry in &way.entries {
            let began = Instant::now();
            progress.start(entry.bytes);
            let fetched = self.store.fetch(entry, &self.part(entry), progress);
            fetching += began.elapsed();
            if let Err(Error::Missing { .. } | Error::Swapped { .. } | Error::Store { .. }) = &fetched {
                self.bad.insert(entry.hash);
            }
            fetched?;
        }
        let next = self.holdings.next().to_path_buf();
        let mut base = self.holdings.file().to_path_buf();
        let mut goal = None;
        for entry in &way.entries {
            let (began, part) = (Instant::now(), self.part(entry));
            let applied = apply_entry(entry, &part, &base, &next, progress);
            applying += began.elapsed();
            applied.inspect_err(|error| {
                // Its hash is right, so it was published so; there may be another way.
                if !matches!(error.code(), "interrupted" | "io" | "wrong_base") {
                    self.bad.insert(entry.hash);
                }
            })?;
            base = next.clone();
            goal = Some(entry);
        }
        let Some(goal) = goal else { return Err(Error::Usage("an empty path was followed".into())) };
        let to = Held { step: goal.to, fingerprint: goal.fingerprint };
        self.holdings.swap(to)?;
        self.clean()?;
        let (from, objects) = (held.map(|held| held.step), way.entries.len());
        Ok(Update { from, step: to.step, published: goal.created, objects, bytes: way.bytes, fetching, applying })
    }

    /// Nothing that was fetched is of use any more: the goal is held.
    fn clean(&self) -> Result<(), Error> {
        let parts = self.state.join("parts");
        for part in fs::read_dir(&parts).map_err(Error::io("cannot list", &parts))? {
            let part = part.map_err(Error::io("cannot list", &parts))?.path();
            fs::remove_file(&part).map_err(Error::io("cannot delete", &part))?;
        }
        Ok(())
    }

    /// Waits for the next look: until the place tells of a new head, if it does, and else about `interval`, shorter by up to a half so that
    /// followers do not all come at once.
    pub fn wait(&self, interval: Duration, progress: &dyn Progress) {
        /// Also who is told looks by himself now and then: a proxy may keep a stream open that leads nowhere.
        const TOLD_LOOKS: u32 = 6;
        /// Nor is who is told wrongly, again and again, to ask without pause.
        const LEAST: Duration = Duration::from_secs(1);
        const STEP: Duration = Duration::from_millis(100);
        let began = Instant::now();
        let mut pause = super::clock::jittered(interval);
        if let Some((served, _)) = &self.believed {
            match self.store.wait(served, pause * TOLD_LOOKS, progress) {
                Ok(true) => pause = pause.min(LEAST),
                Ok(false) => {}
                Err(error) => tracing::debug!(%error, "nobody tells of heads; they are looked for"),
            }
        }
        let until = began + pause;
        while Instant::now() < until && !progress.is_cancelled() {
            std::thread::sleep(STEP.min(until.saturating_duration_since(Instant::now())));
        }
    }
}
