//! `rice-gap`, the positions of v2, and of each class in v3.
//!
//! ```text
//! u8 k | u32 U | U bytes unary | ceil(n*k/8) bytes remainders | escapes
//! ```
//!
//! The first number is the first position, each other the distance to the one before, less one. Its quotient by 2^k is
//! written in unary, that many ones and a zero, but 32 ones stand for any quotient from 32 on, which then follows as a
//! u32 in the last section; its remainder in k bits. Bits run from the most significant on; the unary section is padded
//! with ones, so that its zeros can be counted, the remainders with zeros.

use super::bits::{BitReader, BitWriter};
use crate::Error;
use crate::bytes::Cursor;

const ESCAPE: u32 = 32;
const MAX_K: u32 = 31;

/// Numbers from which the median is taken, about.
const SAMPLE: usize = 4096;

/// The most bytes that `count` positions may take.
pub(super) const fn max_len(count: u64) -> u64 {
    // 33 bits of unary, 31 of remainder, a padding byte of each.
    count.saturating_mul(8 + 4).saturating_add(5 + 2)
}

/// Appends strictly ascending positions below 2^32; nothing when there are none.
pub(super) fn write(positions: impl Iterator<Item = u32>, out: &mut Vec<u8>) {
    let mut next = 0;
    let numbers: Vec<u32> = positions
        .map(|position| {
            let number = position - next;
            // Only the last possible position has no successor, and it comes last.
            next = position.wrapping_add(1);
            number
        })
        .collect();
    if numbers.is_empty() {
        return;
    }
    let k = parameter(&numbers);
    out.push(k as u8);
    let unary_len_at = out.len();
    out.extend_from_slice(&[0; 4]);
    let unary_at = out.len();
    let mut bits = BitWriter::default();
    for number in &numbers {
        let ones = (number >> k).min(ESCAPE);
        bits.push((1 << (ones + 1)) - 2, ones + 1, out);
    }
    bits.finish(u8::MAX, out);
    let unary_len = (out.len() - unary_at) as u32;
    if let Some(slot) = out.get_mut(unary_len_at..unary_at) {
        slot.copy_from_slice(&unary_len.to_le_bytes());
    }
    let mut bits = BitWriter::default();
    let mask = (1u32 << k) - 1;
    for number in &numbers {
        bits.push(u64::from(number & mask), k, out);
    }
    bits.finish(0, out);
    for quotient in numbers.iter().map(|number| number >> k).filter(|&quotient| quotient >= ESCAPE) {
        out.extend_from_slice(&quotient.to_le_bytes());
    }
}

/// The cheapest of the exponents around two estimates, the lower of equals; as the original chooses, so that the bytes
/// agree.
///
/// `log2(mean * ln 2)` is best for geometrically distributed gaps; the median is not dragged up by a few huge ones.
fn parameter(numbers: &[u32]) -> u32 {
    let sum: u64 = numbers.iter().map(|&number| u64::from(number)).sum();
    let mean = sum as f64 / numbers.len() as f64;
    let mut best = (u64::MAX, 0);
    for estimate in [mean * std::f64::consts::LN_2, median(numbers)] {
        let exponent = if estimate >= 1.0 { estimate.log2() as u32 } else { 0 };
        for k in exponent.saturating_sub(1)..=(exponent + 1).min(MAX_K) {
            best = best.min((cost(numbers, k), k));
        }
    }
    best.1
}

fn cost(numbers: &[u32], k: u32) -> u64 {
    let bits = numbers.iter().map(|number| {
        let quotient = number >> k;
        u64::from(quotient.min(ESCAPE)) + if quotient >= ESCAPE { 32 } else { 0 }
    });
    bits.sum::<u64>() + numbers.len() as u64 * u64::from(1 + k)
}

/// Median of a sample, the mean of the middle two where their number is even.
fn median(numbers: &[u32]) -> f64 {
    let step = (numbers.len() / SAMPLE).max(1);
    let mut sample: Vec<u32> = numbers.iter().copied().step_by(step).collect();
    let (len, middle) = (sample.len(), sample.len() / 2);
    if len == 0 {
        return 0.0;
    }
    let (below, &mut upper, _) = sample.select_nth_unstable(middle);
    let lower = if len.is_multiple_of(2) { below.iter().max().copied().unwrap_or(upper) } else { upper };
    (f64::from(lower) + f64::from(upper)) / 2.0
}

