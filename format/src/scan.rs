//! One pass over base and target cells: what changed, where within its class, and both fingerprints.

pub use crate::region::REGION_CELLS;

use crate::cell::FloatCell;
use crate::changed::{ChangedCells, ChangedWords};
use crate::compare::{STRIP_BYTES, STRIP_WORDS, WordPlaces, compare, word_at};
use crate::contextual::ContextualChanges;
use crate::fingerprint::{Fingerprint, Salt, padded_word};
use crate::layout::CLASSES;
use crate::masks::Masks;
use crate::positional::PositionalChanges;
use crate::region::Region;
use crate::salts::Salts;
use alloc::vec::Vec;

/// A piece of a segment with the bytes of its cells, before and after.
#[derive(Debug, Clone, Copy)]
pub struct PiecePair<'a> {
    /// Its table entry.
    pub tensor: u32,
    /// The index of its first 32-bit word within the tensor.
    pub first_word: u64,
    /// Its cells before.
    pub base: &'a [u8],
    /// Its cells after; as many.
    pub target: &'a [u8],
}

impl<'a> PiecePair<'a> {
    /// Both sides from a byte on.
    #[inline(always)]
    fn after(&self, start: usize) -> [&'a [u8]; 2] {
        [self.base.get(start..).unwrap_or_default(), self.target.get(start..).unwrap_or_default()]
    }
}

/// The fingerprints of a segment before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprints {
    /// Before.
    pub base: Fingerprint,
    /// After.
    pub target: Fingerprint,
}

/// Compares the two sides of a segment whose cells have format `C`; `changes` and `by_region` are overwritten.
///
/// `by_region` tells how many cells changed in each [`REGION_CELLS`] of each piece, in order: where to look for what they have in common.
#[inline(always)]
pub fn scan_contextual<C: FloatCell>(
    masks: impl Masks,
    pieces: &[PiecePair<'_>],
    seed: u64,
    changes: &mut ContextualChanges,
    by_region: &mut Vec<u32>,
) -> Fingerprints {
    changes.clear();
    by_region.clear();
    let mut scan = ContextualScan {
        masks,
        seen: [0; CLASSES],
        changes,
        sums: Fingerprints::default(),
        places: WordPlaces::new(),
        words: ChangedWords::new(),
        cells: ChangedCells::new(),
        region: Region::new(),
    };
    for piece in pieces {
        for (region, start) in chunks(*piece, REGION_CELLS * C::BYTES).zip((0..).step_by(REGION_CELLS * C::BYTES)) {
            scan.compare::<C>(region, seed, |byte| piece.after(start + byte));
            by_region.push(scan.add_changes::<C>());
        }
    }
    scan.sums.target += scan.sums.base;
    scan.sums
}

/// How far ahead of the strip at hand memory is asked for. Further makes no difference.
const AHEAD_BYTES: usize = 2 * STRIP_BYTES;

struct ContextualScan<'a, M> {
    masks: M,
    /// Cells of each class before the current region.
    seen: [u32; CLASSES],
    changes: &'a mut ContextualChanges,
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
    places: WordPlaces,
    words: ChangedWords<{ REGION_CELLS / 2 }>,
    cells: ChangedCells<REGION_CELLS>,
    region: Region,
}

