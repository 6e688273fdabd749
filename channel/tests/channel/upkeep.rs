//! What a publisher does besides steps: folds, renewal, another key, a run that went back, cleaning.

use crate::place::{Place, key, safetensors, weights};
use pulse_channel::store::{PublishOptions, Publisher, SecretKey, now, verify};
use pulse_channel::{Clock, Kind, Mark, Retention, receive};
use pulse_encoder::Silent;
use std::collections::BTreeSet;
use std::fs;

fn publish(place: &Place, publisher: &Publisher, step: u64) {
    let prepared = publisher.prepare(&place.checkpoint(step), step, &Silent).unwrap();
    publisher.commit(&prepared, &Silent).unwrap();
}

#[test]
fn folds_of_every_power_of_two_lead_where_the_steps_lead() {
    let place = Place::new();
    let publisher = place.publisher("state").unwrap();
    let mut folds = 0;
    for step in 0..=70 {
        publish(&place, &publisher, step);
        folds += publisher.fold(&Silent).unwrap();
        assert_eq!(publisher.fold(&Silent).unwrap(), 0, "once is enough");
    }
    drop(publisher);
    let head = place.head().head;
    let entries = place.entries(&head);
    let spans: BTreeSet<u64> =
        entries.iter().filter(|entry| entry.kind == Kind::Patch).map(|entry| entry.span()).collect();
    assert_eq!(spans, BTreeSet::from([1, 2, 4, 8, 16, 32]));
    assert_eq!(entries.iter().filter(|entry| entry.span() > 1).count(), folds);
    for entry in entries.iter().filter(|entry| entry.span() > 1) {
        let (from, to) = (entry.from.unwrap(), entry.to);
        let applied = place.apply(entry, &safetensors(from));
        assert_eq!(weights(&applied), weights(&safetensors(to)), "{from} to {to}");
    }
    // What everybody would pay is what the planner finds.
    let costs = pulse_channel::costs(&entries, 70, head.since);
    assert_eq!(place.join(&head, None, 70).1, costs.joining.unwrap());
    for held in [0, 1, 31, 38, 64, 69, 70] {
        let joining = costs.joining.unwrap();
        assert_eq!(place.join(&head, Some(held), 70).1, costs.held[&held].min(joining), "from {held}");
    }
    // Fewer bytes than step by step.
    let steps: u64 = entries.iter().filter(|entry| entry.span() == 1 && entry.to > 38).map(|entry| entry.bytes).sum();
    let (joined, bytes) = place.join(&head, Some(38), 70);
    assert_eq!(weights(&joined), weights(&safetensors(70)));
    assert!(2 * bytes < steps, "{bytes} of {steps}");
}

#[test]
fn folds_go_on_after_a_step_without_them_and_after_a_lost_disk() {
    let place = Place::new();
    for step in 0..40 {
        if step == 20 {
            fs::remove_dir_all(place.path("state")).unwrap();
        }
        let publisher = place.publisher("state").unwrap();
        publish(&place, &publisher, step);
        if step % 11 != 7 {
            publisher.fold(&Silent).unwrap();
        }
    }
    let head = place.head().head;
    let folds: Vec<_> = place.entries(&head).into_iter().filter(|entry| entry.span() > 1).collect();
    assert!(folds.iter().any(|fold| fold.to > 30) && folds.iter().any(|fold| fold.to < 20));
    for fold in folds {
        let applied = place.apply(&fold, &safetensors(fold.from.unwrap()));
        assert_eq!(weights(&applied), weights(&safetensors(fold.to)));
    }
}

#[test]
fn a_head_is_renewed_without_a_step() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let before = place.head();
    let expires = place.publisher("state").unwrap().renew(&Silent).unwrap();
    let after = place.head();
    assert_eq!((after.head.sequence, after.head.previous, after.head.expires), (1, Some(before.hash), expires));
    assert_eq!((after.head.step, after.head.entries), (before.head.step, before.head.entries));
    assert_eq!(place.publisher("elsewhere").unwrap().renew(&Silent).unwrap(), place.head().head.expires);
}

#[test]
fn a_receiver_follows_to_the_next_keys_and_not_back() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let keys: Vec<_> = (0..12).map(|seed| SecretKey::from_seed([seed + 100; 32])).collect();
    let open = |key: &SecretKey| {
        let options = PublishOptions::new(place.path("state"));
        Publisher::open(&place.channel(), key.clone(), options).unwrap()
    };
    let mut mark: Option<Mark> = None;
    let mut old = key();
    for (step, new) in (1..).zip(&keys) {
        let publisher = open(&old);
        publisher.rotate(new, &Silent).unwrap();
        assert_eq!(publisher.renew(&Silent).unwrap_err().code(), "usage", "the old key publishes nothing more");
        drop(publisher);
        publish(&place, &open(new), step);
        let served = place.store().head().unwrap().unwrap();
        let clock = Clock { local: now(), server: None };
        let (head, seen) = receive(served.bytes(), &key().public(), mark.as_ref(), &clock, verify).unwrap();
        assert_eq!((head.head.step, seen.key), (step, new.public()));
        mark = Some(seen);
        old = new.clone();
    }
}

