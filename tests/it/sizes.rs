//! Updates that tools make and training does not: regular ones. Each has a bound in bytes, and goes round by every path.

use crate::support::cells::{Pair, TestTensor};
use crate::support::check::round_trip;
use pulse_encoder::{EncodeOptions, ProfileChoice, Zstd};
use pulse_format::{Dtype, Header, Limits, Profile};
use pulse_tests::regular::{CELLS, SIDE, Update, double, updates, weights};

/// The profile that each update takes, and the most bytes of its patch.
const BOUNDS: &[(&str, &str, usize)] = &[
    ("all doubled", "relative", 1000),
    ("all signs flipped", "relative", 1000),
    ("all one ULP up", "contextual", 1000),
    ("all one ULP from zero", "relative", 1000),
    ("all tripled", "relative", CELLS),
    ("half the columns doubled", "relative", 1000),
    ("some columns doubled, irregularly", "relative", 4000),
    ("one column doubled", "relative", 1000),
    ("every seventh doubled", "relative", 1000),
    ("every seventh zeroed", "absolute", 1000),
    ("two rows zeroed", "absolute", 1000),
    ("all zeroed", "absolute", 1000),
    ("a block to ones", "absolute", 1000),
    ("rows of zeros to ones", "contextual", 1000),
    ("scattered zeros to ones", "contextual", 1000),
    // Two rows of random mantissas: a byte and a part of one each.
    ("two rows exchanged", "absolute", 2 * SIDE * 2),
    ("all replaced", "absolute", 2 * CELLS + 1000),
];

fn bytes(cells: &[u16]) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_le_bytes()).collect()
}

/// The patch, whole: in at most `bound` bytes, with segments of `profile`, and no larger than either profile forced.
fn check(update: &Update, profile: &str, bound: usize) {
    let name = update.name;
    let shape = [SIDE as u64, SIDE as u64];
    let pair = Pair::new([TestTensor::new("w", Dtype::Bf16, &shape, bytes(&update.base), bytes(&update.target))]);
    let options = |profile| EncodeOptions { profile, ..EncodeOptions::default() };
    let patch = round_trip(&pair, &options(ProfileChoice::Auto));
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let profiles: Vec<&str> = header.segments.iter().map(|segment| segment.profile.name()).collect();
    let forced = [ProfileChoice::Contextual, ProfileChoice::Absolute].map(|choice| pair.encode(&options(choice)).len());
    assert!(profiles.iter().all(|found| *found == profile), "{name}: {profiles:?}");
    assert!(patch.len() <= bound, "{name}: {} bytes, more than {bound}", patch.len());
    assert!(patch.len() as f64 <= 1.02 * forced[0].min(forced[1]) as f64, "{name}: {} {forced:?}", patch.len());
}

#[test]
fn regular_updates_are_small() {
    let updates = updates();
    assert_eq!(
        updates.iter().map(|update| update.name).collect::<Vec<_>>(),
        BOUNDS.iter().map(|bound| bound.0).collect::<Vec<_>>()
    );
    std::thread::scope(|scope| {
        for (update, (_, profile, bound)) in updates.iter().zip(BOUNDS) {
            scope.spawn(move || check(update, profile, *bound));
        }
    });
}

/// Beside training, within one patch: each segment has the profile that suits it.
#[test]
fn profiles_are_chosen_for_each_segment() {
    let base = weights();
    let doubled: Vec<u16> = base.iter().map(|cell| double(*cell)).collect();
    let shape = [SIDE as u64, SIDE as u64];
    let wide =
        |cells: &[u16]| cells.iter().flat_map(|cell| (u32::from(*cell) << 16).to_le_bytes()).collect::<Vec<u8>>();
    let pair = Pair::new([
        TestTensor::new("l.0", Dtype::Bf16, &shape, bytes(&base), bytes(&doubled)),
        TestTensor::weights("l.1", &shape, 100, 4),
        TestTensor::new("l.2", Dtype::F32, &shape, wide(&base), wide(&doubled)),
        TestTensor::noise("l.3", Dtype::U8, &[1000], 3, 5),
    ]);
    let patch = round_trip(&pair, &EncodeOptions::default());
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let profiles: Vec<Profile> = header.segments.iter().map(|segment| segment.profile).collect();
    assert_eq!(profiles, [Profile::Relative, Profile::Contextual { model: 0 }, Profile::Relative, Profile::Absolute]);
}
