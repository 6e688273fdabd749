//! One pass over base and target cells: what changed, where within its class, and both fingerprints.

use crate::absolute::AbsoluteChanges;
use crate::block::{Block, EMPTY_BLOCK, ROW_CELLS, classify, count, count_before, for_each_below};
use crate::cell::FloatCell;
use crate::compare::{COMPARED_BYTES, Collected, Found, cell_at};
use crate::contextual::ContextualChanges;
use crate::fingerprint::{Fingerprint, Salt, padded_word};
use crate::layout::{BLOCK_CELLS, CLASSES};

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

/// The fingerprints of a segment before and after.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fingerprints {
    /// Before.
    pub base: Fingerprint,
    /// After.
    pub target: Fingerprint,
}

/// Compares the two sides of a segment whose cells have format `C`; `changes` is overwritten.
///
/// `hint` decides only how fast this is; pass what one segment leaves in it on to the next.
#[inline(always)]
pub fn scan_contextual<C: FloatCell>(
    pieces: &[PiecePair<'_>],
    seed: u64,
    hint: &mut Hint,
    changes: &mut ContextualChanges,
) -> Fingerprints {
    changes.clear();
    let mut scan = ContextualScan {
        seen: [0; CLASSES],
        hint: hint.clamped(),
        rare_below: None,
        changes,
        sums: Fingerprints::default(),
        rows: [EMPTY_BLOCK; REGION_BLOCKS],
        changed: Collected::new(),
        found: Found::new(),
    };
    for (index, piece) in pieces.iter().enumerate() {
        for region in regions(*piece, C::BYTES) {
            scan.read::<C>(region, seed);
            let missing = scan.classes_of_changes() & !scan.hint.counted;
            if missing != 0 {
                let earlier = piece.base.get(..piece.base.len() - region.bytes_left).unwrap_or_default();
                scan.count_earlier::<C>(missing, pieces.get(..index).unwrap_or_default(), earlier);
            }
            scan.place::<C>(region);
            scan.learn::<C>(region);
        }
    }
    *hint = Hint { rare_below: scan.rare_below.unwrap_or(hint.rare_below), ..scan.hint };
    scan.sums.target += scan.sums.base;
    scan.sums
}

/// Blocks whose classes are held at once: enough that a class is counted from change to change rather than block by block,
/// few enough that they stay in the first cache.
const REGION_BLOCKS: usize = 8;
const REGION_CELLS: usize = REGION_BLOCKS * BLOCK_CELLS;
const _: () = assert!(REGION_CELLS / ROW_CELLS < 256);

/// The part of a piece that is scanned at once.
#[derive(Clone, Copy)]
struct Region<'a> {
    pair: PiecePair<'a>,
    /// From its start to the end of the piece's base.
    bytes_left: usize,
}

#[inline(always)]
fn regions<'a>(piece: PiecePair<'a>, cell_bytes: usize) -> impl Iterator<Item = Region<'a>> {
    let bytes = REGION_CELLS * cell_bytes;
    let sides = piece.base.chunks(bytes).zip(piece.target.chunks(bytes));
    sides.zip((0..).step_by(bytes)).map(move |((base, target), start)| Region {
        pair: PiecePair { base, target, first_word: piece.first_word + start as u64 / 4, ..piece },
        bytes_left: piece.base.len() - start,
    })
}

/// What earlier segments were like.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Hint {
    /// The classes to count from the start, as a bit set. A change in another class costs one more pass over the cells before it.
    pub counted: u32,
    /// Classes below this one have few cells and are counted cell by cell.
    pub rare_below: u8,
}

impl Hint {
    /// The same within what there is: the number of classes, and rare ones counted.
    fn clamped(self) -> Self {
        let rare_below = self.rare_below.min(CLASSES as u8);
        Self { counted: self.counted | self.rare(), rare_below }
    }

    /// The rare classes, as a bit set.
    fn rare(self) -> u32 {
        1u32.checked_shl(self.rare_below.into()).map_or(u32::MAX, |bit| bit - 1)
    }

    /// Of two segments.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self { counted: self.counted | other.counted, rare_below: other.rare_below }
    }
}

