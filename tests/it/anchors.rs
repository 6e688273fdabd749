//! Anchors: patches from nothing, made of a checkpoint, and back by every path.

use crate::support::binary::pulse;
use crate::support::cells::{Cells, Pair, TestTensor};
use crate::support::check::in_memory_paths;
use pollster::block_on;
use proptest::prelude::*;
use pulse_applier_wasm::cpu::Session;
use pulse_applier_wasm::{NoHooks, Options};
use pulse_encoder::{EncodeOptions, PackOptions, Silent, Zstd, pack_file, unpack_file, verify_file};
use pulse_format::{Dtype, Header, Limits, Profile, Step};
use std::path::Path;

fn header(anchor: &[u8]) -> Header {
    Header::read(anchor, &Zstd::default(), &Limits::default()).unwrap()
}

/// The cells of a safetensors file, by a reader that is not ours.
fn cells_of(path: &Path) -> Cells {
    let file = std::fs::read(path).unwrap();
    let tensors = safetensors::SafeTensors::deserialize(&file).unwrap();
    tensors.iter().map(|(name, view)| (name.to_string(), view.data().to_vec())).collect()
}

/// Packs the targets of `pair`, unpacks them by every path; returns the anchor.
fn check(pair: &Pair, segment_cells: u32) -> Vec<u8> {
    let options = EncodeOptions { segment_cells, seed: 3, target_step: Step(7), ..EncodeOptions::default() };
    let anchor = pair.pack(&options);
    let header = header(&anchor);
    assert_eq!((header.base_step, header.target_step, header.is_anchor()), (None, Step(7), true));
    assert!(header.segments.iter().all(|segment| segment.profile == Profile::Dense));
    // Over any cells.
    in_memory_paths(&anchor, &pair.base_cells(), &pair.target_cells());
    let folder = tempfile::tempdir().unwrap();
    let (_, target) = pair.write(folder.path());
    let [packed, unpacked] = ["anchor", "unpacked"].map(|name| folder.path().join(name));
    let options = PackOptions { segment_cells, seed: 3, step: Step(7), ..PackOptions::default() };
    let written = pack_file(&target, &packed, &options, &Silent).unwrap();
    assert_eq!((&written, std::fs::read(&packed).unwrap() == anchor), (&header, true), "by file as in memory");
    unpack_file(&packed, &unpacked, &Silent).unwrap();
    assert!(cells_of(&unpacked) == pair.target_cells());
    verify_file(&packed, &target, Some(&target), &Silent).unwrap();
    anchor
}

#[test]
fn every_dtype_comes_back() {
    let noise = |dtype: &Dtype| TestTensor::noise(dtype.name(), *dtype, &[60, 44], 4, 30 + *dtype as u64);
    let pair = Pair::new(Dtype::ALL.iter().map(noise).collect::<Vec<_>>());
    for segment_cells in [1024, 1 << 22] {
        check(&pair, segment_cells);
    }
    check(&Pair::mixed(), 1024);
    check(&Pair::new([]), 1024);
    check(&Pair::new([TestTensor::weights("none", &[0, 3], 0, 1), TestTensor::weights("one", &[], 0, 1)]), 1024);
}

/// Of weights the exponents take 2 to 3 bits; of what repeats next to nothing is left; noise takes what it takes.
#[test]
fn planes_are_as_small_as_they_can_be() {
    let share = |tensor: TestTensor| {
        let bytes = tensor.target.len() as f64;
        check(&Pair::new([tensor]), 1 << 22).len() as f64 / bytes
    };
    let cells = 1 << 18;
    assert!(share(TestTensor::weights("w", &[cells], 0, 1)) < 0.64);
    assert!((1.0..1.001).contains(&share(TestTensor::noise("n", Dtype::U16, &[cells], 0, 2))));
    let zeros = vec![0; 4 * cells as usize];
    assert!(share(TestTensor::new("z", Dtype::F32, &[cells], zeros.clone(), zeros)) < 0.001);
    // BF16 weights held in FP32: half of each cell is zeros.
    let narrow = TestTensor::weights("w", &[cells], 0, 1).target;
    let wide: Vec<u8> = narrow.as_chunks::<2>().0.iter().flat_map(|[low, high]| [0, 0, *low, *high]).collect();
    assert!(share(TestTensor::new("w", Dtype::F32, &[cells], wide.clone(), wide)) < 0.33);
}

