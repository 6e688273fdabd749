//! From two checkpoints to a patch and back, bit for bit, by every path.

use crate::support::cells::{Pair, Random, TestTensor, safetensors_file};
use crate::support::check::{in_memory_paths, round_trip, same_folders};
use proptest::prelude::*;
use pulse_encoder::{Cast, EncodeOptions, ProfileChoice, Silent, Zstd, apply_file, encode_file, verify_file};
use pulse_format::{Dtype, Header, Limits, Profile, Step};
use std::path::Path;

const PROFILES: [ProfileChoice; 3] = [ProfileChoice::Auto, ProfileChoice::Contextual, ProfileChoice::Absolute];

fn header(patch: &[u8]) -> Header {
    Header::read(patch, &Zstd::default(), &Limits::default()).unwrap()
}

/// With every choice of profile, with segments of 1,024 cells and of the default size.
fn check(pair: &Pair) {
    for profile in PROFILES {
        for segment_cells in [1024, EncodeOptions::default().segment_cells] {
            let patch = round_trip(pair, &EncodeOptions { profile, segment_cells, ..EncodeOptions::default() });
            let header = header(&patch);
            for segment in &header.segments {
                let float = header.tensors[segment.tensor].dtype.float_format().is_some();
                match segment.profile {
                    Profile::Unchanged => assert_eq!((segment.changes, segment.base), (0, segment.target)),
                    Profile::Contextual { .. } => assert!(float && profile != ProfileChoice::Absolute),
                    Profile::Absolute => assert!(!float || profile != ProfileChoice::Contextual),
                    Profile::Relative => assert_eq!(profile, ProfileChoice::Auto),
                    Profile::Dense => panic!("no patch between checkpoints is dense"),
                }
            }
        }
    }
}

/// Elements of a tensor of any dtype that fill whole bytes and whole cells.
fn whole(dtype: Dtype, elements: u64) -> u64 {
    elements.next_multiple_of(if dtype.element_bits() < 8 { 4 } else { 1 })
}

#[test]
fn every_dtype() {
    for dtype in Dtype::ALL {
        for every in [0, 1, 20] {
            check(&Pair::new([TestTensor::noise("t", *dtype, &[whole(*dtype, 2999)], every, *dtype as u64)]));
        }
    }
}

#[test]
fn all_dtypes_in_one_checkpoint() {
    let tensor = |(index, dtype): (usize, &Dtype)| {
        TestTensor::noise(
            &format!("t{}", 97 * index % 31),
            *dtype,
            &[whole(*dtype, 700 + index as u64)],
            15,
            index as u64,
        )
    };
    check(&Pair::new(Dtype::ALL.iter().enumerate().map(tensor).collect::<Vec<_>>()));
}

#[test]
fn sizes_at_the_edges() {
    for cells in [0, 1, 2, 3, 1023, 1024, 1025, 2047, 2048, 2049] {
        for every in [0, 1, 9] {
            for dtype in [Dtype::Bf16, Dtype::F8E5m2, Dtype::U8, Dtype::U64] {
                check(&Pair::new([TestTensor::noise("t", dtype, &[cells], every, cells)]));
            }
        }
    }
}

#[test]
fn shapes_at_the_edges() {
    check(&Pair::new([]));
    for shape in [&[][..], &[1], &[1, 1, 1], &[0], &[5, 0, 7], &[3, 5, 7, 11], &[2; 8]] {
        check(&Pair::new([
            TestTensor::noise("t", Dtype::Bf16, shape, 1, 1),
            TestTensor::noise("u", Dtype::F16, &[9], 2, 2),
        ]));
    }
    // Empty tensors in front, between and behind; many in one segment.
    let sizes = [0, 0, 700, 0, 5, 1024, 0, 1, 1, 3000, 0];
    let tensor =
        |(index, cells)| TestTensor::noise(&format!("layers.{index}.w"), Dtype::Bf16, &[cells], 8, index as u64);
    check(&Pair::new(sizes.into_iter().enumerate().map(tensor).collect::<Vec<_>>()));
}

/// What the encoder learns from segments without a change must not harm those after them: few segments change, and late.
#[test]
fn changes_after_unchanged_segments() {
    const SEGMENT: usize = 32 << 10;
    for every in [2, 5, 12] {
        let mut tensor = TestTensor::weights("w", &[40 * SEGMENT as u64], 0, 1);
        let mut random = Random::new(every as u64);
        for segment in (0..40).filter(|_| random.below(every) == 0).collect::<Vec<usize>>() {
            tensor.target[2 * (segment * SEGMENT + 30_000)] ^= 1;
        }
        round_trip(&Pair::new([tensor]), &EncodeOptions { segment_cells: SEGMENT as u32, ..EncodeOptions::default() });
    }
}

