//! Order-0 rANS: 32-bit states, 16-bit renormalisation, 12-bit probabilities.

use crate::bytes::{Cursor, push_varint};
use crate::error::{Damage, Error};
use crate::layout::{PROBABILITY_BITS, PROBABILITY_SUM, RANS_LOW};
use alloc::vec::Vec;
use core::hint::select_unpredictable;

/// How often each token of an alphabet is expected, in units of 1/4,096. The last token has a frequency above 0.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Frequencies(Vec<u16>);

impl Frequencies {
    /// The closest frequencies to a histogram in which every token that occurs keeps at least 1.
    ///
    /// `None` if nothing occurs.
    pub fn from_histogram(histogram: &[u32]) -> Option<Self> {
        let used = histogram.iter().rposition(|count| *count > 0)? + 1;
        let total: u64 = histogram.iter().map(|count| u64::from(*count)).sum();
        let scale = |count: u32| {
            let scaled = (u64::from(count) * u64::from(PROBABILITY_SUM) + total / 2) / total;
            if count == 0 { 0 } else { scaled.max(1) as u16 }
        };
        let mut frequencies: Vec<u16> = histogram.iter().take(used).map(|count| scale(*count)).collect();
        loop {
            let sum: u32 = frequencies.iter().map(|f| u32::from(*f)).sum();
            let pairs = frequencies.iter_mut().zip(histogram);
            // Take from, or give to, the token whose code length changes least for all its occurrences together.
            if sum > PROBABILITY_SUM {
                let cheapest =
                    pairs.filter(|(f, _)| **f > 1).max_by_key(|(f, count)| (u64::from(**f) << 32) / u64::from(**count));
                *cheapest?.0 -= 1;
            } else if sum < PROBABILITY_SUM {
                let dearest =
                    pairs.filter(|(f, _)| **f > 0).max_by_key(|(f, count)| (u64::from(**count) << 16) / u64::from(**f));
                *dearest?.0 += 1;
            } else {
                return Some(Self(frequencies));
            }
        }
    }

    /// The frequency of each token, from token 0.
    pub fn get(&self) -> &[u16] {
        &self.0
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        push_varint(out, self.0.len() as u64);
        self.0.iter().for_each(|frequency| push_varint(out, u64::from(*frequency)));
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>, alphabet: usize) -> Result<Self, Error> {
        let tokens = cursor.varint_up_to(alphabet as u64)?;
        let frequencies = (0..tokens)
            .map(|_| cursor.varint_up_to(u64::from(PROBABILITY_SUM)).map(|frequency| frequency as u16))
            .collect::<Result<Vec<_>, _>>()?;
        let sum: u32 = frequencies.iter().map(|f| u32::from(*f)).sum();
        if sum != PROBABILITY_SUM || frequencies.last() == Some(&0) {
            return Err(cursor.damaged(Damage::Frequencies));
        }
        Ok(Self(frequencies))
    }

    /// The share of each token, for the encoder.
    pub(crate) fn intervals(&self) -> impl Iterator<Item = Interval> {
        self.0.iter().scan(0, |start, frequency| {
            let interval = Interval::new(u32::from(*frequency), *start);
            *start += u32::from(*frequency);
            Some(interval)
        })
    }
}

/// A token's share of `0..4096`, as the encoder needs it.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Interval {
    frequency: u32,
    /// Added to a state that is `quotient * (4096 - frequency)` larger than before.
    bias: u32,
    /// 2^64 / frequency, rounded up: the quotient of any state is the upper half of the product (Lemire, Kaser, Kurz: "Faster remainder
    /// by direct computation").
    reciprocal: u64,
}

impl Interval {
    fn new(frequency: u32, start: u32) -> Self {
        match frequency {
            0 => Self::default(),
            // 2^64 does not fit; with one less each quotient is one too small, which the bias makes up for.
            1 => Self { frequency, bias: start + PROBABILITY_SUM - 1, reciprocal: u64::MAX },
            _ => Self { frequency, bias: start, reciprocal: u64::MAX / u64::from(frequency) + 1 },
        }
    }

