//! PULSEPT1 against the facts that its authors publish of their golden patches, and TRL against what its own code writes.
//!
//! A frame of PULSEPT1 depends on the version of zstd, so header and decompressed payload are compared.

use pulse_interop::pulsept1::{Model, PulsePt1};
use pulse_interop::trl::Trl;
use pulse_interop::{Checkpoint, Digest, Limits, PatchFormat, Steps, Tensor};

const STEPS: Steps = Steps { base: 0, target: 1 };
const BASE: &str = "b6153b9125b43d9bb92650a8fe215590";
const TARGET: &str = "3f430f4c1db44059e638cdd7755b3078";

/// `w.a` [[0, 1], [2, 3]] and `w.b` [1.5, -2.5, 0] as BF16; one cell of each changes, to 1.25 and to 7.
fn states() -> [([u16; 4], [u16; 3]); 2] {
    [
        ([0x0000, 0x3F80, 0x4000, 0x4040], [0x3FC0, 0xC020, 0x0000]),
        ([0x0000, 0x3FA0, 0x4000, 0x4040], [0x3FC0, 0xC020, 0x40E0]),
    ]
}

fn checkpoint(state: &([u16; 4], [u16; 3])) -> Checkpoint<'_> {
    Checkpoint::new(vec![
        Tensor { name: "w.a", shape: vec![2, 2], cells: &state.0 },
        Tensor { name: "w.b", shape: vec![3], cells: &state.1 },
    ])
    .unwrap()
}

