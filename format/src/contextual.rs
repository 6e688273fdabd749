//! The contextual profile: ranks among the base's cells of the same exponent class, and ULP steps.
//!
//! For each class, in order: the ranks of the changed cells, as gaps, and their ULP steps. Gap and step are split into
//! tokens (rANS, by the model of the class) and raw bits. Change `i` of a class uses rANS lanes 0 and 1 if `i` is even,
//! 2 and 3 if it is odd, so that four decodings are in flight.

pub use crate::changes::{ClassChanges, ContextualChanges};
pub use crate::tokens::Tokens;

use crate::bytes::{Cursor, push_signed_varint};
use crate::cell::FloatFormat;
use crate::codec::Inflate;
use crate::error::{Damage, Error, Part};
use crate::layout::{CLASSES, RANS_LANES};
use crate::model::{ClassModel, ContextModel};
use crate::rans::{DecodeTable, Decoder, Encoder, Interval};
use crate::raw::{self, RawReader};
use crate::token::{bucket, unzigzag};
use alloc::vec::Vec;

/// Appends the payload of a segment.
///
/// # Errors
/// [`Error::Misuse`] if the model lacks a class or a token that occurs, or ranks do not ascend.
#[inline(always)]
pub fn encode(tokens: &Tokens, model: &ContextModel, out: &mut Vec<u8>) -> Result<(), Error> {
    let misfit = Error::Misuse { what: "the context model lacks a token that occurs" };
    for (count, model) in tokens.counts().iter().zip(&model.classes) {
        if let Some(model) = model {
            push_signed_varint(out, i64::from(*count) - model.expected(tokens.len() as u32));
        } else if *count > 0 {
            return Err(misfit);
        }
    }
    let mut encoder = Encoder::<RANS_LANES>::new(2 * tokens.len());
    for (class, model) in tokens.classes().into_iter().zip(&model.classes).rev() {
        if let Some(model) = model
            && !encode_class(class, model, &mut encoder)
        {
            return Err(misfit);
        }
    }
    encoder.finish(out);
    out.extend_from_slice(tokens.raw());
    Ok(())
}

/// Puts the tokens of one class in front of those of later ones; `false` if the model lacks some.
#[inline(always)]
fn encode_class(tokens: &[[u8; 2]], model: &ClassModel, encoder: &mut Encoder<RANS_LANES>) -> bool {
    // A place for any token, so that none has to be checked on its own.
    let mut gaps = [Interval::default(); 256];
    let mut steps = gaps;
    gaps.iter_mut().zip(model.gaps.intervals()).for_each(|(to, from)| *to = from);
    steps.iter_mut().zip(model.steps.intervals()).for_each(|(to, from)| *to = from);
    let mut lacking = false;
    #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
    let mut intervals = |[gap, step]: [u8; 2]| {
        let (gap, step) = (gaps[usize::from(gap)], steps[usize::from(step)]);
        lacking |= gap.is_empty() | step.is_empty();
        (gap, step)
    };
    let (pairs, last) = tokens.as_chunks::<2>();
    if let [last] = last {
        let (gap, step) = intervals(*last);
        encoder.put(1, step);
        encoder.put(0, gap);
    }
    for [first, second] in pairs.iter().rev() {
        let ((gap_0, step_0), (gap_1, step_1)) = (intervals(*first), intervals(*second));
        encoder.put(3, step_1);
        encoder.put(2, gap_1);
        encoder.put(1, step_0);
        encoder.put(0, gap_0);
    }
    !lacking
}

/// Decodes segments of a patch; keeps the tables of the model used last.
#[derive(Debug, Default)]
pub struct ContextualDecoder {
    tables: Vec<Option<ClassTables>>,
    /// What the tables are of.
    model: Option<ContextModel>,
}

/// What a header says of a contextual segment.
#[derive(Debug, Clone, Copy)]
pub struct CodedSegment<'a> {
    /// The context model that it names.
    pub model: &'a ContextModel,
    /// Of its cells.
    pub format: FloatFormat,
    /// How many cells it has.
    pub cells: u32,
    /// How many of them change.
    pub changes: u32,
}

#[derive(Debug)]
struct ClassTables {
    gaps: DecodeTable,
    steps: DecodeTable,
}

