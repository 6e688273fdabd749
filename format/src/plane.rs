//! Planes: bytes that belong together, one of each number. Stored as they are, or where that is smaller coded by rANS with frequencies of
//! their own, or as a zstd frame.
//!
//! rANS is for planes whose bytes have few values but no order, as exponents of weights; zstd for those that repeat.

use crate::bytes::{Cursor, push_varint};
use crate::codec::{Deflate, Inflate};
use crate::error::{Damage, Error};
use crate::layout::{METHOD_RANS, METHOD_STORED, METHOD_ZSTD, PLANE_LANES, PROBABILITY_BITS};
use crate::rans::{DecodeTable, Decoder, Encoder, Frequencies, Interval};
use alloc::vec::Vec;

/// Values of a byte.
const VALUES: usize = 256;
/// A plane is judged by so many of its bytes …
const SAMPLE_BYTES: usize = 64 << 10;
/// … in runs of so many, spread over it.
const SAMPLE_RUN_BYTES: usize = 4 << 10;
/// No frame has fewer bytes.
const SMALLEST_FRAME: usize = 10;

/// Appends a plane: a method, and what that needs.
#[inline(always)]
pub(crate) fn push_plane(plane: &[u8], codec: &impl Deflate, out: &mut Vec<u8>) {
    let start = out.len();
    let sample = Sample::of(plane);
    let frame = (plane.len() > SMALLEST_FRAME && sample.repeats(codec)).then(|| codec.deflate(plane)).flatten();
    let least = frame.as_ref().map_or(plane.len(), |frame| frame.len().min(plane.len()));
    let coding = (!sample.is_noise()).then(|| Coding::of(plane)).flatten();
    if let Some(coding) = coding.filter(|coding| coding.bytes() < least) {
        coding.encode(plane, out);
        if out.len() - start <= least {
            return;
        }
        out.truncate(start);
    }
    match frame.filter(|frame| frame.len() < plane.len()) {
        Some(frame) => {
            out.push(METHOD_ZSTD);
            push_varint(out, frame.len() as u64);
            out.extend_from_slice(&frame);
        }
        None => {
            out.push(METHOD_STORED);
            out.extend_from_slice(plane);
        }
    }
}

/// A part of a plane, or all of it.
struct Sample {
    bytes: Vec<u8>,
    is_whole: bool,
}

impl Sample {
    fn of(plane: &[u8]) -> Self {
        if plane.len() <= SAMPLE_BYTES {
            return Self { bytes: plane.to_vec(), is_whole: true };
        }
        let every = (plane.len() / SAMPLE_RUN_BYTES).div_ceil(SAMPLE_BYTES / SAMPLE_RUN_BYTES);
        let runs = plane.chunks(SAMPLE_RUN_BYTES).step_by(every);
        Self { bytes: runs.flatten().copied().collect(), is_whole: false }
    }

    /// Whether no order-0 code takes much less than 8 bits a byte: by the chance that two bytes are equal (Rényi's entropy of order 2,
    /// which is not above Shannon's).
    fn is_noise(&self) -> bool {
        const EQUAL_AT_MOST: u64 = 245;
        let equal: u64 = histogram(&self.bytes).iter().map(|count| u64::from(*count) * u64::from(*count)).sum();
        let bytes = self.bytes.len() as u64;
        equal * EQUAL_AT_MOST < bytes * bytes
    }

    /// Whether zstd may find more than the frequencies of bytes.
    fn repeats(&self, codec: &impl Deflate) -> bool {
        let order_0 = || Coding::of(&self.bytes).map_or(0, |coding| coding.bytes());
        self.is_whole || codec.deflate(&self.bytes).is_some_and(|frame| frame.len() < self.bytes.len().min(order_0()))
    }
}

fn histogram(bytes: &[u8]) -> [u32; VALUES] {
    // Side by side, for bytes that are equal to those before would wait for their counts.
    let mut counts = [[0u32; VALUES]; 4];
    let (fours, rest) = bytes.as_chunks::<4>();
    #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
    let count = |table: &mut [u32; VALUES], byte: u8| table[usize::from(byte)] += 1;
    for four in fours {
        counts.iter_mut().zip(four).for_each(|(table, byte)| count(table, *byte));
    }
    counts.iter_mut().zip(rest).for_each(|(table, byte)| count(table, *byte));
    let [mut sum, rest @ ..] = counts;
    rest.iter().for_each(|counts| sum.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count));
    sum
}

