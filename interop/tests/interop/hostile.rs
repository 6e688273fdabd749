//! What untrusted bytes and wrong bases must not get away with.

use pulse_interop::pulsept1::PulsePt1;
use pulse_interop::trl::Trl;
use pulse_interop::xor::Xor;
use pulse_interop::{Checkpoint, Error, Limits, PatchFormat, all};

use crate::cases::{self, Pair, Random, STEPS};

fn encode(format: &dyn PatchFormat, pairs: &[Pair]) -> Vec<u8> {
    format.encode(STEPS, &cases::base(pairs), &cases::target(pairs)).unwrap()
}

/// Applies `bytes`, and checks that a failure leaves the cells as they were and that both entry points agree.
fn apply(format: &dyn PatchFormat, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<(), Error> {
    let mut cells = base.to_cells();
    let outcome = format.apply(bytes, base, &mut cells, limits);
    if outcome.is_err() {
        assert_eq!(cells, base.to_cells(), "{}: a failure was left half written", format.name());
    }
    let decoded = format.decode(bytes, base, limits);
    assert_eq!(decoded.is_ok(), outcome.is_ok(), "{}: decode and apply disagree", format.name());
    outcome
}

#[test]
fn every_prefix_is_rejected() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    for format in all() {
        let bytes = encode(format.as_ref(), &pairs);
        for len in 0..bytes.len() {
            let error = apply(format.as_ref(), &bytes[..len], &base, &Limits::default()).unwrap_err();
            assert_eq!(error.code(), "truncated", "{} cut to {len}: {error}", format.name());
        }
    }
}

#[test]
fn every_bit_flip_is_survived() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    let target = cases::target(&pairs).to_cells();
    for format in all() {
        let good = encode(format.as_ref(), &pairs);
        let verified = format.name().starts_with("pulsept1") || format.name().starts_with("xor");
        for bit in 0..good.len() * 8 {
            let mut bytes = good.clone();
            bytes[bit / 8] ^= 1 << (bit % 8);
            let mut cells = base.to_cells();
            match format.apply(&bytes, &base, &mut cells, &Limits::default()) {
                Err(_) => assert_eq!(cells, base.to_cells(), "{}, bit {bit}", format.name()),
                // Steps, names of models and the like are not covered by the digests, but cells are.
                Ok(()) if verified => assert_eq!(cells, target, "{}, bit {bit}", format.name()),
                Ok(()) => {}
            }
            _ = format.decode(&bytes, &base, &Limits::default());
        }
    }
}

#[test]
fn random_bytes_are_survived() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    let mut random = Random::new(3);
    for format in all() {
        let good = encode(format.as_ref(), &pairs);
        for _ in 0..2000 {
            let mut bytes = good.clone();
            for _ in 0..=random.below(4) {
                let place = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[place] = random.next() as u8,
                    1 => _ = bytes.remove(place),
                    _ => bytes.insert(place, random.next() as u8),
                }
            }
            _ = apply(format.as_ref(), &bytes, &base, &Limits::default());
        }
    }
}

#[test]
fn a_base_of_another_shape_is_wrong() {
    let pairs = cases::small();
    let mut reshaped = pairs.clone();
    reshaped[0] = Pair::sparse("a.weight", &[5, 2], &[]);
    let mut renamed = pairs.clone();
    renamed[0].name = "other".into();
    for format in all() {
        let bytes = encode(format.as_ref(), &pairs);
        let error = apply(format.as_ref(), &bytes, &cases::base(&renamed), &Limits::default()).unwrap_err();
        assert_eq!(error.code(), "wrong_base", "{}: {error}", format.name());
        let error = apply(format.as_ref(), &bytes, &cases::base(&reshaped), &Limits::default()).unwrap_err();
        // TRL and XOR do not tell shapes; they notice what does not fit.
        let vague = format.name().starts_with("trl") || format.name().starts_with("xor");
        assert!(error.code() == "wrong_base" || vague && error.code() == "damaged", "{}: {error}", format.name());
    }
}

#[test]
fn a_base_of_other_cells_is_wrong_where_digests_tell() {
    let pairs = cases::small();
    let mut others = pairs.clone();
    others[0].base[7] ^= 1;
    let base = cases::base(&others);
    for format in all() {
        let bytes = encode(format.as_ref(), &pairs);
        let outcome = apply(format.as_ref(), &bytes, &base, &Limits::default());
        match format.name() {
            name if name.starts_with("pulsept1") || name.starts_with("xor") => {
                let error = outcome.unwrap_err();
                assert_eq!(error.code(), "wrong_base", "{name}: {error}");
            }
            _ => outcome.unwrap(),
        }
    }
}

