//! Payloads as their fields, from FORMAT.md alone, none of them checked.

use super::raw::{push_varint, take_varint};

/// Section 5.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ContextualPayload {
    /// Changes of each class that the model has: how many more than expected, as they are written.
    pub(crate) counts: Vec<u64>,
    pub(crate) states: [u32; 4],
    pub(crate) words: Vec<u16>,
    /// How the raw bits are stored.
    pub(crate) raw_method: u8,
    /// Behind the method: with a frame, its length comes first.
    pub(crate) raw_bits: Vec<u8>,
}

impl ContextualPayload {
    /// Of a sound payload, coded by a model of `classes` classes.
    pub(crate) fn read(mut bytes: &[u8], classes: usize) -> Self {
        let counts = (0..classes).map(|_| take_varint(&mut bytes)).collect();
        let words = take_varint(&mut bytes) as usize;
        let (states, rest) = bytes.split_at(16);
        let (words, raw_bits) = rest.split_at(2 * words);
        Self {
            counts,
            states: [0, 1, 2, 3].map(|lane| u32::from_le_bytes(states.as_chunks().0[lane])),
            words: words.as_chunks().0.iter().map(|word| u16::from_le_bytes(*word)).collect(),
            raw_method: raw_bits[0],
            raw_bits: raw_bits[1..].to_vec(),
        }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.counts.iter().for_each(|count| push_varint(&mut out, *count));
        push_varint(&mut out, self.words.len() as u64);
        self.states.iter().for_each(|state| out.extend(state.to_le_bytes()));
        self.words.iter().for_each(|word| out.extend(word.to_le_bytes()));
        out.push(self.raw_method);
        out.extend_from_slice(&self.raw_bits);
        out
    }
}

/// Section 6: planes by method and bytes, of which only the first byte and the length of packed ones are added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AbsolutePayload {
    pub(crate) planes: Vec<(u8, Vec<u8>)>,
    pub(crate) raw_method: u8,
    pub(crate) raw_bits: Vec<u8>,
}

impl AbsolutePayload {
    /// Changes of cells of two bytes, every plane stored as it is.
    pub(crate) fn stored(tokens: &[u8], values: &[u16], raw_bits: &[u8]) -> Self {
        let byte = |shift: u16| values.iter().map(|value| (value >> shift) as u8).collect();
        let planes = vec![(0, tokens.to_vec()), (0, byte(0)), (0, byte(8))];
        Self { planes, raw_method: 0, raw_bits: raw_bits.to_vec() }
    }

    pub(crate) fn write(&self) -> Vec<u8> {
        let mut out = Vec::new();
        for (method, bytes) in &self.planes {
            out.push(*method);
            if *method == 1 {
                push_varint(&mut out, bytes.len() as u64);
            }
            out.extend_from_slice(bytes);
        }
        out.push(self.raw_method);
        out.extend_from_slice(&self.raw_bits);
        out
    }
}
