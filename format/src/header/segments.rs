//! The segment table.

use super::Tensor;
use crate::bytes::{Cursor, push_varint};
use crate::error::{Damage, Error};
use crate::fingerprint::Fingerprint;
use crate::layout::{
    BLOCK_CELLS, HASH_BYTES, MAX_MODELS, MAX_RELATIVE_CELL_BYTES, MAX_SEGMENT_CELLS, PROFILE_ABSOLUTE,
    PROFILE_CONTEXTUAL, PROFILE_DENSE, PROFILE_RELATIVE, PROFILE_UNCHANGED,
};
use crate::limits::Limits;
use crate::units::{ByteLength, CellCount, CellIndex};
use alloc::vec::Vec;

/// How a segment's changes are coded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    /// Nothing changes; there are no bytes.
    Unchanged,
    /// Ranks within exponent classes and ULP steps; needs the base.
    Contextual {
        /// Index into the header's models.
        model: usize,
    },
    /// Positions and values; may be applied to anything, twice.
    Absolute,
    /// Positions and what is added to each cell; needs the base.
    Relative,
    /// What all cells become; may be applied to anything, or to nothing.
    Dense,
}

impl Profile {
    /// Its name in documents and tools.
    pub fn name(self) -> &'static str {
        match self {
            Self::Unchanged => "unchanged",
            Self::Contextual { .. } => "contextual",
            Self::Absolute => "absolute",
            Self::Relative => "relative",
            Self::Dense => "dense",
        }
    }
}

/// A run of cells that is coded, addressed, verified and decoded on its own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Segment {
    /// How its changes are coded.
    pub profile: Profile,
    /// Cells it covers; at least 1.
    pub cells: u32,
    /// Cells that change; of a dense segment, which does not tell, all.
    pub changes: u32,
    /// Bytes of its payload.
    pub bytes: u32,
    /// BLAKE3 of its payload; zeros without one.
    pub hash: [u8; HASH_BYTES],
    /// Of its cells before; zeros in an anchor.
    pub base: Fingerprint,
    /// Of its cells after.
    pub target: Fingerprint,
    /// The table entry of its first cell. Derived.
    pub tensor: usize,
    /// Its first cell within that tensor. Derived.
    pub first_cell: CellIndex,
    /// Where its payload begins, from the start of the patch. Derived.
    pub offset: ByteLength,
}

impl Segment {
    /// A segment of which the derived fields are still to be set, as [`super::Header::write`] does.
    pub fn unchanged(cells: u32, base: Fingerprint) -> Self {
        Self {
            profile: Profile::Unchanged,
            cells,
            changes: 0,
            bytes: 0,
            hash: [0; HASH_BYTES],
            base,
            target: base,
            tensor: 0,
            first_cell: CellIndex(0),
            offset: ByteLength(0),
        }
    }

    /// The same with a payload.
    pub fn with_payload(
        self,
        profile: Profile,
        changes: u32,
        target: Fingerprint,
        payload: &[u8],
    ) -> Result<Self, Error> {
        let bytes =
            u32::try_from(payload.len()).map_err(|_| Error::Misuse { what: "a segment's payload is over 4 GiB" })?;
        Ok(Self { profile, changes, bytes, target, hash: *blake3::hash(payload).as_bytes(), ..self })
    }

    /// Bytes from the start of the patch that hold its payload.
    pub fn byte_range(&self) -> core::ops::Range<u64> {
        self.offset.get()..self.offset.get() + u64::from(self.bytes)
    }

    /// Checks length and hash of `payload`.
    ///
    /// # Errors
    /// [`Error::Damaged`] or [`Error::Truncated`], with [`crate::Part::Payload`].
    pub fn check_payload(&self, payload: &[u8]) -> Result<(), Error> {
        let part = crate::Part::Payload;
        let missing = u64::from(self.bytes).saturating_sub(payload.len() as u64);
        if missing > 0 {
            return Err(Error::Truncated { part, missing });
        }
        if payload.len() as u64 != u64::from(self.bytes) || (self.bytes > 0 && blake3::hash(payload) != self.hash) {
            return Err(Error::Damaged { part, damage: Damage::SegmentHash });
        }
        Ok(())
    }

    pub(super) fn pieces(&self, tensors: &[Tensor]) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let (mut left, mut first_cell) = (u64::from(self.cells), self.first_cell);
        for (tensor, entry) in tensors.iter().enumerate().skip(self.tensor) {
            if left == 0 {
                break;
            }
            let cells = left.min(entry.cells().unwrap_or_default().get().saturating_sub(first_cell.get()));
            if cells > 0 {
                pieces.push(Piece { tensor, first_cell, cells: cells as u32 });
            }
            left -= cells;
            first_cell = CellIndex(0);
        }
        pieces
    }
}

/// The part of a segment that lies in one tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Index into the tensor table.
    pub tensor: usize,
    /// Its first cell within the tensor; a multiple of 1,024.
    pub first_cell: CellIndex,
    /// How many cells.
    pub cells: u32,
}

