//! Section 8 of FORMAT.md: for each rule, patches that break it and nothing else, and the rule's number in the answer.

use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, apply_whole};
use crate::support::payload::{AbsolutePayload, ContextualPayload};
use crate::support::raw::{RawPatch, RawTensor, bomb, push_varint, sign, store};
use pulse_encoder::{EncodeOptions, ProfileChoice, Silent, Zstd, verify_file};
use pulse_format::{Damage, Dtype, Error, Header, Limits};

/// Segments of [`Case::pair`], in the table's order.
pub(crate) const WEIGHTS: usize = 0;
pub(crate) const FP8: usize = 2;
const MASK: usize = 3;
pub(crate) const COUNTS: usize = 4;

/// A sound patch to break.
pub(crate) struct Case {
    pub(crate) pair: Pair,
    pub(crate) base: Cells,
    pub(crate) sound: RawPatch,
}

impl Case {
    /// Segments: 2 of BF16 (one tensor cut in two, the second goes on into another tensor), 1 of FP8, 1 unchanged, 1 absolute.
    pub(crate) fn new() -> Self {
        let pair = Pair::new([
            TestTensor::weights("a.weight", &[1500], 8, 1),
            TestTensor::weights("b.weight", &[100], 8, 2),
            TestTensor::noise("fp8", Dtype::F8E4m3, &[600], 7, 3),
            TestTensor::noise("mask", Dtype::U8, &[10], 0, 4),
            TestTensor::noise("counts", Dtype::U16, &[900], 9, 5),
        ]);
        let options =
            EncodeOptions { profile: ProfileChoice::Contextual, segment_cells: 1024, ..EncodeOptions::default() };
        let patch = pair.encode(&options);
        let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
        let sound = RawPatch::of(&patch, &header);
        let profiles: Vec<u8> = sound.segments.iter().map(|segment| segment.profile).collect();
        assert_eq!(profiles, [1, 1, 1, 0, 2]);
        let base = pair.base_cells();
        assert_eq!(apply_whole(&sound.patch(), &base, &Ruzstd), Ok(pair.target_cells()), "sound before it is broken");
        Self { pair, base, sound }
    }

    /// The sound patch broken by `fault` must be rejected by `rule`.
    pub(crate) fn breaks(&self, rule: Damage, fault: impl FnOnce(&mut RawPatch)) {
        let mut broken = self.sound.clone();
        fault(&mut broken);
        self.rejects(rule, &broken.patch());
    }

    /// Segment `index` with another payload, its hash and length right.
    pub(crate) fn breaks_payload(&self, rule: Damage, index: usize, payload: Vec<u8>) {
        self.breaks(rule, |patch| patch.segments[index].payload = payload);
    }

    /// The fields of a contextual segment, broken by `fault`.
    pub(crate) fn breaks_contextual(&self, rule: Damage, index: usize, fault: impl FnOnce(&mut ContextualPayload)) {
        let segment = &self.sound.segments[index];
        let classes = self.sound.models[segment.model.unwrap() as usize].len();
        let mut payload = ContextualPayload::read(&segment.payload, classes);
        assert_eq!(payload.write(), segment.payload);
        fault(&mut payload);
        self.breaks_payload(rule, index, payload.write());
    }

    /// The absolute segment with 3 changes, broken by `fault`.
    pub(crate) fn breaks_absolute(&self, rule: Damage, fault: impl FnOnce(&mut AbsolutePayload)) {
        // Gaps 5, 0 and 9: the last is token 8 with one raw bit, set.
        let mut payload = AbsolutePayload::stored(&[5, 0, 8], &[1, 2, 3], &[1]);
        fault(&mut payload);
        self.breaks(rule, |patch| {
            let segment = &mut patch.segments[COUNTS];
            (segment.changes, segment.payload) = (3, payload.write());
        });
    }

    /// By every reader.
    pub(crate) fn rejects(&self, rule: Damage, patch: &[u8]) {
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
    let bomb = bomb(100, 0, 100 << 17);
    case.rejects(Damage::HeaderFrame, &sign(&bomb, (100 << 17) + 1, &payload));
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
    case.breaks(Damage::Steps, |patch| patch.target_step = patch.base_step.unwrap());
    case.breaks(Damage::Steps, |patch| (patch.base_step, patch.target_step) = (Some(u64::MAX - 1), u64::MAX - 2));
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
    case.breaks(Damage::Profile, |patch| patch.segments[COUNTS].profile = 5);
    case.breaks(Damage::Profile, |patch| patch.segments[COUNTS].profile = 255);
    case.breaks(Damage::Profile, |patch| {
        let segment = &mut patch.segments[COUNTS];
        (segment.profile, segment.model) = (1, Some(0));
    });
    case.breaks(Damage::Profile, |patch| patch.segments[WEIGHTS].model = Some(patch.models.len() as u64));
    case.breaks(Damage::Profile, |patch| patch.models.clear());
    // Cells of 8 bytes have no differences.
    case.breaks(Damage::Profile, |patch| {
        patch.tensors[4].dtype = Dtype::U64 as u8;
        patch.segments[COUNTS].profile = 3;
    });
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
