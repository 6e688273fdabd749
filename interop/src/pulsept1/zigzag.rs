//! `zz-delta-u8esc`, the values of v2 and v3: how far each bit pattern moved, sign in the lowest bit.
//!
//! One byte a change, 0xFF where the number does not fit; those numbers follow as u16, in order. The arithmetic is
//! modulo 2^16, so every pattern is reached from every other.

use crate::Error;
use crate::bytes::Cursor;

const ESCAPE: u8 = 0xFF;

fn fold(old: u16, new: u16) -> u16 {
    let step = new.wrapping_sub(old).cast_signed();
    ((step << 1) ^ (step >> 15)).cast_unsigned()
}

fn unfold(old: u16, folded: u16) -> u16 {
    old.wrapping_add((folded >> 1) ^ (folded & 1).wrapping_neg())
}

/// Appends the way from each cell of `old` to the one of `new`.
pub(super) fn write(old: &[u16], new: &[u16], out: &mut Vec<u8>) {
    let folded = || old.iter().zip(new).map(|(&old, &new)| fold(old, new));
    out.extend(folded().map(|folded| u8::try_from(folded).unwrap_or(ESCAPE)));
    for escaped in folded().filter(|&folded| folded >= ESCAPE.into()) {
        out.extend_from_slice(&escaped.to_le_bytes());
    }
}

/// Reads the new cells for `old`, and checks that there is exactly one canonical number for each.
pub(super) fn read(name: &str, bytes: &[u8], old: &[u16]) -> Result<Vec<u16>, Error> {
    let mut cursor = Cursor::new(bytes, name);
    let symbols = cursor.take(old.len())?;
    let mut values = Vec::with_capacity(old.len());
    for (&old, &symbol) in old.iter().zip(symbols) {
        let folded = match symbol {
            0 => return Err(Error::damaged(name, "a change of zero")),
            ESCAPE => match cursor.u16()? {
                short if short < ESCAPE.into() => {
                    return Err(Error::damaged(name, format!("escaped change {short} fits one byte")));
                }
                folded => folded,
            },
            symbol => symbol.into(),
        };
        values.push(unfold(old, folded));
    }
    cursor.finish()?;
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_distance_round_trips() {
        for old in [0, 1, 0x3F80, 0x7FFF, 0x8000, 0xFFFF] {
            for new in 0..=u16::MAX {
                assert_eq!(unfold(old, fold(old, new)), new);
            }
        }
        assert_eq!([fold(5, 6), fold(5, 4), fold(5, 7)], [2, 1, 4]);
    }

    #[test]
    fn large_changes_are_escaped() {
        let (old, new) = ([10, 10, 10, 0], [137, 138, 9, 0x8000]);
        let mut bytes = Vec::new();
        write(&old, &new, &mut bytes);
        assert_eq!(bytes, [254, 0xFF, 1, 0xFF, 0, 1, 0xFF, 0xFF]);
        assert_eq!(read("w", &bytes, &old).unwrap(), new);
    }

    #[test]
    fn only_canonical_numbers_are_read() {
        let cases: [(&[u8], &str); 5] = [
            (&[0], "damaged"),
            (&[], "truncated"),
            (&[0xFF, 1], "truncated"),
            (&[0xFF, 0xFE, 0], "damaged"),
            (&[1, 1], "damaged"),
        ];
        for (bytes, code) in cases {
            assert_eq!(read("w", bytes, &[7]).unwrap_err().code(), code, "{bytes:?}");
        }
    }
}