#[test]
fn a_run_that_went_back_goes_on_from_there() {
    let place = Place::new();
    for step in 0..60 {
        place.publish("state", step).unwrap();
    }
    let publisher = place.publisher("state").unwrap();
    assert_eq!(publisher.rewind(77, &Silent).unwrap_err().code(), "usage");
    publisher.rewind(5, &Silent).unwrap();
    assert_eq!(weights(&place.join(&place.head().head, None, 5).0), weights(&safetensors(5)));
    // Other weights under a number that was given up.
    let other = place.path("other.safetensors");
    fs::write(&other, safetensors(90)).unwrap();
    let prepared = publisher.prepare(&other, 6, &Silent).unwrap();
    publisher.commit(&prepared, &Silent).unwrap();
    let head = place.head().head;
    assert_eq!((head.step, head.sequence), (6, 61));
    assert_eq!(weights(&place.join(&head, None, 6).0), weights(&safetensors(90)));
    assert_eq!(weights(&place.join(&head, Some(3), 6).0), weights(&safetensors(90)));
}

#[test]
fn cleaning_keeps_every_promise_and_respects_its_grace() {
    let place = Place::new();
    let options =
        || PublishOptions { run: Some("a run".into()), anchor_every: 10, ..PublishOptions::new(place.path("state")) };
    let publisher = Publisher::open(&place.channel(), key(), options()).unwrap();
    for step in 0..90 {
        publish(&place, &publisher, step);
        publisher.fold(&Silent).unwrap();
    }
    let old_head = place.head().head;
    let (stranger, orphan) = (
        place.path("channel/objects/notes.txt"),
        place.path("channel/objects").join(format!("3.patch.{}", "0".repeat(64))),
    );
    fs::write(&stranger, "mine").unwrap();
    fs::write(&orphan, "cut").unwrap();
    let files = || fs::read_dir(place.path("channel/objects")).unwrap().count();
    let (before, keep, day) = (files(), Retention { steps: 25 }, 86_400);
    // Within the grace nothing goes, but the promise is given up.
    let collected = publisher.collect(keep, day, false, &Silent).unwrap();
    assert!(collected.deleted.is_empty() && !collected.waiting.is_empty());
    assert_eq!(files(), before);
    let since = place.head().head.since;
    assert!((50..=65).contains(&since), "{since}");
    // Whoever is on the way by the old head arrives.
    assert_eq!(weights(&place.join(&old_head, Some(3), 80).0), weights(&safetensors(80)));
    let planned = publisher.collect(keep, 0, true, &Silent).unwrap();
    assert_eq!((files(), planned.since), (before, since));
    let done = publisher.collect(keep, 0, false, &Silent).unwrap();
    assert_eq!(done, planned, "a dry run says what will be done");
    assert!(done.waiting.is_empty() && stranger.exists() && !orphan.exists());
    assert_eq!(files(), before - done.deleted.iter().filter(|(path, _)| path.starts_with("objects/")).count());
    let head = place.head().head;
    for goal in since..=89 {
        assert_eq!(weights(&place.join(&head, None, goal).0), weights(&safetensors(goal)), "{goal}");
        assert_eq!(weights(&place.join(&head, Some(goal), 89).0), weights(&safetensors(89)), "from {goal}");
    }
    // The run goes on, and a lost disk is rebuilt from what is left.
    drop(publisher);
    fs::remove_dir_all(place.path("state")).unwrap();
    place.publish("state", 90).unwrap();
}

#[test]
fn a_publisher_that_slept_through_a_cleaning_names_nothing_that_is_gone() {
    let place = Place::new();
    place.publish("state", 0).unwrap();
    let (sleeper, cleaner) = (place.publisher("sleeper").unwrap(), place.publisher("state").unwrap());
    let prepared = sleeper.prepare(&place.checkpoint(1), 1, &Silent).unwrap();
    // Its uploads are done, its head is not.
    for entry in &prepared.entries {
        let file = place.path("sleeper/prepared").join(entry.kind.name());
        place.store().store(&entry.path(), &file, &Silent).unwrap();
    }
    let collected = cleaner.collect(Retention { steps: 1 }, 0, false, &Silent).unwrap();
    assert_eq!(collected.deleted.len(), prepared.entries.len());
    assert_eq!(sleeper.commit(&prepared, &Silent).unwrap_err().code(), "conflict");
    publish(&place, &sleeper, 1);
    assert_eq!(weights(&place.join(&place.head().head, None, 1).0), weights(&safetensors(1)));
}

#[cfg(unix)]
#[test]
fn nothing_is_deleted_on_a_failed_listing() {
    use std::os::unix::fs::PermissionsExt as _;
    let place = Place::new();
    for step in 0..30 {
        place.publish("state", step).unwrap();
    }
    let history = place.path("channel/history");
    fs::create_dir_all(&history).unwrap();
    // A file where a folder should be: listing fails for everybody, root too.
    let aside = place.path("aside");
    fs::rename(&history, &aside).unwrap();
    fs::write(&history, "").unwrap();
    fs::set_permissions(&history, fs::Permissions::from_mode(0o600)).unwrap();
    let (publisher, before) = (place.publisher("state").unwrap(), place.head());
    publisher.collect(Retention { steps: 1 }, 0, false, &Silent).unwrap_err();
    assert_eq!(place.head(), before);
    assert_eq!(weights(&place.join(&before.head, None, 29).0), weights(&safetensors(29)));
}