#[test]
fn a_base_digest_that_lies_is_noticed_after_all() {
    let pairs = cases::small();
    let mut others = pairs.clone();
    others[2].base[0] ^= 1;
    let format = PulsePt1::v3().with_base_digest(pulse_interop::Digest::of_state(&cases::base(&pairs)));
    let bytes = encode(&format, &pairs);
    apply(&format, &bytes, &cases::base(&pairs), &Limits::default()).unwrap();
    let error = apply(&format, &bytes, &cases::base(&others), &Limits::default()).unwrap_err();
    assert_eq!(error.code(), "damaged");
}

#[test]
fn limits_are_kept() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    for format in all() {
        let bytes = encode(format.as_ref(), &pairs);
        let mut limits = Limits::default();
        limits.max_tensors = 1;
        let error = apply(format.as_ref(), &bytes, &base, &limits).unwrap_err();
        assert_eq!(error.code(), "limit", "{}: {error}", format.name());
        let mut limits = Limits::default();
        limits.max_bytes = 64;
        let error = apply(format.as_ref(), &bytes, &base, &limits).unwrap_err();
        assert_eq!(error.code(), "limit", "{}: {error}", format.name());
    }
}

#[test]
fn cells_of_another_layout_are_misuse() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    for format in all() {
        let bytes = encode(format.as_ref(), &pairs);
        let error = format.apply(&bytes, &base, &mut [], &Limits::default()).unwrap_err();
        assert_eq!(error.code(), "misuse", "{}", format.name());
        let other = Checkpoint::new(vec![]).unwrap();
        assert_eq!(format.encode(STEPS, &base, &other).unwrap_err().code(), "misuse", "{}", format.name());
    }
}

/// Replaces text in a file whose header may change its length, and mends the length.
fn edit(bytes: &[u8], length_at: usize, width: usize, from: &str, to: &str) -> Vec<u8> {
    let mut length = [0; 8];
    length[..width].copy_from_slice(&bytes[length_at..length_at + width]);
    let (start, end) = (length_at + width, length_at + width + u64::from_le_bytes(length) as usize);
    let json = String::from_utf8(bytes[start..end].to_vec()).unwrap();
    assert!(json.contains(from), "{json} has no {from}");
    let json = json.replacen(from, to, 1);
    let length = (json.len() as u64).to_le_bytes();
    [&bytes[..length_at], &length[..width], json.as_bytes(), &bytes[end..]].concat()
}

#[test]
fn pulsept1_headers_that_lie_are_rejected() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    let digest = "99aa06d3014798d86001c324468d497f";
    for format in [PulsePt1::v1(), PulsePt1::v2(), PulsePt1::v3()] {
        let good = encode(&format, &pairs);
        for (from, to, code) in [
            ("\"formatVersion\":", "\"formatVersion\":4", "unsupported"),
            ("\"dtype\":\"bf16\"", "\"dtype\":\"f16\"", "unsupported"),
            ("\"idxEnc\":\"", "\"idxEnc\":\"x", "unsupported"),
            ("\"changed\":3", "\"changed\":4294967296", "damaged"),
            ("\"changed\":3", "\"changed\":-1", "damaged"),
            ("\"changed\":3", "\"changed\":2", "damaged"),
            ("\"idxBytes\":", "\"idxBytes\":18446744073709551615,\"x\":", "damaged"),
            ("\"valBytes\":", "\"valBytes\":18446744073709551615,\"x\":", "damaged"),
            ("\"numel\":15", "\"numel\":16", "damaged"),
            ("\"shape\":[3,5]", "\"shape\":[3,5,0]", "damaged"),
            ("\"shape\":[3,5]", "\"shape\":[5,3]", "wrong_base"),
            ("\"name\":\"a.weight\"", "\"name\":\"z\"", "damaged"),
            ("\"name\":\"a.weight\"", "\"name\":\"a\"", "wrong_base"),
            ("\"stateDigest\":\"xxh3_128:", "\"stateDigest\":\"xxh3:", "damaged"),
            ("\"tensorDigest\":\"xxh3_128:", &format!("\"tensorDigest\":\"xxh3_128:{digest}\",\"x\":\""), "damaged"),
            (
                "\"baseStateDigest\":\"xxh3_128:",
                &format!("\"baseStateDigest\":\"xxh3_128:{digest}\",\"x\":\""),
                "wrong_base",
            ),
        ] {
            let bytes = edit(&good, 8, 4, from, to);
            let error = apply(&format, &bytes, &base, &Limits::default()).unwrap_err();
            assert_eq!(error.code(), code, "{}: {from} -> {to}: {error}", format.name());
        }
    }
}

