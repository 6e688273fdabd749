//! `delta-u16-esc`, the positions of v1: `u32 first | gaps`.
//!
//! A gap below 0xFFFF is a u16; a larger one is 0xFFFF and a u32. All little-endian.

use crate::Error;
use crate::bytes::Cursor;

const ESCAPE: u16 = 0xFFFF;

/// The most bytes that `count` positions may take.
pub(super) const fn max_len(count: u64) -> u64 {
    count.saturating_mul(6)
}

/// Appends strictly ascending positions below 2^32.
pub(super) fn write(positions: &[u64], out: &mut Vec<u8>) {
    let Some(&first) = positions.first() else { return };
    out.reserve(4 + 2 * positions.len());
    out.extend_from_slice(&(first as u32).to_le_bytes());
    for [before, position] in positions.array_windows::<2>() {
        let gap = (position - before) as u32;
        match u16::try_from(gap) {
            Ok(gap) if gap != ESCAPE => out.extend_from_slice(&gap.to_le_bytes()),
            _ => {
                out.extend_from_slice(&ESCAPE.to_le_bytes());
                out.extend_from_slice(&gap.to_le_bytes());
            }
        }
    }
}

/// Reads `count` positions below `cell_count`.
pub(super) fn read(name: &str, bytes: &[u8], count: usize, cell_count: usize) -> Result<Vec<u64>, Error> {
    let mut cursor = Cursor::new(bytes, name);
    if count == 0 {
        cursor.finish()?;
        return Ok(Vec::new());
    }
    // Each position but the first takes at least two bytes, so this much is there.
    if bytes.len() / 2 < count {
        return Err(Error::truncated(name, count.saturating_mul(2), bytes.len()));
    }
    let mut positions = Vec::with_capacity(count);
    let mut position = u64::from(cursor.u32()?);
    positions.push(position);
    for _ in 1..count {
        let gap = match cursor.u16()? {
            ESCAPE => match cursor.u32()? {
                short if short < ESCAPE.into() => {
                    return Err(Error::damaged(name, format!("escaped gap {short} fits two bytes")));
                }
                gap => gap,
            },
            0 => return Err(Error::damaged(name, "a gap of zero")),
            gap => gap.into(),
        };
        position += u64::from(gap);
        positions.push(position);
    }
    cursor.finish()?;
    if position >= cell_count as u64 {
        return Err(Error::damaged(name, format!("index {position} in a tensor of {cell_count} cells")));
    }
    Ok(positions)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_are_escaped_from_65535_on() {
        let positions = [2, 3, 65537, 131072, 1 << 31];
        let mut bytes = Vec::new();
        write(&positions, &mut bytes);
        assert_eq!(bytes[..8], [2, 0, 0, 0, 1, 0, 0xFE, 0xFF]);
        assert_eq!(bytes[8..14], [0xFF, 0xFF, 0xFF, 0xFF, 0, 0]);
        assert_eq!(bytes.len(), 4 + 2 + 2 + 6 + 6);
        assert_eq!(read("w", &bytes, 5, usize::MAX).unwrap(), positions);
        assert!(bytes.len() as u64 <= max_len(5));
    }

    #[test]
    fn malformed_streams_are_rejected() {
        let cases: [(&[u8], usize, &str); 7] = [
            (&[1, 0, 0, 0, 1, 0], 3, "truncated"),
            (&[1, 0, 0], 1, "truncated"),
            (&[1, 0, 0, 0, 0xFF, 0xFF, 1], 2, "truncated"),
            (&[1, 0, 0, 0, 0, 0], 2, "damaged"),
            (&[1, 0, 0, 0, 0xFF, 0xFF, 1, 0, 0, 0], 2, "damaged"),
            (&[9, 0, 0, 0, 1, 0], 2, "damaged"),
            (&[1, 0, 0, 0], 0, "damaged"),
        ];
        for (bytes, count, code) in cases {
            assert_eq!(read("w", bytes, count, 10).unwrap_err().code(), code, "{bytes:?}");
        }
    }
}
