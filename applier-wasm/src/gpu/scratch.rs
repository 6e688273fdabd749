//! The receiver's own buffers on the device: made as they are needed, kept while they fit, freed in the end.

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
    /// Bytes of the scratch buffers at their largest; what is kept for undo and side tables aside.
    pub scratch_bytes: u64,
    /// Bytes of the side tables of f16 tensors.
    pub side_bytes: u64,
}

/// Bytes of scratch memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Need {
    pub(crate) params: u64,
    pub(crate) table: u64,
    pub(crate) changes: u64,
}

impl Need {
    pub(crate) fn plus(self, other: Self) -> Self {
        let [params, table, changes] =
            [self.params + other.params, self.table + other.table, self.changes + other.changes];
        Self { params, table, changes }
    }

    pub(crate) fn total(self) -> u64 {
        self.params + self.table + self.changes
    }

    /// What does for either.
    pub(crate) fn max(self, other: Self) -> Self {
        let params = self.params.max(other.params);
        Self { params, table: self.table.max(other.table), changes: self.changes.max(other.changes) }
    }
}

/// The scratch buffers, as one job uses them.
#[derive(Debug, Clone)]
pub(crate) struct Scratch<B> {
    pub(crate) params: Binding<B>,
    pub(crate) table: Binding<B>,
    /// Of batches that have no buffer of their own.
    pub(crate) changes: Binding<B>,
    pub(crate) sums: Binding<B>,
    /// Side tables of f16 tensors, by number.
    pub(crate) sides: Vec<Binding<B>>,
}

/// Four scratch buffers, what is kept of patches, the side tables, and their owner.
#[derive(Debug)]
pub(crate) struct Memory<P: Port> {
    pub(crate) port: P,
    /// Parameters, table, changes, sums.
    buffers: [Option<P::Buffer>; 4],
    pub(crate) sides: Vec<Side<P::Buffer>>,
    /// The changes of the patch written last, for undo.
    kept: Vec<P::Buffer>,
    /// Those of the patch that is being applied.
    pending: Vec<P::Buffer>,
    counts: Cell<Counts>,
}

/// Bytes of one write: what a driver may have to hold twice.
const WRITE_BYTES: usize = 1 << 20;

impl<P: Port> Memory<P> {
    pub(crate) fn new(port: P) -> Self {
        let (buffers, kept, pending) = ([None, None, None, None], Vec::new(), Vec::new());
        Self { port, buffers, sides: Vec::new(), kept, pending, counts: Cell::default() }
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
        *slot = Some(self.port.create(name, bytes, *usage)?);
        Ok(())
    }

    /// Puts the changes of a batch into a buffer of their own.
    pub(crate) fn keep(&mut self, words: &[u32]) -> Result<Binding<P::Buffer>, Error> {
        let bytes = (4 * words.len() as u64).max(256);
        let allowed = self.port.limits().binding_bytes;
        if bytes > allowed {
            return Err(Error::Limit { what: "the changes of a segment", needed: bytes, allowed });
        }
        let buffer = self.port.create("pulse kept changes", bytes, Usage::Storage)?;
        self.pending.push(buffer.clone());
        let kept = Binding { buffer, offset: 0, bytes };
        self.write_words(&kept, words)?;
        Ok(kept)
    }

    /// What is pending is of the patch written last now.
    pub(crate) fn keep_pending(&mut self) {
        self.drop_kept();
        self.kept.append(&mut self.pending);
    }

    /// Frees what was kept of the patch written last.
    pub(crate) fn drop_kept(&mut self) {
        self.kept.drain(..).for_each(|buffer| self.port.destroy(&buffer));
    }

    /// Frees what was kept of a patch that was not written.
    pub(crate) fn drop_pending(&mut self) {
        self.pending.drain(..).for_each(|buffer| self.port.destroy(&buffer));
    }

    /// Frees the scratch buffers and what was kept; side tables stay.
    pub(crate) fn free(&mut self) {
        self.buffers.iter_mut().filter_map(Option::take).for_each(|buffer| self.port.destroy(&buffer));
        self.drop_kept();
        self.drop_pending();
    }

    pub(crate) fn write(&self, to: &Binding<P::Buffer>, bytes: &[u8]) -> Result<(), Error> {
        for (chunk, offset) in bytes.chunks(WRITE_BYTES).zip((to.offset..).step_by(WRITE_BYTES)) {
            self.port.write(&to.buffer, offset, chunk)?;
        }
        self.count(|counts| counts.uploaded_bytes += bytes.len() as u64);
        Ok(())
    }

    pub(crate) fn write_words(&self, to: &Binding<P::Buffer>, words: &[u32]) -> Result<(), Error> {
        // Devices are little-endian, and so is every host that has one.
        const { assert!(cfg!(target_endian = "little")) };
        self.write(to, bytemuck::must_cast_slice(words))
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