/// How rANS codes a plane.
struct Coding {
    histogram: [u32; VALUES],
    /// The least byte.
    first: usize,
    /// From that byte on.
    frequencies: Frequencies,
}

impl Coding {
    /// `None` of nothing.
    fn of(plane: &[u8]) -> Option<Self> {
        let histogram = histogram(plane);
        let first = histogram.iter().position(|count| *count > 0)?;
        let frequencies = Frequencies::from_histogram(histogram.get(first..)?)?;
        Some(Self { histogram, first, frequencies })
    }

    /// About what it takes, and not less than it: logarithms go straight from power to power.
    fn bytes(&self) -> usize {
        const ONE: u64 = 256;
        let bits = |frequency: u16| {
            let power = frequency.checked_ilog2().unwrap_or_default();
            u64::from(PROBABILITY_BITS - power) * ONE + ONE - ((u64::from(frequency) * ONE) >> power)
        };
        let used = self.histogram.iter().skip(self.first).zip(self.frequencies.get());
        let bits: u64 = used.map(|(count, frequency)| u64::from(*count) * bits(*frequency)).sum();
        (bits / (8 * ONE)) as usize + self.frequencies.get().len() + 4 * PLANE_LANES
    }

    /// Appends the plane, method and all.
    #[inline(always)]
    fn encode(&self, plane: &[u8], out: &mut Vec<u8>) {
        out.extend([METHOD_RANS, self.first as u8]);
        self.frequencies.write(out);
        let mut intervals = [Interval::default(); VALUES];
        intervals.iter_mut().skip(self.first).zip(self.frequencies.intervals()).for_each(|(to, from)| *to = from);
        let mut encoder = Encoder::<PLANE_LANES>::new(plane.len());
        #[expect(clippy::indexing_slicing, reason = "a byte is below 256")]
        let mut put = |lane: usize, byte: u8| encoder.put(lane, intervals[usize::from(byte)]);
        let (rows, rest) = plane.as_chunks::<PLANE_LANES>();
        rest.iter().enumerate().rev().for_each(|(lane, byte)| put(lane, *byte));
        rows.iter().rev().for_each(|row| row.iter().enumerate().rev().for_each(|(lane, byte)| put(lane, *byte)));
        encoder.finish(out);
    }
}

/// A plane of so many bytes, as [`push_plane`] wrote it: from `cursor` itself, or from `memory`, which is overwritten.
pub(crate) fn read_plane<'p: 'm, 'm>(
    cursor: &mut Cursor<'p>,
    length: usize,
    codec: &impl Inflate,
    memory: &'m mut Vec<u8>,
) -> Result<&'m [u8], Error> {
    match cursor.byte()? {
        METHOD_STORED => return cursor.take(length),
        METHOD_ZSTD => {
            let packed = cursor.varint_up_to(length as u64)? as usize;
            let plane = codec.inflate(cursor.take(packed)?, length).filter(|plane| plane.len() == length);
            *memory = plane.ok_or(cursor.damaged(Damage::Plane))?;
        }
        METHOD_RANS => {
            let first = cursor.byte()?;
            let table = DecodeTable::from(first, &Frequencies::read(cursor, VALUES - usize::from(first))?);
            let mut decoder = Decoder::<PLANE_LANES>::new(cursor)?;
            memory.resize(length, 0);
            let (rows, rest) = memory.as_chunks_mut::<PLANE_LANES>();
            for row in rows {
                row.iter_mut().enumerate().for_each(|(lane, byte)| *byte = decoder.get(lane, &table));
            }
            rest.iter_mut().enumerate().for_each(|(lane, byte)| *byte = decoder.get(lane, &table));
            if !decoder.ended_well() {
                return Err(cursor.damaged(Damage::EntropyStream));
            }
        }
        _ => return Err(cursor.damaged(Damage::Plane)),
    }
    Ok(memory)
}
