//! What an apply does, as plain data: segments cut into windows, and batches of segments whose scratch memory fits.

use super::changes::{Absolute, Contextual};
use super::kernels::{CHANGES_PER_WORKGROUP, Kernel, PARAMS_BYTES, Params, Slot};
use super::layout::Window;
use super::port::{Binding, Command};
use super::side;
use pulse_format::Fingerprint;
use pulse_format::layout::CLASSES;
use std::ops::Range;

/// Words of a segment's results: its fingerprint before and after, its cells per active class, and the keys of its side table.
const RESULT_WORDS: u32 = 4 + CLASSES as u32 + 1;

/// A segment, ready to be run.
#[derive(Debug, Clone)]
pub(crate) struct PlannedSegment<B> {
    pub(crate) index: usize,
    pub(crate) windows: Vec<Window<B>>,
    pub(crate) work: Work,
    /// Changes that may give a cell that f16 does not hold exactly.
    pub(crate) inexact: u32,
    pub(crate) base: Fingerprint,
    pub(crate) target: Fingerprint,
    /// Cells, as the checkpoint counts them.
    pub(crate) cells: u32,
    /// Kernel cells in each of them.
    pub(crate) split: u32,
}

/// What happens to a segment.
#[derive(Debug, Clone)]
pub(crate) enum Work {
    /// Nothing; its base is checked.
    Unchanged,
    Contextual(Contextual),
    /// Per window.
    Absolute(Vec<Absolute>),
    /// The same, with what is added to the cells instead of their values.
    Relative(Vec<Absolute>),
}

impl<B> PlannedSegment<B> {
    /// Nothing but windows.
    pub(crate) fn of(windows: Vec<Window<B>>) -> Self {
        let none = Fingerprint::ZERO;
        Self { index: 0, windows, work: Work::Unchanged, inexact: 0, base: none, target: none, cells: 0, split: 1 }
    }

    pub(crate) fn blocks(&self) -> u32 {
        self.windows.iter().map(Window::blocks).sum()
    }

    /// Words of its counts per class and block.
    pub(crate) fn table_words(&self) -> u64 {
        match &self.work {
            Work::Contextual(part) => u64::from(part.classes.count_ones()) * u64::from(self.blocks()),
            _ => 0,
        }
    }

    fn params_slots(&self) -> u64 {
        // A window is surveyed twice, before and after.
        2 * self.windows.len() as u64
    }

    pub(crate) fn is_changed(&self) -> bool {
        !matches!(self.work, Work::Unchanged)
    }
}

/// Bytes of scratch memory that a batch of segments takes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) params: u64,
    pub(crate) table: u64,
    pub(crate) changes: u64,
}

impl Need {
    /// With one more segment, which has so many words of changes.
    pub(crate) fn with<B>(self, segment: &PlannedSegment<B>, change_words: u64) -> Self {
        Self {
            params: self.params + PARAMS_BYTES * segment.params_slots(),
            table: self.table + 4 * segment.table_words(),
            changes: self.changes + 4 * change_words,
        }
    }

    pub(crate) fn total(self) -> u64 {
        self.params + self.table + self.changes
    }

    /// The most of either.
    pub(crate) fn max(self, other: Self) -> Self {
        Self {
            params: self.params.max(other.params),
            table: self.table.max(other.table),
            changes: self.changes.max(other.changes),
        }
    }
}

/// The scratch buffers.
#[derive(Debug, Clone)]
pub(crate) struct Scratch<B> {
    pub(crate) params: Binding<B>,
    pub(crate) table: Binding<B>,
    pub(crate) changes: Binding<B>,
    pub(crate) sums: Binding<B>,
    /// Side tables of f16 tensors, by number.
    pub(crate) sides: Vec<Binding<B>>,
}

/// The commands of one batch.
#[derive(Debug)]
pub(crate) struct BatchCommands<B> {
    /// What the uniform buffer must hold.
    pub(crate) params: Vec<u8>,
    /// Fingerprints the base and counts classes.
    pub(crate) survey: Vec<Command<B>>,
    /// Ranks into places, then the changes themselves.
    pub(crate) write: Vec<Command<B>>,
    /// Fingerprints what is there now, as the target.
    pub(crate) confirm: Vec<Command<B>>,
    /// The changes taken back, once `write` ran.
    pub(crate) back: Vec<Command<B>>,
}

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
pub(crate) struct Results<'a>(pub(crate) &'a [u32]);

