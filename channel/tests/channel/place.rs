//! A channel in a folder of its own, a trainer whose weights are known, and a joiner.

use pulse_channel::store::{Error, PublishOptions, Publisher, SecretKey, Store, StoreOptions, now, verify};
use pulse_channel::{Clock, Entry, Head, Held, Page, TrustedHead, plan, receive};
use pulse_encoder::{Silent, apply_file, unpack_file};
use std::fs;
use std::path::PathBuf;

pub(crate) struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    pub(crate) fn channel(&self) -> String {
        self.path("channel").to_str().unwrap().to_string()
    }

    /// A publisher on this machine; another `state` is another machine.
    pub(crate) fn publisher(&self, state: &str) -> Result<Publisher, Error> {
        let options = PublishOptions { run: Some("a run".to_string()), ..PublishOptions::new(self.path(state)) };
        Publisher::open(&self.channel(), key(), options)
    }

    /// The checkpoint of `step`, as a trainer writes it.
    pub(crate) fn checkpoint(&self, step: u64) -> PathBuf {
        let path = self.path(&format!("step-{step}.safetensors"));
        fs::write(&path, safetensors(step)).unwrap();
        path
    }

    pub(crate) fn publish(&self, state: &str, step: u64) -> Result<(), Error> {
        let publisher = self.publisher(state)?;
        let prepared = publisher.prepare(&self.checkpoint(step), step, &Silent)?;
        publisher.commit(&prepared, &Silent)
    }

    pub(crate) fn store(&self) -> Store {
        Store::open(&self.channel(), StoreOptions::default()).unwrap()
    }

    pub(crate) fn head(&self) -> TrustedHead {
        let served = self.store().head().unwrap().unwrap();
        let clock = Clock { local: now(), server: None };
        receive(served.bytes(), &key().public(), None, &clock, verify).unwrap().0
    }

    /// Everything that the channel lists.
    pub(crate) fn entries(&self, head: &Head) -> Vec<Entry> {
        let (mut pages, mut next) = (Vec::new(), head.history);
        while let Some(page) = next {
            let read = Page::parse(&self.store().page(&page).unwrap(), &page, &head.run).unwrap();
            pages.push(read.entries);
            next = read.before;
        }
        pages.into_iter().rev().flatten().chain(head.entries.iter().cloned()).collect()
    }

    /// What `entry` makes of `base`.
    pub(crate) fn apply(&self, entry: &Entry, base: &[u8]) -> Vec<u8> {
        let (file, part) = (self.path("applied.safetensors"), self.path("one part"));
        fs::write(&file, base).unwrap();
        let _ = fs::remove_file(&part);
        self.store().fetch(entry, &part, &Silent).unwrap();
        apply_file(&part, &file, &file, &Silent).unwrap();
        fs::read(&file).unwrap()
    }

    /// Goes from `held`, or from nothing, to `goal` by the cheapest path; the weights, and the bytes fetched.
    pub(crate) fn join(&self, head: &Head, held: Option<u64>, goal: u64) -> (Vec<u8>, u64) {
        let (store, file, part) = (self.store(), self.path("joined.safetensors"), self.path("part"));
        let from = held.map(|step| {
            fs::write(&file, safetensors(step)).unwrap();
            let pack = pulse_encoder::PackOptions::default();
            let header = pulse_encoder::pack_file(&file, &self.path("packed"), &pack, &Silent).unwrap();
            Held { step, fingerprint: header.target_fingerprint() }
        });
        let path = plan(head, Some(goal), from, &|entry| entry.bytes, |page| store.page(page)).unwrap();
        for entry in &path.entries {
            let _ = fs::remove_file(&part);
            store.fetch(entry, &part, &Silent).unwrap();
            match entry.from {
                None => drop(unpack_file(&part, &file, &Silent).unwrap()),
                Some(_) => drop(apply_file(&part, &file, &file, &Silent).unwrap()),
            }
        }
        (fs::read(&file).unwrap(), path.bytes)
    }
}

pub(crate) fn key() -> SecretKey {
    SecretKey::from_seed([42; 32])
}

/// BF16 weights of which each step changes a few.
pub(crate) fn safetensors(step: u64) -> Vec<u8> {
    const CELLS: u64 = 4096;
    let header = format!(r#"{{"w":{{"dtype":"BF16","shape":[{CELLS}],"data_offsets":[0,{}]}}}}"#, 2 * CELLS);
    let header = format!("{header:<120}");
    let cell = |place: u64| {
        let changes = (1..=step).filter(|step| (place * 7919 + step * 104_729).is_multiple_of(97)).count() as u64;
        (0x3c00 + (place * 31) % 512 + changes) as u16
    };
    let cells = (0..CELLS).flat_map(|place| cell(place).to_le_bytes());
    (header.len() as u64).to_le_bytes().into_iter().chain(header.into_bytes()).chain(cells).collect()
}

/// The weights alone: an unpacked file may have another header.
pub(crate) fn weights(file: &[u8]) -> &[u8] {
    &file[file.len() - 8192..]
}
