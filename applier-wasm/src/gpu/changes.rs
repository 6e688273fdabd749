//! Decoded changes as kernels take them.

use super::kernels::entry::{PLACE_SHIFT, STEP_MASK};
use pulse_format::contextual::ContextualChanges;
use pulse_format::positional::PositionalChanges;
use std::ops::Range;

/// Where the changes of a contextual segment lie in the words that are uploaded, and what they ask of the base.
#[derive(Debug, Clone, Default)]
pub(crate) struct Contextual {
    /// Classes with changes, as a bit set.
    pub(crate) classes: u32,
    pub(crate) changes: u32,
    pub(crate) count: u32,
    pub(crate) starts: u32,
    pub(crate) escapes: u32,
    pub(crate) escape_count: u32,
    /// The cells that each active class must have at least.
    pub(crate) needed: Vec<u32>,
}

impl Contextual {
    /// Appends entries, starts and escapes.
    pub(crate) fn append(changes: &ContextualChanges, words: &mut Vec<u32>) -> Self {
        let mut part = Self { changes: words.len() as u32, count: changes.len() as u32, ..Self::default() };
        let (mut starts, mut escapes) = (Vec::new(), Vec::new());
        for (class, changes) in (0..).zip(&changes.classes) {
            let Some(last) = changes.ranks.last() else { continue };
            part.classes |= 1 << class;
            part.needed.push(last.saturating_add(1));
            starts.push(words.len() as u32 - part.changes);
            for (rank, step) in changes.ranks.iter().zip(&changes.steps) {
                // -1, +1, -2, +2, … from 0.
                let code = u32::from(((step << 1) ^ (step >> 15)) as u16).wrapping_sub(1);
                if code >= STEP_MASK {
                    escapes.extend([words.len() as u32 - part.changes, code]);
                }
                words.push(rank << PLACE_SHIFT | code.min(STEP_MASK));
            }
        }
        part.starts = words.len() as u32;
        words.extend(starts);
        part.escapes = words.len() as u32;
        part.escape_count = (escapes.len() / 2) as u32;
        words.extend(escapes);
        part
    }
}

/// The changes of one window under the absolute profile.
#[derive(Debug, Clone, Default)]
pub(crate) struct Absolute {
    pub(crate) changes: u32,
    pub(crate) count: u32,
    pub(crate) values: u32,
}

impl Absolute {
    /// Appends those of `cells` (counted over the segment, as the checkpoint counts them), whose kernel cells are `split` to
    /// a cell and `cell_bits` wide.
    pub(crate) fn append(
        changes: &PositionalChanges,
        cells: Range<u32>,
        split: u32,
        cell_bits: u32,
        words: &mut Vec<u32>,
    ) -> Self {
        let first = changes.positions.partition_point(|position| *position < cells.start);
        let end = changes.positions.partition_point(|position| *position < cells.end);
        let positions = changes.positions.get(first..end).unwrap_or_default();
        let part = words.len() as u32;
        let start = cells.start;
        let expand = |position: &u32| {
            let first = (*position - start) * split;
            first..first + split
        };
        words.extend(positions.iter().flat_map(expand));
        let cell_bytes = (cell_bits / 8 * split) as usize;
        let values = changes.values.get(first * cell_bytes..end * cell_bytes).unwrap_or_default();
        let values_at = words.len() as u32;
        words.extend(values.chunks(4).map(|bytes| {
            let mut word = [0; 4];
            word.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
            u32::from_le_bytes(word)
        }));
        Self { changes: part, count: positions.len() as u32 * split, values: values_at }
    }
}