#[test]
fn names_at_the_edges() {
    let long = "n".repeat(4096);
    let names = ["", "a", "a.b", "a.b.c", "ä", "日本.語", "a\u{0}b", "line\nbreak", "quote\"", long.as_str()];
    let tensor = |name: &&str| TestTensor::noise(name, Dtype::Bf16, &[50], 6, name.len() as u64);
    check(&Pair::new(names.iter().map(tensor).collect::<Vec<_>>()));
}

/// Every base cell there is, against targets of every kind: zeros, subnormals, infinities, NaN with payloads, neighbours, any.
#[test]
fn every_bf16_cell() {
    let bases: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
    let special =
        [0x0000u16, 0x8000, 0x0001, 0x8001, 0x007f, 0x0080, 0x7f7f, 0x7f80, 0xff80, 0x7f81, 0x7fff, 0xffff, 0xffc0];
    let mut random = Random::new(9);
    let targets: [&mut dyn FnMut(u16) -> u16; 5] = [
        // 13 is odd and 65,536 is not: bases of every exponent meet every special target.
        &mut |cell| special[usize::from(cell) % special.len()],
        &mut |cell| cell.wrapping_add(1),
        &mut |cell| cell.wrapping_sub(1),
        &mut |cell| !cell,
        &mut |_| random.word() as u16,
    ];
    let tensor = |(index, target): (usize, &mut dyn FnMut(u16) -> u16)| {
        let target = (0..=u16::MAX).flat_map(|cell| target(cell).to_le_bytes()).collect();
        TestTensor::new(&format!("t{index}"), Dtype::Bf16, &[1 << 16], bases.clone(), target)
    };
    let pair = Pair::new(targets.into_iter().enumerate().map(tensor).collect::<Vec<_>>());
    for profile in PROFILES {
        round_trip(&pair, &EncodeOptions { profile, ..EncodeOptions::default() });
    }
}

#[test]
fn every_fp8_pair() {
    let bases: Vec<u8> = (0..=u16::MAX).map(|pair| pair as u8).collect();
    let targets: Vec<u8> = (0..=u16::MAX).map(|pair| (pair >> 8) as u8).collect();
    let tensor = |dtype: Dtype| TestTensor::new(dtype.name(), dtype, &[1 << 16], bases.clone(), targets.clone());
    check(&Pair::new([tensor(Dtype::F8E4m3), tensor(Dtype::F8E5m2)]));
}

#[test]
fn seeds_steps_and_run_ids_survive() {
    for (seed, run_id, steps) in
        [(1, "", (0, u64::MAX)), (u64::MAX, "läuft", (u64::MAX - 1, u64::MAX)), (7, &"r".repeat(256), (20, 32))]
    {
        let (base_step, target_step) = (Step(steps.0), Step(steps.1));
        let options = EncodeOptions { seed, run_id: run_id.into(), base_step, target_step, ..Pair::mixed_options() };
        round_trip(&Pair::mixed(), &options);
    }
}

/// An odd number of bytes in front leaves every later tensor off its alignment in the file.
#[test]
fn misaligned_tensors() {
    check(&Pair::new([
        TestTensor::noise("z", Dtype::U8, &[33], 3, 1),
        TestTensor::weights("a", &[2500], 9, 2),
        TestTensor::noise("b", Dtype::F64, &[300], 4, 3),
        TestTensor::noise("c", Dtype::F32, &[1100], 4, 4),
    ]));
}