/// Format, and its payload: positions and values of `w.a`, then of `w.b`.
fn goldens() -> [(PulsePt1, u32, [&'static [u8]; 4]); 3] {
    [
        (PulsePt1::v1(), 1, [&[1, 0, 0, 0], &[0xA0, 0x3F], &[2, 0, 0, 0], &[0xE0, 0x40]]),
        (PulsePt1::v2(), 2, [&[0, 1, 0, 0, 0, 0xBF], &[0x40], &[0, 1, 0, 0, 0, 0xDF], &[0xFF, 0xC0, 0x81]]),
        (
            PulsePt1::v3(),
            3,
            // Each change is the only cell of its class: the complement, of no ranks.
            [
                &[1, 0, 0x7F, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                &[0x40],
                &[1, 0, 0x00, 1, 0, 0, 0, 0, 0, 0, 0, 0],
                &[0xFF, 0xC0, 0x81],
            ],
        ),
    ]
}

fn header(version: u32, sections: [&[u8]; 4]) -> String {
    let encodings = match version {
        1 => ("delta-u16-esc", ""),
        2 => ("rice-gap", ",\"valEnc\":\"zz-delta-u8esc\""),
        _ => ("exp-class-rice", ",\"valEnc\":\"zz-delta-u8esc\""),
    };
    let target = states()[1];
    let tensor = |name: &str, count: usize, shape: &str, digest: Digest, sections: [&[u8]; 2]| {
        let [idx, val] = sections.map(<[u8]>::len);
        let (idx_enc, val_enc) = encodings;
        format!(
            "{{\"changed\":1,\"dtype\":\"bf16\",\"idxBytes\":{idx},\"idxEnc\":\"{idx_enc}\",\"name\":\"{name}\",\
             \"numel\":{count},\"shape\":{shape},\"tensorDigest\":\"xxh3_128:{digest}\",\"valBytes\":{val}{val_enc}}}"
        )
    };
    let [a_idx, a_val, b_idx, b_val] = sections;
    let a = tensor("w.a", 4, "[2,2]", Digest::of_cells(&target.0), [a_idx, a_val]);
    let b = tensor("w.b", 3, "[3]", Digest::of_cells(&target.1), [b_idx, b_val]);
    format!(
        "{{\"baseStateDigest\":\"xxh3_128:{BASE}\",\"baseStep\":0,\"formatVersion\":{version},\
         \"model\":{{\"digest\":\"xxh3_128:{BASE}\",\"id\":\"test@deadbeef\",\"paramCount\":7}},\
         \"stateDigest\":\"xxh3_128:{TARGET}\",\"step\":1,\"tensors\":[{a},{b}]}}"
    )
}

#[test]
fn state_digests_are_the_published_ones() {
    let [base, target] = &states();
    assert_eq!(Digest::of_state(&checkpoint(base)).to_string(), BASE);
    assert_eq!(Digest::of_state(&checkpoint(target)).to_string(), TARGET);
    assert_eq!(Digest::of_cells(&base.0).to_string(), "2f0c4c6cbbee19409010d09bac39a377");
}

#[test]
fn patches_are_written_as_published() {
    let [base, target] = &states();
    let model = Model { id: "test@deadbeef".into(), digest: Digest::from_hex(BASE).unwrap() };
    for (format, version, sections) in goldens() {
        let bytes = format.with_model(model.clone()).encode(STEPS, &checkpoint(base), &checkpoint(target)).unwrap();
        let header = header(version, sections);
        assert_eq!(&bytes[..8], b"PULSEPT1");
        assert_eq!(bytes[8..12], (header.len() as u32).to_le_bytes());
        let (json, frame) = bytes[12..].split_at(header.len());
        assert_eq!(String::from_utf8_lossy(json), header, "v{version}");
        assert_eq!(zstd::bulk::decompress(frame, 1 << 10).unwrap(), sections.concat(), "v{version}");
    }
}

#[test]
fn patches_are_read_as_published() {
    let [base, target] = &states();
    for (format, version, sections) in goldens() {
        let header = header(version, sections);
        let mut bytes = b"PULSEPT1".to_vec();
        bytes.extend_from_slice(&(header.len() as u32).to_le_bytes());
        bytes.extend_from_slice(header.as_bytes());
        // Their writer streams, so its frames do not tell their size.
        bytes.extend_from_slice(&zstd::stream::encode_all(&sections.concat()[..], 1).unwrap());
        let mut cells = checkpoint(base).to_cells();
        format.apply(&bytes, &checkpoint(base), &mut cells, &Limits::default()).unwrap();
        assert_eq!(cells, checkpoint(target).to_cells(), "v{version}");
        let patch = format.decode(&bytes, &checkpoint(base), &Limits::default()).unwrap();
        assert_eq!((patch.base_step, patch.target_step), (Some(0), Some(1)));
    }
}

/// TRL applies nothing, and says nothing, unless `sparse` is Python's `True` and `changed_params` lists the names.
#[test]
fn trl_patches_are_written_as_trl_does() {
    let [base, target] = &states();
    let same: Vec<u16> = vec![0x3F80; 70_000];
    let mut far = same.clone();
    far[69_999] = 0x3F81;
    let with = |state, cells| {
        let checkpoint = checkpoint(state);
        let more = Tensor { name: "w-c", shape: vec![70_000], cells };
        Checkpoint::new([checkpoint.tensors(), &[more]].concat()).unwrap()
    };
    let common = "\"format\":\"sparse_weight_patch\",\"model_version\":\"1\",\"num_changed_params\":\"3\",\
                  \"sparse\":\"True\",\"sparsity\":\"0.9999571471424286\",\"total_changed_elements\":\"3\",\
                  \"total_elements\":\"70007\",\"version\":\"1\"";
    let entry = |key: &str, dtype: &str, start: u64, end: u64| {
        format!(",\"{key}\":{{\"dtype\":\"{dtype}\",\"shape\":[1],\"data_offsets\":[{start},{end}]}}")
    };
    let v1 = [
        format!("{{\"__metadata__\":{{\"changed_params\":\"[\\\"w-c\\\", \\\"w.a\\\", \\\"w.b\\\"]\",{common}}}"),
        entry("w-c.indices", "I32", 0, 4) + &entry("w.a.indices", "I32", 4, 8) + &entry("w.b.indices", "I32", 8, 12),
        entry("w-c.values", "BF16", 12, 14)
            + &entry("w.a.values", "BF16", 14, 16)
            + &entry("w.b.values", "BF16", 16, 18),
    ];
    let gap_delta = [
        format!("{{\"__metadata__\":{{\"encoding\":\"gap_delta\",{common}}}"),
        entry("w-c.idx", "U32", 0, 4) + &entry("w-c.val", "BF16", 4, 6) + &entry("w.a.val", "BF16", 6, 8),
        entry("w.b.val", "BF16", 8, 10) + &entry("w.a.idx", "U16", 10, 12) + &entry("w.b.idx", "U16", 12, 14),
    ];
    let cells = [0x81, 0x3F, 0xA0, 0x3F, 0xE0, 0x40];
    let far_index = 69_999_u32.to_le_bytes();
    let v1_data = [&far_index[..], &[1, 0, 0, 0, 2, 0, 0, 0], &cells].concat();
    let gap_data = [&far_index[..], &cells, &[1, 0, 2, 0]].concat();
    for (format, json, data) in [(Trl::V1, v1, v1_data), (Trl::GapDelta, gap_delta, gap_data)] {
        let bytes = format.encode(STEPS, &with(base, &same), &with(target, &far)).unwrap();
        let (header, rest) = bytes[8..].split_at(bytes.len() - 8 - data.len());
        assert_eq!(String::from_utf8_lossy(header).trim_end(), json.concat() + "}", "{}", format.name());
        assert_eq!(rest, data, "{}", format.name());
    }
}
