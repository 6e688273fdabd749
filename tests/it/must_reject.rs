//! Section 8 of FORMAT.md: for each rule, patches that break it and nothing else, and the rule's number in the answer.

use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, apply_whole};
use crate::support::payload::{AbsolutePayload, ContextualPayload};
use crate::support::raw::{RawPatch, RawTensor, bomb, push_varint, sign, store};
use pulse_encoder::{EncodeOptions, Silent, Zstd, verify_file};
use pulse_format::{Damage, Deflate, Dtype, Error, Header, Limits};

/// Segments of [`Case::pair`], in the table's order.
const WEIGHTS: usize = 0;
const FP8: usize = 2;
const MASK: usize = 3;
const COUNTS: usize = 4;

/// A sound patch to break.
struct Case {
    pair: Pair,
    base: Cells,
    sound: RawPatch,
}

impl Case {
    /// Segments: 2 of BF16 (one tensor cut in two, the second goes on into another tensor), 1 of FP8, 1 unchanged, 1 absolute.
    fn new() -> Self {
        let pair = Pair::new([
            TestTensor::weights("a.weight", &[1500], 8, 1),
            TestTensor::weights("b.weight", &[100], 8, 2),
            TestTensor::noise("fp8", Dtype::F8E4m3, &[600], 7, 3),
            TestTensor::noise("mask", Dtype::U8, &[10], 0, 4),
            TestTensor::noise("counts", Dtype::U16, &[900], 9, 5),
        ]);
        let patch = pair.encode(&EncodeOptions { segment_cells: 1024, ..EncodeOptions::default() });
        let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
        let sound = RawPatch::of(&patch, &header);
        let profiles: Vec<u8> = sound.segments.iter().map(|segment| segment.profile).collect();
        assert_eq!(profiles, [1, 1, 1, 0, 2]);
        let base = pair.base_cells();
        assert_eq!(apply_whole(&sound.patch(), &base, &Ruzstd), Ok(pair.target_cells()), "sound before it is broken");
        Self { pair, base, sound }
    }

    /// The sound patch broken by `fault` must be rejected by `rule`.
    fn breaks(&self, rule: Damage, fault: impl FnOnce(&mut RawPatch)) {
        let mut broken = self.sound.clone();
        fault(&mut broken);
        self.rejects(rule, &broken.patch());
    }

    /// Segment `index` with another payload, its hash and length right.
    fn breaks_payload(&self, rule: Damage, index: usize, payload: Vec<u8>) {
        self.breaks(rule, |patch| patch.segments[index].payload = payload);
    }

    /// The fields of a contextual segment, broken by `fault`.
    fn breaks_contextual(&self, rule: Damage, index: usize, fault: impl FnOnce(&mut ContextualPayload)) {
        let segment = &self.sound.segments[index];
        let classes = self.sound.models[segment.model.unwrap() as usize].len();
        let mut payload = ContextualPayload::read(&segment.payload, classes);
        assert_eq!(payload.write(), segment.payload);
        fault(&mut payload);
        self.breaks_payload(rule, index, payload.write());
    }

    /// The absolute segment with 3 changes, broken by `fault`.
    fn breaks_absolute(&self, rule: Damage, fault: impl FnOnce(&mut AbsolutePayload)) {
        // Gaps 5, 0 and 9: the last is token 8 with one raw bit, set.
        let mut payload = AbsolutePayload::stored(&[5, 0, 8], &[1, 2, 3], &[1]);
        fault(&mut payload);
        self.breaks(rule, |patch| {
            let segment = &mut patch.segments[COUNTS];
            (segment.changes, segment.payload) = (3, payload.write());
        });
    }

    /// By every reader.
    fn rejects(&self, rule: Damage, patch: &[u8]) {
        let damage = |result: Result<Cells, Error>| match result {
            Err(Error::Damaged { damage, .. }) => damage,
            other => panic!("rule {}: {:?}", rule.number(), other.map(|_| "accepted")),
        };
        assert_eq!(damage(apply_whole(patch, &self.base, &Zstd::default())), rule, "zstd");
        assert_eq!(damage(apply_whole(patch, &self.base, &Ruzstd)), rule, "ruzstd");
        assert_eq!(damage(apply_pushed(patch, || 13, &self.base, &Zstd::default())), rule, "pushed");
        let folder = tempfile::tempdir().unwrap();
        let (base, _) = self.pair.write(folder.path());
        let path = folder.path().join("patch");
        std::fs::write(&path, patch).unwrap();
        match verify_file(&path, &base, None, &Silent) {
            Err(pulse_encoder::Error::Patch { source: Error::Damaged { damage, .. }, .. }) => {
                assert_eq!(damage, rule, "file")
            }
            other => panic!("rule {}: {other:?}", rule.number()),
        }
    }
}

