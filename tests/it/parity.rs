//! Every fast path against a slow one that is easy to believe, over cells of every kind.

use crate::support::cells::{Pair, Random};
use crate::support::inflate::Ruzstd;
use crate::support::raw::{open, store};
use pulse_encoder::Zstd;
use pulse_format::cell::FloatCell;
use pulse_format::contextual::ContextualChanges;
use pulse_format::layout::{BLOCK_CELLS, CLASSES};
use pulse_format::masks::Portable;
use pulse_format::place::{ContextualPlacer, PositionalPlacer};
use pulse_format::positional::PositionalChanges;
use pulse_format::scan::{Fingerprints, PiecePair, REGION_CELLS, scan_absolute, scan_contextual};
use pulse_format::{Deflate, FloatFormat, Inflate, fingerprint, with_float_cell};

const FORMATS: [FloatFormat; 4] = [FloatFormat::Bf16, FloatFormat::F16, FloatFormat::E4m3, FloatFormat::E5m2];
const SEED: u64 = 0x1234_5678_9abc_def0;

/// Both sides of a segment's pieces, as cells.
type Pieces = Vec<(Vec<u16>, Vec<u16>)>;

fn bytes(cells: &[u16], width: usize) -> Vec<u8> {
    cells.iter().flat_map(|cell| cell.to_le_bytes()[..width].to_vec()).collect()
}

/// Where pieces are said to begin: in several tensors, far apart, some across a page of 2^31 words.
fn place_of(piece: usize, width: usize) -> (u32, u64) {
    // A block of cells of this width, which all pieces begin with one of.
    let block = (BLOCK_CELLS * width / 4) as u64;
    (3 * piece as u32, [0, block, (1 << 31) - block, (1 << 33) - 2 * block][piece % 4])
}

/// The definition, cell by cell.
fn slow_scan(format: FloatFormat, pieces: &Pieces) -> (ContextualChanges, Fingerprints) {
    let mut changes = ContextualChanges::default();
    let mut sums = Fingerprints::default();
    let mut seen = [0; CLASSES];
    for (index, (base, target)) in pieces.iter().enumerate() {
        let (tensor, first_word) = place_of(index, format.cell_bytes());
        let sum = |cells: &[u16]| fingerprint(&bytes(cells, format.cell_bytes()), SEED, tensor, first_word);
        sums.base += sum(base);
        sums.target += sum(target);
        for (base, target) in base.iter().zip(target) {
            let class = usize::from(format.class(*base));
            if base != target {
                changes.classes[class].push(seen[class], format.ulp_step(*base, *target));
            }
            seen[class] += 1;
        }
    }
    (changes, sums)
}

/// Scans and places; what comes out must be what the definition says.
fn check(format: FloatFormat, pieces: &Pieces) {
    with_float_cell!(format, C => check_cells::<C>(pieces));
}

fn check_cells<C: FloatCell>(pieces: &Pieces) {
    let (expected, sums) = slow_scan(C::FORMAT, pieces);
    let sides: Vec<[Vec<u8>; 2]> =
        pieces.iter().map(|(base, target)| [bytes(base, C::BYTES), bytes(target, C::BYTES)]).collect();
    let pairs: Vec<PiecePair<'_>> = sides
        .iter()
        .enumerate()
        .map(|(index, [base, target])| PiecePair {
            tensor: place_of(index, C::BYTES).0,
            first_word: place_of(index, C::BYTES).1,
            base,
            target,
        })
        .collect();
    let mut changes = ContextualChanges::default();
    // What is in them before must not show.
    changes.classes[2].push(77, 5);
    let mut by_region = vec![3];
    let found = scan_contextual::<C>(Portable, &pairs, SEED, &mut changes, &mut by_region);
    assert!(changes == expected && found == sums, "{:?}", C::FORMAT);
    let region = |(base, target): (&[u16], &[u16])| base.iter().zip(target).filter(|(a, b)| a != b).count() as u32;
    let regions = pieces.iter().flat_map(|(base, target)| base.chunks(REGION_CELLS).zip(target.chunks(REGION_CELLS)));
    assert_eq!(by_region, regions.map(region).collect::<Vec<_>>());
    // In whole pieces, in runs of blocks, and in one block at a time.
    for run_cells in [usize::MAX, 3 * BLOCK_CELLS, BLOCK_CELLS] {
        let mut placer = ContextualPlacer::new(&expected, SEED);
        for (index, [base, target]) in sides.iter().enumerate() {
            let (tensor, first_word) = place_of(index, C::BYTES);
            let mut cells = base.clone();
            for (number, run) in cells.chunks_mut(run_cells.saturating_mul(C::BYTES)).enumerate() {
                let before = number as u64 * (run_cells.saturating_mul(C::BYTES) / 4) as u64;
                placer.place::<C>(Portable, run, tensor, first_word + before);
            }
            assert!(cells == *target, "{:?} placed in runs of {run_cells}", C::FORMAT);
        }
        assert_eq!(placer.finish(), Some(sums));
    }
    check_absolute(&pairs, &sides, C::BYTES, sums);
}