struct ContextualScan<'a> {
    /// Cells of each counted class before the current region.
    seen: [u32; CLASSES],
    hint: Hint,
    /// What the first whole region says for the next segment.
    rare_below: Option<u8>,
    changes: &'a mut ContextualChanges,
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
    /// Classes of the region's cells.
    rows: [Block; REGION_BLOCKS],
    /// Places in the region of the cells that differ.
    changed: Collected<REGION_CELLS>,
    found: Found,
}

impl ContextualScan<'_> {
    /// Compares, fingerprints and classifies a region.
    #[inline(always)]
    fn read<C: FloatCell>(&mut self, region: Region<'_>, seed: u64) {
        self.changed.clear();
        let cells_per_word = 4 / C::BYTES;
        for (chunk, rows) in chunks(region.pair, seed, BLOCK_CELLS * C::BYTES).zip(&mut self.rows) {
            let Chunk { base, salt, first_word, .. } = chunk;
            self.sums.base += self.found.compare(base, chunk.target, salt, first_word);
            self.sums.target += self.found.list(base, salt, first_word);
            for (word, difference) in self.found.words() {
                for cell in 0..cells_per_word {
                    let bits = difference >> (8 * C::BYTES * cell) << (32 - 8 * C::BYTES);
                    self.changed.push_if(chunk.start / C::BYTES + word * cells_per_word + cell, bits != 0);
                }
            }
            classify::<C>(base, rows);
        }
    }

    /// As a bit set.
    #[inline(always)]
    fn classes_of_changes(&self) -> u32 {
        let classes = self.rows.as_flattened().as_flattened();
        self.changed.get().iter().fold(0, |set, place| set | 1 << class_at(classes, *place))
    }

    /// Adds the changes of a region, and its cells to the counts.
    #[inline(always)]
    fn place<C: FloatCell>(&mut self, region: Region<'_>) {
        let PiecePair { base, target, .. } = region.pair;
        let step = |place: usize| C::ulp_step(cell_at::<C>(base, place), cell_at::<C>(target, place));
        let rows = self.rows.as_flattened();
        let rows = rows.get(..(base.len() / C::BYTES).div_ceil(ROW_CELLS)).unwrap_or(rows);
        let by_class = ByClass::new(self.changed.get(), rows.as_flattened());
        let counted = (0u8..).zip(self.seen.iter_mut().zip(&mut self.changes.classes));
        for (class, (seen, changes)) in counted.skip(usize::from(self.hint.rare_below)) {
            if self.hint.counted >> class & 1 == 0 {
                continue;
            }
            let (mut before, mut first_row) = (*seen, 0);
            for place in by_class.get(class) {
                let (row, in_row) = (usize::from(*place) / ROW_CELLS, usize::from(*place) % ROW_CELLS);
                before += count(rows.get(first_row..row).unwrap_or_default(), class);
                first_row = row;
                let rank = before + rows.get(row).map_or(0, |row| count_before(row, class, in_row));
                changes.push(rank, step(usize::from(*place)));
            }
            *seen = before + count(rows.get(first_row..).unwrap_or_default(), class);
        }
        for_each_below(rows, self.hint.rare_below, |place, class| {
            let class = usize::from(class);
            if let (Some(seen), Some(changes)) = (self.seen.get_mut(class), self.changes.classes.get_mut(class)) {
                let step = step(place);
                if step != 0 {
                    changes.push(*seen, step);
                }
                *seen += 1;
            }
        });
    }

    /// Finds the low classes that have few of the cells: they are cheaper visited than counted.
    #[inline(always)]
    fn learn<C: FloatCell>(&mut self, region: Region<'_>) {
        /// Together they should have at most this many of a region's cells.
        const RARE: u32 = REGION_CELLS as u32 / 64;
        if self.rare_below.is_none() && region.pair.base.len() == REGION_CELLS * C::BYTES {
            let mut below = 0;
            let rare = (0..CLASSES as u8).take_while(|class| {
                below += count(self.rows.as_flattened(), *class);
                below <= RARE
            });
            self.rare_below = Some(rare.count() as u8);
        }
    }

    /// Counts the cells of the classes in `missing` in all earlier pieces and in `base`, the earlier part of this one.
    #[cold]
    #[inline(never)]
    fn count_earlier<C: FloatCell>(&mut self, missing: u32, pieces: &[PiecePair<'_>], base: &[u8]) {
        self.hint.counted |= missing;
        let mut rows = EMPTY_BLOCK;
        for block in
            pieces.iter().map(|piece| piece.base).chain([base]).flat_map(|bytes| bytes.chunks(BLOCK_CELLS * C::BYTES))
        {
            classify::<C>(block, &mut rows);
            for (class, seen) in (0u8..).zip(&mut self.seen) {
                if missing >> class & 1 == 1 {
                    *seen += count(&rows, class);
                }
            }
        }
    }
}

