//! Frozen patches: what once decoded must go on decoding to the same cells. How patches are made is free to change.
//!
//! `tests/vectors/README.md` says when one may be added.

use crate::support::cells::{Cells, Pair, Random, TestTensor};
use crate::support::check::in_memory_paths;
use crate::support::listing;
use crate::support::payload::ContextualPayload;
use pulse_encoder::{EncodeOptions, ProfileChoice, Silent, Zstd, apply_file, verify_file};
use pulse_format::{Dtype, Header, Limits, Profile, Step};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Set to write the vectors that are missing; those that are there are never touched.
const WRITE_VARIABLE: &str = "PULSE_WRITE_VECTORS";

/// A vector's name, how it was made, and the profiles that its segments have. Where those are dense, it is the target's anchor.
struct Vector {
    name: &'static str,
    make: fn() -> (Pair, EncodeOptions),
    profiles: &'static [&'static str],
}

const DENSE: &[&str] = &["dense"];

const VERSION_1: &[Vector] = &[
    Vector { name: "contextual", make: contextual, profiles: &["contextual"] },
    Vector { name: "absolute", make: absolute, profiles: &["absolute"] },
    Vector { name: "mixed", make: mixed, profiles: &["absolute", "contextual", "unchanged"] },
    Vector { name: "relative", make: relative, profiles: &["relative"] },
    Vector { name: "repeated", make: repeated, profiles: &["contextual"] },
    Vector { name: "dtypes", make: dtypes, profiles: &["absolute", "contextual"] },
    Vector { name: "floats", make: floats, profiles: &["contextual"] },
    Vector { name: "folded", make: folded, profiles: &["contextual"] },
    Vector { name: "unchanged", make: unchanged, profiles: &["unchanged"] },
    Vector { name: "empty", make: empty, profiles: &[] },
    Vector { name: "anchor", make: anchor, profiles: DENSE },
    Vector { name: "anchor_dtypes", make: dtypes, profiles: DENSE },
];

fn contextual() -> (Pair, EncodeOptions) {
    (Pair::new([TestTensor::weights("w", &[50, 40], 10, 1)]), EncodeOptions::default())
}

/// Planes long enough for zstd.
fn absolute() -> (Pair, EncodeOptions) {
    let tensors = [TestTensor::weights("w", &[50, 40], 3, 2), TestTensor::noise("n", Dtype::U16, &[300], 30, 3)];
    (Pair::new(tensors), EncodeOptions { profile: ProfileChoice::Absolute, ..EncodeOptions::default() })
}

/// Differences that carry from byte to byte and wrap around, with gaps that need raw bits.
fn relative() -> (Pair, EncodeOptions) {
    let mut tensor = TestTensor::noise("w", Dtype::Bf16, &[2000], 0, 9);
    for cell in tensor.target.as_chunks_mut().0.iter_mut().skip(3).step_by(20) {
        *cell = u16::from_le_bytes(*cell).wrapping_add(0x0180).to_le_bytes();
    }
    (Pair::new([tensor]), EncodeOptions::default())
}

/// Zeros become ones wherever they are: raw bits that repeat.
fn repeated() -> (Pair, EncodeOptions) {
    let mut random = Random::new(10);
    let mut tensor = TestTensor::weights("w", &[2000], 0, 10);
    for (before, after) in tensor.base.as_chunks_mut::<2>().0.iter_mut().zip(tensor.target.as_chunks_mut().0) {
        if random.below(10) == 0 {
            (*before, *after) = ([0, 0], [0x80, 0x3f]);
        }
    }
    (Pair::new([tensor]), EncodeOptions::default())
}

fn mixed() -> (Pair, EncodeOptions) {
    (Pair::mixed(), Pair::mixed_options())
}

fn dtypes() -> (Pair, EncodeOptions) {
    let tensor = |dtype: &Dtype| TestTensor::noise(dtype.name(), *dtype, &[5, 4], 4, 30 + *dtype as u64);
    (
        Pair::new(Dtype::ALL.iter().map(tensor).collect::<Vec<_>>()),
        EncodeOptions { seed: 5, ..EncodeOptions::default() },
    )
}