/// What the library of that name writes comes back byte for byte.
#[test]
fn a_file_of_the_safetensors_library_comes_back_whole() {
    let folder = tempfile::tempdir().unwrap();
    let [file, anchor, unpacked] = ["file.safetensors", "anchor", "unpacked"].map(|name| folder.path().join(name));
    let data: Vec<u8> = (0..24).collect();
    let view = |dtype, shape: &[usize], bytes: usize| {
        safetensors::tensor::TensorView::new(dtype, shape.to_vec(), &data[..bytes]).unwrap()
    };
    let tensors = [
        ("b", view(safetensors::Dtype::BF16, &[2, 3], 12)),
        ("a \"quoted\" \u{e9}", view(safetensors::Dtype::BF16, &[], 2)),
        ("c", view(safetensors::Dtype::F32, &[3], 12)),
        ("d", view(safetensors::Dtype::U8, &[0], 0)),
    ];
    let metadata = [("format".to_string(), "pt".to_string())].into();
    std::fs::write(&file, safetensors::serialize(tensors, Some(metadata)).unwrap()).unwrap();
    pack_file(&file, &anchor, &PackOptions::default(), &Silent).unwrap();
    unpack_file(&anchor, &unpacked, &Silent).unwrap();
    assert_eq!(std::fs::read(&unpacked).unwrap(), std::fs::read(&file).unwrap());
}

/// Joining and updating are one path: a session takes an anchor over whatever is there, and the patches that follow; and a poisoned one
/// is sound again.
#[test]
fn a_session_joins_by_an_anchor() {
    let pair = Pair::mixed();
    let options = EncodeOptions { base_step: Step(4), target_step: Step(5), ..Pair::mixed_options() };
    let anchor = pair.reversed().pack(&EncodeOptions { target_step: Step(4), ..options.clone() });
    let patch = pair.encode(&options);
    let mut session = Session::new(Options::default());
    for tensor in &header(&anchor).tensors {
        session.bind(tensor.clone(), vec![0xa5; pair.base_cells()[&tensor.name].len()], 0).unwrap();
    }
    let apply = |session: &mut Session<Vec<u8>>, patch: &[u8]| block_on(session.apply(patch, &NoHooks));
    let applied = apply(&mut session, &anchor).unwrap();
    assert_eq!((applied.base_step, session.step(), session.undo_step()), (None, Some(Step(4)), None));
    assert_eq!(applied.fingerprint, header(&anchor).target_fingerprint());
    let held = |session: &Session<Vec<u8>>, cells: &Cells| {
        cells.iter().all(|(name, bytes)| session.memory(name) == Some(bytes))
    };
    assert!(held(&session, &pair.base_cells()));
    apply(&mut session, &patch).unwrap();
    assert!(held(&session, &pair.target_cells()));
    // Back to the anchor's step; from there the step before is known.
    apply(&mut session, &anchor).unwrap();
    assert_eq!(session.undo_step(), Some(Step(5)));
    assert_eq!(block_on(session.undo(&NoHooks)), Ok(Step(5)));
    assert!(held(&session, &pair.target_cells()));
}

