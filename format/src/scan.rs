//! One pass over base and target cells: what changed, where within its class, and both fingerprints.

use crate::absolute::AbsoluteChanges;
use crate::block::{Classes, classify, count, count_before, for_each_below};
use crate::cell::FloatCell;
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
    let mut scan = ContextualScan { seen: [0; CLASSES], hint: *hint, changes, sums: Fingerprints::default() };
    scan.hint.counted |= scan.hint.rare();
    let mut classes = [0; BLOCK_CELLS];
    let mut changed = [0u16; BLOCK_CELLS];
    for (index, piece) in pieces.iter().enumerate() {
        for (block, base, target, salt, first_word) in blocks(*piece, seed, C::BYTES) {
            scan.sums.base += block_fingerprint(base, salt, first_word);
            let count = find_changes::<C>(base, target, salt, first_word, &mut changed, &mut scan.sums);
            classify::<C>(base, &mut classes);
            let changed = changed.get(..count).unwrap_or_default();
            let missing =
                changed.iter().fold(0u32, |set, place| set | 1 << class_of(&classes, *place)) & !scan.hint.counted;
            if missing != 0 {
                scan.count_earlier::<C>(
                    missing,
                    pieces.get(..index).unwrap_or_default(),
                    piece.base,
                    block * BLOCK_CELLS * C::BYTES,
                );
            }
            scan.place::<C>(&classes, changed, base, target);
        }
    }
    *hint = scan.hint.learn(&scan.seen);
    scan.sums.target += scan.sums.base;
    scan.sums
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
    /// The same, with the rare classes of a segment that had `seen` cells of each class counted.
    fn learn(self, seen: &[u32; CLASSES]) -> Self {
        /// Together they should have at most one cell in this many.
        const RARE: u32 = 128;
        let total: u32 = seen.iter().sum();
        let mut below = 0u32;
        let rare = seen.iter().take_while(|seen| {
            below += **seen;
            below <= total / RARE
        });
        Self { rare_below: rare.count() as u8, ..self }
    }

    /// The rare classes, as a bit set.
    fn rare(self) -> u32 {
        (1u32 << (self.rare_below & 31)) - 1
    }

    /// Of two segments.
    #[must_use]
    pub fn merge(self, other: Self) -> Self {
        Self { counted: self.counted | other.counted, rare_below: other.rare_below }
    }
}

struct ContextualScan<'a> {
    /// Cells of each counted class before the current block.
    seen: [u32; CLASSES],
    hint: Hint,
    changes: &'a mut ContextualChanges,
    /// The target's is kept as the difference to the base's until the end.
    sums: Fingerprints,
}

impl ContextualScan<'_> {
    /// Adds the changes of one block, then its cells to the counts.
    #[inline(always)]
    fn place<C: FloatCell>(&mut self, classes: &Classes, changed: &[u16], base: &[u8], target: &[u8]) {
        for place in changed {
            let class = class_of(classes, *place);
            let place = usize::from(*place);
            let before = self.seen.get(usize::from(class)).copied().unwrap_or_default();
            let rank = before + count_before(classes, class, place);
            let step = C::ulp_step(cell_at::<C>(base, place), cell_at::<C>(target, place));
            if let Some(changes) = self.changes.classes.get_mut(usize::from(class)) {
                changes.push(rank, step);
            }
        }
        for (class, seen) in (0u8..).zip(&mut self.seen) {
            if class >= self.hint.rare_below && self.hint.counted >> class & 1 == 1 {
                *seen += count(classes, class);
            }
        }
        for_each_below(classes, self.hint.rare_below, |_, class| {
            self.seen.get_mut(usize::from(class)).into_iter().for_each(|seen| *seen += 1);
        });
    }

    /// Counts the cells of the classes in `missing` in all earlier blocks.
    #[cold]
    #[inline(never)]
    fn count_earlier<C: FloatCell>(&mut self, missing: u32, pieces: &[PiecePair<'_>], base: &[u8], end: usize) {
        self.hint.counted |= missing;
        let earlier = pieces.iter().map(|piece| piece.base).chain([base.get(..end).unwrap_or_default()]);
        let mut classes = [0; BLOCK_CELLS];
        for block in earlier.flat_map(|bytes| bytes.chunks(BLOCK_CELLS * C::BYTES)) {
            classify::<C>(block, &mut classes);
            for (class, seen) in (0u8..).zip(&mut self.seen) {
                if missing >> class & 1 == 1 {
                    *seen += count(&classes, class);
                }
            }
        }
    }
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
    let mut start = 0u32;
    for piece in pieces {
        for (block, base, target, salt, first_word) in blocks(*piece, seed, cell_bytes) {
            sums.base += block_fingerprint(base, salt, first_word);
            if base == target {
                continue;
            }
            let cells =
                base.chunks(cell_bytes).zip(target.chunks(cell_bytes)).zip(start + (block * BLOCK_CELLS) as u32..);
            for ((_, target), position) in cells.filter(|((base, target), _)| base != target) {
                changes.positions.push(position);
                changes.values.extend_from_slice(target);
            }
            sums.target += block_fingerprint(target, salt, first_word) - block_fingerprint(base, salt, first_word);
        }
        start += (piece.base.len() / cell_bytes) as u32;
    }
    sums.target += sums.base;
    sums
}

