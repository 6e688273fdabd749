//! Publishing into a folder, and what a joiner gets from it.

use pulse_channel::store::{Error, PublishOptions, Publisher, SecretKey, Store, StoreOptions, now, verify};
use pulse_channel::{Clock, Head, Held, TrustedHead, layout, plan, receive};
use pulse_encoder::{Silent, apply_file, unpack_file};
use std::fs;
use std::path::{Path, PathBuf};

struct Place {
    folder: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn channel(&self) -> String {
        self.path("channel").to_str().unwrap().to_string()
    }

    /// A publisher on this machine; another `state` is another machine.
    fn publisher(&self, state: &str) -> Result<Publisher, Error> {
        let options = PublishOptions { run: Some("a run".to_string()), ..PublishOptions::new(self.path(state)) };
        Publisher::open(&self.channel(), key(), options)
    }

    /// The checkpoint of `step`, as a trainer writes it.
    fn checkpoint(&self, step: u64) -> PathBuf {
        let path = self.path(&format!("step-{step}.safetensors"));
        fs::write(&path, safetensors(step)).unwrap();
        path
    }

    fn publish(&self, state: &str, step: u64) -> Result<(), Error> {
        let publisher = self.publisher(state)?;
        let prepared = publisher.prepare(&self.checkpoint(step), step, &Silent)?;
        publisher.commit(&prepared, &Silent)
    }

    fn store(&self) -> Store {
        Store::open(&self.channel(), StoreOptions::default()).unwrap()
    }

    fn head(&self) -> TrustedHead {
        let served = self.store().head().unwrap().unwrap();
        let clock = Clock { local: now(), server: None };
        receive(served.bytes(), &key().public(), None, &clock, verify).unwrap().0
    }

    /// Goes from `held`, or from nothing, to `goal` by the cheapest path; the weights, and the bytes fetched.
    fn join(&self, head: &Head, held: Option<u64>, goal: u64) -> (Vec<u8>, u64) {
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

fn key() -> SecretKey {
    SecretKey::from_seed([42; 32])
}

/// BF16 weights of which each step changes a few.
fn safetensors(step: u64) -> Vec<u8> {
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
fn weights(file: &[u8]) -> &[u8] {
    &file[file.len() - 8192..]
}

#[test]
fn every_step_of_a_long_run_can_be_joined() {
    let place = Place::new();
    for step in 0..=130 {
        place.publish("state", step).unwrap();
    }
    let TrustedHead { head, .. } = place.head();
    assert_eq!((head.step, head.sequence), (130, 130));
    assert!(head.history.is_some() && head.entries.len() <= layout::MAX_TAIL);
    for (held, goal) in
        [(None, 130), (None, 0), (None, 77), (Some(129), 130), (Some(99), 130), (Some(3), 130), (Some(3), 60)]
    {
        let (joined, _) = place.join(&head, held, goal);
        assert_eq!(weights(&joined), weights(&safetensors(goal)), "{goal} from {held:?}");
    }
}

#[test]
fn a_step_is_published_once_and_never_changes() {
    let place = Place::new();
    place.publish("state", 5).unwrap();
    place.publish("state", 6).unwrap();
    let before = place.head();
    // The same again is done already, on any machine.
    place.publish("state", 6).unwrap();
    place.publish("elsewhere", 6).unwrap();
    assert_eq!(place.head(), before);
    let publisher = place.publisher("state").unwrap();
    let other = place.checkpoint(9);
    assert_eq!(publisher.prepare(&other, 6, &Silent).unwrap_err().code(), "published");
    assert_eq!(publisher.prepare(&other, 4, &Silent).unwrap_err().code(), "went_back");
    assert_eq!(place.publisher("state").unwrap_err().code(), "busy");
    drop(publisher);
    // And the next step goes on as if nothing had been.
    place.publish("state", 7).unwrap();
    assert_eq!(weights(&place.join(&place.head().head, None, 7).0), weights(&safetensors(7)));
}

/// The process ends after `prepare`, after an upload, after the head; or its disk is lost.
#[test]
fn a_publisher_that_was_cut_goes_on() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let step_1 = place.checkpoint(1);
    let first = place.publisher("state").unwrap().prepare(&step_1, 1, &Silent).unwrap();
    assert_eq!(place.head().head.step, 0);
    let again = place.publisher("state").unwrap();
    let resumed = again.prepare(&step_1, 1, &Silent).unwrap();
    assert_eq!(resumed, first, "nothing is encoded twice");
    let kept = place.path("kept");
    copy(&place.path("state"), &kept);
    again.commit(&resumed, &Silent).unwrap();
    drop(again);
    // As it was when the head was there and the base had not moved: the same call finds its own head.
    fs::remove_dir_all(place.path("state")).unwrap();
    copy(&kept, &place.path("state"));
    let late = place.publisher("state").unwrap();
    late.commit(&resumed, &Silent).unwrap();
    drop(late);
    assert_eq!(place.head().head.sequence, 1);
    place.publish("state", 2).unwrap();
    // Another disk: the base comes from the channel.
    fs::remove_dir_all(place.path("state")).unwrap();
    place.publish("state", 3).unwrap();
    assert_eq!(weights(&place.join(&place.head().head, None, 3).0), weights(&safetensors(3)));
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let entry = entry.unwrap();
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), &target).unwrap();
        }
    }
}

#[test]
fn of_two_machines_one_wins_each_step_and_the_other_is_told() {
    let place = Place::new();
    place.publish("one", 0).unwrap();
    let (one, two) = (place.publisher("one").unwrap(), place.publisher("two").unwrap());
    let step_1 = place.checkpoint(1);
    let prepared = [one.prepare(&step_1, 1, &Silent).unwrap(), two.prepare(&place.checkpoint(2), 2, &Silent).unwrap()];
    one.commit(&prepared[0], &Silent).unwrap();
    assert_eq!(two.commit(&prepared[1], &Silent).unwrap_err().code(), "conflict");
    assert_eq!(place.head().head.step, 1);
    let prepared = two.prepare(&place.checkpoint(2), 2, &Silent).unwrap();
    two.commit(&prepared, &Silent).unwrap();
    assert_eq!(weights(&place.join(&place.head().head, Some(1), 2).0), weights(&safetensors(2)));
}

#[test]
fn a_channel_of_somebody_else_is_not_published_into() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let open = |key: SecretKey, run: &str| {
        let options = PublishOptions { run: Some(run.to_string()), ..PublishOptions::new(place.path("other")) };
        Publisher::open(&place.channel(), key, options).unwrap()
    };
    let step_1 = place.checkpoint(1);
    let stranger = open(SecretKey::from_seed([1; 32]), "a run").prepare(&step_1, 1, &Silent);
    assert_eq!(stranger.unwrap_err().code(), "key");
    assert_eq!(open(key(), "another").prepare(&step_1, 1, &Silent).unwrap_err().code(), "wrong_run");
    assert_eq!(place.head().head.step, 0);
}