/// Reads `count` positions, at least one, below `cell_count`, and checks that the bytes are the canonical ones for k.
pub(super) fn read(name: &str, bytes: &[u8], count: usize, cell_count: usize) -> Result<Vec<u32>, Error> {
    let damaged = |what: String| Err(Error::damaged(name, what));
    let mut cursor = Cursor::new(bytes, name);
    let k = u32::from(cursor.u8()?);
    if k > MAX_K {
        return damaged(format!("Rice parameter {k}"));
    }
    let unary_len = cursor.u32()?;
    let unary = cursor.take_u64(unary_len.into())?;
    let remainder_bits = (count as u64).saturating_mul(u64::from(k));
    let remainders = cursor.take_u64(remainder_bits.div_ceil(8))?;
    // Each number takes at least one bit, so this much is there.
    if unary.len().saturating_mul(8) < count {
        return damaged(format!("{} bytes of unary code for {count} numbers", unary.len()));
    }
    let mut positions = Vec::with_capacity(count);
    let (mut quotients, mut remainders) = (BitReader::new(unary), BitReader::new(remainders));
    let mut next = 0u64;
    for _ in 0..count {
        let quotient = match quotients.unary() {
            ESCAPE => match cursor.u32()? {
                short if short < ESCAPE => return damaged(format!("escaped quotient {short} fits the unary code")),
                quotient => quotient,
            },
            ones if ones > ESCAPE => return damaged(format!("{ones} ones in a unary code")),
            ones => ones,
        };
        let position = next.saturating_add((u64::from(quotient) << k) | remainders.bits(k));
        if position >= cell_count as u64 {
            return damaged(format!("position {position} of {cell_count}"));
        }
        positions.push(position as u32);
        next = position + 1;
    }
    match quotients.rest() {
        Some((padding, len)) if u32::from(padding) == (1 << len) - 1 => {}
        _ => return damaged(format!("a unary code that does not hold exactly {count} numbers")),
    }
    if remainders.rest().is_none_or(|(padding, _)| padding != 0) {
        return damaged("remainders padded with ones".to_owned());
    }
    cursor.finish()?;
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(positions: &[u32]) -> Vec<u8> {
        let mut bytes = Vec::new();
        write(positions.iter().copied(), &mut bytes);
        bytes
    }

    fn code(bytes: &[u8], count: usize, cell_count: usize) -> &'static str {
        read("w", bytes, count, cell_count).unwrap_err().code()
    }

    #[test]
    fn lists_round_trip() {
        let geometric = (0..9000u32).map(|i| i * 37 + (i * i) % 31);
        let lists: [Vec<u32>; 6] = [
            vec![0],
            vec![u32::MAX - 1],
            (0..100).collect(),
            geometric.collect(),
            vec![0, 1, 2, 3, 1 << 30, (1 << 31) + 5],
            vec![5, 6, 100_000],
        ];
        for list in lists {
            let bytes = written(&list);
            assert_eq!(read("w", &bytes, list.len(), u32::MAX as usize).unwrap(), list);
            assert!(bytes.len() as u64 <= max_len(list.len() as u64));
            assert_eq!(code(&bytes, list.len(), *list.last().unwrap() as usize), "damaged");
        }
        assert!(written(&[]).is_empty());
    }

    #[test]
    fn the_layout_is_the_published_one() {
        // One position, 1: k = 0, one byte of unary code 10 padded with ones.
        assert_eq!(written(&[1]), [0, 1, 0, 0, 0, 0b1011_1111]);
        // Position 40 of k = 4: quotient 2, remainder 8.
        assert_eq!(written(&[40]), [4, 1, 0, 0, 0, 0b1101_1111, 0b1000_0000]);
    }

    #[test]
    fn every_canonical_rule_is_checked() {
        assert_eq!(code(&[32, 1, 0, 0, 0, 0x7F], 1, 9), "damaged");
        assert_eq!(code(&[0, 2, 0, 0, 0, 0x7F], 1, 9), "truncated");
        assert_eq!(code(&[0, 1, 0, 0, 0], 1, 9), "truncated");
        assert_eq!(code(&[4, 1, 0, 0, 0, 0x7F], 1, 9), "truncated");
        // A zero too many, one too few, a byte too many, zeros as padding.
        assert_eq!(code(&[0, 1, 0, 0, 0, 0x3F], 1, 9), "damaged");
        assert_eq!(code(&[0, 1, 0, 0, 0, 0x7F], 2, 9), "damaged");
        assert_eq!(code(&[0, 2, 0, 0, 0, 0x7F, 0xFF], 1, 9), "damaged");
        assert_eq!(code(&[0, 1, 0, 0, 0, 0x7E], 1, 9), "damaged");
        // Remainder padding, an escape that was not needed, bytes left over.
        assert_eq!(code(&[1, 1, 0, 0, 0, 0x7F, 0x01], 1, 9), "damaged");
        assert_eq!(code(&[0, 5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 31, 0, 0, 0], 1, 99), "damaged");
        assert_eq!(code(&[0, 5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0xBF, 33, 0, 0, 0], 1, 99), "damaged");
        assert_eq!(code(&[0, 1, 0, 0, 0, 0x7F, 0], 1, 9), "damaged");
        assert_eq!(read("w", &[0, 5, 0, 0, 0, 0xFF, 0xFF, 0xFF, 0xFF, 0x7F, 32, 0, 0, 0], 1, 99).unwrap(), [32]);
        assert_eq!(code(&[0, 0, 0, 0, 0], usize::MAX, usize::MAX), "damaged");
    }

    #[test]
    fn the_median_is_numpys() {
        assert_eq!([median(&[]), median(&[7]), median(&[9, 1, 2, 4]), median(&[3, 1, 2])], [0.0, 7.0, 3.0, 2.0]);
    }
}