#[test]
fn rule_01_magic() {
    let case = Case::new();
    for byte in 0..8 {
        let mut patch = case.sound.patch();
        patch[byte] ^= 0x20;
        case.rejects(Damage::Magic, &patch);
    }
    // What a transfer as text makes of the first bytes.
    case.rejects(Damage::Magic, &[b"\x89PULSE\n", &case.sound.patch()[8..]].concat());
    case.rejects(Damage::Magic, b"{\"not\": \"a patch\"}");
}

#[test]
fn rule_02_header_hash() {
    let case = Case::new();
    for byte in [20, 51, 52, 60] {
        let mut patch = case.sound.patch();
        patch[byte] ^= 1;
        case.rejects(Damage::HeaderHash, &patch);
    }
}

#[test]
fn rule_03_header_frame() {
    let case = Case::new();
    let (raw, payload) = (case.sound.raw(), case.sound.payload());
    let length = raw.len() as u64;
    case.rejects(Damage::HeaderFrame, &sign(&store(&raw), length - 1, &payload));
    case.rejects(Damage::HeaderFrame, &sign(&store(&raw), length + 1, &payload));
    case.rejects(Damage::HeaderFrame, &sign(&raw, length, &payload));
    let cut = store(&raw);
    case.rejects(Damage::HeaderFrame, &sign(&cut[..cut.len() - 1], length, &payload));
    // 256 times is allowed by this rule, one byte more is not.
    let bomb = bomb(100, 0, 100 << 17);
    case.rejects(Damage::HeaderFrame, &sign(&bomb, bomb.len() as u64 * 256 + 1, &payload));
}

/// "Exactly one zstd frame": libraries go on into the next frame by themselves, skip frames that say so, and take no bytes for
/// no content.
#[test]
fn rule_03_one_frame() {
    let case = Case::new();
    let (raw, payload) = (case.sound.raw(), case.sound.payload());
    let skippable = [0x50, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3];
    let (front, back) = raw.split_at(raw.len() / 2);
    for frames in [
        [store(front), store(back)].concat(),
        [store(&raw), skippable.to_vec()].concat(),
        [skippable.to_vec(), store(&raw)].concat(),
        [store(&raw), store(&[])].concat(),
        [store(&raw), vec![0]].concat(),
    ] {
        case.rejects(Damage::HeaderFrame, &sign(&frames, raw.len() as u64, &payload));
    }
    case.rejects(Damage::HeaderFrame, &sign(&[], 0, &payload));
}

#[test]
fn rule_04_numbers() {
    let case = Case::new();
    let raw = case.sound.raw();
    // The run id is empty: the first byte is its length. Longer than it need be, over 64 bits, and without an end.
    for length in
        [&[0x80, 0][..], &[0x80, 0x80, 0], &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2], &[0x80; 11]]
    {
        let raw = [length, &raw[1..]].concat();
        case.rejects(Damage::Number, &sign(&store(&raw), raw.len() as u64, &case.sound.payload()));
    }
    case.breaks(Damage::Number, |patch| patch.tensors[0].shared = 1);
    case.breaks(Damage::Number, |patch| patch.tensors[1].shared = 9);
    case.breaks(Damage::Number, |patch| patch.tensors[1].shared = u64::MAX);
    case.breaks(Damage::Number, |patch| patch.tensors[0].shape = vec![1; 17]);
    case.breaks(Damage::Number, |patch| patch.extra_models = 65_536);
    case.breaks(Damage::Number, |patch| patch.segments[WEIGHTS].model = Some(65_537));
    case.breaks(Damage::Number, |patch| patch.segments[WEIGHTS].cells = 1 << 32);
    case.breaks(Damage::Number, |patch| patch.segments[WEIGHTS].changes = 1 << 32);
    case.breaks(Damage::Number, |patch| patch.segments[WEIGHTS].declared_bytes = Some(1 << 32));
    case.breaks(Damage::Number, |patch| patch.models[0][0].2[0] = vec![1; 85]);
    case.breaks(Damage::Number, |patch| patch.models[0][0].2[1] = vec![1; 61]);
    case.breaks(Damage::Number, |patch| patch.models[0][0].2[1] = vec![4097]);
    case.breaks(Damage::Number, |patch| patch.models[0][0].1 = 4097);
    // A packed plane longer than the plane.
    case.breaks_absolute(Damage::Number, |payload| payload.planes[1] = (1, vec![0; 4]));
}

