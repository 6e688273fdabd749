//! Context models: what a contextual segment's tokens are expected to be, per exponent class.
//!
//! A patch carries a few models in its header, and each segment names one, so that segments stay independent without paying
//! for statistics of their own.

use crate::bytes::{Cursor, push_varint};
use crate::error::Error;
use crate::layout::{CLASSES, GAP_TOKENS, PROBABILITY_BITS, PROBABILITY_SUM, STEP_TOKENS};
use crate::rans::Frequencies;
use crate::tokens::Tokens;
use alloc::vec::Vec;

/// How often each token occurred, per class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    /// Of rank gaps.
    pub gaps: [[u32; GAP_TOKENS]; CLASSES],
    /// Of ULP steps.
    pub steps: [[u32; STEP_TOKENS]; CLASSES],
}

impl Default for Histogram {
    fn default() -> Self {
        Self { gaps: [[0; GAP_TOKENS]; CLASSES], steps: [[0; STEP_TOKENS]; CLASSES] }
    }
}

impl Histogram {
    /// Adds the tokens of one segment.
    pub fn count(&mut self, tokens: &Tokens) {
        for ((class, gaps), steps) in tokens.classes().into_iter().zip(&mut self.gaps).zip(&mut self.steps) {
            for [gap, step] in class {
                gaps.get_mut(usize::from(*gap)).into_iter().for_each(|count| *count += 1);
                steps.get_mut(usize::from(*step)).into_iter().for_each(|count| *count += 1);
            }
        }
    }

    /// Adds another histogram.
    pub fn merge(&mut self, other: &Self) {
        let mine = self.gaps.as_flattened_mut().iter_mut().chain(self.steps.as_flattened_mut());
        let theirs = other.gaps.as_flattened().iter().chain(other.steps.as_flattened());
        mine.zip(theirs).for_each(|(mine, theirs)| *mine += theirs);
    }
}

/// What is expected of one exponent class.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ClassModel {
    /// Its share of the changes, in units of 1/4,096: segments say by how much they differ.
    pub share: u16,
    /// Of rank gaps.
    pub gaps: Frequencies,
    /// Of ULP steps.
    pub steps: Frequencies,
}

/// One model: an entry for each class that may have changes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ContextModel {
    /// By class; `None` where no change can be coded.
    pub classes: [Option<ClassModel>; CLASSES],
}

impl ClassModel {
    /// How many of a segment's changes it should have.
    pub(crate) fn expected(&self, changes: u32) -> i64 {
        (i64::from(changes) * i64::from(self.share)) >> PROBABILITY_BITS
    }
}

impl ContextModel {
    /// The model that codes the tokens of a histogram best.
    pub fn from_histogram(histogram: &Histogram) -> Self {
        let mut model = Self::default();
        let changes = |gaps: &[u32]| gaps.iter().map(|count| u64::from(*count)).sum::<u64>();
        let all = changes(histogram.gaps.as_flattened()).max(1);
        for ((class, gaps), steps) in model.classes.iter_mut().zip(&histogram.gaps).zip(&histogram.steps) {
            let share = ((changes(gaps) * u64::from(PROBABILITY_SUM) + all / 2) / all) as u16;
            let alphabets = Frequencies::from_histogram(gaps).zip(Frequencies::from_histogram(steps));
            *class = alphabets.map(|(gaps, steps)| ClassModel { share, gaps, steps });
        }
        model
    }

    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        let mask: u32 = self.classes.iter().zip(0..).map(|(class, bit)| u32::from(class.is_some()) << bit).sum();
        out.extend_from_slice(&mask.to_le_bytes());
        for class in self.classes.iter().flatten() {
            push_varint(out, class.share.into());
            class.gaps.write(out);
            class.steps.write(out);
        }
    }

    pub(crate) fn read(cursor: &mut Cursor<'_>) -> Result<Self, Error> {
        let mask = u32::from_le_bytes(cursor.array()?);
        let mut model = Self::default();
        for (class, bit) in model.classes.iter_mut().zip(0..) {
            if mask >> bit & 1 == 1 {
                let share = cursor.varint_up_to(u64::from(PROBABILITY_SUM))? as u16;
                let gaps = Frequencies::read(cursor, GAP_TOKENS)?;
                let steps = Frequencies::read(cursor, STEP_TOKENS)?;
                *class = Some(ClassModel { share, gaps, steps });
            }
        }
        Ok(model)
    }
}
