//! Publishing into a folder, and what a joiner gets from it.

use crate::place::{Place, key, safetensors, weights};
use pulse_channel::store::{PublishOptions, Publisher, SecretKey};
use pulse_channel::{TrustedHead, layout};
use pulse_encoder::Silent;
use std::fs;
use std::path::Path;

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
