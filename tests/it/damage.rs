//! Every prefix, every bit flip, and every bit flip behind a hash made right: an error with a type, or the right cells.

use crate::support::cells::{Cells, Pair};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, apply_whole};
use crate::support::raw::{RawPatch, open, sign, store};
use pulse_encoder::{PatchFile, Silent, Zstd, verify_file};
use pulse_format::{Error, Header, Limits, Profile};

fn flip(bytes: &[u8], bit: usize) -> Vec<u8> {
    let mut flipped = bytes.to_vec();
    flipped[bit / 8] ^= 1 << (bit % 8);
    flipped
}

/// What changed bytes may lead to: an error, or the target's cells where the changed bits mean nothing to the cells.
fn check_survived(result: &Result<Cells, Error>, target: &Cells, what: &str) {
    if let Ok(cells) = result {
        assert!(cells == target, "{what}: wrong cells were taken for right");
    }
}

#[test]
fn every_prefix_is_truncated() {
    let pair = Pair::mixed();
    let patch = pair.encode(&Pair::mixed_options());
    let base = pair.base_cells();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prefix");
    for length in 0..patch.len() {
        let prefix = &patch[..length];
        let pushed = apply_pushed(prefix, || 64, &base, &Zstd::default()).unwrap_err();
        let whole = apply_whole(prefix, &base, &Zstd::default()).unwrap_err();
        std::fs::write(&path, prefix).unwrap();
        let file = PatchFile::open(&path).unwrap_err();
        assert_eq!([pushed.code(), whole.code(), file.code()], ["truncated"; 3], "{length} bytes: {pushed}");
        if let Error::Truncated { missing, .. } = pushed {
            assert!(missing > 0 && missing <= (patch.len() - length) as u64, "{length} bytes: {missing} missing");
        }
    }
}

#[test]
fn every_bit_flip_is_rejected() {
    let pair = Pair::mixed();
    let patch = pair.encode(&Pair::mixed_options());
    let base = pair.base_cells();
    for bit in 0..patch.len() * 8 {
        let flipped = flip(&patch, bit);
        let error = apply_whole(&flipped, &base, &Zstd::default()).expect_err("a hash covers every byte");
        // The hash catches it before anything is made of the cells.
        let codes = ["damaged", "unsupported", "truncated", "limit"];
        assert!(codes.contains(&error.code()), "bit {bit}: {error}");
        let pushed = apply_pushed(&flipped, || 4096, &base, &Zstd::default()).unwrap_err();
        assert_eq!(pushed.code(), error.code(), "bit {bit}: {pushed}");
    }
}

#[test]
fn every_flip_of_the_header_behind_its_hash_is_survived() {
    let pair = Pair::mixed();
    let patch = pair.encode(&Pair::mixed_options());
    let (base, target) = (pair.base_cells(), pair.target_cells());
    let (raw, payload) = open(&patch, &Zstd::default());
    assert_eq!(apply_whole(&sign(&store(&raw), raw.len() as u64, &payload), &base, &Ruzstd), Ok(target.clone()));
    let mut accepted = 0;
    for bit in 0..raw.len() * 8 {
        let flipped = sign(&store(&flip(&raw, bit)), raw.len() as u64, &payload);
        let whole = apply_whole(&flipped, &base, &Zstd::default());
        check_survived(&whole, &target, &format!("bit {bit} of the header"));
        accepted += usize::from(whole.is_ok());
        let pushed = apply_pushed(&flipped, || usize::MAX, &base, &Zstd::default());
        check_survived(&pushed, &target, &format!("bit {bit} of the header, pushed"));
    }
    // Free are the run id, the steps, the base fingerprints of absolute segments, which take any base that leads to the target, and of the
    // classes' shares (at most two bytes each) what makes no whole change of a small segment.
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let absolute = header.segments.iter().filter(|segment| segment.profile == Profile::Absolute).count();
    let classes: usize = header.models.iter().map(|model| model.classes.iter().flatten().count()).sum();
    let free = 8 * (header.run_id.len() + 2) + 64 * absolute + 16 * classes;
    assert!(
        accepted > 64 * absolute && accepted < free,
        "{accepted} of {} flips were accepted, {free} bits are free",
        raw.len() * 8
    );
}