/// A patch tells tensors of two dtypes apart where a file cannot.
#[test]
fn what_no_file_can_hold_is_not_written() {
    let folder = tempfile::tempdir().unwrap();
    let [anchor, out] = ["anchor", "out"].map(|name| folder.path().join(name));
    let tensor = |name: &str, dtype: Dtype| TestTensor::noise(name, dtype, &[4], 0, 1);
    for (names, text) in [(["a", "a"], "named a"), (["__metadata__", "b"], "named __metadata__")] {
        let pair = Pair::new([tensor("one", Dtype::Bf16), tensor("two", Dtype::F32)]);
        let patch = pair.pack(&EncodeOptions::default());
        let mut header = header(&patch);
        header.tensors.iter_mut().zip(names).for_each(|(tensor, name)| tensor.name = name.into());
        let payload = &patch[header.payload_start.get() as usize..];
        std::fs::write(&anchor, [&header.write(&Zstd::default()).unwrap(), payload].concat()).unwrap();
        let error = unpack_file(&anchor, &out, &Silent).unwrap_err().to_string();
        assert!(error.contains(text) && !out.exists(), "{error}");
    }
}

#[test]
fn the_tool_packs_and_unpacks() {
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = Pair::mixed().write(folder.path());
    let run = |arguments: &[&str]| {
        let output = std::process::Command::new(pulse()).current_dir(folder.path()).args(arguments).output().unwrap();
        (output.status.code(), String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let [base, target] = [&base, &target].map(|path| path.to_str().unwrap());
    let (code, text, _) = run(&["pack", target, "-o", "a.pulse", "--step", "9"]);
    assert!(code == Some(0) && text.starts_with("anchor of step 9: "), "{text}");
    let (code, json, _) = run(&["inspect", "a.pulse", "--json"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!((code, &json["base_step"], &json["target_step"]), (Some(0), &serde_json::Value::Null, &9.into()));
    assert_eq!(run(&["inspect", "a.pulse"]).0, Some(0));
    assert_eq!(run(&["unpack", "a.pulse", "-o", "out.safetensors"]).0, Some(0));
    assert!(cells_of(&folder.path().join("out.safetensors")) == Pair::mixed().target_cells());
    assert_eq!(run(&["verify", "a.pulse"]).0, Some(0));
    assert_eq!(run(&["verify", "a.pulse", "--target", target]).0, Some(0));
    let (code, _, text) = run(&["verify", "a.pulse", "--target", base]);
    assert!(code == Some(4) && text.contains("differs from the target"), "{text}");
    // Over a checkpoint with the same tensors, in its layout.
    assert_eq!(run(&["apply", "a.pulse", base, "-o", "applied.safetensors"]).0, Some(0));
    assert!(cells_of(&folder.path().join("applied.safetensors")) == Pair::mixed().target_cells());
    assert_eq!(run(&["encode", base, target, "-o", "p.pulse"]).0, Some(0));
    let (code, _, text) = run(&["unpack", "p.pulse", "-o", "no.safetensors"]);
    assert!(code == Some(2) && text.contains("`pulse apply` with its base"), "{text}");
    let (code, _, text) = run(&["verify", "p.pulse"]);
    assert!(code == Some(2) && text.contains("name its base with --base"), "{text}");
    let (code, _, text) = run(&["pack", target, "-o", target, "--step", "1"]);
    assert!(code == Some(2) && text.contains("is an input"), "{text}");
    assert!(!folder.path().join("no.safetensors").exists());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_cells_come_back(bytes in prop::collection::vec(any::<u8>(), 0..6000), dtype in 0..Dtype::ALL.len(), few in any::<bool>()) {
        let dtype = Dtype::ALL[dtype];
        let unit = dtype.cell_bytes() * if dtype.element_bits() < 8 { 4 } else { 1 };
        let mut bytes = bytes[..bytes.len() / unit * unit].to_vec();
        if few {
            bytes.iter_mut().for_each(|byte| *byte &= 0x11);
        }
        let elements = bytes.len() as u64 * 8 / dtype.element_bits();
        prop_assume!(elements * dtype.element_bits() == bytes.len() as u64 * 8);
        let pair = Pair::new([TestTensor::new("w", dtype, &[elements], vec![0; bytes.len()], bytes)]);
        check(&pair, 1024);
    }
}
