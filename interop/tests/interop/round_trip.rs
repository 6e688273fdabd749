//! What goes in comes out.

use proptest::prelude::*;
use pulse_interop::{Limits, PatchFormat, SparsePatch, all};

use crate::cases::{self, Pair, STEPS};

fn check(format: &dyn PatchFormat, pairs: &[Pair], what: &str) {
    let (base, target) = (cases::base(pairs), cases::target(pairs));
    let wanted = SparsePatch::diff(STEPS, &base, &target).unwrap();
    let context = format!("{} on {what}", format.name());
    let bytes = format.encode(STEPS, &base, &target).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(bytes, format.encode(STEPS, &base, &target).unwrap(), "{context} is not reproducible");

    let patch = format.decode(&bytes, &base, &Limits::default()).unwrap_or_else(|error| panic!("{context}: {error}"));
    assert_eq!(patch.tensors, wanted.tensors, "{context}");
    assert!(patch.base_step.is_none_or(|step| step == STEPS.base), "{context}");
    assert!(patch.target_step.is_none_or(|step| step == STEPS.target), "{context}");

    let mut cells = base.to_cells();
    format.apply(&bytes, &base, &mut cells, &Limits::default()).unwrap();
    assert_eq!(cells, target.to_cells(), "{context}");
    let mut cells = base.to_cells();
    patch.apply(&base, &mut cells).unwrap();
    assert_eq!(cells, target.to_cells(), "{context}");
}

#[test]
fn every_format_carries_every_case() {
    for (what, pairs) in cases::all() {
        for format in all() {
            check(format.as_ref(), &pairs, what);
        }
    }
}

#[test]
fn steps_are_told_where_the_format_has_room() {
    let pairs = cases::small();
    let (base, target) = (cases::base(&pairs), cases::target(&pairs));
    for format in all() {
        let bytes = format.encode(STEPS, &base, &target).unwrap();
        let patch = format.decode(&bytes, &base, &Limits::default()).unwrap();
        let expected = match format.name() {
            name if name.starts_with("trl") => (None, Some(42)),
            name if name.starts_with("grail") => (None, None),
            _ => (Some(41), Some(42)),
        };
        assert_eq!((patch.base_step, patch.target_step), expected, "{}", format.name());
    }
}

#[test]
fn one_reader_reads_all_versions_of_its_format() {
    let pairs = cases::small();
    let (base, target) = (cases::base(&pairs), cases::target(&pairs));
    let formats = all();
    for family in ["trl", "grail", "pulsept1"] {
        for writer in formats.iter().filter(|format| format.name().starts_with(family)) {
            let bytes = writer.encode(STEPS, &base, &target).unwrap();
            for reader in formats.iter().filter(|format| format.name().starts_with(family)) {
                reader.decode(&bytes, &base, &Limits::default()).unwrap();
            }
        }
    }
}

/// Tensors of any shape, with cells drawn from few values and from all, changed anywhere.
fn pairs() -> impl Strategy<Value = Vec<Pair>> {
    let cell = prop_oneof![Just(0u16), Just(0x8000), Just(0x7FC1), 0x3F00u16..0x3F90, any::<u16>()];
    let tensor = prop::collection::vec(0u64..7, 0..4).prop_flat_map(move |shape| {
        let len = shape.iter().product::<u64>() as usize;
        let cells = prop::collection::vec((cell.clone(), prop::option::weighted(0.3, cell.clone())), len);
        (Just(shape), cells)
    });
    let tensors = prop::collection::vec(tensor, 0..4);
    tensors.prop_map(|tensors| {
        let named = tensors.into_iter().enumerate().map(|(number, (shape, cells))| {
            let base = cells.iter().map(|cell| cell.0).collect();
            let target = cells.iter().map(|cell| cell.1.unwrap_or(cell.0)).collect();
            Pair::new(&format!("t{number}"), &shape, base, target)
        });
        named.collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_pair_round_trips(pairs in pairs()) {
        for format in all() {
            check(format.as_ref(), &pairs, "any pair");
        }
    }
}