/// The prefixes of a raw header whose length and hash are right.
#[test]
fn every_prefix_of_the_header_behind_its_hash_is_an_error() {
    let pair = Pair::mixed();
    let (raw, payload) = open(&pair.encode(&Pair::mixed_options()), &Zstd::default());
    for length in 0..raw.len() {
        let patch = sign(&store(&raw[..length]), length as u64, &payload);
        let error = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap_err();
        assert!(["truncated", "damaged"].contains(&error.code()), "{length} bytes: {error}");
    }
}

#[test]
fn every_flip_of_a_payload_behind_its_hash_is_survived() {
    let pair = Pair::mixed();
    let (base, target) = (pair.base_cells(), pair.target_cells());
    let patch = pair.encode(&Pair::mixed_options());
    let sound = RawPatch::of(&patch, &Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap());
    for (index, segment) in sound.segments.iter().enumerate() {
        for bit in 0..segment.payload.len() * 8 {
            let mut flipped = sound.clone();
            flipped.segments[index].payload = flip(&segment.payload, bit);
            let flipped = flipped.patch();
            for result in [apply_whole(&flipped, &base, &Zstd::default()), apply_whole(&flipped, &base, &Ruzstd)] {
                check_survived(&result, &target, &format!("bit {bit} of segment {index}"));
                // Every bit of a payload that is no packed plane means something.
                if segment.profile == 1 {
                    assert!(result.is_err(), "bit {bit} of segment {index} was accepted");
                }
            }
        }
    }
}

#[test]
fn every_prefix_of_a_payload_behind_its_hash_is_an_error() {
    let pair = Pair::mixed();
    let base = pair.base_cells();
    let patch = pair.encode(&Pair::mixed_options());
    let sound = RawPatch::of(&patch, &Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap());
    for (index, segment) in sound.segments.iter().enumerate() {
        for length in 0..segment.payload.len() {
            let mut cut = sound.clone();
            cut.segments[index].payload.truncate(length);
            let error = apply_whole(&cut.patch(), &base, &Zstd::default()).unwrap_err();
            assert!(["truncated", "damaged"].contains(&error.code()), "{length} bytes of segment {index}: {error}");
        }
    }
}

/// The encoder's own apply, through files, on a sample of the flips above.
#[test]
fn files_with_flips_behind_their_hashes_are_survived() {
    let pair = Pair::mixed();
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = pair.write(folder.path());
    let path = folder.path().join("patch");
    let patch = pair.encode(&Pair::mixed_options());
    let (raw, payload) = open(&patch, &Zstd::default());
    let sound = RawPatch::of(&patch, &Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap());
    let headers = (0..raw.len() * 8).step_by(13).map(|bit| sign(&store(&flip(&raw, bit)), raw.len() as u64, &payload));
    let payloads = (0..sound.segments.len()).flat_map(|index| {
        let bits = sound.segments[index].payload.len() * 8;
        (0..bits).step_by(13).map(move |bit| (index, bit))
    });
    let payloads = payloads.map(|(index, bit)| {
        let mut flipped = sound.clone();
        flipped.segments[index].payload = flip(&flipped.segments[index].payload, bit);
        flipped.patch()
    });
    for flipped in headers.chain(payloads) {
        std::fs::write(&path, &flipped).unwrap();
        // Cells are compared as they come, before the fingerprint is complete: it has to find the same fault.
        match verify_file(&path, &base, Some(&target), &Silent) {
            Err(error @ pulse_encoder::Error::TargetDiffers { .. }) => {
                assert!(verify_file(&path, &base, None, &Silent).is_err(), "every check was passed, yet {error}");
            }
            Ok(_) | Err(pulse_encoder::Error::Patch { .. } | pulse_encoder::Error::Tensors(_)) => {}
            Err(error) => panic!("{error}"),
        }
    }
}
