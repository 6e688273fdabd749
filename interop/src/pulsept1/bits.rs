//! Bits, most significant first.

/// Collects bits into bytes.
#[derive(Default)]
pub(super) struct BitWriter {
    pending: u64,
    pending_len: u32,
}

impl BitWriter {
    /// Appends the low `len` bits of `bits`, of which the others must be zero; at most 33.
    pub(super) fn push(&mut self, bits: u64, len: u32, out: &mut Vec<u8>) {
        self.pending = (self.pending << len) | bits;
        self.pending_len += len;
        while self.pending_len >= 8 {
            self.pending_len -= 8;
            out.push((self.pending >> self.pending_len) as u8);
        }
    }

    /// Fills the last byte up with the bits of `padding`.
    pub(super) fn finish(mut self, padding: u8, out: &mut Vec<u8>) {
        if self.pending_len > 0 {
            let missing = 8 - self.pending_len;
            self.push(u64::from(padding >> self.pending_len), missing, out);
        }
    }
}

/// Reads bits. Past the end there are zeros; [`rest`](BitReader::rest) tells whether they were used.
pub(super) struct BitReader<'a> {
    bytes: &'a [u8],
    position: usize,
}

impl<'a> BitReader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { bytes, position: 0 }
    }

    /// The next 57 bits or more, in the upper end of the word.
    fn window(&self) -> u64 {
        let ahead = self.bytes.get(self.position / 8..).unwrap_or_default();
        let word = match ahead.first_chunk() {
            Some(&eight) => u64::from_be_bytes(eight),
            None => ahead.iter().rev().fold(0, |word, &byte| (word >> 8) | (u64::from(byte) << 56)),
        };
        word << (self.position % 8)
    }

    /// Reads ones up to and with the next zero; counts the ones, at least up to 56.
    pub(super) fn unary(&mut self) -> u32 {
        let ones = self.window().leading_ones();
        self.position += ones as usize + 1;
        ones
    }

    /// Reads `len` bits; at most 32.
    pub(super) fn bits(&mut self, len: u32) -> u64 {
        let bits = self.window().checked_shr(64 - len).unwrap_or(0);
        self.position += len as usize;
        bits
    }

    /// The bits of the last byte that were not read, and their number. `None` when too few were there to read, or more
    /// than the last byte's are left.
    pub(super) fn rest(&self) -> Option<(u8, u32)> {
        let left = (self.bytes.len() * 8).checked_sub(self.position).filter(|&left| left < 8)?;
        let mask = (1u8 << left) - 1;
        Some((self.bytes.last().map_or(0, |last| last & mask), left as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_round_trip() {
        let fields = [(1, 1), (0, 1), (0x1_FFFF_FFFE, 33), (5, 3), (0, 0), (0xABCD, 16)];
        let mut bytes = Vec::new();
        let mut writer = BitWriter::default();
        for (bits, len) in fields {
            writer.push(bits, len, &mut bytes);
        }
        writer.finish(0xFF, &mut bytes);
        assert_eq!(bytes.len(), 54_usize.div_ceil(8));
        let mut reader = BitReader::new(&bytes);
        assert_eq!([reader.unary(), reader.unary()], [1, 32]);
        assert_eq!([reader.bits(3), reader.bits(0), reader.bits(16)], [5, 0, 0xABCD]);
        assert_eq!(reader.rest(), Some((0b11, 2)));
    }

    #[test]
    fn reading_past_the_end_shows() {
        let mut reader = BitReader::new(&[0xFF]);
        assert_eq!(reader.unary(), 8);
        assert_eq!(reader.rest(), None);
        assert_eq!(BitReader::new(&[0, 0]).rest(), None);
    }
}
