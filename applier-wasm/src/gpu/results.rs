//! What a run found of each segment: a few words that the host reads back.

use super::changes::Contextual;
use pulse_format::Fingerprint;
use pulse_format::layout::CLASSES;
use std::ops::Range;

/// Words of a segment's results: its fingerprint before and after, its cells per active class, and the keys of its side table.
const RESULT_WORDS: u32 = 4 + CLASSES as u32 + 1;

/// Where the results of segment `number` (counted over the job) begin.
pub(crate) fn results_of(number: usize) -> Range<usize> {
    let words = RESULT_WORDS as usize;
    number * words..(number + 1) * words
}

/// Words of the results of so many segments.
pub(crate) fn result_words(segments: usize) -> u64 {
    segments as u64 * u64::from(RESULT_WORDS)
}

/// What a run found of one segment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Results<'a>(&'a [u32]);

impl<'a> Results<'a> {
    /// Those of segment `number` among the words of all.
    pub(crate) fn of(words: &'a [u32], number: usize) -> Self {
        Self(words.get(results_of(number)).unwrap_or_default())
    }

    fn fingerprint(self, at: usize) -> Fingerprint {
        let word = |at: usize| self.0.get(at).copied().unwrap_or_default();
        Fingerprint { a: word(at), b: word(at + 1) }
    }

    pub(crate) fn base(self) -> Fingerprint {
        self.fingerprint(0)
    }

    pub(crate) fn target(self) -> Fingerprint {
        self.fingerprint(2)
    }

    /// Keys in the side table, in the fullest where the segment has several.
    pub(crate) fn side_keys(self) -> u64 {
        self.0.last().copied().unwrap_or_default().into()
    }

    /// Whether the base has the cells that the changes need.
    pub(crate) fn has_cells(self, part: &Contextual) -> bool {
        let totals = self.0.get(4..).unwrap_or_default();
        part.needed.iter().zip(totals).all(|(needed, total)| needed <= total)
    }
}