/// Sharing less than is shared would be a second way to write the same table.
#[test]
fn rule_04_a_name_shares_all_it_can() {
    let pair = Pair::new([TestTensor::weights("ab", &[5], 0, 1), TestTensor::weights("ac", &[5], 0, 2)]);
    let patch = pair.encode(&EncodeOptions::default());
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let case = Case { base: pair.base_cells(), sound: RawPatch::of(&patch, &header), pair };
    case.breaks(Damage::Number, |patch| patch.tensors[1] = RawTensor::new(1, 0, "ac", &[5]));
}

#[test]
fn rule_05_text() {
    let case = Case::new();
    case.breaks(Damage::Text, |patch| patch.run_id = vec![b'r'; 257]);
    case.breaks(Damage::Text, |patch| patch.run_id = vec![0xff]);
    case.breaks(Damage::Text, |patch| patch.tensors[0].suffix = vec![0xc3]);
    case.breaks(Damage::Text, |patch| patch.tensors[0].suffix = vec![b'n'; 4097]);
    // Too long only together with what is shared.
    case.breaks(Damage::Text, |patch| {
        patch.tensors[0].suffix = vec![b'a'; 4096];
        patch.tensors[1] = RawTensor::new(1, 4096, "b", &[100]);
    });
}

/// The sum of what is shared and what follows must not wrap around.
#[test]
fn rule_05_a_name_of_nearly_two_to_the_64_bytes() {
    let case = Case::new();
    let mut raw = case.sound.clone();
    raw.tensors.truncate(1);
    raw.extra_tensors = 1;
    raw.models.clear();
    raw.segments.clear();
    let mut raw = raw.raw();
    raw.truncate(raw.len() - 2);
    raw.extend([1, 1]);
    push_varint(&mut raw, u64::MAX);
    raw.extend([b'b'; 64]);
    case.rejects(Damage::Text, &sign(&store(&raw), raw.len() as u64, &[]));
}

#[test]
fn rule_06_steps() {
    let case = Case::new();
    case.breaks(Damage::Steps, |patch| patch.target_step = patch.base_step);
    case.breaks(Damage::Steps, |patch| (patch.base_step, patch.target_step) = (u64::MAX, u64::MAX - 1));
}

#[test]
fn rule_07_dtype() {
    let case = Case::new();
    let last = *Dtype::ALL.last().unwrap() as u8;
    for code in [0, last + 1, 255] {
        case.breaks(Damage::Dtype, |patch| patch.tensors[0].dtype = code);
    }
}

#[test]
fn rule_08_tensor_order() {
    let case = Case::new();
    // Two of one name, a descending name, a descending dtype.
    case.breaks(Damage::TensorOrder, |patch| patch.tensors[1] = RawTensor::new(1, 8, "", &[100]));
    case.breaks(Damage::TensorOrder, |patch| patch.tensors[1] = RawTensor::new(1, 0, "A", &[100]));
    case.breaks(Damage::TensorOrder, |patch| patch.tensors[3].dtype = 1);
    case.breaks(Damage::TensorOrder, |patch| patch.tensors.swap(3, 4));
}

#[test]
fn rule_09_shape() {
    let case = Case::new();
    let tensor = |dtype: Dtype, shape: &[u64]| RawTensor::new(dtype as u8, 0, "z", shape);
    for (dtype, shape) in [
        (Dtype::Bf16, &[1 << 32, 1 << 32][..]),
        (Dtype::Bf16, &[u64::MAX]),
        (Dtype::U64, &[1 << 61]),
        (Dtype::F4, &[3]),
        (Dtype::F6E2m3, &[6]),
        (Dtype::F6E3m2, &[1]),
    ] {
        case.breaks(Damage::Shape, |patch| patch.tensors = vec![tensor(dtype, shape)]);
    }
}

