//! Every way of leading a receiver aside, and what it answers.

use crate::support::{KEY, NOW, anchor, head, patch, sign, signed, verify};
use pulse_channel::{Clock, Error, Head, Hex, Mark, PublicKey, Rotation, Time, TrustedHead, hash, receive};

const SECOND: PublicKey = Hex([8; 32]);
const THIRD: PublicKey = Hex([9; 32]);

type Edit = fn(&mut Head);

fn at(time: Time) -> Clock {
    Clock { local: time, server: None }
}

fn get(bytes: &[u8], pinned: &PublicKey, mark: Option<&Mark>) -> Result<(TrustedHead, Mark), Error> {
    receive(bytes, pinned, mark, &at(NOW), verify)
}

fn code<T: std::fmt::Debug>(result: Result<T, Error>) -> &'static str {
    result.unwrap_err().code()
}

/// The head after `bytes`.
fn following(before: &Head, bytes: &[u8]) -> Head {
    let next = before.sequence + 1;
    let mut entries = before.entries.clone();
    entries.push(patch(before.step, before.step + 1, 10));
    Head {
        sequence: next,
        previous: Some(hash(bytes)),
        rotations: before.rotations.clone(),
        key: before.key,
        ..head(entries)
    }
}

/// `head` signed by `key`, to which the key before hands over.
fn handed(head: Head, to: PublicKey) -> Head {
    let (from, sequence) = (head.key, head.sequence);
    let signature = sign(&from, &Rotation::message(&from, &to, sequence, &head.run));
    let mut rotations = head.rotations.clone();
    rotations.push(Rotation { from, to, sequence, signature });
    Head { key: to, rotations, ..head }
}

#[test]
fn heads_follow_one_another() {
    let first = head(vec![anchor(0, 1000)]);
    let first_bytes = signed(&first);
    let (_, mark) = get(&first_bytes, &KEY, None).unwrap();
    // The same again is nothing new, and nothing wrong.
    assert_eq!(get(&first_bytes, &KEY, Some(&mark)).unwrap().1, mark);
    let second = signed(&following(&first, &first_bytes));
    let (_, second_mark) = get(&second, &KEY, Some(&mark)).unwrap();
    assert_eq!(second_mark.sequence, 1);
    assert_eq!(code(get(&first_bytes, &KEY, Some(&second_mark))), "rollback");
}

#[test]
fn a_fork_is_seen_at_the_same_number_and_at_the_next() {
    let first = head(vec![anchor(0, 1000)]);
    let (_, mark) = get(&signed(&first), &KEY, None).unwrap();
    let other = signed(&head(vec![anchor(0, 999)]));
    assert_eq!(code(get(&other, &KEY, Some(&mark))), "fork");
    assert_eq!(code(get(&signed(&following(&first, &other)), &KEY, Some(&mark))), "fork");
}

#[test]
fn another_run_another_key_and_no_signature() {
    let first = head(vec![anchor(0, 1000)]);
    let (_, mark) = get(&signed(&first), &KEY, None).unwrap();
    let other = Head { run: "another".to_string(), ..first.clone() };
    assert_eq!(code(get(&signed(&other), &KEY, Some(&mark))), "wrong_run");
    let stranger = Head { key: SECOND, ..first.clone() };
    assert_eq!(code(get(&signed(&stranger), &KEY, None)), "key");
    let forged = pulse_channel::SignedHead::write(&first, |message| sign(&SECOND, message)).unwrap();
    assert_eq!(code(get(&forged, &KEY, None)), "signature");
}

