//! The changes of a contextual segment, by exponent class.

use crate::layout::CLASSES;
use alloc::vec::Vec;

/// The changes of one exponent class of a segment, ranks ascending.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ClassChanges {
    /// Which of the class's cells change, counted from 0 over the whole segment.
    pub ranks: Vec<u32>,
    /// How far each moves, in ULP; never 0.
    pub steps: Vec<i16>,
}

impl ClassChanges {
    /// Adds a change behind the others.
    #[inline(always)]
    pub fn push(&mut self, rank: u32, step: i16) {
        self.ranks.push(rank);
        self.steps.push(step);
    }

    fn clear(&mut self) {
        self.ranks.clear();
        self.steps.clear();
    }
}

/// The changes of one segment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ContextualChanges {
    /// By exponent class.
    pub classes: [ClassChanges; CLASSES],
}

impl Default for ContextualChanges {
    /// None.
    fn default() -> Self {
        Self { classes: core::array::from_fn(|_| ClassChanges::default()) }
    }
}

impl ContextualChanges {
    /// How many.
    pub fn len(&self) -> usize {
        self.classes.iter().map(|class| class.ranks.len()).sum()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Forgets all, keeps the memory.
    pub fn clear(&mut self) {
        self.classes.iter_mut().for_each(ClassChanges::clear);
    }
}
