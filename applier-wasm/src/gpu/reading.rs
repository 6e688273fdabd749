//! Payloads of segments, decoded into what kernels take.

use super::changes::{Absolute, Contextual};
use super::half;
use super::kernels::Storage;
use super::plan::{PlannedSegment, Work};
use crate::error::Error;
use crate::inflate::Zstd;
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::{Header, Profile, absolute};

/// Decodes segments, one after the other, into memory that is used again.
#[derive(Default)]
pub(crate) struct Reading {
    decoder: ContextualDecoder,
    contextual: ContextualChanges,
}

/// What a payload asks for.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) work: Work,
    /// Changes that may give a cell that f16 does not hold exactly; 0 where no f16 is bound.
    pub(crate) inexact: u32,
}

impl Reading {
    /// Appends the changes of a segment to `words`.
    pub(crate) fn decode<B: Clone>(
        &mut self,
        header: &Header,
        segment: &PlannedSegment<B>,
        payload: &[u8],
        words: &mut Vec<u32>,
    ) -> Result<Decoded, Error> {
        let index = segment.index;
        let unchanged = Decoded { work: Work::Unchanged, inexact: 0 };
        let Some(entry) = header.segments.get(index) else { return Ok(unchanged) };
        let halves = segment.windows.iter().any(|window| window.storage == Storage::Half);
        match entry.profile {
            Profile::Unchanged => Ok(unchanged),
            Profile::Contextual { .. } => {
                self.decoder.decode(header, index, payload, &Zstd, &mut self.contextual)?;
                let inexact = if halves { half::inexact_after_steps(&self.contextual) } else { 0 };
                Ok(Decoded { work: Work::Contextual(Contextual::append(&self.contextual, words)), inexact })
            }
            Profile::Absolute | Profile::Relative => {
                let cell_bytes = header.tensors.get(entry.tensor).map_or(1, |tensor| tensor.dtype.cell_bytes());
                let changes = absolute::decode(payload, entry.cells, entry.changes, cell_bytes, &Zstd);
                let changes = changes.map_err(|error| error.in_segment(index))?;
                let split = segment.split;
                let mut first = 0;
                let parts = segment.windows.iter().map(|window| {
                    let cells = first..first + window.params.cells / split;
                    first = cells.end;
                    Absolute::append(&changes, cells, split, window.storage.cell_bits(), words)
                });
                let parts = parts.collect();
                let relative = entry.profile == Profile::Relative;
                // What a sum will be is not known here.
                let inexact = if relative { entry.changes } else { half::inexact_values(&changes.values) };
                let work = if relative { Work::Relative(parts) } else { Work::Absolute(parts) };
                Ok(Decoded { work, inexact: if halves { inexact } else { 0 } })
            }
        }
    }
}
