//! Section 8 of FORMAT.md for anchors and dense segments.

use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::inflate::Ruzstd;
use crate::support::paths::{apply_pushed, apply_whole};
use crate::support::raw::{RawPatch, push_varint};
use pulse_encoder::{EncodeOptions, PatchFile, Zstd};
use pulse_format::{Damage, Dtype, Error, Header, Limits, Part};

/// Cells of the one tensor.
const CELLS: u64 = 40;

/// A plane of [`CELLS`] equal bytes, coded by rANS: no word is needed, and no state moves.
fn coded(first: u8, frequencies: &[u64], words: &[u16], states: [u32; 32]) -> Vec<u8> {
    let mut plane = vec![2, first];
    push_varint(&mut plane, frequencies.len() as u64);
    frequencies.iter().for_each(|frequency| push_varint(&mut plane, *frequency));
    push_varint(&mut plane, words.len() as u64);
    states.iter().for_each(|state| plane.extend(state.to_le_bytes()));
    words.iter().for_each(|word| plane.extend(word.to_le_bytes()));
    plane
}

const STATES: [u32; 32] = [1 << 16; 32];

/// An anchor of BF16 cells that are all 0x3f80, whose sign and mantissa stand stored behind their exponent.
struct Case {
    sound: RawPatch,
    cells: Cells,
    exponents: Vec<u8>,
    rest: Vec<u8>,
}

impl Case {
    fn new() -> Self {
        let ones = 0x3f80u16.to_le_bytes().repeat(CELLS as usize);
        let pair = Pair::new([TestTensor::new("w", Dtype::Bf16, &[CELLS], ones.clone(), ones)]);
        let patch = pair.pack(&EncodeOptions::default());
        let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
        let mut sound = RawPatch::of(&patch, &header);
        // An exponent of 127, and a rest of zeros.
        let (exponents, rest) = (coded(127, &[4096], &[], STATES), [&[0], &[0; CELLS as usize][..]].concat());
        sound.segments[0].payload = [exponents.clone(), rest.clone()].concat();
        let cells = pair.target_cells();
        let anything = [("w".to_string(), vec![7; 2 * CELLS as usize])].into();
        assert_eq!(apply_whole(&sound.patch(), &anything, &Ruzstd), Ok(cells.clone()), "sound before it is broken");
        Self { sound, cells, exponents, rest }
    }

    fn breaks(&self, part: Part, rule: Damage, fault: impl FnOnce(&mut RawPatch)) {
        let mut broken = self.sound.clone();
        fault(&mut broken);
        let patch = broken.patch();
        let refused = Err(Error::Damaged { part, damage: rule });
        assert_eq!(apply_whole(&patch, &self.cells, &Zstd::default()), refused, "zstd");
        assert_eq!(apply_whole(&patch, &self.cells, &Ruzstd), refused, "ruzstd");
        assert_eq!(apply_pushed(&patch, || 13, &self.cells, &Ruzstd), refused, "pushed");
        let folder = tempfile::tempdir().unwrap();
        let (anchor, out) = (folder.path().join("anchor"), folder.path().join("out"));
        std::fs::write(&anchor, &patch).unwrap();
        let error = pulse_encoder::unpack_file(&anchor, &out, &pulse_encoder::Silent).unwrap_err();
        assert!(
            matches!(&error, pulse_encoder::Error::Patch { source, .. } if Err(source.clone()) == refused),
            "{error}"
        );
        assert!(!out.exists(), "nothing is written");
        if part == Part::Header {
            assert!(PatchFile::open(&anchor).is_err());
        }
    }

    fn breaks_payload(&self, rule: Damage, payload: Vec<u8>) {
        self.breaks(Part::Segment(0), rule, |patch| patch.segments[0].payload = payload);
    }
}

#[test]
fn rule_10_frequencies_of_a_plane() {
    let case = Case::new();
    let broken = |first, frequencies: &[u64]| [coded(first, frequencies, &[], STATES), case.rest.clone()].concat();
    case.breaks_payload(Damage::Frequencies, broken(127, &[4095]));
    case.breaks_payload(Damage::Frequencies, broken(127, &[4096, 0]));
    case.breaks_payload(Damage::Frequencies, broken(127, &[]));
    // Bytes that there are not.
    case.breaks_payload(Damage::Number, broken(0, &[&[0; 256][..], &[4096]].concat()));
    case.breaks_payload(Damage::Number, broken(255, &[2048, 2048]));
}

#[test]
fn rule_13_an_anchor_is_dense() {
    let case = Case::new();
    for profile in [0, 1, 2, 3, 5] {
        case.breaks(Part::Header, Damage::Profile, |patch| {
            let segment = &mut patch.segments[0];
            (segment.profile, segment.changes) = (profile, 1);
            segment.model = (profile == 1).then_some(0);
        });
    }
}

#[test]
fn rule_14_a_dense_segment_has_bytes() {
    Case::new().breaks(Part::Header, Damage::Changes, |patch| patch.segments[0].payload.clear());
}

#[test]
fn rule_18_states_of_a_plane() {
    let case = Case::new();
    let mut states = STATES;
    states[31] += 1;
    case.breaks_payload(Damage::EntropyStream, [coded(127, &[4096], &[], states), case.rest.clone()].concat());
    case.breaks_payload(Damage::EntropyStream, [coded(127, &[4096], &[0], STATES), case.rest.clone()].concat());
}

#[test]
fn rule_21_planes_of_a_dense_segment() {
    let case = Case::new();
    let (exponents, rest) = (&case.exponents, &case.rest);
    let mut method = rest.clone();
    method[0] = 3;
    case.breaks_payload(Damage::Plane, [exponents.clone(), method].concat());
    case.breaks_payload(Damage::Plane, [exponents.clone(), rest.clone(), vec![0]].concat());
    case.breaks_payload(Damage::Plane, [exponents.clone(), vec![1, 3, 0, 0, 0]].concat());
}

#[test]
fn a_dense_segment_cut_short_is_truncated() {
    let case = Case::new();
    let whole = [case.exponents.clone(), case.rest.clone()].concat();
    for end in [1, case.exponents.len() - 1, case.exponents.len(), whole.len() - 1] {
        let mut cut = case.sound.clone();
        cut.segments[0].payload = whole[..end].to_vec();
        let error = apply_whole(&cut.patch(), &case.cells, &Ruzstd).unwrap_err();
        assert!(matches!(error, Error::Truncated { part: Part::Segment(0), .. }), "{error}");
    }
}

#[test]
fn another_result_is_a_wrong_target_whatever_was_there() {
    let case = Case::new();
    let mut wrong = case.sound.clone();
    wrong.segments[0].target[0] ^= 1;
    let error = apply_whole(&wrong.patch(), &case.cells, &Ruzstd).unwrap_err();
    assert_eq!(error.code(), "wrong_target", "{error}");
}
