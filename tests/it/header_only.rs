//! Tensors that no test machine could hold, as headers.

use crate::support::cells::Random;
use pulse_encoder::Zstd;
use pulse_format::apply::{apply_segment, segment_fingerprint};
use pulse_format::layout::MAX_SEGMENT_CELLS;
use pulse_format::{
    CellCount, CellIndex, Dtype, Fingerprint, Header, Limits, Piece, Profile, Segment, Step, Tensor, fingerprint,
    positional,
};

fn tensor(name: &str, dtype: Dtype, shape: &[u64]) -> Tensor {
    Tensor { name: name.into(), dtype, shape: shape.to_vec() }
}

/// Unchanged segments of the largest size over `cells` cells.
fn segments(cells: u64) -> Vec<Segment> {
    let full = cells / u64::from(MAX_SEGMENT_CELLS);
    let rest = (cells % u64::from(MAX_SEGMENT_CELLS)) as u32;
    let segment =
        |cells: u32, number: u64| Segment::unchanged(cells, Fingerprint { a: number as u32, b: !number as u32 });
    let all = (0..full).map(|number| segment(MAX_SEGMENT_CELLS, number));
    all.chain((rest > 0).then(|| segment(rest, full))).collect()
}

/// Written and read again.
fn read_back(mut header: Header) -> (Header, usize) {
    let bytes = header.write(&Zstd::default()).unwrap();
    let read = Header::read(&bytes, &Zstd::default(), &Limits::default()).unwrap();
    assert_eq!(read, header);
    (read, bytes.len())
}

/// FORMAT.md, section 4, for one word, in wide integers.
fn word_fingerprint(word: u32, seed: u64, tensor: u64, index: u64) -> (u32, u32) {
    let mix = |z: u64, shift: u32, by: u128| ((u128::from(z ^ z >> shift) * by) & u128::from(u64::MAX)) as u64;
    let place = ((u128::from(index >> 31) << 32) + u128::from(tensor) + 1) * 0x9E37_79B9_7F4A_7C15;
    let z = seed ^ (place & u128::from(u64::MAX)) as u64;
    let z = mix(mix(z, 30, 0xBF58_476D_1CE4_E5B9), 27, 0x94D0_49BB_1331_11EB);
    let z = z ^ z >> 31;
    let low = |number: u64| number & 0xffff_ffff;
    let index = low(index);
    let (p, q) = (low((low(z) | 1) + index * 0x9E37_79B2), low((z >> 32 | 1) + index * 0x85EB_CA76));
    let x = u64::from(word) ^ p;
    let x = low((x ^ x >> 16) * q);
    let x = x ^ x >> 16;
    (x as u32, low(x * p) as u32)
}

fn plain_fingerprint(bytes: &[u8], seed: u64, tensor: u64, first_word: u64) -> Fingerprint {
    let (mut a, mut b) = (0u32, 0u32);
    for (word, index) in bytes.chunks(4).zip(first_word..) {
        let word = word.iter().rev().fold(0, |word, byte| word << 8 | u32::from(*byte));
        let (x, y) = word_fingerprint(word, seed, tensor, index);
        (a, b) = (a.wrapping_add(x), b.wrapping_add(y));
    }
    Fingerprint { a, b }
}

#[test]
fn fingerprints_follow_the_specification_across_pages() {
    let bytes = Random::new(3).bytes(4099);
    for first_word in
        [0, 1, (1 << 31) - 600, (1 << 31) - 1, (1 << 32) - 600, (1 << 32) - 1, 1 << 32, (1 << 33) + 5, (7 << 32) - 1]
    {
        for (seed, tensor) in [(0, 0), (u64::MAX, 1), (12_345, u32::MAX)] {
            let expected = plain_fingerprint(&bytes, seed, tensor.into(), first_word);
            assert_eq!(fingerprint(&bytes, seed, tensor, first_word), expected, "from word {first_word}, seed {seed}");
        }
    }
    let all: Vec<u8> = (0..=255).collect();
    assert_eq!(plain_fingerprint(&all, 0, 0, 0).to_string(), "9ff0885f83822ac9", "as FORMAT.md says");
    assert_eq!(plain_fingerprint(&all[..5], 7, 1, 1 << 33).to_string(), "f8b4b548450be45c", "as FORMAT.md says");
}