/// The changed places of a region, sorted by class and in order within each.
struct ByClass {
    places: [u16; REGION_CELLS],
    /// Where each class ends; it begins where the one before ended.
    ends: [u16; CLASSES],
}

impl ByClass {
    #[inline(always)]
    fn new(changed: &[u16], classes: &[u8]) -> Self {
        let mut ends = [0u16; CLASSES];
        for place in changed {
            ends.get_mut(usize::from(class_at(classes, *place))).into_iter().for_each(|count| *count += 1);
        }
        let mut start = 0;
        for end in &mut ends {
            start += core::mem::replace(end, start);
        }
        let mut places = [0; REGION_CELLS];
        for place in changed {
            if let Some(next) = ends.get_mut(usize::from(class_at(classes, *place))) {
                places.get_mut(usize::from(*next)).into_iter().for_each(|slot| *slot = *place);
                *next += 1;
            }
        }
        Self { places, ends }
    }

    #[inline(always)]
    fn get(&self, class: u8) -> &[u16] {
        let end = |class: u8| self.ends.get(usize::from(class)).map_or(0, |end| usize::from(*end));
        let start = class.checked_sub(1).map_or(0, end);
        self.places.get(start..end(class)).unwrap_or_default()
    }
}

#[inline(always)]
fn class_at(classes: &[u8], place: u16) -> u8 {
    // Masked, so that no cell can ask for a class beyond the last.
    classes.get(usize::from(place)).copied().unwrap_or_default() & (CLASSES as u8 - 1)
}

/// Compares the two sides of a segment of cells of `cell_bytes` bytes; `changes` is overwritten.
#[inline(always)]
pub fn scan_absolute(
    pieces: &[PiecePair<'_>],
    seed: u64,
    cell_bytes: usize,
    changes: &mut AbsoluteChanges,
) -> Fingerprints {
    changes.clear();
    let mut sums = Fingerprints::default();
    let mut found = Found::new();
    let mut first_cell = 0;
    for piece in pieces {
        for Chunk { start, base, target, salt, first_word } in chunks(*piece, seed, COMPARED_BYTES) {
            sums.base += found.compare(base, target, salt, first_word);
            sums.target += found.list(base, salt, first_word);
            let mut next_cell = 0;
            for (word, _) in found.words() {
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
        }
        first_cell += piece.base.len() / cell_bytes;
    }
    sums.target += sums.base;
    sums
}

/// A part of a piece that is compared at once.
#[derive(Clone, Copy)]
struct Chunk<'a> {
    /// The byte of the piece that it begins with.
    start: usize,
    base: &'a [u8],
    target: &'a [u8],
    salt: Salt,
    /// The index of its first word, modulo 2^32.
    first_word: u32,
}

/// A piece in chunks of `bytes`, which divide a block.
#[inline(always)]
fn chunks<'a>(piece: PiecePair<'a>, seed: u64, bytes: usize) -> impl Iterator<Item = Chunk<'a>> {
    let mut salts = Salts::new(seed, piece.tensor);
    let sides = piece.base.chunks(bytes).zip(piece.target.chunks(bytes));
    sides.zip((0..).step_by(bytes)).map(move |((base, target), start)| {
        let word = piece.first_word + start as u64 / 4;
        Chunk { start, base, target, salt: salts.at(word), first_word: word as u32 }
    })
}

/// The salts of a tensor's words, the last one kept.
pub(crate) struct Salts {
    seed: u64,
    tensor: u32,
    page: u32,
    salt: Salt,
}

impl Salts {
    pub(crate) fn new(seed: u64, tensor: u32) -> Self {
        Self { seed, tensor, page: 0, salt: Salt::new(seed, tensor, 0) }
    }

    /// For `word` and those after it in its block: a page of 2^32 words holds whole blocks.
    #[inline(always)]
    pub(crate) fn at(&mut self, word: u64) -> Salt {
        let page = (word >> 32) as u32;
        if page != self.page {
            (self.page, self.salt) = (page, Salt::new(self.seed, self.tensor, page));
        }
        self.salt
    }
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
