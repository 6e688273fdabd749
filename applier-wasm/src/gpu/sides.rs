//! The side tables of a session: made, grown before a patch is written, read back.

use super::plan::PlannedSegment;
use super::port::{Binding, Port, Usage};
use super::results::Results;
use super::scratch::Memory;
use super::side::{CELLS_PER_NEW_KEY, MOST_PAIRS, PAIR_BYTES, Side, entries_of, pairs_for, table_of};
use crate::error::Error;
use std::cell::Cell;

/// Words read at once.
const READ_WORDS: u64 = 1 << 18;

impl<P: Port> Memory<P> {
    /// Makes the side table of a tensor of so many cells; its number is that of those before it.
    pub(crate) fn add_side(&mut self, exceptions: &[(u32, u16)], cells: u64) -> Result<(), Error> {
        let keys = exceptions.len() as u64;
        let pairs = self.fitting_pairs(keys, 2 * keys + cells / CELLS_PER_NEW_KEY)?;
        let buffer = self.new_side(exceptions, pairs)?;
        self.sides.push(Side { buffer, pairs, keys: Cell::new(keys), cells });
        Ok(())
    }

    /// Frees the side table made last.
    pub(crate) fn drop_last_side(&mut self) {
        self.sides.pop().into_iter().for_each(|side| self.port.destroy(&side.buffer));
    }

    /// Makes sure that side tables take whatever the changes of these segments put there, undone or not.
    pub(crate) async fn make_room(&mut self, segments: &[PlannedSegment<P::Buffer>]) -> Result<(), Error> {
        let mut more = vec![0u64; self.sides.len()];
        for segment in segments {
            // The windows of one tensor follow one another.
            for windows in segment.windows.chunk_by(|one, next| one.side == next.side) {
                let cells_more = windows.first().and_then(|window| more.get_mut(window.side?));
                let cells: u64 = windows.iter().map(|window| u64::from(window.params.cells)).sum();
                cells_more.into_iter().for_each(|more| *more += cells.min(segment.inexact.into()));
            }
        }
        for (number, more) in more.into_iter().enumerate().filter(|(_, more)| *more > 0) {
            self.make_room_in(number, more).await?;
        }
        Ok(())
    }

    async fn make_room_in(&mut self, number: usize, more: u64) -> Result<(), Error> {
        let Some(side) = self.sides.get(number) else { return Ok(()) };
        let with = |keys: u64, more: u64| (keys + more).min(side.cells);
        if pairs_for(with(side.keys.get(), more)) <= side.pairs {
            side.keys.set(with(side.keys.get(), more));
            return Ok(());
        }
        // Keys whose cells f16 holds by now do not come along.
        let entries = self.exceptions(number).await?;
        let keys = with(entries.len() as u64, more);
        let pairs = self.fitting_pairs(keys, with(keys, more))?;
        let fresh = Side { buffer: self.new_side(&entries, pairs)?, pairs, keys: Cell::new(keys), cells: side.cells };
        if let Some(side) = self.sides.get_mut(number) {
            self.port.destroy(&std::mem::replace(side, fresh).buffer);
        }
        Ok(())
    }

    /// Takes over how many keys the tables have after a write.
    pub(crate) fn note_keys(&self, segments: &[PlannedSegment<P::Buffer>], results: &[u32]) {
        let mut found = vec![None; self.sides.len()];
        // The others were not looked at after the write.
        for (number, segment) in segments.iter().enumerate().filter(|(_, segment)| segment.is_changed()) {
            let keys = Results::of(results, number).side_keys();
            for window in &segment.windows {
                let found = window.side.and_then(|side| found.get_mut(side));
                found.into_iter().for_each(|found| *found = (*found).max(Some(keys)));
            }
        }
        let known = self.sides.iter().zip(found).filter_map(|(side, keys)| Some((side, keys?)));
        known.for_each(|(side, keys)| side.keys.set(keys));
    }

    /// The cells that f16 does not hold exactly, in side table `number`.
    pub(crate) async fn exceptions(&self, number: usize) -> Result<Vec<(u32, u16)>, Error> {
        let Some(side) = self.sides.get(number) else { return Ok(Vec::new()) };
        let table = side.binding();
        let (mut words, all) = (Vec::new(), side.pairs * PAIR_BYTES / 4);
        while (words.len() as u64) < all {
            let read = words.len() as u64;
            let from = Binding { offset: table.offset + 4 * read, ..table.clone() };
            words.extend(self.read_words(&from, READ_WORDS.min(all - read)).await?);
        }
        Ok(entries_of(&words))
    }

    /// Pairs for as many keys as may well come, if one binding covers them, and for `needed` keys in any case.
    fn fitting_pairs(&self, needed: u64, expected: u64) -> Result<u64, Error> {
        let limits = self.port.limits();
        let most = (limits.binding_bytes.min(limits.buffer_bytes) / PAIR_BYTES).min(MOST_PAIRS).saturating_sub(1);
        let pairs = pairs_for(needed);
        if pairs > most {
            let (needed, allowed) = ((pairs + 1) * PAIR_BYTES, (most + 1) * PAIR_BYTES);
            let what = "the side table of an f16 tensor";
            return Err(Error::Limit { what, needed, allowed });
        }
        Ok(pairs_for(expected).min(1 << most.ilog2()).max(pairs))
    }

    fn new_side(&self, entries: &[(u32, u16)], pairs: u64) -> Result<P::Buffer, Error> {
        let bytes = (pairs + 1) * PAIR_BYTES;
        let buffer = self.port.create("pulse side", bytes, Usage::Storage)?;
        let whole = Binding { buffer, offset: 0, bytes };
        if let Err(error) = self.write_words(&whole, &table_of(entries, pairs)) {
            self.port.destroy(&whole.buffer);
            return Err(error);
        }
        Ok(whole.buffer)
    }
}
