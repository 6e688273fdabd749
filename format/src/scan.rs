//! One pass over base and target cells: what changed, where within its class, and both fingerprints.

use crate::absolute::AbsoluteChanges;
use crate::block::{Block, EMPTY_BLOCK, classify, for_each_below};
use crate::cell::FloatCell;
use crate::changed::{ChangedCells, ChangedWords};
use crate::compare::{COMPARED_BYTES, Differences, word_at};
use crate::contextual::ContextualChanges;
use crate::fingerprint::{self, Fingerprint, Salt, padded_word};
use crate::layout::{BLOCK_CELLS, CLASSES};
use crate::masks::{Aligned, Masks, ROW_CELLS};

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
    masks: impl Masks,
    pieces: &[PiecePair<'_>],
    seed: u64,
    hint: &mut Hint,
    changes: &mut ContextualChanges,
) -> Fingerprints {
    changes.clear();
    let mut scan = ContextualScan {
        masks,
        seen: [0; CLASSES],
        hint: hint.clamped(),
        rare_below: None,
        changes,
        sums: Fingerprints::default(),
        rows: Aligned([EMPTY_BLOCK; REGION_BLOCKS]),
        differences: Differences::new(),
        words: ChangedWords::new(),
        cells: ChangedCells::new(),
    };
    for (index, piece) in pieces.iter().enumerate() {
        let mut regions = regions(*piece, C::BYTES).peekable();
        while let Some(region) = regions.next() {
            let missing = scan.read::<C>(region, seed) & !scan.hint.counted;
            if missing != 0 {
                let earlier = piece.base.get(..piece.base.len() - region.bytes_left).unwrap_or_default();
                scan.count_earlier::<C>(missing, pieces.get(..index).unwrap_or_default(), earlier);
            }
            scan.place::<C>(region, regions.peek().copied());
            scan.learn::<C>(region);
        }
    }
    *hint = Hint { rare_below: scan.rare_below.unwrap_or(hint.rare_below), ..scan.hint };
    scan.sums.target += scan.sums.base;
    scan.sums
}

/// Blocks whose classes are held at once: enough that a class is counted from change to change rather than block by block,
/// few enough that they stay in the first cache.
pub(crate) const REGION_BLOCKS: usize = 8;
pub(crate) const REGION_CELLS: usize = REGION_BLOCKS * BLOCK_CELLS;
/// Of two-byte cells.
const REGION_WORDS: usize = REGION_CELLS / 2;
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

struct ContextualScan<'a, M> {
    masks: M,
    /// Cells of each counted class before the current region.
    seen: [u32; CLASSES],
    hint: Hint,
    /// What the first whole region says for the next segment.
    rare_below: Option<u8>,
    changes: &'a mut ContextualChanges,
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
    /// Classes of the region's cells.
    rows: Aligned<[Block; REGION_BLOCKS]>,
    differences: Differences,
    words: ChangedWords<REGION_WORDS>,
    cells: ChangedCells<REGION_CELLS>,
}

