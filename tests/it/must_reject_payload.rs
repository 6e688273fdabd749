//! Section 8 of FORMAT.md, from rule 16 on: what is wrong behind the header.

use crate::must_reject::{COUNTS, Case, FP8, WEIGHTS};
use crate::support::cells::{Pair, TestTensor};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, apply_whole};
use crate::support::payload::{AbsolutePayload, ContextualPayload};
use crate::support::raw::{RawPatch, push_varint};
use pulse_encoder::{EncodeOptions, Silent, Zstd, verify_file};
use pulse_format::{Damage, Deflate, Error, Header, Limits};

#[test]
fn rule_16_segment_hash() {
    let case = Case::new();
    let start = case.sound.patch().len() - case.sound.payload().len();
    for byte in [start, start + 20, case.sound.patch().len() - 1] {
        let mut patch = case.sound.patch();
        patch[byte] ^= 0x80;
        case.rejects(Damage::SegmentHash, &patch);
    }
}

#[test]
fn rule_17_class_counts() {
    let case = Case::new();
    for index in [WEIGHTS, FP8] {
        case.breaks_contextual(Damage::ClassCounts, index, |payload| payload.counts[0] += 1);
        case.breaks_contextual(Damage::ClassCounts, index, |payload| *payload.counts.last_mut().unwrap() = 1 << 40);
        case.breaks(Damage::ClassCounts, |patch| patch.segments[index].changes += 1);
    }
}

#[test]
fn rule_18_entropy_stream() {
    let case = Case::new();
    case.breaks_contextual(Damage::EntropyStream, WEIGHTS, |payload| payload.words.push(0));
    case.breaks_contextual(Damage::EntropyStream, WEIGHTS, |payload| _ = payload.words.pop());
    for lane in 0..4 {
        case.breaks_contextual(Damage::EntropyStream, WEIGHTS, |payload| payload.states[lane] ^= 1 << 20);
        case.breaks_contextual(Damage::EntropyStream, FP8, |payload| payload.states[lane] = 0);
    }
}

#[test]
fn rule_19_raw_bits() {
    let case = Case::new();
    for index in [WEIGHTS, FP8] {
        case.breaks_contextual(Damage::RawBits, index, |payload| payload.raw_bits.push(0));
        case.breaks_contextual(Damage::RawBits, index, |payload| _ = payload.raw_bits.pop());
    }
    case.breaks_absolute(Damage::RawBits, |payload| payload.raw_bits.push(0));
    case.breaks_absolute(Damage::RawBits, |payload| payload.raw_bits.clear());
    case.breaks_absolute(Damage::RawBits, |payload| payload.raw_bits = vec![0b11]);
    case.breaks_absolute(Damage::RawBits, |payload| payload.raw_bits = vec![0b1000_0001]);
    // Token 20 is a gap of 64 to 79 with four raw bits: the next one is padding.
    case.breaks_absolute(Damage::RawBits, |payload| {
        payload.planes[0].1[2] = 20;
        payload.raw_bits = vec![0b1_0000];
    });
    for method in [2, 255] {
        case.breaks_contextual(Damage::RawBits, WEIGHTS, |payload| payload.raw_method = method);
        case.breaks_absolute(Damage::RawBits, |payload| payload.raw_method = method);
    }
}

/// Raw bits in a frame: of another length than declared, broken, with a byte behind it, and with a wrong length for the changes.
#[test]
fn rule_19_packed_raw_bits() {
    let case = Case::new();
    let packed = |declared: u64, frame: &[u8]| {
        let mut bits = Vec::new();
        push_varint(&mut bits, declared);
        bits.extend_from_slice(frame);
        bits
    };
    let frame = |content: &[u8]| Zstd::default().deflate(content).unwrap();
    let whole = frame(&[1]);
    for bits in [
        packed(1, &frame(&[1, 0])),
        packed(2, &whole),
        packed(2, &frame(&[1, 0])),
        packed(0, &frame(&[])),
        packed(1, &whole[..whole.len() - 1]),
        packed(1, &[whole.as_slice(), &[0]].concat()),
        packed(1, &[]),
        packed(1, &frame(&[0b11])),
    ] {
        case.breaks_absolute(Damage::RawBits, |payload| (payload.raw_method, payload.raw_bits) = (1, bits.clone()));
        case.breaks_contextual(Damage::RawBits, WEIGHTS, |payload| (payload.raw_method, payload.raw_bits) = (1, bits));
    }
    // More than four bytes a change.
    case.breaks_absolute(Damage::Number, |payload| (payload.raw_method, payload.raw_bits) = (1, packed(13, &whole)));
    // What is sound in a frame is sound.
    let sound = |fault: &dyn Fn(&mut RawPatch)| {
        let mut patch = case.sound.clone();
        fault(&mut patch);
        assert_eq!(apply_whole(&patch.patch(), &case.base, &Ruzstd), Ok(case.pair.target_cells()));
    };
    sound(&|patch| {
        let segment = &mut patch.segments[WEIGHTS];
        let classes = patch.models[segment.model.unwrap() as usize].len();
        let mut payload = ContextualPayload::read(&segment.payload, classes);
        payload.raw_bits = packed(payload.raw_bits.len() as u64, &frame(&payload.raw_bits));
        payload.raw_method = 1;
        segment.payload = payload.write();
    });
}