/// Zeros, subnormals, infinities and NaNs of each float format, each to each.
fn floats() -> (Pair, EncodeOptions) {
    let wide = |dtype: Dtype, special: &[u16]| {
        let bytes = |side: fn(u16, u16) -> u16| {
            let pairs = special.iter().flat_map(|a| special.iter().map(move |b| (*a, *b)));
            pairs.flat_map(|(a, b)| side(a, b).to_le_bytes()[..dtype.cell_bytes()].to_vec()).collect::<Vec<u8>>()
        };
        let cells = (special.len() * special.len()) as u64;
        TestTensor::new(dtype.name(), dtype, &[cells], bytes(|base, _| base), bytes(|_, target| target))
    };
    let tensors = [
        wide(Dtype::Bf16, &[0, 0x8000, 1, 0x807f, 0x0080, 0x3f80, 0xbf81, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0xffff]),
        wide(Dtype::F16, &[0, 0x8000, 1, 0x83ff, 0x0400, 0x3c00, 0xbc01, 0x7bff, 0x7c00, 0xfc00, 0x7c01, 0xffff]),
        wide(Dtype::F8E4m3, &[0, 0x80, 1, 0x87, 0x08, 0x38, 0xb9, 0x7e, 0x7f, 0xff]),
        wide(Dtype::F8E5m2, &[0, 0x80, 1, 0x83, 0x04, 0x3c, 0xbd, 0x7b, 0x7c, 0xfc, 0x7d, 0xff]),
    ];
    (Pair::new(tensors), EncodeOptions { profile: ProfileChoice::Contextual, ..EncodeOptions::default() })
}

/// Three steps as one patch: cells that moved more than once.
fn folded() -> (Pair, EncodeOptions) {
    let mut tensor = TestTensor::weights("w", &[1500], 10, 6);
    let mut random = Random::new(6);
    for cell in tensor.target.as_chunks_mut().0.iter_mut().filter(|_| random.below(8) == 0) {
        *cell = u16::from_le_bytes(*cell).wrapping_add(2).to_le_bytes();
    }
    let options =
        EncodeOptions { base_step: Step(20), target_step: Step(23), run_id: "run".into(), ..EncodeOptions::default() };
    (Pair::new([tensor]), options)
}

fn unchanged() -> (Pair, EncodeOptions) {
    (
        Pair::new([TestTensor::weights("w", &[1500], 0, 7)]),
        EncodeOptions { segment_cells: 1024, ..EncodeOptions::default() },
    )
}

fn empty() -> (Pair, EncodeOptions) {
    (Pair::new([TestTensor::weights("w", &[0, 3], 0, 8)]), EncodeOptions::default())
}

/// Planes of each method: exponents, noise, and what repeats; two segments.
fn anchor() -> (Pair, EncodeOptions) {
    let mut counts = TestTensor::noise("counts", Dtype::U16, &[600], 3, 11);
    counts.target.iter_mut().enumerate().for_each(|(place, byte)| *byte = (place / 4 % 7) as u8);
    let tensors = [TestTensor::weights("w", &[120, 60], 3, 12), counts];
    (Pair::new(tensors), EncodeOptions { segment_cells: 5120, seed: 13, ..EncodeOptions::default() })
}

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/v1")
}

fn file(name: &str, part: &str) -> PathBuf {
    folder().join(format!("{name}.{part}"))
}

const PARTS: [&str; 3] = ["base.safetensors", "pulse", "target.safetensors"];

fn read(name: &str, part: &str) -> Vec<u8> {
    let path = file(name, part);
    std::fs::read(&path).unwrap_or_else(|error| panic!("vector {} is missing: {error}", path.display()))
}

/// The cells of a safetensors file, by a reader that is not ours.
fn cells(file: &[u8]) -> Cells {
    let tensors = safetensors::SafeTensors::deserialize(file).unwrap();
    tensors.iter().map(|(name, view)| (name.to_string(), view.data().to_vec())).collect()
}

