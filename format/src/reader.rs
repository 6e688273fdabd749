//! The push reader: bytes in, events out, however they are chopped.

use crate::codec::Inflate;
use crate::error::{Damage, Error, Part};
use crate::header::{Header, Preamble};
use crate::layout::PREAMBLE_BYTES;
use crate::limits::Limits;
use alloc::vec::Vec;

/// What [`Reader::push`] came upon.
#[derive(Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event<'a> {
    /// The header is complete and checked; see [`Reader::header`].
    Header,
    /// A segment's bytes are complete and their hash is right. Unchanged segments have no bytes and no event.
    Segment {
        /// Index into the segment table.
        index: usize,
        /// Its payload.
        payload: &'a [u8],
    },
    /// The patch is complete.
    End,
}

/// Reads a patch from a stream. Holds the header and at most one segment's bytes, and takes memory only for bytes that came.
#[derive(Debug)]
pub struct Reader<I> {
    codec: I,
    limits: Limits,
    buffer: Vec<u8>,
    header: Option<Header>,
    next: usize,
    /// The buffer holds a segment that was handed out and may go.
    handed_out: bool,
    ended: bool,
    failed: Option<Error>,
}

impl<I: Inflate> Reader<I> {
    /// A reader at the start of a patch.
    pub fn new(codec: I, limits: Limits) -> Self {
        Self { codec, limits, buffer: Vec::new(), header: None, next: 0, handed_out: false, ended: false, failed: None }
    }

    /// The header, after [`Event::Header`].
    pub fn header(&self) -> Option<&Header> {
        self.header.as_ref()
    }

    /// Reads on. Takes what it uses off the front of `input`, and returns at the first event, or `None` when `input` is used up.
    ///
    /// [`Event::End`] comes with the first call after the last segment, even if its input is empty; whatever comes after it is refused.
    ///
    /// # Errors
    /// Any but `WrongBase` and `WrongTarget`; every later call gives the same error.
    pub fn push<'r, 'i: 'r>(&'r mut self, input: &mut &'i [u8]) -> Result<Option<Event<'r>>, Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let step = match self.step(input) {
            Ok(step) => step,
            Err(error) => {
                self.failed = Some(error.clone());
                return Err(error);
            }
        };
        Ok(match step {
            Step::Wait => None,
            Step::Header => Some(Event::Header),
            Step::End => Some(Event::End),
            Step::Direct(index, payload) => Some(Event::Segment { index, payload }),
            Step::Buffered(index) => Some(Event::Segment { index, payload: &self.buffer }),
        })
    }

    /// To be called when the stream is over.
    ///
    /// # Errors
    /// [`Error::Truncated`] before [`Event::End`], or the error that `push` gave.
    pub fn finish(&self) -> Result<(), Error> {
        match (&self.failed, self.ended) {
            (Some(error), _) => Err(error.clone()),
            (None, true) => Ok(()),
            (None, false) => {
                let (part, missing) = self.wanted()?;
                Err(Error::Truncated { part, missing: missing.max(1) })
            }
        }
    }

    fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, Error> {
        if self.header.is_none() {
            return self.step_header(input);
        }
        let Some((index, bytes)) = self.pending_segment() else {
            return self.step_end(input);
        };
        if core::mem::take(&mut self.handed_out) {
            self.buffer.clear();
        }
        let missing = bytes - self.buffer.len();
        let direct = self.buffer.is_empty() && input.len() >= bytes;
        let taken = take(input, missing);
        if !direct {
            self.buffer.extend_from_slice(taken);
            if self.buffer.len() < bytes {
                return Ok(Step::Wait);
            }
        }
        let payload = if direct { taken } else { &self.buffer };
        let segment = self.header.as_ref().and_then(|header| header.segments.get(index));
        segment.map_or(Ok(()), |segment| segment.check_payload(payload)).map_err(|error| error.in_segment(index))?;
        self.next = index + 1;
        self.handed_out = !direct;
        Ok(if direct { Step::Direct(index, taken) } else { Step::Buffered(index) })
    }

    fn step_header<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, Error> {
        loop {
            let (_, missing) = self.wanted()?;
            if missing == 0 {
                break;
            }
            let taken = take(input, usize::try_from(missing).unwrap_or(usize::MAX));
            if taken.is_empty() {
                // Say early that this is no patch at all.
                return match Preamble::read(&self.buffer, &self.limits) {
                    Ok(_) | Err(Error::Truncated { .. }) => Ok(Step::Wait),
                    Err(error) => Err(error),
                };
            }
            self.buffer.extend_from_slice(taken);
        }
        self.header = Some(Header::read(&self.buffer, &self.codec, &self.limits)?);
        self.buffer = Vec::new();
        Ok(Step::Header)
    }

    fn step_end<'a>(&mut self, input: &[u8]) -> Result<Step<'a>, Error> {
        if !input.is_empty() {
            return Err(Error::Damaged { part: Part::End, damage: Damage::Trailing });
        }
        if self.ended {
            return Ok(Step::Wait);
        }
        self.ended = true;
        self.buffer = Vec::new();
        Ok(Step::End)
    }

    /// The next segment that has bytes.
    fn pending_segment(&self) -> Option<(usize, usize)> {
        let segments = self.header.as_ref()?.segments.iter().enumerate().skip(self.next);
        segments.map(|(index, segment)| (index, segment.bytes as usize)).find(|(_, bytes)| *bytes > 0)
    }

    /// Where the reader is, and how many bytes it wants before the next event.
    fn wanted(&self) -> Result<(Part, u64), Error> {
        let have = self.buffer.len() as u64;
        if self.header.is_some() {
            let (index, bytes) = self.pending_segment().unwrap_or_default();
            let have = if self.handed_out { 0 } else { have };
            return Ok((Part::Segment(index), (bytes as u64).saturating_sub(have)));
        }
        if have < PREAMBLE_BYTES as u64 {
            return Ok((Part::Preamble, PREAMBLE_BYTES as u64 - have));
        }
        let preamble = Preamble::read(&self.buffer, &self.limits)?;
        Ok((Part::Header, PREAMBLE_BYTES as u64 + u64::from(preamble.packed_bytes) - have))
    }
}

/// [`Event`] before it borrows from the reader.
enum Step<'a> {
    Wait,
    Header,
    Direct(usize, &'a [u8]),
    Buffered(usize),
    End,
}

/// Up to `length` bytes off the front.
fn take<'a>(input: &mut &'a [u8], length: usize) -> &'a [u8] {
    let (taken, rest) = input.split_at(length.min(input.len()));
    *input = rest;
    taken
}