#[test]
fn a_pulsept1_patch_without_base_digest_is_checked_by_its_result() {
    let pairs = cases::small();
    let mut others = pairs.clone();
    others[0].base[7] ^= 1;
    for format in [PulsePt1::v1(), PulsePt1::v2(), PulsePt1::v3()] {
        let bytes = edit(&encode(&format, &pairs), 8, 4, "\"baseStateDigest\"", "\"unknown\"");
        apply(&format, &bytes, &cases::base(&pairs), &Limits::default()).unwrap();
        let error = apply(&format, &bytes, &cases::base(&others), &Limits::default()).unwrap_err();
        assert_eq!(error.code(), "wrong_base", "{}: {error}", format.name());
    }
}

#[test]
fn xor_headers_that_lie_are_rejected() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    let good = encode(&Xor, &pairs);
    for (from, to, code) in [
        ("\"delta_encoding\":\"xor\"", "\"delta_encoding\":\"overwrite\"", "unsupported"),
        ("\"compression_format\":\"zstd\"", "\"compression_format\":\"lz4\"", "unsupported"),
        ("\"checksum_format\":\"xxh3-128\"", "\"checksum_format\":\"blake3\"", "unsupported"),
        ("\"base_version\":\"000041\"", "\"base_version\":\"main\"", "damaged"),
        ("\"version\"", "\"revision\"", "damaged"),
        ("\"a.weight\":\"", "\"a.weight\":\"0", "damaged"),
        ("\"a.weight\":{", "\"z\":{", "wrong_base"),
    ] {
        let bytes = edit(&good, 0, 8, from, to);
        let error = apply(&Xor, &bytes, &base, &Limits::default()).unwrap_err();
        assert_eq!(error.code(), code, "{from} -> {to}: {error}");
    }
}

#[test]
fn trl_headers_that_lie_are_rejected() {
    let pairs = cases::small();
    let base = cases::base(&pairs);
    let both: &[(&str, &str, &str)] = &[
        ("\"sparse\":\"True\"", "\"sparse\":\"true\"", "unsupported"),
        ("\"sparse\":\"True\"", "\"sparse\":\"False\"", "unsupported"),
        ("\"version\":\"1\"", "\"version\":\"2\"", "unsupported"),
        ("\"model_version\":\"42\"", "\"model_version\":\"x\"", "damaged"),
        ("\"BF16\"", "\"U16\"", "unsupported"),
    ];
    let v1: &[(&str, &str, &str)] = &[
        ("\"changed_params\"", "\"unknown\"", "damaged"),
        ("\"changed_params\":\"[", "\"changed_params\":\"5[", "damaged"),
        // A name twice, a name left out, and a name without a part.
        ("\\\"b.bias\\\"", "\\\"a.weight\\\"", "damaged"),
        ("\\\"b.bias\\\", ", "", "damaged"),
        ("\\\"b.bias\\\"", "\\\"c\\\"", "damaged"),
        ("\"a.weight.values\"", "\"a.weight.val\"", "damaged"),
        ("\"I32\"", "\"U32\"", "unsupported"),
    ];
    let gap_delta: &[(&str, &str, &str)] = &[
        ("\"encoding\":\"gap_delta\"", "\"encoding\":\"nvcomp_cascaded\"", "unsupported"),
        ("\"encoding\":\"gap_delta\"", "\"encoding\":\"raw\"", "unsupported"),
        ("\"encoding\"", "\"unknown\"", "damaged"),
        ("\"a.weight.idx\"", "\"a.weight.values\"", "damaged"),
        ("\"a.weight.idx\"", "\"a.weight.idx.val\"", "damaged"),
    ];
    for (format, edits) in [(Trl::V1, [both, v1]), (Trl::GapDelta, [both, gap_delta])] {
        let good = encode(&format, &pairs);
        for (from, to, code) in edits.concat() {
            let error = apply(&format, &edit(&good, 0, 8, from, to), &base, &Limits::default()).unwrap_err();
            assert_eq!(error.code(), code, "{}: {from} -> {to}: {error}", format.name());
        }
    }
}