#[test]
fn every_vector_of_version_1_decodes_to_its_target() {
    for Vector { name, profiles, .. } in VERSION_1 {
        let [base, patch, target] = PARTS.map(|part| read(name, part));
        in_memory_paths(&patch, &cells(&base), &cells(&target));
        verify_file(&file(name, PARTS[1]), &file(name, PARTS[0]), Some(&file(name, PARTS[2])), &Silent).unwrap();
        let rebuilt = tempfile::tempdir().unwrap();
        apply_file(&file(name, PARTS[1]), &file(name, PARTS[0]), &rebuilt.path().join("rebuilt"), &Silent).unwrap();
        assert!(std::fs::read(rebuilt.path().join("rebuilt")).unwrap() == target, "{name}");
        let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
        let found: BTreeSet<_> = header.segments.iter().map(|segment| segment.profile.name()).collect();
        assert_eq!(found.into_iter().collect::<Vec<_>>(), *profiles, "{name} is what it is for");
    }
}

#[test]
fn the_folder_holds_the_vectors_and_nothing_else() {
    let mut expected: Vec<String> =
        VERSION_1.iter().flat_map(|vector| PARTS.map(|part| format!("{}.{part}", vector.name))).collect();
    expected.sort();
    assert_eq!(listing(&folder()), expected);
    for name in expected {
        let bytes = std::fs::metadata(folder().join(&name)).unwrap().len();
        assert!(bytes < 16 << 10, "{name} has {bytes} bytes");
    }
}

/// Some vector has each thing that a decoder can get wrong.
#[test]
fn the_vectors_cover_the_format() {
    let headers = VERSION_1.iter().map(|vector| {
        let patch = read(vector.name, PARTS[1]);
        (Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap(), patch)
    });
    let headers: Vec<_> = headers.collect();
    let some = |what: &str, has: &dyn Fn(&Header, &[u8]) -> bool| {
        assert!(headers.iter().any(|(header, patch)| has(header, patch)), "no vector has {what}");
    };
    some("a seed", &|header, _| header.seed != 0);
    some("a run id", &|header, _| !header.run_id.is_empty());
    some("a segment of several tensors", &|header, _| {
        (0..header.segments.len()).any(|index| header.pieces(index).len() > 1)
    });
    some("a cut inside a tensor", &|header, _| header.segments.iter().any(|segment| segment.first_cell.get() > 0));
    for (method, profile) in [(0, Profile::Absolute), (1, Profile::Absolute), (1, Profile::Dense), (2, Profile::Dense)]
    {
        some(&format!("a plane of method {method} in {}", profile.name()), &|header, patch| {
            let segments = header.segments.iter().filter(|segment| segment.profile == profile);
            segments.into_iter().any(|segment| patch[segment.offset.get() as usize] == method)
        });
    }
    some("raw bits in a frame", &|header, patch| {
        let contextual = |segment: &&pulse_format::Segment| matches!(segment.profile, Profile::Contextual { .. });
        header.segments.iter().filter(contextual).any(|segment| {
            let Profile::Contextual { model } = segment.profile else { return false };
            let range = segment.byte_range();
            let classes = header.models[model].classes.iter().flatten().count();
            ContextualPayload::read(&patch[range.start as usize..range.end as usize], classes).raw_method == 1
        })
    });
    for dtype in Dtype::ALL {
        some(dtype.name(), &|header, _| header.tensors.iter().any(|tensor| tensor.dtype == *dtype));
    }
}

/// Writes what is missing, if asked to.
#[test]
#[ignore = "writes into the repository; see tests/vectors/README.md"]
fn write_vectors() {
    assert!(std::env::var_os(WRITE_VARIABLE).is_some(), "set {WRITE_VARIABLE}=1 to write the vectors that are missing");
    for Vector { name, make, profiles } in VERSION_1 {
        let (pair, options) = make();
        let patch = if *profiles == DENSE { pair.pack(&options) } else { pair.encode(&options) };
        for (part, bytes) in PARTS.iter().zip([pair.base_file(), patch, pair.target_file()]) {
            let path = file(name, part);
            if !path.exists() {
                std::fs::write(&path, bytes).unwrap();
                println!("wrote {}", path.display());
            }
        }
    }
}
