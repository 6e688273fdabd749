//! What is a head, and what is not.

use crate::support::{KEY, anchor, head, patch, sign, signed, verify};
use pulse_channel::{Error, Head, Hex, Kind, SignedHead, layout};

type Edit = fn(&mut Head);

fn parse(bytes: &[u8]) -> Result<Head, Error> {
    Ok(SignedHead::parse(bytes)?.verify(&KEY, verify)?.head)
}

#[test]
fn a_head_reads_as_it_was_written() {
    let head = head(vec![anchor(0, 1000), patch(0, 1, 10), patch(1, 2, 10), patch(0, 2, 15)]);
    let bytes = signed(&head);
    assert_eq!(parse(&bytes), Ok(head));
    let text = String::from_utf8(bytes).unwrap();
    assert!(text.contains("\n  \"sequence\": 0,\n"), "{text}");
    assert!(text.contains("\n    {\"kind\":\"patch\",\"from\":1,\"to\":2,"), "{text}");
}

#[test]
fn every_flipped_bit_and_every_prefix_is_refused() {
    let bytes = signed(&head(vec![anchor(0, 1000), patch(0, 1, 10)]));
    for place in 0..bytes.len() {
        assert!(parse(&bytes[..place]).is_err(), "the first {place} bytes");
        for bit in 0..8 {
            let mut flipped = bytes.clone();
            flipped[place] ^= 1 << bit;
            assert!(parse(&flipped).is_err(), "bit {bit} of byte {place}");
        }
    }
}

#[test]
fn kinds_and_fields_of_later_versions_are_passed_over() {
    let index = crate::support::entry(Kind::Other("index".to_string()), None, 1, 77);
    let head = head(vec![anchor(0, 1000), patch(0, 1, 10), index]);
    assert_eq!(parse(&signed(&head)), Ok(head.clone()));
    let body = String::from_utf8(head.to_body().unwrap()).unwrap().replacen('{', "{\"later\": [1, {}],", 1);
    assert_eq!(Head::parse(body.as_bytes()), Ok(head));
}

#[test]
fn a_later_format_is_unsupported_and_no_more_is_read() {
    let error = Head::parse(br#"{"format": "pulse channel 2", "run": 7}"#).unwrap_err();
    assert_eq!(error, Error::Unsupported { found: "pulse channel 2".to_string() });
}

/// Each rule once; the head is right but for it.
#[test]
fn a_head_that_breaks_a_rule_is_refused() {
    let right = head(vec![anchor(0, 1000), patch(0, 1, 10), patch(1, 2, 10)]);
    right.to_body().unwrap();
    let breaks: [(&str, Edit); 16] = [
        ("over 2^53", |head| head.entries[0].bytes = 1 << 53),
        ("over 2^53", |head| head.sequence = 1 << 53),
        ("the run's name", |head| head.run.clear()),
        ("the run's name", |head| head.run = "x".repeat(257)),
        ("the run's name", |head| head.run = "a\nb".to_string()),
        ("the first head", |head| head.previous = Some(Hex([1; 32]))),
        ("the first head", |head| head.sequence = 1),
        ("expires before", |head| head.expires.0 = head.created.0 - 1),
        ("promises nothing", |head| head.since = 3),
        ("out of order", |head| head.entries.swap(0, 2)),
        ("out of order", |head| head.step = 1),
        ("nothing leads to its newest", |head| head.step = 3),
        ("another fingerprint", |head| head.fingerprint.a ^= 1),
        ("says where it starts", |head| head.entries[0].from = Some(0)),
        ("does not say where", |head| head.entries[2].from = None),
        ("does not lead forward", |head| head.entries[2].from = Some(2)),
    ];
    for (expected, break_it) in breaks {
        let mut head = right.clone();
        break_it(&mut head);
        let text = serde_json::to_string(&head).unwrap();
        let error = Head::parse(text.as_bytes()).unwrap_err().to_string();
        assert!(error.contains(expected), "{expected}: {error}");
        assert!(head.to_body().is_err(), "{expected} is written");
    }
    let mut head = right;
    head.entries.push(patch(0, 2, 20));
    head.entries[2].fingerprint.a ^= 1;
    head.fingerprint = head.entries[2].fingerprint;
    assert!(head.to_body().is_err(), "two fingerprints of a step");
}

#[test]
fn what_is_no_head_is_named() {
    let cases: [(&[u8], &str); 5] = [
        (b"", "empty"),
        (b"\x1f\x8b\x08\0", "gzip"),
        (b"<!DOCTYPE html>\n<html>", "web page"),
        (b"<?xml version=\"1.0\"?>\n<Error/>", "XML"),
        (b"{\"format\": \"pulse channel 1\"}\n", "key and signature"),
    ];
    for (bytes, expected) in cases {
        let error = SignedHead::parse(bytes).unwrap_err();
        assert_eq!(error.code(), "damaged");
        assert!(error.to_string().contains(expected), "{error}");
    }
    let long = vec![b' '; layout::MAX_HEAD_BYTES + 1];
    assert_eq!(SignedHead::parse(&long).unwrap_err().code(), "limit");
}

/// Names as long, numbers as large, keys as many as they may be.
#[test]
fn the_longest_head_stays_below_its_limit() {
    let largest = layout::MAX_NUMBER;
    let mut entries = Vec::new();
    for place in 0.. {
        let kind = Kind::Other("k".repeat(layout::MAX_KIND_BYTES));
        let mut entry = crate::support::entry(kind, Some(largest), largest, largest - place);
        entry.fingerprint = crate::support::fingerprint(largest);
        entries.push(entry);
        let bytes: usize = entries.iter().map(|entry| serde_json::to_string(entry).unwrap().len() + 6).sum();
        if bytes > layout::MAX_TAIL_BYTES {
            entries.pop();
            break;
        }
    }
    let mut head = head(entries);
    // A character that JSON escapes as six.
    head.run = "\u{2028}".repeat(85);
    head.sequence = largest;
    head.previous = Some(Hex([0xaa; 32]));
    head.history = Some(pulse_channel::PageRef { hash: Hex([1; 32]), bytes: 1 << 18, entries: largest, to: largest });
    let rotation = pulse_channel::Rotation { from: KEY, to: KEY, sequence: largest, signature: sign(&KEY, b"") };
    head.rotations = vec![rotation; layout::MAX_ROTATIONS];
    assert!(signed(&head).len() <= layout::MAX_HEAD_BYTES);
}