fn check_absolute(pairs: &[PiecePair<'_>], sides: &[[Vec<u8>; 2]], width: usize, sums: Fingerprints) {
    let [base, target] = [0, 1].map(|side| sides.iter().flat_map(|sides| sides[side].clone()).collect::<Vec<u8>>());
    let mut expected = PositionalChanges::default();
    for (position, (base, target)) in base.chunks(width).zip(target.chunks(width)).enumerate() {
        if base != target {
            expected.positions.push(position as u32);
            expected.values.extend_from_slice(target);
        }
    }
    let mut changes = PositionalChanges { positions: vec![9], values: vec![1] };
    assert_eq!(scan_absolute(Portable, pairs, SEED, width, &mut changes), sums);
    assert_eq!(changes, expected);
    let mut relative = expected.clone();
    relative.make_relative(sides.iter().map(|[base, _]| base.as_slice()), width);
    for mut placer in
        [PositionalPlacer::new(&expected, width, SEED), PositionalPlacer::relative(&relative, width, SEED)]
    {
        for (index, [base, target]) in sides.iter().enumerate() {
            let mut cells = base.clone();
            let (tensor, first_word) = place_of(index, width);
            placer.place(&mut cells, tensor, first_word);
            assert!(cells == *target, "by position");
        }
        assert_eq!(placer.finish(), Some(sums));
    }
}

/// Pieces of these sizes, the base from `cell`, a cell in `every` moved.
fn pieces(sizes: &[usize], every: usize, seed: u64, mut cell: impl FnMut(&mut Random) -> u16) -> Pieces {
    let mut random = Random::new(seed);
    let mut piece = |cells: &usize| {
        let base: Vec<u16> = (0..*cells).map(|_| cell(&mut random)).collect();
        let target =
            base.iter().map(|base| if random.below(every) == 0 { random.word() as u16 } else { *base }).collect();
        (base, target)
    };
    sizes.iter().map(&mut piece).collect()
}

/// Cells of one byte have no upper half.
fn masked(format: FloatFormat, mut pieces: Pieces) -> Pieces {
    if format.cell_bytes() == 1 {
        let cells = pieces.iter_mut().flat_map(|(base, target)| base.iter_mut().chain(target));
        cells.for_each(|cell| *cell &= 0xff);
    }
    pieces
}

const SIZES: [&[usize]; 10] = [
    &[0],
    &[1],
    &[1023],
    &[1024],
    &[1025],
    &[5000],
    &[1024, 3, 0, 2048],
    &[1, 1, 1, 1],
    &[2047, 1, 4096, 31],
    &[20_000, 5, 9000],
];

#[test]
fn any_cells() {
    for format in FORMATS {
        for (sizes, seed) in SIZES.iter().zip(1..) {
            for every in [1, 40, 5000] {
                check(format, &masked(format, pieces(sizes, every, seed, |random| random.word() as u16)));
            }
        }
    }
}

/// Cells as weights have them: the classes far from equal.
#[test]
fn cells_of_weights() {
    for format in FORMATS {
        let (mantissa, mask) = with_float_cell!(format, C => (C::MANTISSA_BITS, C::EXPONENT_MASK));
        for sizes in SIZES {
            for every in [1, 30] {
                let weight = |random: &mut Random| {
                    let exponent =
                        (mask / 2).wrapping_sub(random.word().trailing_zeros().min(u32::from(mask / 2)) as u16);
                    (random.word() as u16 & !(mask << mantissa)) | exponent << mantissa
                };
                check(format, &masked(format, pieces(sizes, every, 5, weight)));
            }
        }
    }
}

/// One class alone, each in turn; and one cell of it among cells of another class, in every corner of a block.
#[test]
fn classes_alone_and_rare() {
    for format in FORMATS {
        let (mantissa, mask) = with_float_cell!(format, C => (C::MANTISSA_BITS, C::EXPONENT_MASK));
        for class in 0..CLASSES as u8 {
            let exponents = format.exponents(class);
            let Some(exponent) = exponents.clone().next_back().filter(|exponent| *exponent <= mask) else { continue };
            check(
                format,
                &masked(
                    format,
                    pieces(&[2500], 20, class.into(), |random| random.word() as u16 & 1 | exponent << mantissa),
                ),
            );
            for place in [0, 63, 64, 1023, 1024, 2047, 2499] {
                let common = format.exponents((class + 7) % 16).next_back().unwrap_or_default().min(mask) << mantissa;
                let mut base = vec![common; 2500];
                base[place] = exponent << mantissa;
                // The rare cell changes, and a few of the others: before it, beside it, after all.
                let mut target = base.clone();
                for changed in [0, place, place / 2, 2499] {
                    target[changed] ^= 1;
                }
                check(format, &vec![(base, target)]);
            }
        }
    }
}

/// A class that is met late.
#[test]
fn classes_that_come_late() {
    let exponent = |exponent: u16| move |_: &mut Random| exponent << 7;
    let mut all = pieces(&[4000, 10], 50, 1, exponent(120));
    all.extend(pieces(&[3000], 1, 2, exponent(90)));
    all.extend(pieces(&[2000], 3, 3, exponent(200)));
    all.extend(pieces(&[1500], 2, 4, |random| random.word() as u16));
    check(FloatFormat::Bf16, &all);
}

#[test]
fn ranks_that_do_not_exist_are_noticed() {
    let pieces = pieces(&[3000], 10, 1, |random| random.word() as u16);
    let (changes, _) = slow_scan(FloatFormat::Bf16, &pieces);
    let mut other: Vec<u8> = bytes(&pieces[0].0, 2);
    other.truncate(1000);
    let mut placer = ContextualPlacer::new(&changes, SEED);
    placer.place::<pulse_format::cell::Bf16>(Portable, &mut other, 0, 0);
    assert_eq!(placer.finish(), None);
}

/// Headers and planes come out of both zstd decoders the same, and where both take a broken frame they make the same of it.
#[test]
fn both_zstd_decoders_agree() {
    let mut contents = Vec::new();
    for (pair, options) in [(Pair::mixed(), Pair::mixed_options()), (Pair::new([]), Pair::mixed_options())] {
        contents.push(open(&pair.encode(&options), &Zstd::default()).0);
    }
    let mut random = Random::new(8);
    contents.extend([0, 1, 2, 100, 70_000, 300_000].map(|length| random.bytes(length)));
    contents.extend(
        [1, 100, 70_000, 300_000].map(|length| (0..length).map(|_| [0, 0, 0, 1, 7, 200][random.below(6)]).collect()),
    );
    contents.extend([1, 1000, 400_000].map(|length| vec![9; length]));
    for content in contents {
        for frame in [Zstd::default().deflate(&content).unwrap(), store_or_empty(&content)] {
            for codec in [&Zstd::default() as &dyn Inflate, &Ruzstd] {
                assert_eq!(codec.inflate(&frame, content.len()).as_ref(), Some(&content), "{} bytes", content.len());
                assert_eq!(codec.inflate(&frame, content.len() + 1), None);
                assert!(content.is_empty() || codec.inflate(&frame, content.len() - 1).is_none());
                for length in 0..frame.len().min(70) {
                    assert_eq!(
                        codec.inflate(&frame[..length], content.len()),
                        None,
                        "{length} of {} bytes",
                        frame.len()
                    );
                }
            }
            for bit in (0..frame.len() * 8).step_by(1 + frame.len() / 50) {
                let mut flipped = frame.clone();
                flipped[bit / 8] ^= 1 << (bit % 8);
                let both = [Zstd::default().inflate(&flipped, content.len()), Ruzstd.inflate(&flipped, content.len())];
                if let [Some(c), Some(rust)] = both {
                    assert!(c == rust, "bit {bit} of a frame of {} bytes", frame.len());
                }
            }
        }
    }
}

/// A frame needs one block at least.
fn store_or_empty(content: &[u8]) -> Vec<u8> {
    if content.is_empty() { Zstd::default().deflate(content).unwrap() } else { store(content) }
}