impl<M: Masks> ContextualScan<'_, M> {
    /// Compares, fingerprints and counts a region. Meanwhile what lies `ahead` of a byte of it is fetched, base and target.
    #[inline(always)]
    fn compare<'b, C: FloatCell>(&mut self, region: PiecePair<'_>, seed: u64, ahead: impl Fn(usize) -> [&'b [u8]; 2]) {
        let Self { masks, sums, places, words, cells, region: counted, .. } = self;
        let mut salts = Salts::new(seed, region.tensor);
        places.clear();
        counted.clear();
        for (strip, start) in chunks(region, STRIP_BYTES).zip((0..).step_by(STRIP_BYTES)) {
            let [next_base, next_target] = ahead(start + AHEAD_BYTES);
            masks.prefetch(next_base, STRIP_BYTES);
            let first = (salts.at(strip.first_word), strip.first_word as u32);
            sums.base += compare(*masks, [strip.base, strip.target], first, start / 4, places);
            masks.prefetch(next_target, STRIP_BYTES);
            counted.add_strip::<C>(*masks, strip.base, u32::MAX);
        }
        cells.clear();
        let (cells_per_word, bits) = (4 / C::BYTES, 8 * C::BYTES);
        for place in places.iter() {
            let (before, after) = (word_at(region.base, place), word_at(region.target, place));
            let word = region.first_word + place as u64;
            words.push(salts.at(word).keys(word as u32), before, after);
            for cell in 0..cells_per_word {
                let of = |word: u32| ((word >> (bits * cell)) & (u32::MAX >> (32 - bits))) as u16;
                cells.push(place * cells_per_word + cell, of(before), of(after));
            }
        }
        sums.target += words.take();
    }

    /// Adds the changes of the region that was compared last, and says how many they are.
    #[inline(always)]
    fn add_changes<C: FloatCell>(&mut self) -> u32 {
        let Self { masks, seen, changes, cells, region, .. } = self;
        for (place, class, step) in cells.steps::<C>() {
            let class_index = usize::from(class);
            if let Some((seen, changes)) = seen.get(class_index).zip(changes.classes.get_mut(class_index)) {
                changes.push(*seen + region.rank(*masks, class, place), step);
            }
        }
        seen.iter_mut().zip(region.totals()).for_each(|(seen, here)| *seen += u32::from(here));
        cells.len() as u32
    }
}

/// Compares the two sides of a segment of cells of `cell_bytes` bytes; `changes` is overwritten.
#[inline(always)]
pub fn scan_absolute(
    masks: impl Masks,
    pieces: &[PiecePair<'_>],
    seed: u64,
    cell_bytes: usize,
    changes: &mut PositionalChanges,
) -> Fingerprints {
    changes.clear();
    let mut sums = Fingerprints::default();
    let mut places = WordPlaces::new();
    let mut words = ChangedWords::<STRIP_WORDS>::new();
    let mut first_cell = 0;
    for piece in pieces {
        let mut salts = Salts::new(seed, piece.tensor);
        for (strip, start) in chunks(*piece, STRIP_BYTES).zip((0..).step_by(STRIP_BYTES)) {
            let PiecePair { base, target, first_word, .. } = strip;
            let salt = salts.at(first_word);
            places.clear();
            sums.base += compare(masks, [base, target], (salt, first_word as u32), 0, &mut places);
            let mut next_cell = 0;
            for word in places.iter() {
                let keys = salt.keys((first_word as u32).wrapping_add(word as u32));
                words.push(keys, word_at(base, word), word_at(target, word));
                // Cells may share a word, and words a cell.
                for cell in next_cell.max(4 * word / cell_bytes)..(4 * word + 3) / cell_bytes + 1 {
                    let range = cell * cell_bytes..(cell + 1) * cell_bytes;
                    if let (Some(before), Some(after)) = (base.get(range.clone()), target.get(range))
                        && before != after
                    {
                        changes.positions.push((first_cell + start / cell_bytes + cell) as u32);
                        changes.values.extend_from_slice(after);
                    }
                    next_cell = cell + 1;
                }
            }
            sums.target += words.take();
        }
        first_cell += piece.base.len() / cell_bytes;
    }
    sums.target += sums.base;
    sums
}

/// A piece in parts of `bytes`.
#[inline(always)]
fn chunks<'a>(piece: PiecePair<'a>, bytes: usize) -> impl Iterator<Item = PiecePair<'a>> {
    let sides = piece.base.chunks(bytes).zip(piece.target.chunks(bytes));
    sides.zip((piece.first_word..).step_by(bytes / 4)).map(move |((base, target), first_word)| PiecePair {
        base,
        target,
        first_word,
        ..piece
    })
}

/// Of up to a block of cells.
#[inline(always)]
pub(crate) fn block_fingerprint(bytes: &[u8], salt: Salt, first_word: u32) -> Fingerprint {
    let (words, tail) = bytes.as_chunks::<4>();
    let whole = salt.words(words, first_word);
    if tail.is_empty() {
        whole
    } else {
        whole + salt.word(padded_word(tail), first_word.wrapping_add(words.len() as u32))
    }
}