#[test]
fn a_key_hands_over_to_the_next() {
    let first = head(vec![anchor(0, 1000)]);
    let first_bytes = signed(&first);
    let (_, mark) = get(&first_bytes, &KEY, None).unwrap();
    let second = handed(following(&first, &first_bytes), SECOND);
    let second_bytes = signed(&second);
    let third = handed(following(&second, &second_bytes), THIRD);
    let third_bytes = signed(&third);
    for mark in [None, Some(&mark)] {
        assert_eq!(get(&second_bytes, &KEY, mark).unwrap().1.key, SECOND);
        assert_eq!(get(&third_bytes, &KEY, mark).unwrap().1.key, THIRD);
    }
    // A newcomer pins whichever key it was told.
    assert!(get(&third_bytes, &SECOND, None).is_ok());
    assert!(get(&third_bytes, &THIRD, None).is_ok());
    assert_eq!(code(get(&second_bytes, &THIRD, None)), "key");

    // Whoever stole the first key later leads nobody back who has seen the second.
    let (_, seen) = get(&second_bytes, &KEY, Some(&mark)).unwrap();
    let stolen = Head { sequence: 7, previous: Some(Hex([1; 32])), ..first.clone() };
    assert_eq!(code(get(&signed(&stolen), &KEY, Some(&seen))), "key");
    let stolen = handed(stolen, THIRD);
    assert_eq!(code(get(&signed(&stolen), &KEY, Some(&seen))), "key");
    // Who pins a key anew decides anew, but does not go back.
    let anew = Head { key: THIRD, rotations: Vec::new(), ..stolen.clone() };
    assert!(get(&signed(&anew), &THIRD, Some(&seen)).is_ok());
    assert_eq!(code(get(&first_bytes, &THIRD, Some(&seen))), "key");
    let back = Head { key: THIRD, ..first };
    assert_eq!(code(get(&signed(&back), &THIRD, Some(&seen))), "rollback");
}

#[test]
fn a_rotation_that_was_not_signed_for_this_is_refused() {
    let first = head(vec![anchor(0, 1000)]);
    let bytes = signed(&first);
    let right = handed(following(&first, &bytes), SECOND);
    assert!(get(&signed(&right), &KEY, None).is_ok());
    let edits: [(&str, Edit); 4] = [
        ("signature", |head| head.rotations[0].sequence = 0),
        ("signature", |head| head.rotations[0].signature.0[0] ^= 1),
        ("signature", |head| head.run = "another".to_string()),
        ("damaged", |head| head.rotations[0].sequence = head.sequence + 1),
    ];
    for (expected, edit) in edits {
        let mut head = right.clone();
        edit(&mut head);
        assert_eq!(code(get(&signed(&head), &KEY, None)), expected);
    }
}

/// 1970, ten days and ten years off either way; then set right.
#[test]
fn clocks_are_named_and_leave_no_trace() {
    let bytes = signed(&head(vec![anchor(0, 1000)]));
    let day = 86_400;
    let clocks = [
        (Time(0), "clock"),
        (Time(NOW.0 - 10 * day), "clock"),
        (NOW.after(10 * day), "expired"),
        (NOW.after(3650 * day), "expired"),
    ];
    for (local, expected) in clocks {
        for server in [None, Some(NOW)] {
            let error = receive(&bytes, &KEY, None, &Clock { local, server }, verify).unwrap_err();
            assert_eq!(error.code(), expected);
            let text = error.to_string();
            assert!(text.contains(&local.to_string()), "{text}");
            assert_eq!(text.contains("set this machine's clock"), server.is_some(), "{text}");
        }
    }
    let (trusted, mark) = get(&bytes, &KEY, None).unwrap();
    // The server's clock agrees with this one: the head is stale, and nobody's clock is wrong.
    let late = NOW.after(2 * day);
    let error = trusted.check_time(&Clock { local: late, server: Some(late) }).unwrap_err();
    assert_eq!(error.code(), "expired");
    assert!(!error.to_string().contains("set this"), "{error}");
    assert!(!serde_json::to_string(&mark).unwrap().contains("20"), "a time is kept: {mark:?}");
    // A few minutes are nobody's fault.
    assert!(trusted.check_time(&at(Time(NOW.0 - 300))).is_ok());
}

#[test]
fn a_mark_reads_as_it_was_written() {
    let (_, mark) = get(&signed(&head(vec![anchor(0, 1000)])), &KEY, None).unwrap();
    let text = serde_json::to_string(&mark).unwrap();
    assert_eq!(serde_json::from_str::<Mark>(&text).unwrap(), mark);
}
