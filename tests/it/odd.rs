//! Odd checkpoints: whatever encodes also applies, and what a patch cannot hold is refused before work begins, by the tensor's name.

use crate::support::cells::{Pair, TestTensor};
use proptest::prelude::*;
use pulse_encoder::{EncodeOptions, Error, Silent, encode_file, verify_file};
use pulse_format::layout::{MAX_NAME_BYTES, MAX_RANK};
use pulse_format::{Dtype, Header};

/// Encodes through files; what encodes must apply under the default limits.
fn encode_and_verify(pair: &Pair, options: &EncodeOptions) -> Result<Header, Error> {
    let folder = tempfile::tempdir().unwrap();
    let (base, target) = pair.write(folder.path());
    let patch = folder.path().join("patch");
    let header = encode_file(&base, &target, &patch, options, &Silent)?;
    verify_file(&patch, &base, Some(&target), &Silent).unwrap();
    Ok(header)
}

/// A tensor of eight bytes of cells, with as many dimensions, of which `changes` of the cells change.
fn small(name: &str, rank: usize, changes: bool) -> TestTensor {
    let mut shape = vec![1; rank];
    shape.extend([4]);
    let every = usize::from(changes);
    TestTensor::weights(name, &shape, every, name.len() as u64)
}

fn refused(name: &str, rank: usize) -> String {
    let pair = Pair::new([small("a", 0, true), small(name, rank, false), small("z", 0, false)]);
    let error = encode_and_verify(&pair, &EncodeOptions::default()).unwrap_err();
    assert_eq!(error.code(), "checkpoint");
    error.to_string()
}

/// A mixture of experts: 48 layers of 128 experts, each with three tensors, and four more tensors a layer. Their table repeats so much that
/// its frame holds hundreds of times its bytes.
#[test]
fn thousands_of_small_tensors() {
    let experts = (0..48).flat_map(|layer| {
        let expert = move |number: usize| {
            ["down_proj", "gate_proj", "up_proj"]
                .map(|part| small(&format!("model.layers.{layer}.mlp.experts.{number}.{part}.weight"), 1, false))
        };
        let attention = ["k_proj", "o_proj", "q_proj", "v_proj"]
            .map(|part| small(&format!("model.layers.{layer}.self_attn.{part}.weight"), 1, false));
        (0..128).flat_map(expert).chain(attention)
    });
    let mut tensors: Vec<TestTensor> = experts.collect();
    tensors[100] = small(&tensors[100].name.clone(), 1, true);
    assert_eq!(tensors.len(), 18_624);
    let header = encode_and_verify(&Pair::new(tensors), &EncodeOptions::default()).unwrap();
    assert_eq!(header.tensors.len(), 18_624);
}

#[test]
fn what_a_patch_cannot_hold_is_refused_by_name() {
    let long = "layers.".repeat(800);
    let message = refused(&long, 0);
    assert!(message.contains("tensor layers.layers.") && message.len() < 400, "{message}");
    assert!(message.contains("its name has 5600 bytes, and a patch holds 4096"), "{message}");
    let message = refused("deep", 19);
    assert!(message.ends_with("tensor deep: it has 20 dimensions, and a patch holds 16"), "{message}");
    // Names do not forge lines.
    let message = refused("forged\n\u{1b}[31m", 19);
    assert!(message.contains("tensor forged\\n\\u{1b}[31m: it has 20"), "{message}");
}

#[test]
fn what_a_patch_just_holds_applies() {
    let longest = "n".repeat(MAX_NAME_BYTES);
    let tensors = [small(&longest, 0, true), small("deepest", MAX_RANK - 1, true), small("", 0, true)];
    encode_and_verify(&Pair::new(tensors), &EncodeOptions::default()).unwrap();
}

fn name() -> impl Strategy<Value = String> {
    prop_oneof![
        8 => "[a-c.]{0,4}",
        4 => "\\PC{0,12}",
        2 => any::<String>(),
        1 => (4000..4200usize).prop_map(|length| "é".repeat(length / 2)),
    ]
}

fn tensors() -> impl Strategy<Value = Vec<TestTensor>> {
    let shape = prop_oneof![
        8 => prop::collection::vec(0..5u64, 0..5),
        1 => prop::collection::vec(1..2u64, 14..19),
        1 => Just(vec![1 << 40, 0, 1 << 40]),
    ];
    let tensor = (name(), shape, 0..Dtype::ALL.len(), 0..3usize);
    prop::collection::vec(tensor, 0..12).prop_map(|tensors| {
        let mut by_name = std::collections::BTreeMap::new();
        for (name, mut shape, dtype, every) in tensors {
            let dtype = Dtype::ALL[dtype];
            // Whole bytes of what is narrower.
            if dtype.element_bits() < 8 {
                shape.push(4);
            }
            if shape.contains(&0) {
                let empty = TestTensor { name: name.clone(), dtype, shape, base: Vec::new(), target: Vec::new() };
                by_name.insert(name, empty);
            } else {
                by_name.insert(name.clone(), TestTensor::noise(&name, dtype, &shape, every, 7));
            }
        }
        by_name.into_values().collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_encodes_applies(tensors in tensors(), run_id in "\\PC{0,300}") {
        let holds = |tensor: &TestTensor| tensor.name.len() <= MAX_NAME_BYTES && tensor.shape.len() <= MAX_RANK;
        let (fits, names_run) = (tensors.iter().all(holds), run_id.len() <= 256);
        let options = EncodeOptions { run_id, ..EncodeOptions::default() };
        match encode_and_verify(&Pair::new(tensors), &options) {
            Ok(_) => prop_assert!(fits && names_run),
            Err(error) => {
                prop_assert_eq!(error.code(), if names_run { "checkpoint" } else { "usage" });
                prop_assert!(!fits || !names_run, "{}", error);
            }
        }
    }
}
