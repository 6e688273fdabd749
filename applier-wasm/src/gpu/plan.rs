//! What a batch of segments asks of a device, as plain data: commands, their parameters, and where results go.

use super::changes::{Absolute, Contextual};
use super::kernels::{CHANGES_PER_WORKGROUP, Kernel, PARAMS_BYTES, Params, Slot};
use super::layout::Window;
use super::port::{Binding, Command};
use super::results::results_of;
use super::scratch::{Need, Scratch};
use super::side;

/// A segment, ready to be run.
#[derive(Debug, Clone)]
pub(crate) struct PlannedSegment<B> {
    pub(crate) index: usize,
    pub(crate) windows: Vec<Window<B>>,
    pub(crate) work: Work,
    /// Changes that may give a cell that f16 does not hold exactly.
    pub(crate) inexact: u32,
    /// Cells, as the checkpoint counts them.
    pub(crate) cells: u32,
    /// Kernel cells in each of them.
    pub(crate) split: u32,
    /// Where its words begin among those of its batch.
    pub(crate) first_word: u32,
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
        Self { index: 0, windows, work: Work::Unchanged, inexact: 0, cells: 0, split: 1, first_word: 0 }
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

    /// What it takes of a batch's scratch memory, with so many words of changes.
    pub(crate) fn need(&self, change_words: usize) -> Need {
        // A window is surveyed twice, before and after.
        let params = 2 * self.windows.len() as u64;
        Need { params: PARAMS_BYTES * params, table: 4 * self.table_words(), changes: 4 * change_words as u64 }
    }

    pub(crate) fn is_changed(&self) -> bool {
        !matches!(self.work, Work::Unchanged)
    }
}

/// What may be run of one segment. Commands of one kind need no order among segments; a kind sees what an earlier one did.
#[derive(Debug, Clone)]
pub(crate) struct SegmentCommands<B> {
    /// Fingerprints the base and counts classes.
    pub(crate) survey: Vec<Command<B>>,
    /// Ranks into places, by the counts of a survey.
    pub(crate) resolve: Vec<Command<B>>,
    /// The changes, once all places are known: a cell that moved may have left its class.
    pub(crate) forth: Vec<Command<B>>,
    /// The changes taken back.
    pub(crate) back: Vec<Command<B>>,
    /// The changes made again, once they were taken back.
    pub(crate) again: Vec<Command<B>>,
    /// Fingerprints what is there now.
    pub(crate) confirm: Vec<Command<B>>,
}

/// The commands of one batch, and the parameters that they take.
#[derive(Debug, Clone)]
pub(crate) struct BatchCommands<B> {
    /// What the uniform buffer must hold meanwhile.
    pub(crate) params: Vec<u8>,
    /// By segment.
    pub(crate) segments: Vec<SegmentCommands<B>>,
}

/// The commands for `segments`, the first of which is number `first` of the job, with their words in `changes`.
pub(crate) fn batch<B: Clone>(
    segments: &[PlannedSegment<B>],
    first: usize,
    scratch: &Scratch<B>,
    changes: &Binding<B>,
) -> BatchCommands<B> {
    let mut planner = Planner { scratch, changes, params: Vec::new(), table: 0 };
    let segments = (first..).zip(segments).map(|(number, segment)| planner.segment(number, segment)).collect();
    BatchCommands { params: planner.params, segments }
}

/// Hands out parameters and parts of the table, from segment to segment of a batch.
struct Planner<'a, B> {
    scratch: &'a Scratch<B>,
    changes: &'a Binding<B>,
    params: Vec<u8>,
    /// Words of the table that are taken.
    table: u32,
}