/// Numbers first, then fingerprints and hashes: what compresses stands apart from what does not.
pub(super) fn write(segments: &[Segment], is_anchor: bool, out: &mut Vec<u8>) {
    push_varint(out, segments.len() as u64);
    for segment in segments {
        match segment.profile {
            Profile::Unchanged => out.push(PROFILE_UNCHANGED),
            Profile::Contextual { model } => {
                out.push(PROFILE_CONTEXTUAL);
                push_varint(out, model as u64);
            }
            Profile::Absolute => out.push(PROFILE_ABSOLUTE),
            Profile::Relative => out.push(PROFILE_RELATIVE),
            Profile::Dense => out.push(PROFILE_DENSE),
        }
        push_varint(out, u64::from(segment.cells));
        if !matches!(segment.profile, Profile::Unchanged | Profile::Dense) {
            push_varint(out, u64::from(segment.changes));
        }
        if segment.profile != Profile::Unchanged {
            push_varint(out, u64::from(segment.bytes));
        }
    }
    for segment in segments {
        if !is_anchor {
            out.extend_from_slice(&segment.base.to_bytes());
        }
        if segment.profile != Profile::Unchanged {
            out.extend_from_slice(&segment.target.to_bytes());
            out.extend_from_slice(&segment.hash);
        }
    }
}

pub(super) fn read(
    cursor: &mut Cursor<'_>,
    limits: &Limits,
    tensors: &[Tensor],
    models: usize,
    is_anchor: bool,
) -> Result<Vec<Segment>, Error> {
    let count = cursor.varint()?;
    Limits::check("number of segments", count, limits.segments)?;
    let mut cover = Cover { tensors, tensor: 0, cell: 0 };
    let mut segments = Vec::new();
    for _ in 0..count {
        let segment = read_one(cursor, limits)?;
        let (tensor, first_cell) = cover.take(segment.cells).map_err(|damage| cursor.damaged(damage))?;
        let dtype = tensors.get(tensor).map(|tensor| tensor.dtype).ok_or(cursor.damaged(Damage::Coverage))?;
        let fits = match segment.profile {
            Profile::Unchanged | Profile::Absolute | Profile::Dense => true,
            Profile::Contextual { model } => dtype.float_format().is_some() && model < models,
            Profile::Relative => dtype.cell_bytes() <= MAX_RELATIVE_CELL_BYTES,
        };
        if !fits || is_anchor && segment.profile != Profile::Dense {
            return Err(cursor.damaged(Damage::Profile));
        }
        segments.push(Segment { tensor, first_cell, ..segment });
    }
    if !cover.is_complete() {
        return Err(cursor.damaged(Damage::Coverage));
    }
    for segment in &mut segments {
        if !is_anchor {
            segment.base = Fingerprint::from_bytes(cursor.array()?);
            segment.target = segment.base;
        }
        if segment.profile != Profile::Unchanged {
            segment.target = Fingerprint::from_bytes(cursor.array()?);
            segment.hash = cursor.array()?;
        }
    }
    Ok(segments)
}

fn read_one(cursor: &mut Cursor<'_>, limits: &Limits) -> Result<Segment, Error> {
    let profile = match cursor.byte()? {
        PROFILE_UNCHANGED => Profile::Unchanged,
        PROFILE_CONTEXTUAL => Profile::Contextual { model: cursor.varint_up_to(MAX_MODELS as u64)? as usize },
        PROFILE_ABSOLUTE => Profile::Absolute,
        PROFILE_RELATIVE => Profile::Relative,
        PROFILE_DENSE => Profile::Dense,
        _ => return Err(cursor.damaged(Damage::Profile)),
    };
    let cells = cursor.varint_up_to(u64::from(u32::MAX))? as u32;
    let mut segment = Segment { profile, ..Segment::unchanged(cells, Fingerprint::ZERO) };
    if profile != Profile::Unchanged {
        segment.changes = match profile {
            Profile::Dense => cells,
            _ => cursor.varint_up_to(u64::from(u32::MAX))? as u32,
        };
        segment.bytes = cursor.varint_up_to(u64::from(u32::MAX))? as u32;
        if segment.changes == 0 || segment.changes > cells || segment.bytes == 0 {
            return Err(cursor.damaged(Damage::Changes));
        }
        Limits::check("bytes of a segment", segment.bytes.into(), limits.segment_bytes)?;
    }
    Ok(segment)
}

/// How far the segments read so far have covered the tensors.
struct Cover<'a> {
    tensors: &'a [Tensor],
    tensor: usize,
    cell: u64,
}

impl Cover<'_> {
    fn cells(&self, tensor: &Tensor) -> u64 {
        tensor.cells().map_or(0, CellCount::get)
    }

    fn skip_finished(&mut self) {
        while self.tensors.get(self.tensor).is_some_and(|tensor| self.cell >= self.cells(tensor)) {
            self.tensor += 1;
            self.cell = 0;
        }
    }

    /// Covers the next `cells`; returns where they begin.
    fn take(&mut self, cells: u32) -> Result<(usize, CellIndex), Damage> {
        if cells == 0 || cells > MAX_SEGMENT_CELLS {
            return Err(Damage::Coverage);
        }
        self.skip_finished();
        let start = (self.tensor, CellIndex(self.cell));
        let dtype = self.tensors.get(self.tensor).ok_or(Damage::Coverage)?.dtype;
        let mut left = u64::from(cells);
        while left > 0 {
            self.skip_finished();
            let tensor =
                self.tensors.get(self.tensor).filter(|tensor| tensor.dtype == dtype).ok_or(Damage::Coverage)?;
            let taken = left.min(self.cells(tensor) - self.cell);
            self.cell += taken;
            left -= taken;
            if self.cell < self.cells(tensor) && !self.cell.is_multiple_of(BLOCK_CELLS as u64) {
                return Err(Damage::Cut);
            }
        }
        Ok(start)
    }

    fn is_complete(&mut self) -> bool {
        self.skip_finished();
        self.tensor == self.tensors.len()
    }
}
