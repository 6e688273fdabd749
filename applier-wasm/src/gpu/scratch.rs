//! The receiver's own buffers on the device: made as they are needed, kept while they fit, freed in the end.

use super::plan::{Need, Scratch};
use super::port::{Binding, Port, Usage};
use super::side::Side;
use crate::error::Error;
use std::cell::Cell;

/// What a receiver asked of its device since the counters were read last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Bytes written to the device: changes and parameters.
    pub uploaded_bytes: u64,
    /// Bytes read back: fingerprints and totals.
    pub read_bytes: u64,
    /// Submits, reading included.
    pub submits: u64,
    /// Dispatches.
    pub dispatches: u64,
    /// Bytes of the receiver's own buffers at their largest, side tables aside.
    pub scratch_bytes: u64,
    /// Bytes of the side tables of f16 tensors.
    pub side_bytes: u64,
}

/// Four buffers, the side tables, and their owner.
#[derive(Debug)]
pub(crate) struct Memory<P: Port> {
    pub(crate) port: P,
    /// Parameters, table, changes, sums.
    buffers: [Option<P::Buffer>; 4],
    pub(crate) sides: Vec<Side<P::Buffer>>,
    /// How often the buffer of changes was made anew: what was in it is gone.
    generation: u64,
    counts: Cell<Counts>,
}

/// Bytes of one write: what a driver may have to hold twice.
const WRITE_BYTES: usize = 1 << 20;

impl<P: Port> Memory<P> {
    pub(crate) fn new(port: P) -> Self {
        Self { port, buffers: [None, None, None, None], sides: Vec::new(), generation: 0, counts: Cell::default() }
    }

    /// Buffers of at least these sizes.
    pub(crate) fn scratch(&mut self, need: Need, sums: u64) -> Result<Scratch<P::Buffer>, Error> {
        let sizes = [need.params, need.table, need.changes, sums].map(|bytes| bytes.next_multiple_of(4).max(256));
        let limits = self.port.limits();
        let largest = sizes.iter().skip(1).copied().max().unwrap_or_default();
        if largest > limits.binding_bytes {
            let what = "the scratch memory of a segment";
            return Err(Error::Limit { what, needed: largest, allowed: limits.binding_bytes });
        }
        for (index, bytes) in sizes.into_iter().enumerate() {
            self.grow(index, bytes)?;
        }
        let held = self.buffers.iter().flatten().map(|buffer| self.port.size(buffer)).sum();
        self.count(|counts| counts.scratch_bytes = counts.scratch_bytes.max(held));
        let [Some(params), Some(table), Some(changes), Some(sums)] = self.buffers.clone() else {
            return Err(Error::Misuse { what: "the scratch buffers are gone".into() });
        };
        let whole = |buffer: P::Buffer, bytes| Binding { buffer, offset: 0, bytes };
        let [params_bytes, table_bytes, changes_bytes, sums_bytes] = sizes;
        Ok(Scratch {
            params: whole(params, params_bytes),
            table: whole(table, table_bytes),
            changes: whole(changes, changes_bytes),
            sums: whole(sums, sums_bytes),
            sides: self.sides.iter().map(Side::binding).collect(),
        })
    }

    /// Makes one of the buffers anew if it is too small; the others keep what they hold.
    fn grow(&mut self, index: usize, bytes: u64) -> Result<(), Error> {
        const KINDS: [(&str, Usage); 4] = [
            ("pulse params", Usage::Uniform),
            ("pulse table", Usage::Storage),
            ("pulse changes", Usage::Storage),
            ("pulse sums", Usage::Storage),
        ];
        let (Some(slot), Some((name, usage))) = (self.buffers.get_mut(index), KINDS.get(index)) else { return Ok(()) };
        if slot.as_ref().is_some_and(|buffer| self.port.size(buffer) >= bytes) {
            return Ok(());
        }
        if let Some(small) = slot.take() {
            self.port.destroy(&small);
        }
        self.generation += u64::from(*name == "pulse changes");
        *slot = Some(self.port.create(name, bytes, *usage)?);
        Ok(())
    }

    /// Changes whenever the places of the last patch are lost.
    pub(crate) fn generation(&self) -> u64 {
        self.generation
    }

    /// Frees the buffers; side tables stay.
    pub(crate) fn free(&mut self) {
        self.buffers.iter_mut().filter_map(Option::take).for_each(|buffer| self.port.destroy(&buffer));
    }

    pub(crate) fn write(&self, to: &Binding<P::Buffer>, bytes: &[u8]) -> Result<(), Error> {
        for (chunk, offset) in bytes.chunks(WRITE_BYTES).zip((to.offset..).step_by(WRITE_BYTES)) {
            self.port.write(&to.buffer, offset, chunk)?;
        }
        self.count(|counts| counts.uploaded_bytes += bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn write_words(&self, to: &Binding<P::Buffer>, words: &[u32]) -> Result<(), Error> {
        let step = WRITE_BYTES as u64;
        for (chunk, start) in words.chunks(WRITE_BYTES / 4).zip((0u64..).map(|chunk| chunk * step)) {
            let bytes: Vec<u8> = chunk.iter().flat_map(|word| word.to_le_bytes()).collect();
            self.write(&Binding { offset: to.offset + start, ..to.clone() }, &bytes)?;
        }
        Ok(())
    }

    pub(crate) fn submit(&self, commands: &[super::port::Command<P::Buffer>]) -> Result<(), Error> {
        let is_dispatch =
            |command: &&super::port::Command<P::Buffer>| matches!(command, super::port::Command::Dispatch { .. });
        let dispatches = commands.iter().filter(is_dispatch).count() as u64;
        self.count(|counts| (counts.submits, counts.dispatches) = (counts.submits + 1, counts.dispatches + dispatches));
        self.port.submit(commands)
    }

    pub(crate) async fn read_words(&self, from: &Binding<P::Buffer>, words: u64) -> Result<Vec<u32>, Error> {
        self.count(|counts| (counts.submits, counts.read_bytes) = (counts.submits + 1, counts.read_bytes + 4 * words));
        let bytes = self.port.read(&from.buffer, from.offset, 4 * words).await?;
        Ok(bytes.as_chunks::<4>().0.iter().map(|word| u32::from_le_bytes(*word)).collect())
    }

    /// The counters, which then begin again.
    pub(crate) fn take_counts(&self) -> Counts {
        Counts { side_bytes: self.sides.iter().map(|side| side.binding().bytes).sum(), ..self.counts.take() }
    }

    fn count(&self, change: impl FnOnce(&mut Counts)) {
        let mut counts = self.counts.get();
        change(&mut counts);
        self.counts.set(counts);
    }
}

impl<P: Port> Drop for Memory<P> {
    fn drop(&mut self) {
        self.free();
        self.sides.drain(..).for_each(|side| self.port.destroy(&side.binding().buffer));
    }
}