    /// Whether the token has no share.
    pub(crate) fn is_empty(self) -> bool {
        self.frequency == 0
    }
}

/// Encodes tokens last to first.
#[derive(Debug)]
pub(crate) struct Encoder<const LANES: usize> {
    states: [u32; LANES],
    /// Renormalisation words from the back, in decoding order; those before `next` are not written yet.
    words: Vec<u16>,
    next: usize,
}

impl<const LANES: usize> Encoder<LANES> {
    /// For up to `tokens` tokens.
    pub(crate) fn new(tokens: usize) -> Self {
        // A token takes one word at most. One more is written before it is known whether it counts.
        Self { states: [RANS_LOW; LANES], words: alloc::vec![0; tokens + 1], next: tokens }
    }

    /// Puts one token in front of those already in. `lane` is below `LANES`. The interval is not empty.
    #[inline(always)]
    pub(crate) fn put(&mut self, lane: usize, interval: Interval) {
        let Some(state) = self.states.get_mut(lane) else { return };
        let Interval { frequency, bias, reciprocal } = interval;
        // Without a branch, which nothing could predict.
        let high = *state >> (32 - PROBABILITY_BITS) >= frequency;
        self.words.get_mut(self.next).into_iter().for_each(|word| *word = *state as u16);
        self.next = self.next.saturating_sub(usize::from(high));
        let low = select_unpredictable(high, *state >> 16, *state);
        let quotient = ((u128::from(reciprocal) * u128::from(low)) >> 64) as u32;
        // quotient * 4096 + remainder + start, where remainder is low - quotient * frequency.
        *state = low.wrapping_add(quotient.wrapping_mul(PROBABILITY_SUM - frequency)).wrapping_add(bias);
    }

    /// Appends the number of words, the states and the words in decoding order.
    pub(crate) fn finish(self, out: &mut Vec<u8>) {
        let words = self.words.get(self.next + 1..).unwrap_or_default();
        push_varint(out, words.len() as u64);
        self.states.iter().for_each(|state| out.extend_from_slice(&state.to_le_bytes()));
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
}

/// For each of the 4,096 slots: the token in bits 0–7, its frequency less one in bits 8–19, the slot's distance from
/// the token's start in bits 20–31.
#[derive(Debug, Clone)]
pub(crate) struct DecodeTable(Vec<u32>);

impl DecodeTable {
    pub(crate) fn new(frequencies: &Frequencies) -> Self {
        Self::from(0, frequencies)
    }

    /// The first frequency is that of token `first`; the last is of 255 at most.
    pub(crate) fn from(first: u8, frequencies: &Frequencies) -> Self {
        let mut table = Vec::with_capacity(PROBABILITY_SUM as usize);
        for (token, frequency) in (u32::from(first)..).zip(frequencies.get()) {
            let frequency = u32::from(*frequency);
            table.extend((0..frequency).map(|slot| token | (frequency - 1) << 8 | slot << 20));
        }
        Self(table)
    }

    #[inline(always)]
    fn slots(&self) -> &[u32; PROBABILITY_SUM as usize] {
        // Frequencies sum to the table's length, so the fallback is never taken; it keeps the lookup free of checks.
        self.0.first_chunk().unwrap_or(&[0; PROBABILITY_SUM as usize])
    }
}

/// Decodes tokens first to last. Past the end of the words it goes on with zeros, which [`Decoder::ended_well`] notices.
#[derive(Debug)]
pub(crate) struct Decoder<'a, const LANES: usize> {
    states: [u32; LANES],
    words: &'a [[u8; 2]],
    next: usize,
}

impl<'a, const LANES: usize> Decoder<'a, LANES> {
    /// Reads what [`Encoder::finish`] wrote.
    pub(crate) fn new(cursor: &mut Cursor<'a>) -> Result<Self, Error> {
        let count = cursor.varint_up_to(u64::from(u32::MAX >> 1))? as usize;
        let mut states = [0; LANES];
        for state in &mut states {
            *state = u32::from_le_bytes(cursor.array()?);
        }
        let (words, _) = cursor.take(2 * count)?.as_chunks::<2>();
        Ok(Self { states, words, next: 0 })
    }