#[test]
fn rule_20_out_of_range() {
    let case = Case::new();
    // 900 cells: positions 5, 6, and then one that does not exist. Token 44 is a gap of 4,096 and up, with 10 raw bits.
    case.breaks_absolute(Damage::OutOfRange, |payload| {
        payload.planes[0].1[2] = 44;
        payload.raw_bits = vec![0, 0];
    });
    // Token 35 is a gap of 896 to 1,023 with 7 raw bits: position 903.
    case.breaks_absolute(Damage::OutOfRange, |payload| {
        payload.planes[0].1[2] = 35;
        payload.raw_bits = vec![0];
    });
    // Ranks of a segment of 4,000 cells in one of 2,500.
    let pair = Pair::new([TestTensor::weights("w", &[4000], 2, 6)]);
    let patch = pair.encode(&EncodeOptions::default());
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let small = Pair::new([TestTensor::weights("w", &[2500], 2, 6)]);
    let case = Case { base: small.base_cells(), sound: RawPatch::of(&patch, &header), pair: small };
    case.breaks(Damage::OutOfRange, |patch| {
        patch.tensors[0].shape = vec![2500];
        patch.segments[0].cells = 2500;
    });
}

#[test]
fn rule_21_plane() {
    let case = Case::new();
    let packed = |content: &[u8]| (1, Zstd::default().deflate(content).unwrap());
    // Any plane, but frames are rarely shorter than three bytes: what is broken must not be longer than the plane.
    for plane in 0..3 {
        case.breaks_absolute(Damage::Plane, |payload| payload.planes[plane].0 = 3);
        case.breaks_absolute(Damage::Plane, |payload| payload.planes[plane] = (1, vec![0; 3]));
        case.breaks_absolute(Damage::Plane, |payload| payload.planes[plane] = (1, vec![]));
    }
    // Forty changes, so that frames fit: content too short, too long, cut, and with a byte behind it.
    let frame = packed(&[1; 40]).1;
    let longer = [frame.as_slice(), &[0]].concat();
    for plane in [packed(&[1; 39]), packed(&[1; 41]), (1, frame[..frame.len() - 1].to_vec()), (1, longer)] {
        let mut payload = AbsolutePayload::stored(&[1; 40], &[7; 40], &[]);
        payload.planes[1] = plane;
        case.breaks(Damage::Plane, |patch| {
            let segment = &mut patch.segments[COUNTS];
            (segment.changes, segment.payload) = (40, payload.write());
        });
    }
}

/// FORMAT.md counts a token of 84 or more under rule 21.
#[test]
fn rule_21_token() {
    let case = Case::new();
    case.breaks_absolute(Damage::Plane, |payload| payload.planes[0].1[0] = 84);
    case.breaks_absolute(Damage::Plane, |payload| payload.planes[0].1[2] = 255);
}

#[test]
fn rule_22_trailing() {
    let case = Case::new();
    for extra in [&[0][..], &[1; 1000]] {
        let patch = [case.sound.patch().as_slice(), extra].concat();
        // A reader of byte ranges never sees them; a reader of the whole patch does.
        let pushed = apply_pushed(&patch, || 13, &case.base, &Zstd::default());
        assert!(matches!(pushed, Err(Error::Damaged { damage: Damage::Trailing, .. })), "{pushed:?}");
        let folder = tempfile::tempdir().unwrap();
        let (base, _) = case.pair.write(folder.path());
        let path = folder.path().join("patch");
        std::fs::write(&path, patch).unwrap();
        let error = verify_file(&path, &base, None, &Silent).unwrap_err();
        assert!(error.to_string().ends_with("bytes follow the last segment (rule 22)"), "{error}");
    }
}

#[test]
fn rule_23_step() {
    use pulse_format::contextual::{ContextualChanges, Tokens, encode};
    use pulse_format::model::{ContextModel, Histogram};
    let case = Case::new();
    // A step of 0 is written as 65,535. In a cell of one byte 254 is the last number, of step -128; step 128 would be 255.
    for (index, cells, step) in
        [(WEIGHTS, 1024, 0), (FP8, 600, 128), (FP8, 600, 200), (FP8, 600, -129), (FP8, 600, i16::MIN)]
    {
        let mut changes = ContextualChanges::default();
        changes.classes[3].push(1, 1);
        changes.classes[3].push(2, step);
        let mut histogram = Histogram::default();
        let tokens = Tokens::new(&changes, &Zstd::default());
        histogram.count(&tokens);
        let model = ContextModel::from_histogram(&histogram);
        let mut payload = Vec::new();
        encode(&tokens, &model, &mut payload).unwrap();
        let entry = model.classes[3].as_ref().unwrap();
        let alphabets =
            [&entry.gaps, &entry.steps].map(|alphabet| alphabet.get().iter().map(|f| u64::from(*f)).collect());
        case.breaks(Damage::Step, |patch| {
            patch.models.push(vec![(3, 4096, alphabets)]);
            let model = Some(patch.models.len() as u64 - 1);
            let segment = &mut patch.segments[index];
            assert_eq!(segment.cells, cells);
            (segment.model, segment.changes, segment.payload) = (model, 2, payload);
        });
    }
}
