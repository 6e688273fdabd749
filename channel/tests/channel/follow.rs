//! A follower: current, or what it was; and what it says of a channel that is not in order.

use crate::place::{Place, key, safetensors, weights};
use pulse_channel::store::{Error, FollowOptions, Follower, SecretKey, Update, now};
use pulse_channel::{Head, Kind, SignedHead, Time};
use pulse_encoder::{Progress, Silent};
use std::fs;
use std::sync::atomic::{AtomicUsize, Ordering};

fn open(place: &Place, goal: Option<u64>) -> Result<Follower, Error> {
    let options = FollowOptions { goal, ..FollowOptions::default() };
    Follower::open(&place.channel(), key().public(), &place.path("followed"), options)
}

/// A new process looks once.
fn update(place: &Place) -> Result<Option<Update>, Error> {
    open(place, None)?.update(&Silent)
}

fn held(place: &Place) -> Vec<u8> {
    fs::read(place.path("followed/model.safetensors")).unwrap()
}

/// Signs whatever head a test makes up.
fn serve(place: &Place, change: impl FnOnce(&mut Head)) {
    let mut head = place.head().head;
    change(&mut head);
    fs::write(place.path("channel/head.json"), SignedHead::write(&head, |message| key().sign(message)).unwrap())
        .unwrap();
}

#[test]
fn it_joins_follows_and_catches_up() {
    let place = Place::new();
    assert_eq!(update(&place).unwrap_err().code(), "no_head");
    place.publish("state", 0).unwrap();
    let joined = update(&place).unwrap().unwrap();
    assert_eq!((joined.from, joined.step, joined.objects), (None, 0, 1));
    assert_eq!(update(&place).unwrap(), None);
    for step in [1, 2, 3, 4, 9] {
        place.publish("state", step).unwrap();
        if step != 3 {
            let update = update(&place).unwrap().unwrap();
            assert_eq!((update.step, update.objects), (step, if step == 4 { 2 } else { 1 }));
            assert_eq!(weights(&held(&place)), weights(&safetensors(step)));
        }
    }
    assert_eq!(fs::read_dir(place.path("followed/.pulse/parts")).unwrap().count(), 0);
    // To an older step, and back to the newest.
    let at = |goal| open(&place, goal).unwrap().update(&Silent).unwrap().map(|update| (update.from, update.step));
    assert_eq!(at(Some(3)), Some((Some(9), 3)));
    assert_eq!(weights(&held(&place)), weights(&safetensors(3)));
    assert_eq!(at(None), Some((Some(3), 9)));
    assert_eq!(open(&place, Some(5)).unwrap().update(&Silent).unwrap_err().code(), "no_path");
}

#[test]
fn somebody_elses_file_is_not_touched() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    fs::create_dir_all(place.path("followed")).unwrap();
    let file = place.path("followed/model.safetensors");
    fs::write(&file, safetensors(7)).unwrap();
    assert_eq!(update(&place).unwrap_err().code(), "foreign");
    assert_eq!(held(&place), safetensors(7));
    let options = FollowOptions { overwrite: true, ..FollowOptions::default() };
    let overwriting = Follower::open(&place.channel(), key().public(), &place.path("followed"), options);
    overwriting.unwrap().update(&Silent).unwrap();
    assert_eq!(weights(&held(&place)), weights(&safetensors(0)));
    // Changed by somebody since.
    fs::write(&file, safetensors(7)).unwrap();
    assert_eq!(update(&place).unwrap_err().code(), "foreign");
    let _busy = open(&place, None);
    fs::remove_file(&file).unwrap();
    let _one = open(&place, None).unwrap();
    assert_eq!(open(&place, None).unwrap_err().code(), "busy");
}

#[test]
fn weights_that_changed_unseen_are_joined_anew() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    update(&place).unwrap();
    let file = place.path("followed/model.safetensors");
    let modified = fs::metadata(&file).unwrap().modified().unwrap();
    let mut bytes = held(&place);
    let last = bytes.len() - 1;
    bytes[last] ^= 0x40;
    fs::write(&file, bytes).unwrap();
    fs::File::options().append(true).open(&file).unwrap().set_modified(modified).unwrap();
    place.publish("state", 1).unwrap();
    let mut follower = open(&place, None).unwrap();
    let rejoined = follower.update(&Silent).unwrap().unwrap();
    assert_eq!((rejoined.from, rejoined.step), (None, 1));
    assert_eq!(weights(&held(&place)), weights(&safetensors(1)));
}

