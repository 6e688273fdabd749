//! Side tables: the cells of f16 tensors that f16 does not hold exactly, as hash tables on the device. See `half.wgsl`.

use super::half;
use super::kernels::side::first_place;
use super::plan::PlannedSegment;
use super::port::{Binding, Port, Usage};
use super::results::Results;
use super::scratch::Memory;
use crate::error::Error;
use std::cell::Cell;

/// A pair of words; one more than a table has places, for the number of its keys.
const PAIR_BYTES: u64 = 8;
/// Pairs of the smallest table.
const FEWEST_PAIRS: u64 = 64;
/// Pairs whose words have indexes of 32 bits.
const MOST_PAIRS: u64 = 1 << 31;
/// A tensor is given room for one new key in so many cells: a step of training rarely brings as many.
const CELLS_PER_NEW_KEY: u64 = 1024;
/// Words read at once.
const READ_WORDS: u64 = 1 << 18;

/// The side table of one tensor.
#[derive(Debug)]
pub(crate) struct Side<B> {
    buffer: B,
    /// A power of two.
    pairs: u64,
    /// Keys in it, at most.
    keys: Cell<u64>,
    /// Cells of the tensor.
    cells: u64,
}

impl<B: Clone> Side<B> {
    /// The whole of it.
    pub(crate) fn binding(&self) -> Binding<B> {
        Binding { buffer: self.buffer.clone(), offset: 0, bytes: (self.pairs + 1) * PAIR_BYTES }
    }
}

/// The mask that kernels take a place of this table with.
pub(crate) fn mask<B>(table: &Binding<B>) -> u32 {
    (table.bytes / PAIR_BYTES) as u32 - 2
}

/// Pairs that leave at least every other one free.
fn pairs_for(keys: u64) -> u64 {
    (2 * keys).next_power_of_two().max(FEWEST_PAIRS)
}

/// The cells in a table, and their bits; ascending.
fn entries_of(words: &[u32]) -> Vec<(u32, u16)> {
    let live = words.as_chunks::<2>().0.iter().filter(|[_, bits]| *bits != 0);
    let mut entries: Vec<(u32, u16)> = live.map(|[key, bits]| (key.wrapping_sub(1), *bits as u16)).collect();
    entries.sort_unstable();
    entries
}

/// A table of so many pairs, more than there are entries, and the number of its keys.
fn table_of(entries: &[(u32, u16)], pairs: u64) -> Vec<u32> {
    let mask = pairs as u32 - 1;
    let mut table = vec![[0; 2]; pairs as usize];
    for (cell, bits) in entries {
        let mut place = first_place(*cell, mask);
        while table.get(place as usize).is_some_and(|[key, _]| *key != 0) {
            place = (place + 1) & mask;
        }
        table.get_mut(place as usize).into_iter().for_each(|pair| *pair = [cell + 1, (*bits).into()]);
    }
    table.push([entries.len() as u32, 0]);
    table.into_flattened()
}

/// Says what is wrong with exceptions of a tensor of so many cells, if anything.
pub(crate) fn check_exceptions(exceptions: &[(u32, u16)], cells: u64) -> Result<(), String> {
    let ascend = exceptions.iter().zip(exceptions.iter().skip(1)).all(|((before, _), (after, _))| before < after);
    if !ascend {
        return Err("its exceptions do not ascend".into());
    }
    if let Some((last, _)) = exceptions.last().filter(|(cell, _)| u64::from(*cell) >= cells) {
        return Err(format!("it has no cell {last}, which is among its exceptions"));
    }
    if let Some((cell, bits)) = exceptions.iter().find(|(_, bits)| half::from_bf16(*bits).1) {
        return Err(format!("f16 holds {bits:#06x} exactly, but cell {cell} has it among the exceptions"));
    }
    Ok(())
}

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
                let place = windows.first().and_then(|window| more.get_mut(window.side?));
                let cells: u64 = windows.iter().map(|window| u64::from(window.params.cells)).sum();
                place.into_iter().for_each(|more| *more += cells.min(segment.inexact.into()));
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
