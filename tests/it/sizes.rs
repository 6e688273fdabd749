//! Updates that tools make and training does not: regular ones. Each has a bound in bytes, and goes round by every path.

use crate::support::cells::{Pair, Random, TestTensor};
use crate::support::check::round_trip;
use pulse_encoder::{EncodeOptions, ProfileChoice, Zstd};
use pulse_format::{Dtype, FloatFormat, Header, Limits, Profile};

/// Rows of a matrix, of as many cells.
const SIDE: usize = 1024;
const CELLS: usize = SIDE * SIDE;

/// Weights about as training leaves them: a sign, a bell of exponents, and mantissas of every kind.
fn weights() -> Vec<u16> {
    let mut random = Random::new(8);
    let cell = |random: &mut Random| {
        let octave = random.word().trailing_zeros().min(14) as u16;
        (random.word() as u16 & 0x807f) | (122 - octave) << 7
    };
    (0..CELLS).map(|_| cell(&mut random)).collect()
}

fn pair(base: &[u16], target: &[u16]) -> Pair {
    let bytes = |cells: &[u16]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>();
    let shape = [SIDE as u64, (base.len() / SIDE) as u64];
    Pair::new([TestTensor::new("w", Dtype::Bf16, &shape, bytes(base), bytes(target))])
}

/// The base with `change` made to each cell, which gets its row, its column, and what it was.
fn changed(base: &[u16], change: impl Fn(usize, usize, u16) -> u16) -> Vec<u16> {
    base.iter().enumerate().map(|(index, cell)| change(index / SIDE, index % SIDE, *cell)).collect()
}

fn double(cell: u16) -> u16 {
    cell + (1 << 7)
}

