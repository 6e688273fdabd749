//! `exp-class-rice`, the positions of v3: ranks among the cells of the same old exponent.
//!
//! ```text
//! u16 L | L x { u8 exponent, u8 flags, u32 m, u32 B } | L blocks of B bytes
//! ```
//!
//! How likely a cell changes depends on its exponent, which the receiver can look up in the base. Cells fall into 256
//! classes by the exponent of their old value. For each class with changes, exponents ascending, one `rice-gap` block
//! holds the ranks of the changed cells among the cells of the class. Where more than half of a class changed, bit 0 of
//! its flags is set and the block holds the ranks of the others (which may be none: m = 0 and B = 0).

use super::rice;
use crate::Error;
use crate::bytes::Cursor;

const CLASSES: usize = 256;
const COMPLEMENT: u8 = 1;
const RECORD_LEN: u64 = 10;

/// The most bytes that `count` positions may take.
pub(super) const fn max_len(count: u64) -> u64 {
    let per_class = RECORD_LEN + rice::max_len(0);
    rice::max_len(count).saturating_add(2 + CLASSES as u64 * per_class)
}

fn class(cell: u16) -> usize {
    usize::from(cell >> 7) & (CLASSES - 1)
}

/// Appends strictly ascending positions of cells of `base`; nothing when there are none.
pub(super) fn write(positions: &[u64], base: &[u16], out: &mut Vec<u8>) {
    if positions.is_empty() {
        return;
    }
    let (ranks, sizes) = rank(positions, base);
    let changed = || ranks.iter().zip(sizes).enumerate().filter(|(_, (ranks, _))| !ranks.is_empty());
    let mut blocks = Vec::with_capacity(positions.len() + positions.len() / 4);
    out.extend_from_slice(&(changed().count() as u16).to_le_bytes());
    for (exponent, (ranks, size)) in changed() {
        let complement = ranks.len() > (size / 2) as usize;
        let start = blocks.len();
        let coded = if complement {
            rice::write(Gaps::new(ranks, size), &mut blocks);
            size as usize - ranks.len()
        } else {
            rice::write(ranks.iter().copied(), &mut blocks);
            ranks.len()
        };
        out.extend_from_slice(&[exponent as u8, if complement { COMPLEMENT } else { 0 }]);
        out.extend_from_slice(&(coded as u32).to_le_bytes());
        out.extend_from_slice(&((blocks.len() - start) as u32).to_le_bytes());
    }
    out.extend_from_slice(&blocks);
}

/// For each class the ranks of its changed cells, and its size.
#[expect(clippy::indexing_slicing, reason = "a class is below 256, and positions are those of changed cells of base")]
fn rank(positions: &[u64], base: &[u16]) -> (Vec<Vec<u32>>, [u32; CLASSES]) {
    let mut counts = [0usize; CLASSES];
    for &position in positions {
        counts[class(base[position as usize])] += 1;
    }
    let mut ranks: Vec<Vec<u32>> = counts.iter().map(|&count| Vec::with_capacity(count)).collect();
    let mut tallies = Tallies::default();
    let mut start = 0;
    for &position in positions {
        let position = position as usize;
        tallies.count(&base[start..position]);
        let class = class(base[position]);
        ranks[class].push(tallies.total(class));
        start = position;
    }
    tallies.count(&base[start..]);
    (ranks, std::array::from_fn(|class| tallies.total(class)))
}

/// Cells seen of each class, in four tables: neighbours often share a class, and would wait for one another's sums.
struct Tallies([[u32; CLASSES]; 4]);

impl Default for Tallies {
    fn default() -> Self {
        Self([[0; CLASSES]; 4])
    }
}

#[expect(clippy::indexing_slicing, reason = "a class is below 256")]
impl Tallies {
    fn count(&mut self, cells: &[u16]) {
        let [t0, t1, t2, t3] = &mut self.0;
        let (fours, rest) = cells.as_chunks();
        for &[c0, c1, c2, c3] in fours {
            t0[class(c0)] += 1;
            t1[class(c1)] += 1;
            t2[class(c2)] += 1;
            t3[class(c3)] += 1;
        }
        for &cell in rest {
            t0[class(cell)] += 1;
        }
    }

    fn total(&self, class: usize) -> u32 {
        self.0.iter().map(|tally| tally[class]).sum()
    }
}

/// The numbers below `end` that are not in an ascending list.
struct Gaps<'l> {
    list: std::iter::Peekable<std::slice::Iter<'l, u32>>,
    next: u32,
    end: u32,
}

impl<'l> Gaps<'l> {
    fn new(list: &'l [u32], end: u32) -> Self {
        Self { list: list.iter().peekable(), next: 0, end }
    }
}

impl Iterator for Gaps<'_> {
    type Item = u32;

    fn next(&mut self) -> Option<u32> {
        while self.next < self.end && self.list.next_if_eq(&&self.next).is_some() {
            self.next += 1;
        }
        let number = (self.next < self.end).then_some(self.next)?;
        self.next += 1;
        Some(number)
    }
}