    /// The next token of `lane`, which is below `LANES`.
    #[inline(always)]
    pub(crate) fn get(&mut self, lane: usize, table: &DecodeTable) -> u8 {
        let Some(held) = self.states.get_mut(lane) else { return 0 };
        let state = *held;
        #[expect(clippy::indexing_slicing, reason = "held below the length by its mask")]
        let entry = table.slots()[(state & (PROBABILITY_SUM - 1)) as usize];
        let frequency = (entry >> 8 & (PROBABILITY_SUM - 1)) + 1;
        let state = frequency.wrapping_mul(state >> PROBABILITY_BITS).wrapping_add(entry >> 20);
        let word = self.words.get(self.next).map_or(0, |word| u32::from(u16::from_le_bytes(*word)));
        // Without a branch, which nothing could predict.
        let low = state < RANS_LOW;
        self.next += usize::from(low);
        *held = select_unpredictable(low, state << 16 | word, state);
        entry as u8
    }

    /// Whether every word was used and every state is back where the encoder began.
    pub(crate) fn ended_well(&self) -> bool {
        self.next == self.words.len() && self.states == [RANS_LOW; LANES]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Part;

    #[test]
    fn frequencies_sum_up_and_keep_rare_tokens() {
        let histograms: &[&[u32]] = &[
            &[1],
            &[0, 7, 0, 0],
            &[1; 84],
            &[1_000_000, 1, 1, 0, 1],
            &[4_000_000, 4_000_000, 1],
            &[3, 5, 0, 9, 1_000],
        ];
        for histogram in histograms {
            let frequencies = Frequencies::from_histogram(histogram).unwrap();
            assert_eq!(frequencies.get().iter().map(|f| u32::from(*f)).sum::<u32>(), PROBABILITY_SUM);
            for (token, count) in histogram.iter().enumerate() {
                assert_eq!(frequencies.get().get(token).copied().unwrap_or(0) > 0, *count > 0);
            }
            let mut bytes = Vec::new();
            frequencies.write(&mut bytes);
            assert_eq!(Frequencies::read(&mut Cursor::new(&bytes, Part::Header), 84), Ok(frequencies));
        }
        assert_eq!(Frequencies::from_histogram(&[0, 0]), None);
    }

    #[test]
    fn tokens_round_trip_close_to_their_entropy() {
        let histogram = [900u32, 80, 15, 4, 1];
        let frequencies = Frequencies::from_histogram(&histogram).unwrap();
        let (intervals, table): (Vec<_>, _) = (frequencies.intervals().collect(), DecodeTable::new(&frequencies));
        let tokens: Vec<u8> = (0..4000u32)
            .map(|i| {
                let draw = i.wrapping_mul(2_654_435_761) % 1000;
                (0..5u8).find(|t| draw < histogram[..=usize::from(*t)].iter().sum()).unwrap()
            })
            .collect();
        let mut encoder = Encoder::<4>::new(tokens.len());
        for pair in tokens.chunks(2).rev() {
            encoder.put(3, intervals[usize::from(pair[1])]);
            encoder.put(0, intervals[usize::from(pair[0])]);
        }
        let mut bytes = Vec::new();
        encoder.finish(&mut bytes);
        let mut cursor = Cursor::new(&bytes, Part::Payload);
        let mut decoder = Decoder::<4>::new(&mut cursor).unwrap();
        for pair in tokens.chunks(2) {
            assert_eq!([decoder.get(0, &table), decoder.get(3, &table)], pair);
        }
        assert!(decoder.ended_well());
        let bits = tokens.iter().map(|t| -(f64::from(histogram[usize::from(*t)]) / 1000.0).log2()).sum::<f64>();
        assert!((bytes.len() as f64) < bits / 8.0 * 1.005 + 18.0, "{} bytes for {bits} bits", bytes.len());
    }
}
