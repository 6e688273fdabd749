use super::*;

/// A cell of the given exponent.
fn cell(exponent: u16, mantissa: u16) -> u16 {
    (exponent << 7) | mantissa
}

fn written(positions: &[u64], base: &[u16]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(positions, base, &mut bytes);
    bytes
}

fn code(bytes: &[u8], count: usize, base: &[u16]) -> &'static str {
    read("w", bytes, count, base).unwrap_err().code()
}

/// Two records of one rank each, in a base of two classes of three cells.
fn sample() -> ([u16; 6], Vec<u8>) {
    let base = [cell(3, 0), cell(9, 0), cell(3, 1), cell(9, 1), cell(3, 2) | 0x8000, cell(9, 2)];
    let bytes = written(&[2, 5], &base);
    (base, bytes)
}

#[test]
fn ranks_are_counted_within_a_class() {
    let (base, bytes) = sample();
    assert_eq!(bytes[..2], [2, 0]);
    assert_eq!(bytes[2..12], [3, 0, 1, 0, 0, 0, 6, 0, 0, 0]);
    assert_eq!(bytes[22..28], [0, 1, 0, 0, 0, 0b1011_1111]);
    assert_eq!(read("w", &bytes, 2, &base).unwrap(), [2, 5]);
}

#[test]
fn dense_classes_are_complemented() {
    let base = [cell(7, 0); 10];
    for (changed, flag) in [(5, 0), (6, 1), (9, 1), (10, 1)] {
        let positions: Vec<u64> = (0..changed).collect();
        let bytes = written(&positions, &base);
        assert_eq!(bytes[3], flag, "{changed} of 10");
        assert_eq!(read("w", &bytes, positions.len(), &base).unwrap(), positions);
    }
    assert_eq!(written(&(0..10).collect::<Vec<_>>(), &base), [1, 0, 7, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
    let scattered = [1, 2, 3, 5, 6, 7, 9];
    assert_eq!(read("w", &written(&scattered, &base), 7, &base).unwrap(), scattered);
}

#[test]
fn all_256_classes_fit() {
    let base: Vec<u16> = (0..512).map(|i| cell(i / 2, i % 2)).collect();
    for positions in [(0..512).step_by(2).collect(), (0..512).collect::<Vec<u64>>()] {
        let bytes = written(&positions, &base);
        assert_eq!(bytes[..2], [0, 1]);
        assert!(bytes.len() as u64 <= max_len(positions.len() as u64));
        assert_eq!(read("w", &bytes, positions.len(), &base).unwrap(), positions);
    }
}

#[test]
fn every_rule_is_checked() {
    let (base, good) = sample();
    let spoiled = |offset: usize, value: u8| {
        let mut bytes = good.clone();
        bytes[offset] = value;
        code(&bytes, 2, &base)
    };
    assert_eq!(spoiled(0, 0), "damaged");
    assert_eq!(spoiled(1, 2), "damaged");
    // Exponents 3 then 3, 3 then 2: not ascending. Unknown flag, needless complement, no ranks.
    assert_eq!(spoiled(12, 3), "damaged");
    assert_eq!(spoiled(12, 2), "damaged");
    assert_eq!(spoiled(3, 2), "damaged");
    assert_eq!(spoiled(3, 1), "damaged");
    assert_eq!(spoiled(4, 0), "damaged");
    assert_eq!(spoiled(8, 200), "truncated");
    // Rank 3 of three.
    assert_eq!(spoiled(27, 0b1110_1111), "damaged");
    assert_eq!(code(&good, 3, &base), "damaged");
    assert_eq!(code(&good, 1, &base), "damaged");
    assert_eq!(code(&[&good[..], &[0]].concat(), 2, &base), "damaged");
    for len in 0..good.len() {
        assert_eq!(code(&good[..len], 2, &base), "truncated", "{len}");
    }
}

#[test]
fn the_longer_list_is_rejected() {
    let base = [cell(7, 0); 4];
    let stream = |flags: u8, ranks: &[u32]| {
        let mut block = Vec::new();
        rice::write(ranks.iter().copied(), &mut block);
        let head = [1, 0, 7, flags, ranks.len() as u8, 0, 0, 0, block.len() as u8, 0, 0, 0];
        [&head[..], &block].concat()
    };
    assert_eq!(code(&stream(0, &[0, 1, 2]), 3, &base), "damaged");
    // Half of the class is not more than half.
    assert_eq!(code(&stream(1, &[0, 1]), 2, &base), "damaged");
    assert_eq!(read("w", &stream(1, &[1]), 3, &base).unwrap(), [0, 2, 3]);
}