impl Results<'_> {
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

/// The commands for `segments`, the first of which is number `first` of the job.
pub(crate) fn batch<B: Clone>(segments: &[PlannedSegment<B>], first: usize, scratch: &Scratch<B>) -> BatchCommands<B> {
    let mut commands = BatchCommands {
        params: Vec::new(),
        survey: Vec::new(),
        write: Vec::new(),
        confirm: Vec::new(),
        back: Vec::new(),
    };
    let (mut resolve, mut apply) = (Vec::new(), Vec::new());
    let mut table = 0;
    for (number, segment) in (first..).zip(segments) {
        let results = results_of(number).start as u32;
        let (mut first_block, mut first_in_segment) = (0, 0);
        for (number, window) in segment.windows.iter().enumerate() {
            let side_mask = window.side.and_then(|side| scratch.sides.get(side)).map_or(0, side::mask);
            let mut params = Params { sums: results, totals: results + 4, side_mask, ..window.params };
            if let Work::Contextual(part) = &segment.work {
                params.classes = part.classes;
                params.table = table;
                params.blocks = segment.blocks();
                params.first_block = first_block;
                params.first_in_segment = first_in_segment;
                (params.changes, params.count, params.starts) = (part.changes, part.count, part.starts);
                (params.escapes, params.escape_count) = (part.escapes, part.escape_count);
            }
            if let Work::Absolute(parts) | Work::Relative(parts) = &segment.work {
                let part = parts.get(number).cloned().unwrap_or_default();
                (params.changes, params.count, params.values) = (part.changes, part.count, part.values);
            }
            first_block += window.blocks();
            first_in_segment += window.params.cells;
            let before = push_params(&mut commands.params, params, scratch);
            let after = Params { sums: results + 2, classes: 0, ..params };
            let after = push_params(&mut commands.params, after, scratch);
            let dispatch = |kernel: Kernel, params: &Binding<B>, workgroups: u32| Command::Dispatch {
                kernel,
                params: params.clone(),
                slots: kernel.slots().iter().filter_map(|slot| Some((*slot, bind(*slot, window, scratch)?))).collect(),
                workgroups,
            };
            let storage = window.storage;
            commands.survey.push(dispatch(Kernel::Survey(storage), &before, window.blocks()));
            let per_change = params.count.div_ceil(CHANGES_PER_WORKGROUP);
            match &segment.work {
                Work::Unchanged => continue,
                Work::Contextual(part) => {
                    if number + 1 == segment.windows.len() {
                        commands.survey.push(dispatch(Kernel::Prefix, &before, part.classes.count_ones()));
                    }
                    resolve.push(dispatch(Kernel::Resolve(storage), &before, per_change));
                    apply.push(dispatch(Kernel::Step(storage), &before, per_change));
                    commands.back.push(dispatch(Kernel::StepBack(storage), &before, per_change));
                }
                Work::Absolute(_) | Work::Relative(_) if per_change == 0 => {}
                Work::Absolute(_) | Work::Relative(_) => {
                    let relative = matches!(segment.work, Work::Relative(_));
                    let kernel = if relative { Kernel::Add(storage) } else { Kernel::Scatter(storage) };
                    apply.push(dispatch(kernel, &before, per_change));
                    commands.back.push(dispatch(Kernel::Scatter(storage), &before, per_change));
                }
            }
            commands.confirm.push(dispatch(Kernel::Survey(storage), &after, window.blocks()));
        }
        table += segment.table_words() as u32;
    }
    // All places must be known before any cell moves to another class.
    commands.write = resolve;
    commands.write.extend(apply);
    commands
}

fn push_params<B: Clone>(bytes: &mut Vec<u8>, params: Params, scratch: &Scratch<B>) -> Binding<B> {
    let offset = bytes.len() as u64;
    bytes.extend_from_slice(&params.to_bytes());
    Binding { buffer: scratch.params.buffer.clone(), offset, bytes: PARAMS_BYTES }
}

fn bind<B: Clone>(slot: Slot, window: &Window<B>, scratch: &Scratch<B>) -> Option<Binding<B>> {
    let binding = match slot {
        Slot::Weights => &window.binding,
        Slot::Table => &scratch.table,
        Slot::Changes => &scratch.changes,
        Slot::Sums => &scratch.sums,
        Slot::Side => scratch.sides.get(window.side?)?,
    };
    Some(binding.clone())
}
