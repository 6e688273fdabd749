//! The changes of a contextual segment as tokens and raw bits: what models are made from, and what is coded by them.

use crate::changes::{ClassChanges, ContextualChanges};
use crate::codec::Deflate;
use crate::layout::CLASSES;
use crate::raw::RawWriter;
use crate::token::{split, zigzag};
use alloc::vec::Vec;

/// The changes of one segment, split into tokens and raw bits: what is coded once a model is chosen, in half the memory.
#[derive(Debug, Clone, Default)]
pub struct Tokens {
    /// Changes of each class.
    counts: [u32; CLASSES],
    /// Of the gap and the step of each change, by class.
    tokens: Vec<[u8; 2]>,
    /// As the payload ends.
    raw: Vec<u8>,
}

impl Tokens {
    /// Those of `changes`, whose ranks ascend. Raw bits are packed by `codec` where that is smaller.
    #[inline(always)]
    pub fn new(changes: &ContextualChanges, codec: &impl Deflate) -> Self {
        let counts = changes.classes.each_ref().map(|class| class.ranks.len() as u32);
        let mut tokens = alloc::vec![[0; 2]; changes.len()];
        let mut bits = RawWriter::default();
        let mut rest = tokens.as_mut_slice();
        for class in &changes.classes {
            let (own, later) = rest.split_at_mut(class.ranks.len().min(rest.len()));
            rest = later;
            bits = class_tokens(class, own, bits);
        }
        let mut raw = Vec::new();
        bits.write(codec, &mut raw);
        Self { counts, tokens, raw }
    }

    /// How many changes.
    pub fn len(&self) -> usize {
        self.tokens.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.tokens.is_empty()
    }

    /// The raw bits as the payload holds them, method and all.
    pub fn raw(&self) -> &[u8] {
        &self.raw
    }

    /// How many changes each class has.
    pub(crate) fn counts(&self) -> &[u32; CLASSES] {
        &self.counts
    }

    /// The tokens of gap and step of each change, by class.
    #[inline(always)]
    pub(crate) fn classes(&self) -> [&[[u8; 2]]; CLASSES] {
        let mut rest = self.tokens.as_slice();
        self.counts.map(|count| {
            let (own, later) = rest.split_at((count as usize).min(rest.len()));
            rest = later;
            own
        })
    }
}

/// Writes the tokens of each change's gap and step; their raw bits go to `raw`, which it gives back.
#[inline(always)]
fn class_tokens(class: &ClassChanges, tokens: &mut [[u8; 2]], mut raw: RawWriter) -> RawWriter {
    let mut next = 0u32;
    for ((rank, step), tokens) in class.ranks.iter().zip(&class.steps).zip(tokens) {
        let (gap, step) = (split(rank.wrapping_sub(next)), split(zigzag(*step)));
        next = rank.wrapping_add(1);
        raw.push(u64::from(step.raw) << gap.raw_bits | u64::from(gap.raw), gap.raw_bits + step.raw_bits);
        *tokens = [gap.token, step.token];
    }
    raw
}