impl<B: Clone> Planner<'_, B> {
    fn segment(&mut self, number: usize, segment: &PlannedSegment<B>) -> SegmentCommands<B> {
        let [survey, resolve, forth, back, again, confirm] = [const { Vec::new() }; 6];
        let mut commands = SegmentCommands { survey, resolve, forth, back, again, confirm };
        let (mut first_block, mut first_in_segment) = (0, 0);
        for (index, window) in segment.windows.iter().enumerate() {
            let params = Params { first_block, first_in_segment, ..self.params_of(number, segment, index, window) };
            let is_last = index + 1 == segment.windows.len();
            self.window(segment, window, params, is_last, &mut commands);
            first_block += window.blocks();
            first_in_segment += window.params.cells;
        }
        self.table += segment.table_words() as u32;
        commands
    }

    /// What the window `index` of segment `number` is worked on with, but for where it begins in the segment.
    fn params_of(&self, number: usize, segment: &PlannedSegment<B>, index: usize, window: &Window<B>) -> Params {
        let results = results_of(number).start as u32;
        let side_mask = window.side.and_then(|side| self.scratch.sides.get(side)).map_or(0, side::mask);
        let params = Params { sums: results, totals: results + 4, side_mask, ..window.params };
        let word = |at: u32| segment.first_word + at;
        match &segment.work {
            Work::Unchanged => params,
            Work::Contextual(part) => Params {
                classes: part.classes,
                table: self.table,
                blocks: segment.blocks(),
                changes: word(part.changes),
                count: part.count,
                starts: word(part.starts),
                escapes: word(part.escapes),
                escape_count: part.escape_count,
                ..params
            },
            Work::Absolute(parts) | Work::Relative(parts) => {
                let part = parts.get(index).cloned().unwrap_or_default();
                Params { changes: word(part.changes), count: part.count, values: word(part.values), ..params }
            }
        }
    }

    fn window(
        &mut self,
        segment: &PlannedSegment<B>,
        window: &Window<B>,
        params: Params,
        is_last: bool,
        commands: &mut SegmentCommands<B>,
    ) {
        let before = self.push(params);
        let after = self.push(Params { sums: params.sums + 2, classes: 0, ..params });
        let dispatch = |kernel: Kernel, params: &Binding<B>, workgroups: u32| Command::Dispatch {
            kernel,
            params: params.clone(),
            slots: kernel.slots().iter().filter_map(|slot| Some((*slot, self.bind(*slot, window)?))).collect(),
            workgroups,
        };
        let storage = window.storage;
        commands.survey.push(dispatch(Kernel::Survey(storage), &before, window.blocks()));
        let per_change = params.count.div_ceil(CHANGES_PER_WORKGROUP);
        let [forth, back, again] = match &segment.work {
            Work::Unchanged => return,
            Work::Contextual(part) => {
                if is_last {
                    commands.survey.push(dispatch(Kernel::Prefix, &before, part.classes.count_ones()));
                }
                commands.resolve.push(dispatch(Kernel::Resolve(storage), &before, per_change));
                [Kernel::Step(storage), Kernel::StepBack(storage), Kernel::Step(storage)]
            }
            // It exchanges, so that it undoes itself.
            Work::Absolute(_) => [Kernel::Scatter(storage); 3],
            // It leaves the cells that it added to, for exchanges.
            Work::Relative(_) => [Kernel::Add(storage), Kernel::Scatter(storage), Kernel::Scatter(storage)],
        };
        if per_change > 0 {
            commands.forth.push(dispatch(forth, &before, per_change));
            commands.back.push(dispatch(back, &before, per_change));
            commands.again.push(dispatch(again, &before, per_change));
        }
        commands.confirm.push(dispatch(Kernel::Survey(storage), &after, window.blocks()));
    }

    fn push(&mut self, params: Params) -> Binding<B> {
        let offset = self.params.len() as u64;
        self.params.extend_from_slice(&params.to_bytes());
        Binding { buffer: self.scratch.params.buffer.clone(), offset, bytes: PARAMS_BYTES }
    }

    fn bind(&self, slot: Slot, window: &Window<B>) -> Option<Binding<B>> {
        let binding = match slot {
            Slot::Weights => &window.binding,
            Slot::Table => &self.scratch.table,
            Slot::Changes => self.changes,
            Slot::Sums => &self.scratch.sums,
            Slot::Side => self.scratch.sides.get(window.side?)?,
        };
        Some(binding.clone())
    }
}