/// Reads `count` positions, at least one, of cells of `base`, fewer than 2^32 of them.
pub(super) fn read(name: &str, bytes: &[u8], count: usize, base: &[u16]) -> Result<Vec<u64>, Error> {
    let mut classes = read_classes(name, bytes, base.len())?;
    let positions = place(name, &mut classes, count, base)?;
    for (exponent, class) in classes.iter().enumerate() {
        if let Some(class) = class {
            class.check(name, exponent)?;
        }
    }
    if positions.len() == count {
        return Ok(positions);
    }
    Err(Error::damaged(name, format!("{} indices where {count} are announced", positions.len())))
}

fn read_classes(name: &str, bytes: &[u8], cell_count: usize) -> Result<Vec<Option<Class>>, Error> {
    let mut cursor = Cursor::new(bytes, name);
    let record_count = cursor.u16()?;
    if record_count == 0 || usize::from(record_count) > CLASSES {
        return Err(Error::damaged(name, format!("{record_count} classes")));
    }
    let mut records = Cursor::new(cursor.take_u64(u64::from(record_count) * RECORD_LEN)?, name);
    let mut classes = Vec::with_capacity(CLASSES);
    for _ in 0..record_count {
        let (exponent, flags, coded, len) = (records.u8()?, records.u8()?, records.u32()?, records.u32()?);
        if usize::from(exponent) < classes.len() {
            return Err(Error::damaged(name, "classes are not strictly ascending"));
        }
        if flags & !COMPLEMENT != 0 {
            return Err(Error::damaged(name, format!("class flags {flags:#04x}")));
        }
        let complement = flags == COMPLEMENT;
        let block = cursor.take_u64(len.into())?;
        let ranks = match coded as usize {
            0 if !complement || !block.is_empty() => {
                return Err(Error::damaged(name, format!("class {exponent} codes no ranks")));
            }
            0 => Vec::new(),
            coded => rice::read(name, block, coded, cell_count)?,
        };
        classes.resize_with(exponent.into(), || None);
        classes.push(Some(Class::new(complement, ranks)));
    }
    cursor.finish()?;
    classes.resize_with(CLASSES, || None);
    Ok(classes)
}

/// Walks over the base once, counting down to the next change in each class.
#[expect(clippy::indexing_slicing, reason = "a class is below 256, the length of both lists")]
fn place(name: &str, classes: &mut [Option<Class>], count: usize, base: &[u16]) -> Result<Vec<u64>, Error> {
    let mut left = [u32::MAX; CLASSES];
    for (left, class) in left.iter_mut().zip(&*classes) {
        *left = class.as_ref().map_or(u32::MAX, |class| class.awaited);
    }
    let mut positions = Vec::with_capacity(count);
    for (position, &cell) in base.iter().enumerate() {
        let number = class(cell);
        let now = left[number].wrapping_sub(1);
        left[number] = now;
        if now == 0
            && let Some(class) = &mut classes[number]
        {
            if positions.len() == count {
                return Err(Error::damaged(name, format!("more than the {count} indices that are announced")));
            }
            positions.push(position as u64);
            left[number] = class.advance();
        }
    }
    for (left, class) in left.into_iter().zip(classes) {
        if let Some(class) = class {
            class.size = class.awaited - left;
        }
    }
    Ok(positions)
}

/// A class while its ranks are being placed.
struct Class {
    complement: bool,
    /// Ranks as coded: of the changed cells or, in a complement class, of the others.
    ranks: Vec<u32>,
    /// Ranks that were passed.
    passed: usize,
    /// Rank of the next changed cell, plus one: the size that the class must have for the cell to exist.
    awaited: u32,
    /// Number of cells, known when all were counted.
    size: u32,
}

impl Class {
    fn new(complement: bool, ranks: Vec<u32>) -> Self {
        let mut class = Self { complement, ranks, passed: 0, awaited: 0, size: 0 };
        class.advance();
        class
    }

    /// Moves on to the next changed cell; returns how many cells of the class away it is.
    fn advance(&mut self) -> u32 {
        let before = self.awaited;
        self.awaited = if self.complement {
            let mut rank = before;
            while self.ranks.get(self.passed) == Some(&rank) {
                self.passed += 1;
                rank = rank.saturating_add(1);
            }
            rank.saturating_add(1)
        } else {
            let rank = self.ranks.get(self.passed).copied();
            self.passed += usize::from(rank.is_some());
            // There are fewer cells than this, so none is found.
            rank.map_or(u32::MAX, |rank| rank + 1)
        };
        self.awaited - before
    }

    /// Checks the ranks against the size of the class, and that the shorter of the two lists was coded.
    fn check(&self, name: &str, exponent: usize) -> Result<(), Error> {
        let (coded, size) = (self.ranks.len() as u64, u64::from(self.size));
        if self.ranks.last().is_some_and(|&last| last >= self.size) {
            return Err(Error::damaged(name, format!("a rank beyond the {size} cells of class {exponent}")));
        }
        let changed = if self.complement { size - coded } else { coded };
        if (2 * changed > size) == self.complement {
            return Ok(());
        }
        Err(Error::damaged(name, format!("class {exponent} codes the longer of its two lists")))
    }
}

#[cfg(test)]
mod tests;
