//! What placing overwrites, noted where it is wanted: with it a run becomes what it was before.

use alloc::vec::Vec;

/// A word that changed, as it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Overwritten {
    /// Which word of the run.
    pub place: u32,
    /// What it held, little-endian; the last word of a run may have fewer bytes, and zeros above them.
    pub before: u32,
}

/// The words of one run. One that changes more than once is there as often, what it held first before the others.
#[derive(Debug, Default)]
pub(crate) struct Overwrites {
    pub(crate) wanted: bool,
    first_word: u64,
    words: Vec<Overwritten>,
}

impl Overwrites {
    /// Forgets the run before; the next begins at `first_word` of its tensor.
    pub(crate) fn begin(&mut self, first_word: u64) {
        self.first_word = first_word;
        self.words.clear();
    }

    /// `word` of the tensor is about to change.
    #[inline(always)]
    pub(crate) fn note(&mut self, word: u64, before: u32) {
        if self.wanted {
            self.words.push(Overwritten { place: (word - self.first_word) as u32, before });
        }
    }

    pub(crate) fn words(&self) -> &[Overwritten] {
        &self.words
    }
}