impl ContextualDecoder {
    /// Decodes the payload of a segment.
    ///
    /// `changes` is overwritten. They are in order and fit the segment; whether each rank exists depends on the base, which the
    /// base fingerprint settles. The payload's hash is not checked.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Truncated`]. `changes` is then unspecified.
    pub fn decode(
        &mut self,
        segment: &CodedSegment<'_>,
        payload: &[u8],
        codec: &impl Inflate,
        changes: &mut ContextualChanges,
    ) -> Result<(), Error> {
        let mut cursor = Cursor::new(payload, Part::Payload);
        self.prepare(segment.model);
        changes.clear();
        let counts = class_counts(&mut cursor, segment.model, segment.changes)?;
        let mut decoder = Decoder::<RANS_LANES>::new(&mut cursor)?;
        let bits = raw::read(&mut cursor, segment.changes, codec)?;
        let mut raw = RawReader::new(&bits);
        let mut extent = Extent::default();
        for ((class, tables), count) in changes.classes.iter_mut().zip(&self.tables).zip(counts) {
            let Some(tables) = tables else { continue };
            extent.add(tables.decode(&mut decoder, &mut raw, count, class));
        }
        let largest_step = (1 << (8 * segment.format.cell_bytes())) - 2;
        match () {
            () if !decoder.ended_well() => Err(cursor.damaged(Damage::EntropyStream)),
            () if !raw.ended_well() => Err(cursor.damaged(Damage::RawBits)),
            () if extent.cells > u64::from(segment.cells) => Err(cursor.damaged(Damage::OutOfRange)),
            () if extent.largest_step > largest_step => Err(cursor.damaged(Damage::Step)),
            () => Ok(()),
        }
    }

    fn prepare(&mut self, model: &ContextModel) {
        if self.model.as_ref() != Some(model) {
            let tables = |class: &ClassModel| ClassTables {
                gaps: DecodeTable::new(&class.gaps),
                steps: DecodeTable::new(&class.steps),
            };
            self.tables = model.classes.iter().map(|class| class.as_ref().map(tables)).collect();
            self.model = Some(model.clone());
        }
    }
}

/// How many changes each class has.
fn class_counts(cursor: &mut Cursor<'_>, model: &ContextModel, changes: u32) -> Result<[u32; CLASSES], Error> {
    let mut counts = [0; CLASSES];
    let mut left = changes;
    for (count, class) in counts.iter_mut().zip(&model.classes) {
        if let Some(class) = class {
            let read = cursor.signed_varint()?.checked_add(class.expected(changes));
            let within = read.and_then(|read| u32::try_from(read).ok()).filter(|read| *read <= left);
            *count = within.ok_or(cursor.damaged(Damage::ClassCounts))?;
            left -= *count;
        }
    }
    if left == 0 { Ok(counts) } else { Err(cursor.damaged(Damage::ClassCounts)) }
}

/// What decoded changes need.
#[derive(Debug, Clone, Copy, Default)]
struct Extent {
    /// Cells that their ranks need, all classes together.
    cells: u64,
    /// The largest step, as the number it is coded by.
    largest_step: u32,
}

impl Extent {
    fn add(&mut self, other: Self) {
        self.cells += other.cells;
        self.largest_step = self.largest_step.max(other.largest_step);
    }
}

impl ClassTables {
    /// Decodes `count` changes of one class.
    fn decode(
        &self,
        decoder: &mut Decoder<'_, RANS_LANES>,
        raw: &mut RawReader<'_>,
        count: u32,
        changes: &mut ClassChanges,
    ) -> Extent {
        changes.ranks.resize(count as usize, 0);
        changes.steps.resize(count as usize, 0);
        let mut next = 0u64;
        let mut largest_step = 0;
        let mut finish = |raw: &mut RawReader<'_>, gap: u8, step: u8, rank_out: &mut u32, step_out: &mut i16| {
            let (gap, step) = (bucket(gap), bucket(step));
            let window = raw.take(gap.raw_bits + step.raw_bits);
            let (gap, step) =
                (gap.low + (window as u32 & gap.mask), step.low + ((window >> gap.raw_bits) as u32 & step.mask));
            let rank = next + u64::from(gap);
            // Ranks over 32 bits are refused by the caller, who learns of them from the last one.
            *rank_out = rank as u32;
            *step_out = unzigzag(step);
            largest_step = largest_step.max(step);
            next = rank + 1;
        };
        let (rank_pairs, last_rank) = changes.ranks.as_chunks_mut::<2>();
        let (step_pairs, last_step) = changes.steps.as_chunks_mut::<2>();
        for ([rank_0, rank_1], [step_0, step_1]) in rank_pairs.iter_mut().zip(step_pairs) {
            let tokens = (
                decoder.get(0, &self.gaps),
                decoder.get(1, &self.steps),
                decoder.get(2, &self.gaps),
                decoder.get(3, &self.steps),
            );
            finish(raw, tokens.0, tokens.1, rank_0, step_0);
            finish(raw, tokens.2, tokens.3, rank_1, step_1);
        }
        if let ([rank], [step]) = (last_rank, last_step) {
            let tokens = (decoder.get(0, &self.gaps), decoder.get(1, &self.steps));
            finish(raw, tokens.0, tokens.1, rank, step);
        }
        Extent { cells: next, largest_step }
    }
}
