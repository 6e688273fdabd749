use super::*;
use crate::Tensor;

const STEPS: Steps = Steps { base: 1, target: 2 };

fn checkpoint<'a>(shape: &[u64], cells: &'a [u16]) -> Checkpoint<'a> {
    Checkpoint::new(vec![Tensor { name: "w", shape: shape.to_vec(), cells }]).unwrap()
}

/// Encodes a patch of a 3 x 4 tensor that changes at 2, 3 and 9, and returns header JSON and payload.
fn sample(version: Grail) -> (String, Vec<u8>) {
    let base = [0; 12];
    let mut target = base;
    for (position, cell) in [(2, 0x8000), (3, 0x3F80), (9, 0x7FC1)] {
        target[position] = cell;
    }
    let bytes = version.encode(STEPS, &checkpoint(&[3, 4], &base), &checkpoint(&[3, 4], &target)).unwrap();
    let bytes = zstd::bulk::decompress(&bytes, 1 << 20).unwrap();
    let (len, rest) = bytes.split_first_chunk().unwrap();
    let (json, payload) = rest.split_at(u32::from_le_bytes(*len) as usize);
    (String::from_utf8(json.to_vec()).unwrap(), payload.to_vec())
}

fn assemble(json: &str, payload: &[u8]) -> Vec<u8> {
    let len = (json.len() as u32).to_le_bytes();
    zstd_frame::compress(&[&len, json.as_bytes(), payload].concat()).unwrap()
}

const VALUES: [u8; 6] = [0x00, 0x80, 0x80, 0x3F, 0xC1, 0x7F];

#[test]
fn v2_codes_flat_differences() {
    let (json, payload) = sample(Grail::V2);
    assert_eq!(
        json,
        r#"{"version":2,"tensors":[{"name":"w","shape":[3,4],"num_nonzero":3,"value_dtype":"bfloat16","#.to_owned()
            + r#""indices_offset":0,"indices_size":12,"values_offset":12,"values_size":6}]}"#
    );
    assert_eq!(payload, [&[2, 0, 0, 0, 1, 0, 0, 0, 6, 0, 0, 0], &VALUES[..]].concat());
}

#[test]
fn v3_codes_rows_and_columns() {
    let (json, payload) = sample(Grail::V3);
    assert_eq!(
        json,
        r#"{"version":3,"tensors":[{"name":"w","shape":[3,4],"num_nonzero":3,"value_dtype":"bfloat16","#.to_owned()
            + r#""indices_offset":0,"indices_size":24,"rows_size":12,"cols_size":12,"values_offset":24,"values_size":6}]}"#
    );
    let rows = [0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0];
    let cols = [2, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0];
    assert_eq!(payload, [&rows[..], &cols, &VALUES].concat());
}

#[test]
fn v3_1_narrows_rows_to_a_byte_and_columns_to_two() {
    let (json, payload) = sample(Grail::V3_1);
    assert_eq!(
        json,
        r#"{"version":31,"tensors":[{"name":"w","shape":[3,4],"num_nonzero":3,"value_dtype":"bfloat16","#.to_owned()
            + r#""row_dtype":"uint8","col_dtype":"uint16","indices_offset":0,"indices_size":9,"#
            + r#""rows_size":3,"cols_size":6,"values_offset":9,"values_size":6}]}"#
    );
    assert_eq!(payload, [&[0, 0, 2, 2, 0, 1, 0, 1, 0], &VALUES[..]].concat());
}

#[test]
fn v3_1_widens_what_does_not_fit() {
    for (shape, position, row_type, col_type) in [
        (vec![255, 1], 254, "uint8", "uint16"),
        (vec![300], 299, "uint16", "uint16"),
        (vec![70_000], 69_999, "int32", "uint16"),
        (vec![1, 65_536], 65_535, "uint8", "uint16"),
        (vec![1, 70_000], 65_536, "uint8", "int32"),
    ] {
        let base = vec![1; shape.iter().product::<u64>() as usize];
        let mut target = base.clone();
        target[position] = 2;
        let (base, target) = (checkpoint(&shape, &base), checkpoint(&shape, &target));
        let bytes = Grail::V3_1.encode(STEPS, &base, &target).unwrap();
        let text = String::from_utf8_lossy(&zstd::bulk::decompress(&bytes, 1 << 20).unwrap()).into_owned();
        assert!(text.contains(&format!(r#""row_dtype":"{row_type}","col_dtype":"{col_type}""#)), "{shape:?}: {text}");
        let patch = Grail::V3_1.decode(&bytes, &base, &Limits::default()).unwrap();
        assert_eq!(patch.tensors[0].indices, [position as u64]);
    }
}

#[test]
fn headers_that_lie_are_rejected() {
    let base = [0; 12];
    let base = checkpoint(&[3, 4], &base);
    for version in [Grail::V2, Grail::V3, Grail::V3_1] {
        let (json, payload) = sample(version);
        let read = |json: &str, payload: &[u8]| version.decode(&assemble(json, payload), &base, &Limits::default());
        assert!(read(&json, &payload).is_ok());
        for (from, to, code) in [
            ("\"num_nonzero\":3", "\"num_nonzero\":4", "damaged"),
            ("\"num_nonzero\":3", "\"num_nonzero\":18446744073709551615", "damaged"),
            ("\"num_nonzero\":3", "\"num_nonzero\":0", "damaged"),
            ("\"values_size\":6", "\"values_size\":18446744073709551610", "damaged"),
            ("\"indices_offset\":0", "\"indices_offset\":1", "damaged"),
            ("\"shape\":[3,4]", "\"shape\":[4,3]", "wrong_base"),
            ("\"name\":\"w\"", "\"name\":\"v\"", "wrong_base"),
            ("bfloat16", "float32", "unsupported"),
            ("\"version\":", "\"version\":1", "unsupported"),
            ("{\"version\"", "[\"version\"", "damaged"),
        ] {
            assert_eq!(read(&json.replace(from, to), &payload).unwrap_err().code(), code, "{version:?}: {to}");
        }
        assert_eq!(read(&json, &payload[1..]).unwrap_err().code(), "truncated");
        assert_eq!(read(&json, &[&payload[..], &[0]].concat()).unwrap_err().code(), "damaged");
        let mut outside = payload.clone();
        outside[0] = 12;
        assert_eq!(read(&json, &outside).unwrap_err().code(), "damaged");
    }
}