/// Round to nearest even by integers alone: what a cast has to give, NaNs aside.
fn bf16_of(bits: u32) -> u16 {
    (bits.wrapping_add(0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

#[test]
fn masters_are_cast_on_either_side() {
    let mut random = Random::new(5);
    // Finite, with exponents of weights.
    let master = |random: &mut Random| (random.word() & 0x80ff_ffff) | (110 + random.below(14) as u32) << 23;
    let masters: Vec<u32> = (0..3000).map(|_| master(&mut random)).collect();
    let moved: Vec<u32> = masters.iter().map(|bits| if random.below(5) == 0 { bits + 40_000 } else { *bits }).collect();
    let f32_bytes = |cells: &[u32]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>();
    let bf16_bytes = |cells: &[u32]| cells.iter().flat_map(|cell| bf16_of(*cell).to_le_bytes()).collect::<Vec<u8>>();
    let tensor = |dtype, base, target| TestTensor::new("w", dtype, &[3000], base, target);
    let stored = tensor(Dtype::F32, f32_bytes(&masters), f32_bytes(&moved));
    let cast = Pair::new([tensor(Dtype::Bf16, bf16_bytes(&masters), bf16_bytes(&moved))]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("f32_base"), safetensors_file([(&stored, stored.base.as_slice())].into_iter())).unwrap();
    std::fs::write(path("f32_target"), safetensors_file([(&stored, stored.target.as_slice())].into_iter())).unwrap();
    std::fs::write(path("bf16_base"), cast.base_file()).unwrap();
    std::fs::write(path("bf16_target"), cast.target_file()).unwrap();
    let mut patches = Vec::new();
    for (base, target) in [
        ("f32_base", "f32_target"),
        ("bf16_base", "f32_target"),
        ("f32_base", "bf16_target"),
        ("bf16_base", "bf16_target"),
    ] {
        let options = EncodeOptions { cast: Some(Cast::Bf16), ..EncodeOptions::default() };
        encode_file(&path(base), &path(target), &path("patch"), &options, &Silent).unwrap();
        patches.push(std::fs::read(path("patch")).unwrap());
    }
    assert!(patches.iter().all(|patch| *patch == patches[0]), "a cast side is as good as a side that is cast already");
    in_memory_paths(&patches[0], &cast.base_cells(), &cast.target_cells());
    apply_file(&path("patch"), &path("bf16_base"), &path("rebuilt"), &Silent).unwrap();
    assert!(std::fs::read(path("rebuilt")).unwrap() == cast.target_file());
    // The receiver's checkpoint is BF16: one of masters is another.
    assert_eq!(apply_file(&path("patch"), &path("f32_base"), &path("no"), &Silent).unwrap_err().code(), "tensors");
}

/// FP16 is widened exactly and then rounded: to the same BF16 as its value in FP32.
#[test]
fn fp16_masters_are_cast() {
    // 1, 2^-14, a tie to even below and above, -1.5 and the largest; BF16 keeps 8 of 11 bits.
    let cells: [(u16, u16); 6] =
        [(0x3c00, 0x3f80), (0x0400, 0x3880), (0x3c04, 0x3f80), (0x3c0c, 0x3f82), (0xbe00, 0xbfc0), (0x7bff, 0x4780)];
    let side =
        |pick: fn(&(u16, u16)) -> u16| cells.iter().flat_map(|cell| pick(cell).to_le_bytes()).collect::<Vec<u8>>();
    let base = Pair::new([TestTensor::new("w", Dtype::F16, &[6], side(|cell| cell.0), side(|cell| cell.0))]);
    let same = Pair::new([TestTensor::new("w", Dtype::Bf16, &[6], side(|cell| cell.1), side(|cell| cell.1))]);
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    std::fs::write(path("f16"), base.base_file()).unwrap();
    std::fs::write(path("bf16"), same.base_file()).unwrap();
    let options = EncodeOptions { cast: Some(Cast::Bf16), ..EncodeOptions::default() };
    let header = encode_file(&path("f16"), &path("bf16"), &path("patch"), &options, &Silent).unwrap();
    assert_eq!((header.changes().get(), header.tensors[0].dtype), (0, Dtype::Bf16));
}

/// Writes the tensors named in `shards` into one file each, with the index that Hugging Face libraries write.
fn write_sharded(folder: &Path, pair: &Pair, target: bool, shards: &[&[&str]]) {
    std::fs::create_dir(folder).unwrap();
    let mut weight_map = serde_json::Map::new();
    for (number, names) in (1..).zip(shards) {
        let file = format!("model-{number:05}-of-{:05}.safetensors", shards.len());
        let find = |name: &&str| pair.tensors.iter().find(|tensor| tensor.name == *name).unwrap();
        let tensors =
            names.iter().map(find).map(|tensor| (tensor, if target { tensor.target.as_slice() } else { &tensor.base }));
        std::fs::write(folder.join(&file), safetensors_file(tensors)).unwrap();
        weight_map.extend(names.iter().map(|name| ((*name).to_string(), file.clone().into())));
    }
    let index = serde_json::json!({ "metadata": { "total_size": 1 }, "weight_map": weight_map });
    std::fs::write(folder.join("model.safetensors.index.json"), index.to_string()).unwrap();
}

#[test]
fn shards_need_not_be_the_same_on_both_sides() {
    let pair = Pair::mixed();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    let (base_file, target_file) = pair.write(folder.path());
    write_sharded(
        &path("base"),
        &pair,
        false,
        &[&["scale", "layers.0.w"], &["mask", "layers.1.norm", "ids", "counts"]],
    );
    write_sharded(
        &path("target"),
        &pair,
        true,
        &[&["counts"], &["layers.0.w", "ids", "layers.1.norm"], &["mask", "scale"]],
    );
    std::fs::write(path("base").join("config.json"), "{}").unwrap();
    std::fs::write(path("base").join("tokenizer.model"), [0, 1, 255]).unwrap();
    for (number, (base, target)) in
        [(&path("base"), &path("target")), (&path("base"), &target_file), (&base_file, &path("target"))]
            .into_iter()
            .enumerate()
    {
        let patch = path(&format!("{number}.pulse"));
        encode_file(base, target, &patch, &Pair::mixed_options(), &Silent).unwrap();
        assert_eq!(std::fs::read(&patch).unwrap(), pair.encode(&Pair::mixed_options()), "files do not show in a patch");
        verify_file(&patch, base, Some(target), &Silent).unwrap();
    }
    // The result is laid out as the base: its shards, its index, its other files.
    write_sharded(
        &path("expected"),
        &pair,
        true,
        &[&["scale", "layers.0.w"], &["mask", "layers.1.norm", "ids", "counts"]],
    );
    std::fs::write(path("expected").join("config.json"), "{}").unwrap();
    std::fs::write(path("expected").join("tokenizer.model"), [0, 1, 255]).unwrap();
    apply_file(&path("0.pulse"), &path("base"), &path("rebuilt"), &Silent).unwrap();
    same_folders(&path("rebuilt"), &path("expected"));
    std::fs::create_dir(path("empty")).unwrap();
    apply_file(&path("0.pulse"), &path("base"), &path("empty"), &Silent).unwrap();
    same_folders(&path("empty"), &path("expected"));
    // A folder that holds something is not touched.
    let error = apply_file(&path("0.pulse"), &path("base"), &path("target"), &Silent).unwrap_err();
    assert_eq!(error.code(), "usage", "{error}");
}

#[test]
fn a_file_may_be_patched_in_place() {
    let pair = Pair::mixed();
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = pair.write(folder.path());
    let patch = folder.path().join("patch");
    encode_file(&base, &target, &patch, &EncodeOptions::default(), &Silent).unwrap();
    apply_file(&patch, &base, &base, &Silent).unwrap();
    assert!(std::fs::read(&base).unwrap() == pair.target_file());
}

/// Applied to its own target, an absolute patch changes nothing; on a contextual one the base is wrong.
#[test]
fn only_absolute_patches_apply_twice() {
    let pair = Pair::new([TestTensor::weights("w", &[3000], 9, 1), TestTensor::noise("n", Dtype::U32, &[400], 3, 2)]);
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = pair.write(folder.path());
    let patch = folder.path().join("patch");
    for (profile, again) in [(ProfileChoice::Absolute, None), (ProfileChoice::Contextual, Some("wrong_base"))] {
        let options = EncodeOptions { profile, ..EncodeOptions::default() };
        encode_file(&base, &target, &patch, &options, &Silent).unwrap();
        assert_eq!(verify_file(&patch, &target, None, &Silent).err().map(|error| error.code()), again);
    }
}

fn tensors() -> impl Strategy<Value = Vec<TestTensor>> {
    let tensor = (
        0..Dtype::ALL.len(),
        prop_oneof![0..40u64, 1000..1050u64, 0..5000u64],
        0..30usize,
        any::<u64>(),
        any::<bool>(),
    );
    prop::collection::vec(tensor, 0..7).prop_map(|tensors| {
        let tensors = tensors.into_iter().enumerate().map(|(index, (dtype, elements, every, seed, weights))| {
            let (name, dtype) = (format!("{:x}.{index}", seed % 16), Dtype::ALL[dtype]);
            if weights {
                TestTensor::weights(&name, &[elements], every, seed)
            } else {
                TestTensor::noise(&name, dtype, &[whole(dtype, elements)], every, seed)
            }
        });
        tensors.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_checkpoint(tensors in tensors(), profile in 0..PROFILES.len(), seed: u64, segment_cells in prop_oneof![Just(1024u32), 1024..9000u32, Just(1 << 22)]) {
        let profile = PROFILES[profile];
        round_trip(&Pair::new(tensors), &EncodeOptions { profile, seed, segment_cells, ..EncodeOptions::default() });
    }
}
