//! Formats keep their order on data that behave like training.

use std::collections::BTreeMap;

use pulse_interop::{SparsePatch, all};

use crate::cases::{self, Pair, Random, STEPS};

#[test]
fn the_order_of_sizes_is_the_known_one() {
    let mut random = Random::new(5);
    let pairs: Vec<Pair> =
        (0..4).map(|layer| Pair::trained(&format!("layer.{layer}"), &[500, 400], &mut random)).collect();
    let (base, target) = (cases::base(&pairs), cases::target(&pairs));
    let changes = SparsePatch::diff(STEPS, &base, &target).unwrap().change_count() as f64;
    let sizes: BTreeMap<_, _> = all()
        .iter()
        .map(|format| (format.name(), format.encode(STEPS, &base, &target).unwrap().len() as f64 / changes))
        .collect();

    let order = ["pulsept1-v3", "pulsept1-v2", "xor-zstd", "grail-v3.1", "trl-gap-delta", "trl"];
    for [smaller, larger] in order.array_windows::<2>() {
        assert!(sizes[smaller] < sizes[larger], "{smaller} is not smaller than {larger}: {sizes:?}");
    }
    assert!(sizes["pulsept1-v2"] < sizes["pulsept1-v1"], "{sizes:?}");
    assert!(sizes["grail-v3.1"] < sizes["grail-v3"], "{sizes:?}");
    assert!((6.0..6.2).contains(&sizes["trl"]), "{sizes:?}");
    assert!(sizes["pulsept1-v3"] < 2.0, "{sizes:?}");
}