#[test]
fn heads_that_are_not_to_be_believed_change_nothing() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    place.publish("state", 1).unwrap();
    update(&place).unwrap();
    let (good, weights_before) = (fs::read(place.path("channel/head.json")).unwrap(), held(&place));
    place.publish("state", 2).unwrap();
    let newer = fs::read(place.path("channel/head.json")).unwrap();
    let mark = fs::read(place.path("followed/.pulse/mark.json")).unwrap();
    let expect = |code: &str| {
        assert_eq!(update(&place).unwrap_err().code(), code);
        assert_eq!(held(&place), weights_before, "{code}");
        assert_eq!(fs::read(place.path("followed/.pulse/mark.json")).unwrap(), mark, "{code}");
    };
    let put = |bytes: &[u8]| fs::write(place.path("channel/head.json"), bytes).unwrap();
    put(&newer[..newer.len() - 9]);
    expect("damaged");
    put(b"<!doctype html>");
    expect("damaged");
    put(String::from_utf8(newer.clone()).unwrap().replace("\"step\": 2", "\"step\": 3").as_bytes());
    put(&[&newer[..newer.len() - 2], b" \n"].concat());
    assert!(["damaged", "signature"].contains(&update(&place).unwrap_err().code()));
    put(&newer);
    serve(&place, |head| (head.created, head.expires) = (Time(0), Time(5)));
    expect("expired");
    put(&newer);
    serve(&place, |head| (head.created, head.expires) = (now().after(10_000), now().after(20_000)));
    expect("clock");
    put(&newer);
    serve(&place, |head| head.run = "another".into());
    expect("wrong_run");
    put(&newer);
    serve(&place, |head| head.previous = Some(pulse_channel::hash(b"else")));
    expect("fork");
    put(&good);
    serve(&place, |head| (head.sequence, head.previous) = (0, None));
    expect("rollback");
    // And then all is well.
    put(&newer);
    assert_eq!(update(&place).unwrap().unwrap().step, 2);
    put(&good);
    assert_eq!(update(&place).unwrap_err().code(), "rollback");
}

#[test]
fn a_key_that_was_pinned_otherwise_is_refused() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let other = SecretKey::from_seed([9; 32]).public();
    let mut follower =
        Follower::open(&place.channel(), other, &place.path("followed"), FollowOptions::default()).unwrap();
    assert_eq!(follower.update(&Silent).unwrap_err().code(), "key");
}

#[test]
fn a_bad_object_is_gone_round() {
    let place = Place::new();
    for step in 0..=8 {
        let publisher = place.publisher("state").unwrap();
        let prepared = publisher.prepare(&place.checkpoint(step), step, &Silent).unwrap();
        publisher.commit(&prepared, &Silent).unwrap();
        publisher.fold(&Silent).unwrap();
    }
    open(&place, Some(4)).unwrap().update(&Silent).unwrap();
    let head = place.head().head;
    let fold = place.entries(&head).into_iter().find(|entry| (entry.from, entry.to) == (Some(4), 8)).unwrap();
    let object = place.path("channel").join(fold.path());
    let bytes = fs::read(&object).unwrap();
    let damages: [&dyn Fn(); 3] =
        [&|| fs::remove_file(&object).unwrap(), &|| fs::write(&object, &bytes[1..]).unwrap(), &|| {
            fs::write(&object, vec![0; bytes.len()]).unwrap()
        }];
    for damage in damages {
        damage();
        open(&place, Some(4)).unwrap().update(&Silent).unwrap();
        let update = update(&place).unwrap().unwrap();
        assert!(update.step == 8 && update.bytes > fold.bytes, "the other way is longer");
        assert_eq!(weights(&held(&place)), weights(&safetensors(8)));
    }
    // With every other way gone too, it says so, and the weights stay.
    open(&place, Some(4)).unwrap().update(&Silent).unwrap();
    for entry in place.entries(&head).iter().filter(|entry| entry.to > 4 || entry.kind == Kind::Anchor) {
        let _ = fs::remove_file(place.path("channel").join(entry.path()));
    }
    assert_eq!(update(&place).unwrap_err().code(), "missing");
    assert_eq!(weights(&held(&place)), weights(&safetensors(4)));
}

/// Gives up when it has been asked so many times.
struct GivesUp(AtomicUsize);

impl Progress for GivesUp {
    fn is_cancelled(&self) -> bool {
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }
}

#[test]
fn given_up_at_any_question_it_goes_on() {
    let place = Place::new();
    for step in 0..4 {
        place.publish("state", step).unwrap();
    }
    for patience in 0..1000 {
        let _ = fs::remove_dir_all(place.path("followed"));
        open(&place, Some(1)).unwrap().update(&Silent).unwrap();
        let stopped = open(&place, None).unwrap().update(&GivesUp(AtomicUsize::new(patience)));
        if stopped.is_ok() {
            assert!(patience > 3);
            return;
        }
        assert_eq!(weights(&held(&place)), weights(&safetensors(1)));
        assert_eq!(update(&place).unwrap().unwrap().step, 3);
        assert_eq!(weights(&held(&place)), weights(&safetensors(3)));
    }
    panic!("it never ended");
}