/// The product with 3, to nearest even.
fn triple(cell: u16) -> u16 {
    let bits = (f32::from_bits(u32::from(cell) << 16) * 3.0).to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The patch, whole: in at most `bound` bytes, with segments of `profile`, and no larger than either profile forced.
fn check(name: &str, pair: &Pair, profile: &str, bound: usize) {
    let options = |profile| EncodeOptions { profile, ..EncodeOptions::default() };
    let patch = round_trip(pair, &options(ProfileChoice::Auto));
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let profiles: Vec<&str> = header.segments.iter().map(|segment| segment.profile.name()).collect();
    let forced = [ProfileChoice::Contextual, ProfileChoice::Absolute].map(|choice| pair.encode(&options(choice)).len());
    println!("{name}: {} bytes ({profiles:?}), contextual {}, absolute {}", patch.len(), forced[0], forced[1]);
    assert!(profiles.iter().all(|found| *found == profile), "{name}: {profiles:?}");
    assert!(patch.len() <= bound, "{name}: {} bytes, more than {bound}", patch.len());
    assert!(patch.len() as f64 <= 1.02 * forced[0].min(forced[1]) as f64, "{name}: {} {forced:?}", patch.len());
}

#[test]
fn all_cells_move_alike() {
    let base = weights();
    let all = |change: fn(u16) -> u16| pair(&base, &changed(&base, |_, _, cell| change(cell)));
    check("all cells doubled", &all(double), "relative", 1000);
    check("all signs flipped", &all(|cell| cell ^ 0x8000), "relative", 1000);
    check("all cells one ULP up", &all(|cell| FloatFormat::Bf16.step_from(cell, 1)), "contextual", 1000);
    check("all cells one ULP from zero", &all(|cell| cell + 1), "relative", 1000);
    // A function of the mantissa: seven bits and the carry, at random.
    check("all cells tripled", &all(triple), "relative", CELLS);
}

#[test]
fn columns_move_alike() {
    let base = weights();
    let columns = |wanted: fn(usize) -> bool| {
        pair(&base, &changed(&base, |_, column, cell| if wanted(column) { double(cell) } else { cell }))
    };
    check("half the columns doubled", &columns(|column| column % 2 == 0), "relative", 1000);
    // Which columns looks random, but is the same in every row.
    let scattered = |column: usize| (column * 0x9e37_79b1) >> 7 & 3 == 0;
    check("some columns doubled", &columns(scattered), "relative", 4000);
    check("one column doubled", &columns(|column| column == 77), "relative", 1000);
    check("every seventh cell doubled", &pair(&base, &every_seventh(&base, double)), "relative", 1000);
    check("every seventh cell zeroed", &pair(&base, &every_seventh(&base, |_| 0)), "absolute", 1000);
}

fn every_seventh(base: &[u16], change: fn(u16) -> u16) -> Vec<u16> {
    base.iter().enumerate().map(|(index, cell)| if index % 7 == 0 { change(*cell) } else { *cell }).collect()
}

#[test]
fn cells_become_alike() {
    let base = weights();
    let rows = |first: usize, past: usize, value: u16| {
        pair(&base, &changed(&base, |row, _, cell| if (first..past).contains(&row) { value } else { cell }))
    };
    check("two rows zeroed", &rows(500, 502, 0), "absolute", 1000);
    check("all zeroed", &rows(0, SIDE, 0), "absolute", 1000);
    let block = |row: usize, column: usize| (100..200).contains(&row) && (300..500).contains(&column);
    let filled = changed(&base, |row, column, cell| if block(row, column) { 0x3f80 } else { cell });
    check("a block becomes ones", &pair(&base, &filled), "absolute", 1000);

    // Zeros that become ones: side by side, and wherever they are.
    let zeros = changed(&base, |row, _, cell| if row < 10 { 0 } else { cell });
    let ones = changed(&zeros, |row, _, cell| if row < 10 { 0x3f80 } else { cell });
    check("rows of zeros become ones", &pair(&zeros, &ones), "contextual", 1000);
    let mut random = Random::new(3);
    let zeros: Vec<u16> = base.iter().map(|cell| if random.below(100) == 0 { 0 } else { *cell }).collect();
    let ones = changed(&zeros, |_, _, cell| if cell == 0 { 0x3f80 } else { cell });
    check("scattered zeros become ones", &pair(&zeros, &ones), "contextual", 1000);
}

#[test]
fn cells_are_replaced() {
    let base = weights();
    let mut swapped = base.clone();
    let (a, b) = (10 * SIDE..11 * SIDE, 20 * SIDE..21 * SIDE);
    swapped[a.clone()].copy_from_slice(&base[b.clone()]);
    swapped[b].copy_from_slice(&base[a]);
    // Two rows of random mantissas: a byte and a part of one each.
    check("two rows exchanged", &pair(&base, &swapped), "absolute", 2 * SIDE * 2);
    let mut random = Random::new(9);
    let fresh = changed(&base, |_, _, _| 0).iter().map(|_| random.word() as u16 & 0xbfff).collect::<Vec<u16>>();
    check("all cells replaced", &pair(&base, &fresh), "absolute", 2 * CELLS + 1000);
}

/// Beside training, within one patch: each segment has the profile that suits it.
#[test]
fn profiles_are_chosen_for_each_segment() {
    let base = weights();
    let bytes = |cells: &[u16]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>();
    let doubled = bytes(&changed(&base, |_, _, cell| double(cell)));
    let shape = [SIDE as u64, SIDE as u64];
    let words =
        |cells: &[u16]| cells.iter().flat_map(|cell| (u32::from(*cell) << 16).to_le_bytes()).collect::<Vec<u8>>();
    let wide = [base.clone(), changed(&base, |_, _, cell| double(cell))].map(|cells| words(&cells));
    let [before, after] = wide;
    let pair = Pair::new([
        TestTensor::new("l.0", Dtype::Bf16, &shape, bytes(&base), doubled),
        TestTensor::weights("l.1", &shape, 100, 4),
        TestTensor::new("l.2", Dtype::F32, &shape, before, after),
        TestTensor::noise("l.3", Dtype::U8, &[1000], 3, 5),
    ]);
    let patch = round_trip(&pair, &EncodeOptions::default());
    let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
    let profiles: Vec<Profile> = header.segments.iter().map(|segment| segment.profile).collect();
    assert_eq!(profiles, [Profile::Relative, Profile::Contextual { model: 0 }, Profile::Relative, Profile::Absolute]);
}