#[test]
fn a_tensor_of_more_than_2_to_the_32_cells() {
    let cells = (1u64 << 32) + 5000;
    let base = Header {
        base_step: Some(Step(0)),
        target_step: Step(1),
        tensors: vec![tensor("w", Dtype::U8, &[cells])],
        ..Header::default()
    };
    let (header, bytes) = read_back(Header { segments: segments(cells), ..base });
    assert_eq!((header.segments.len(), header.cells()), (1025, CellCount(cells)));
    assert!(bytes < 20_000, "{bytes} bytes");
    for (index, segment) in header.segments.iter().enumerate() {
        let first_cell = CellIndex(index as u64 * u64::from(MAX_SEGMENT_CELLS));
        assert_eq!(segment.first_cell, first_cell);
        assert_eq!(header.pieces(index), [Piece { tensor: 0, first_cell, cells: segment.cells }]);
    }
    assert_eq!(header.pieces(1025), []);
}

/// A tensor that ends in the middle of a segment, which goes on into the next.
#[test]
fn a_segment_across_the_end_of_a_huge_tensor() {
    let cells = [(1u64 << 33) + 1025, 3, 0, 2048];
    let tensors = cells.iter().zip(["a", "b", "c", "d"]).map(|(cells, name)| tensor(name, Dtype::Bf16, &[*cells]));
    let base =
        Header { base_step: Some(Step(0)), target_step: Step(9), tensors: tensors.collect(), ..Header::default() };
    let (header, _) = read_back(Header { segments: segments(cells.iter().sum()), ..base });
    let last = header.segments.len() - 1;
    let first_cell = CellIndex(1 << 33);
    assert_eq!(
        header.pieces(last),
        [
            Piece { tensor: 0, first_cell, cells: 1025 },
            Piece { tensor: 1, first_cell: CellIndex(0), cells: 3 },
            Piece { tensor: 3, first_cell: CellIndex(0), cells: 2048 },
        ]
    );
    // The words of the first piece are in the third page of 2^31, those of the others begin again.
    let cells = Random::new(4).bytes(2 * (1025 + 3 + 2048));
    let expected = plain_fingerprint(&cells[..2050], 0, 0, 1 << 32)
        + plain_fingerprint(&cells[2050..2056], 0, 1, 0)
        + plain_fingerprint(&cells[2056..], 0, 3, 0);
    assert_eq!(segment_fingerprint(&header, last, &cells), expected);
}

/// Only the last segment changes; it is applied without the others at hand.
#[test]
fn the_last_segment_of_a_huge_tensor_is_applied_on_its_own() {
    let cells = (1u64 << 33) + 3000;
    let before = Random::new(5).bytes(3000 * 4);
    let mut after = before.clone();
    after[4 * 17..][..4].copy_from_slice(&[1, 2, 3, 4]);
    after[4 * 2999..].copy_from_slice(&[5, 6, 7, 8]);
    let changes = positional::PositionalChanges { positions: vec![17, 2999], values: vec![1, 2, 3, 4, 5, 6, 7, 8] };
    let mut payload = Vec::new();
    positional::encode(&changes, 4, &Zstd::default(), &mut payload);
    // Of F32, a cell is a word: the segment begins in the third page.
    let side = |cells: &[u8]| plain_fingerprint(cells, 6, 0, 1 << 33);
    let mut all = segments(cells);
    let last = all.len() - 1;
    let changed = Segment::unchanged(3000, side(&before)).with_payload(Profile::Absolute, 2, side(&after), &payload);
    all[last] = changed.unwrap();
    let tensors = vec![tensor("w", Dtype::F32, &[1 << 33 | 3000])];
    let (header, _) = read_back(Header {
        seed: 6,
        base_step: Some(Step(0)),
        target_step: Step(1),
        tensors,
        segments: all,
        ..Header::default()
    });
    assert_eq!(apply_segment(&header, last, &payload, &before, &Zstd::default()), Ok(after));
    assert_eq!(apply_segment(&header, 0, &[], &before, &Zstd::default()).unwrap_err().code(), "misuse");
}

/// Shapes whose product fits though a partial one is large, and the largest there is.
#[test]
fn shapes_up_to_2_to_the_64() {
    assert_eq!(tensor("w", Dtype::U8, &[u64::MAX]).cells(), None, "bits are counted, and 2^64 of them are too many");
    assert_eq!(tensor("w", Dtype::U8, &[1 << 60]).cells(), Some(CellCount(1 << 60)));
    assert_eq!(tensor("w", Dtype::F64, &[1 << 30, 1 << 26]).cells(), Some(CellCount(1 << 56)));
    assert_eq!(tensor("w", Dtype::F64, &[1 << 32, 1 << 32]).cells(), None);
    assert_eq!(
        tensor("w", Dtype::F64, &[0, 1 << 63, 1 << 63]).cells(),
        Some(CellCount(0)),
        "nothing times much is nothing"
    );
}
