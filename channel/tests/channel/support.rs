//! Made-up channels.

use pulse_channel::{Entry, Hash, Head, Kind, Page, PageRef, PublicKey, Signature, SignedHead, Time, hash, layout};
use pulse_format::Fingerprint;
use std::collections::HashMap;

/// When every made-up thing happens.
pub(crate) const NOW: Time = Time(1_796_532_113);
pub(crate) const KEY: PublicKey = pulse_channel::Hex([7; 32]);

/// A signature that only says who made it over what: who may sign is what is tested here, not how.
pub(crate) fn sign(key: &PublicKey, message: &[u8]) -> Signature {
    let half: Hash = hash(&[&key.0, message].concat());
    pulse_channel::Hex([half.0, half.0].concat().try_into().unwrap())
}

pub(crate) fn verify(check: &pulse_channel::Check) -> bool {
    sign(&check.key, &check.message) == check.signature
}

pub(crate) fn fingerprint(step: u64) -> Fingerprint {
    Fingerprint { a: step as u32, b: 0x5eed }
}

pub(crate) fn entry(kind: Kind, from: Option<u64>, to: u64, bytes: u64) -> Entry {
    let hash = hash(format!("{kind} {from:?} {to} {bytes}").as_bytes());
    Entry { kind, from, to, bytes, hash, fingerprint: fingerprint(to), created: NOW }
}

pub(crate) fn anchor(to: u64, bytes: u64) -> Entry {
    entry(Kind::Anchor, None, to, bytes)
}

pub(crate) fn patch(from: u64, to: u64, bytes: u64) -> Entry {
    entry(Kind::Patch, Some(from), to, bytes)
}

pub(crate) fn head(entries: Vec<Entry>) -> Head {
    let step = entries.last().map_or(0, |entry| entry.to);
    Head {
        format: layout::HEAD_FORMAT.to_string(),
        run: "a run".to_string(),
        sequence: 0,
        previous: None,
        created: NOW,
        expires: NOW.after(86_400),
        since: 0,
        step,
        fingerprint: fingerprint(step),
        key: KEY,
        rotations: Vec::new(),
        history: None,
        entries,
    }
}

pub(crate) fn signed(head: &Head) -> Vec<u8> {
    SignedHead::write(head, |message| sign(&head.key, message)).unwrap()
}

/// A head and its pages, the older entries paged out as a publisher does.
pub(crate) struct Made {
    pub(crate) head: Head,
    pub(crate) pages: HashMap<Hash, Vec<u8>>,
}

pub(crate) fn made(mut entries: Vec<Entry>) -> Made {
    entries.sort_by_key(|entry| entry.to);
    let mut pages = HashMap::new();
    let mut history: Option<PageRef> = None;
    let tail = entries.split_off(entries.len().saturating_sub(layout::KEPT_TAIL));
    for written in Page::append("a run", None, entries).unwrap() {
        history = Some(written.reference);
        pages.insert(written.reference.hash, written.bytes);
    }
    Made { head: Head { history, ..head(tail) }, pages }
}