/// The blocks of a piece: number, base, target, salt, and index of the first word modulo 2^32.
#[inline(always)]
fn blocks<'a>(
    piece: PiecePair<'a>,
    seed: u64,
    cell_bytes: usize,
) -> impl Iterator<Item = (usize, &'a [u8], &'a [u8], Salt, u32)> {
    let bytes = BLOCK_CELLS * cell_bytes;
    let mut salts = Salts::new(seed, piece.tensor);
    piece.base.chunks(bytes).zip(piece.target.chunks(bytes)).enumerate().map(move |(block, (base, target))| {
        let word = piece.first_word + (block * bytes / 4) as u64;
        (block, base, target, salts.at(word), word as u32)
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

/// Writes the places of the cells that differ to `changed`, returns how many, and adds to the target's sum what their words add
/// over the base's.
#[inline(always)]
fn find_changes<C: FloatCell>(
    base: &[u8],
    target: &[u8],
    salt: Salt,
    first_word: u32,
    changed: &mut [u16; BLOCK_CELLS],
    sums: &mut Fingerprints,
) -> usize {
    const GROUP: usize = 32;
    let mut count = 0;
    let mut word = |start: usize, base: u32, target: u32| {
        if base == target {
            return;
        }
        let index = first_word.wrapping_add((start / 4) as u32);
        sums.target += salt.word(target, index) - salt.word(base, index);
        let mut differing = base ^ target;
        for place in start / C::BYTES..(start + 4) / C::BYTES {
            if differing << (32 - 8 * C::BYTES) != 0
                && let Some(slot) = changed.get_mut(count)
            {
                *slot = place as u16;
                count += 1;
            }
            differing >>= 8 * C::BYTES;
        }
    };
    let (base_groups, base_tail) = base.as_chunks::<GROUP>();
    let (target_groups, target_tail) = target.as_chunks::<GROUP>();
    for (group, (base, target)) in base_groups.iter().zip(target_groups).enumerate() {
        if base != target {
            let (base, target) = (base.as_chunks::<4>().0, target.as_chunks::<4>().0);
            let differ = base.iter().zip(target).zip(0..).map(|((base, target), bit)| u32::from(base != target) << bit);
            let mut left: u32 = differ.sum();
            while left != 0 {
                let i = left.trailing_zeros() as usize;
                let side = |words: &[[u8; 4]]| words.get(i).map_or(0, |word| u32::from_le_bytes(*word));
                word(group * GROUP + i * 4, side(base), side(target));
                left &= left - 1;
            }
        }
    }
    for (i, (base, target)) in base_tail.chunks(4).zip(target_tail.chunks(4)).enumerate() {
        word(base_groups.len() * GROUP + i * 4, padded_word(base), padded_word(target));
    }
    count
}

#[inline(always)]
fn class_of(classes: &Classes, place: u16) -> u8 {
    // Masked, so that no cell can ask for a class beyond the last.
    classes.get(usize::from(place)).copied().unwrap_or_default() & (CLASSES as u8 - 1)
}

/// The cell at `place`, 0 beyond the end.
#[inline(always)]
pub(crate) fn cell_at<C: FloatCell>(bytes: &[u8], place: usize) -> u16 {
    if C::BYTES == 2 {
        bytes.as_chunks::<2>().0.get(place).map_or(0, |cell| u16::from_le_bytes(*cell))
    } else {
        bytes.get(place).map_or(0, |cell| u16::from(*cell))
    }
}