/// Each tensor fits, all together do not: cells and bytes stay below 2^64.
#[test]
fn rule_09_sums() {
    let case = Case::new();
    for (dtype, cells, tensors) in [(Dtype::U8, 1 << 60, 16), (Dtype::U64, 1 << 57, 16)] {
        let table = |name: u64| RawTensor::new(dtype as u8, name, "z", &[cells]);
        case.breaks(Damage::Shape, |patch| patch.tensors = (0..tensors).map(table).collect());
    }
}

#[test]
fn rule_10_frequencies() {
    let case = Case::new();
    for alphabet in [vec![], vec![4095], vec![4096, 1], vec![4096, 0], vec![0], vec![2048, 2047], vec![4096; 60]] {
        case.breaks(Damage::Frequencies, |patch| patch.models[0][0].2[0] = alphabet.clone());
        case.breaks(Damage::Frequencies, |patch| patch.models[0][0].2[1] = alphabet);
    }
}

#[test]
fn rule_11_coverage() {
    let case = Case::new();
    case.breaks(Damage::Coverage, |patch| patch.segments[MASK].cells = 0);
    case.breaks(Damage::Coverage, |patch| patch.segments[MASK].cells = 11);
    case.breaks(Damage::Coverage, |patch| patch.segments[COUNTS].cells = (1 << 22) + 1);
    case.breaks(Damage::Coverage, |patch| patch.segments[COUNTS].cells = 901);
    // A cell of the last tensor, or the last segment, is missing, or one segment is too many.
    case.breaks(Damage::Coverage, |patch| {
        patch.tensors[4].shape = vec![2048];
        patch.segments[COUNTS].cells = 1024;
    });
    case.breaks(Damage::Coverage, |patch| _ = patch.segments.pop());
    case.breaks(Damage::Coverage, |patch| patch.segments.push(patch.segments[MASK].clone()));
    case.breaks(Damage::Coverage, |patch| patch.tensors.clear());
    case.breaks(Damage::Coverage, |patch| patch.segments.clear());
    // Two dtypes in one segment.
    case.breaks(Damage::Coverage, |patch| {
        patch.segments[MASK].cells += patch.segments[COUNTS].cells;
        patch.segments.pop();
    });
}

#[test]
fn rule_12_cut() {
    let case = Case::new();
    for cells in [1, 1023, 1025] {
        case.breaks(Damage::Cut, |patch| patch.segments[WEIGHTS].cells = cells.max(patch.segments[WEIGHTS].changes));
    }
}

#[test]
fn rule_13_profile() {
    let case = Case::new();
    case.breaks(Damage::Profile, |patch| patch.segments[COUNTS].profile = 3);
    case.breaks(Damage::Profile, |patch| patch.segments[COUNTS].profile = 255);
    case.breaks(Damage::Profile, |patch| {
        let segment = &mut patch.segments[COUNTS];
        (segment.profile, segment.model) = (1, Some(0));
    });
    case.breaks(Damage::Profile, |patch| patch.segments[WEIGHTS].model = Some(patch.models.len() as u64));
    case.breaks(Damage::Profile, |patch| patch.models.clear());
}

#[test]
fn rule_14_changes() {
    let case = Case::new();
    for index in [WEIGHTS, FP8, COUNTS] {
        case.breaks(Damage::Changes, |patch| patch.segments[index].changes = 0);
        case.breaks(Damage::Changes, |patch| patch.segments[index].changes = patch.segments[index].cells + 1);
        case.breaks(Damage::Changes, |patch| patch.segments[index].payload.clear());
    }
}

#[test]
fn rule_15_header_trailing() {
    let case = Case::new();
    case.breaks(Damage::HeaderTrailing, |patch| patch.trailing = vec![0]);
    case.breaks(Damage::HeaderTrailing, |patch| patch.trailing = vec![7; 100]);
}

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
        case.breaks_absolute(Damage::Plane, |payload| payload.planes[plane].0 = 2);
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