impl<M: Masks> ContextualScan<'_, M> {
    /// Compares, fingerprints and classifies a region. Returns the classes that have changes, as a bit set.
    #[inline(always)]
    fn read<C: FloatCell>(&mut self, region: Region<'_>, seed: u64) -> u32 {
        let Self { masks, sums, rows, differences, words, cells, .. } = self;
        cells.clear();
        let (cells_per_word, bits) = (4 / C::BYTES, 8 * C::BYTES);
        for (chunk, rows) in chunks(region.pair, seed, BLOCK_CELLS * C::BYTES).zip(&mut rows.0) {
            let Chunk { base, salt, first_word, .. } = chunk;
            sums.base += differences.compare(base, chunk.target, salt, first_word);
            let first_cell = chunk.start / C::BYTES;
            differences.for_each(*masks, |word, difference| {
                let before = word_at(base, 4 * word);
                let after = before ^ difference;
                words.push(salt.keys(first_word.wrapping_add(word as u32)), before, after);
                for cell in 0..cells_per_word {
                    let of = |word: u32| ((word >> (bits * cell)) & (u32::MAX >> (32 - bits))) as u16;
                    cells.push(first_cell + word * cells_per_word + cell, of(before), of(after));
                }
            });
            classify::<C>(base, rows);
        }
        sums.target += words.take();
        cells.sort::<C>()
    }

    /// Adds the changes of a region, and its cells to the counts. Meanwhile the `next` one is fetched.
    #[inline(always)]
    fn place<C: FloatCell>(&mut self, region: Region<'_>, next: Option<Region<'_>>) {
        const FETCHED_BYTES: usize = 1 << 10;
        let Self { masks, seen, hint, changes, cells, rows, .. } = self;
        let rows = rows.0.as_flattened();
        let rows = rows.get(..(region.pair.base.len() / C::BYTES).div_ceil(ROW_CELLS)).unwrap_or(rows);
        let (next_base, next_target): (&[u8], &[u8]) =
            next.map_or((&[], &[]), |next| (next.pair.base, next.pair.target));
        let mut ahead = next_base.chunks(FETCHED_BYTES).zip(next_target.chunks(FETCHED_BYTES));
        let counted = (0u8..).zip(seen.iter_mut().zip(&mut changes.classes));
        for (class, (seen, changes)) in counted.skip(usize::from(hint.rare_below)) {
            if hint.counted >> class & 1 == 0 {
                continue;
            }
            if let Some((base, target)) = ahead.next() {
                masks.prefetch(base);
                masks.prefetch(target);
            }
            let (mut before, mut first_row) = (*seen, 0);
            let (places, steps) = cells.of_class(class);
            changes.ranks.extend(places.iter().map(|place| {
                let (row, in_row) = (usize::from(*place) / ROW_CELLS, usize::from(*place) % ROW_CELLS);
                before += masks.count(rows.get(first_row..row).unwrap_or_default(), class);
                first_row = row;
                let hits = rows.get(row).map_or(0, |row| masks.equal(row, class));
                before + (hits & ((1 << in_row) - 1)).count_ones()
            }));
            changes.steps.extend_from_slice(steps);
            *seen = before + masks.count(rows.get(first_row..).unwrap_or_default(), class);
        }
        let mut cursors = cells.starts();
        for_each_below(*masks, rows, hint.rare_below, |place, class| {
            let class = usize::from(class);
            let counted = seen.get_mut(class).zip(changes.classes.get_mut(class)).zip(cursors.get_mut(class));
            if let Some(((seen, changes), cursor)) = counted {
                let (changed, step) = cells.sorted(*cursor);
                if place == changed {
                    changes.push(*seen, step);
                    *cursor += 1;
                }
                *seen += 1;
            }
        });
    }

    /// Finds the low classes that have few of the cells: they are cheaper visited than counted.
    #[inline(always)]
    fn learn<C: FloatCell>(&mut self, region: Region<'_>) {
        /// Together they should have at most this many of a region's cells.
        const RARE: u32 = REGION_CELLS as u32 / 256;
        if self.rare_below.is_none() && region.pair.base.len() == REGION_CELLS * C::BYTES {
            let mut below = 0;
            let rare = (0..CLASSES as u8).take_while(|class| {
                below += self.masks.count(self.rows.0.as_flattened(), *class);
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
                    *seen += self.masks.count(&rows, class);
                }
            }
        }
    }
}

/// Compares the two sides of a segment of cells of `cell_bytes` bytes; `changes` is overwritten.
#[inline(always)]
pub fn scan_absolute(
    masks: impl Masks,
    pieces: &[PiecePair<'_>],
    seed: u64,
    cell_bytes: usize,
    changes: &mut AbsoluteChanges,
) -> Fingerprints {
    changes.clear();
    let mut sums = Fingerprints::default();
    let mut differences = Differences::new();
    let mut words = ChangedWords::<{ COMPARED_BYTES / 4 }>::new();
    let mut first_cell = 0;
    for piece in pieces {
        for Chunk { start, base, target, salt, first_word } in chunks(*piece, seed, COMPARED_BYTES) {
            sums.base += differences.compare(base, target, salt, first_word);
            let mut next_cell = 0;
            differences.for_each(masks, |word, difference| {
                let before = word_at(base, 4 * word);
                words.push(salt.keys(first_word.wrapping_add(word as u32)), before, before ^ difference);
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
            });
            sums.target += words.take();
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

    /// For `word` and those after it in its block: a page holds whole blocks.
    #[inline(always)]
    pub(crate) fn at(&mut self, word: u64) -> Salt {
        let page = fingerprint::page(word);
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
