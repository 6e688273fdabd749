//! How the bytes are chopped on their way must not matter to what a reader makes of them.

use crate::support::cells::{Cells, Pair, Random};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, push_all};
use pulse_encoder::Zstd;
use pulse_format::{Error, Event, Header, Limits, Reader};

/// Everything a reader says, with the payloads.
#[derive(Debug, PartialEq, Eq)]
struct Transcript {
    header: Option<Header>,
    segments: Vec<(usize, Vec<u8>)>,
    end: Result<(), Error>,
}

fn transcript(patch: &[u8], next_size: impl FnMut() -> usize) -> Transcript {
    let (mut header, mut segments) = (None, Vec::new());
    let end = push_all(patch, next_size, Zstd::default(), |seen, index, payload| {
        match index {
            None => header = Some(seen.clone()),
            Some(index) => segments.push((index, payload.to_vec())),
        }
        Ok(())
    });
    Transcript { header, segments, end }
}

/// Whole, byte by byte, in steps, and at random: all the same. Returns it.
fn check(patch: &[u8]) -> Transcript {
    let whole = transcript(patch, || usize::MAX);
    for size in [1, 2, 7, 51, 52, 53, 1000] {
        assert_eq!(transcript(patch, || size), whole, "{size} bytes at a time");
    }
    for seed in 0..20 {
        let mut random = Random::new(seed);
        assert_eq!(transcript(patch, || 1 + random.below(300)), whole, "seed {seed}");
    }
    whole
}

#[test]
fn a_sound_patch_reads_the_same() {
    let pair = Pair::mixed();
    let patch = pair.encode(&Pair::mixed_options());
    let read = check(&patch);
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    assert_eq!(read.end, Ok(()));
    let with_bytes = header.segments.iter().enumerate().filter(|(_, segment)| segment.bytes > 0);
    let expected: Vec<(usize, Vec<u8>)> = with_bytes
        .map(|(index, segment)| (index, patch[segment.offset.get() as usize..][..segment.bytes as usize].to_vec()))
        .collect();
    assert_eq!(read.segments, expected);
    assert_eq!(read.header, Some(header));
    for codec_pushed in [
        apply_pushed(&patch, || 1, &pair.base_cells(), &Ruzstd),
        apply_pushed(&patch, || 1, &pair.base_cells(), &Zstd::default()),
    ] {
        assert_eq!(codec_pushed, Ok(pair.target_cells()));
    }
}

#[test]
fn a_patch_without_segments_reads_the_same() {
    assert_eq!(check(&Pair::new([]).encode(&Pair::mixed_options())).end, Ok(()));
}

#[test]
fn a_damaged_patch_fails_the_same() {
    let patch = Pair::mixed().encode(&Pair::mixed_options());
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let payload = header.payload_start.get() as usize;
    for byte in [0, 3, 8, 10, 13, 17, 30, 52, 80, payload, payload + 30, patch.len() - 1] {
        let mut broken = patch.clone();
        broken[byte] ^= 0x10;
        let code = check(&broken).end.unwrap_err().code();
        assert!(["damaged", "unsupported", "limit", "truncated"].contains(&code), "byte {byte}: {code}");
    }
    let trailing = [patch.as_slice(), &[0]].concat();
    assert_eq!(check(&trailing).end.unwrap_err().code(), "damaged");
    for length in [0, 1, 8, 20, 51, 52, 53, payload - 1, payload, payload + 1, patch.len() - 1] {
        assert_eq!(check(&patch[..length]).end.unwrap_err().code(), "truncated", "{length} bytes");
    }
}

#[test]
fn an_error_stays() {
    let mut patch = Pair::mixed().encode(&Pair::mixed_options());
    *patch.last_mut().unwrap() ^= 1;
    let mut reader = Reader::new(Zstd::default(), Limits::default());
    let mut used = 0;
    let error = loop {
        let mut unread = &patch[used..];
        match reader.push(&mut unread) {
            Ok(Some(Event::End) | None) => panic!("the damage went unnoticed"),
            Ok(Some(_)) => used = patch.len() - unread.len(),
            Err(error) => break error,
        }
    };
    let mut more: &[u8] = &[1, 2, 3];
    assert_eq!(reader.push(&mut more), Err(error.clone()));
    assert_eq!(reader.finish(), Err(error));
}

#[test]
fn limits_hold_before_anything_is_read() {
    let patch = Pair::mixed().encode(&Pair::mixed_options());
    let limited = |change: fn(&mut Limits)| {
        let mut limits = Limits::default();
        change(&mut limits);
        let mut reader = Reader::new(Zstd::default(), limits);
        reader.push(&mut patch.as_slice()).unwrap_err().to_string()
    };
    assert!(limited(|limits| limits.header_bytes = 100).ends_with("over the limit of 100"));
    assert_eq!(limited(|limits| limits.tensors = 5), "number of tensors is 6, over the limit of 5");
    assert!(limited(|limits| limits.segments = 2).starts_with("number of segments is "));
    assert!(limited(|limits| limits.segment_bytes = 10).starts_with("bytes of a segment is "));
}

/// Cells that a test of another module relies on: a base is only read where a segment says so.
#[test]
fn a_base_without_the_tensors_is_refused() {
    let patch = Pair::mixed().encode(&Pair::mixed_options());
    assert_eq!(apply_pushed(&patch, || 99, &Cells::new(), &Zstd::default()).unwrap_err().code(), "misuse");
}
