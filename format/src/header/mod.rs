//! The header: everything a receiver needs to plan, allocate, fetch by byte range, or refuse.

mod preamble;
mod segments;
mod tensors;

pub use preamble::Preamble;
pub use segments::{Piece, Profile, Segment};
pub use tensors::Tensor;

use crate::bytes::{Cursor, push_varint};
use crate::codec::{Deflate, Inflate};
use crate::error::{Damage, Error, Part};
use crate::fingerprint::Fingerprint;
use crate::layout::{MAX_MODELS, MAX_RUN_ID_BYTES, PREAMBLE_BYTES};
use crate::limits::Limits;
use crate::model::ContextModel;
use crate::units::{ByteLength, CellCount, Step};
use alloc::string::String;
use alloc::vec::Vec;

/// Everything of a patch but the bytes of its segments.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Header {
    /// Which training run this belongs to; free text, may be empty.
    pub run_id: String,
    /// The step that the patch starts from; `None` of an anchor, which starts from nothing: all its segments are dense.
    pub base_step: Option<Step>,
    /// The step that it leads to; greater than `base_step`.
    pub target_step: Step,
    /// Seed of all fingerprints in the segment table.
    pub seed: u64,
    /// All tensors of the checkpoint, strictly ascending by dtype code and then by the bytes of the name.
    pub tensors: Vec<Tensor>,
    /// The context models that segments name.
    pub models: Vec<ContextModel>,
    /// The segments, which cover the cells of all tensors in order.
    pub segments: Vec<Segment>,
    /// Bytes before the payload: preamble and packed header. Set by reading and writing.
    pub payload_start: ByteLength,
}

impl Header {
    /// Preamble and packed header.
    ///
    /// Places and offsets in the tables are worked out from lengths and cell counts and set in `self`.
    ///
    /// # Errors
    /// Those of [`Header::check`] with the default limits; [`Error::Misuse`] if the codec fails.
    pub fn write(&mut self, codec: &impl Deflate) -> Result<Vec<u8>, Error> {
        let raw = self.to_raw();
        let packed = codec.deflate(&raw).ok_or(Error::Misuse { what: "the header cannot be compressed" })?;
        let bytes = Preamble::write(&raw, &packed)?;
        Preamble::read(&bytes, &Limits::default())?;
        let mut read = Self::from_raw(&raw, &Limits::default())?;
        read.place_payload(bytes.len() as u64);
        // What was written is what will be read; only derived fields may differ.
        *self = read;
        Ok(bytes)
    }

    /// Reads what [`Header::write`] wrote; `bytes` begins with the preamble and may go on into the payload.
    ///
    /// # Errors
    /// Any but `WrongBase` and `WrongTarget`.
    pub fn read(bytes: &[u8], codec: &impl Inflate, limits: &Limits) -> Result<Self, Error> {
        let preamble = Preamble::read(bytes, limits)?;
        let mut cursor = Cursor::new(bytes.get(PREAMBLE_BYTES..).unwrap_or_default(), Part::Header);
        let packed = cursor.take(preamble.packed_bytes as usize)?;
        let raw = preamble.unpack(bytes, packed, codec)?;
        let mut header = Self::from_raw(&raw, limits)?;
        header.place_payload(PREAMBLE_BYTES as u64 + u64::from(preamble.packed_bytes));
        Ok(header)
    }

    /// Whether a reader with `limits` would take this header: every rule and every limit, by the code that reads.
    ///
    /// # Errors
    /// [`Error::Damaged`] with the rule that is broken, [`Error::Limit`].
    pub fn check(&self, limits: &Limits) -> Result<(), Error> {
        let raw = self.to_raw();
        Limits::check("header size", raw.len() as u64, limits.header_bytes)?;
        Self::from_raw(&raw, limits).map(drop)
    }

    fn to_raw(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_varint(&mut out, self.run_id.len() as u64);
        out.extend_from_slice(self.run_id.as_bytes());
        push_varint(&mut out, self.base_step.map_or(0, |step| step.get().saturating_add(1)));
        push_varint(&mut out, self.target_step.get());
        out.extend_from_slice(&self.seed.to_le_bytes());
        tensors::write(&self.tensors, &mut out);
        push_varint(&mut out, self.models.len() as u64);
        self.models.iter().for_each(|model| model.write(&mut out));
        segments::write(&self.segments, self.is_anchor(), &mut out);
        out
    }

    fn from_raw(raw: &[u8], limits: &Limits) -> Result<Self, Error> {
        let mut cursor = Cursor::new(raw, Part::Header);
        let run_id_bytes = cursor.varint()?;
        if run_id_bytes > MAX_RUN_ID_BYTES as u64 {
            return Err(cursor.damaged(Damage::Text));
        }
        let run_id = cursor.take(run_id_bytes as usize)?.to_vec();
        let run_id = String::from_utf8(run_id).map_err(|_| cursor.damaged(Damage::Text))?;
        let (base_step, target_step) = (cursor.varint()?.checked_sub(1).map(Step), Step(cursor.varint()?));
        if base_step.is_some_and(|base_step| target_step <= base_step) {
            return Err(cursor.damaged(Damage::Steps));
        }
        let seed = u64::from_le_bytes(cursor.array()?);
        let tensors = tensors::read(&mut cursor, limits)?;
        let count = cursor.varint_up_to(MAX_MODELS as u64)?;
        Limits::check("number of models", count, limits.models)?;
        let models = (0..count).map(|_| ContextModel::read(&mut cursor)).collect::<Result<Vec<_>, _>>()?;
        let segments = segments::read(&mut cursor, limits, &tensors, models.len(), base_step.is_none())?;
        if !cursor.rest().is_empty() {
            return Err(cursor.damaged(Damage::HeaderTrailing));
        }
        let payload_start = ByteLength(0);
        Ok(Self { run_id, base_step, target_step, seed, tensors, models, segments, payload_start })
    }

    fn place_payload(&mut self, start: u64) {
        self.payload_start = ByteLength(start);
        let mut offset = start;
        for segment in &mut self.segments {
            segment.offset = ByteLength(offset);
            offset += u64::from(segment.bytes);
        }
    }

    /// Whether it starts from nothing.
    pub fn is_anchor(&self) -> bool {
        self.base_step.is_none()
    }

    /// Bytes of the whole patch.
    pub fn patch_bytes(&self) -> ByteLength {
        ByteLength(self.payload_start.get() + self.segments.iter().map(|segment| u64::from(segment.bytes)).sum::<u64>())
    }

    /// Cells of the whole checkpoint.
    pub fn cells(&self) -> CellCount {
        CellCount(self.segments.iter().map(|segment| u64::from(segment.cells)).sum())
    }

    /// Changed cells of the whole checkpoint.
    pub fn changes(&self) -> CellCount {
        CellCount(self.segments.iter().map(|segment| u64::from(segment.changes)).sum())
    }

    /// Of all cells before the patch; zeros of an anchor. Does not depend on how segments are cut.
    pub fn base_fingerprint(&self) -> Fingerprint {
        self.segments.iter().map(|segment| segment.base).sum()
    }

    /// Of all cells after the patch. Does not depend on how segments are cut.
    pub fn target_fingerprint(&self) -> Fingerprint {
        self.segments.iter().map(|segment| segment.target).sum()
    }

    /// The runs of cells that a segment covers, in its order. Empty for an unknown segment.
    pub fn pieces(&self, segment: usize) -> Vec<Piece> {
        self.segments.get(segment).map(|segment| segment.pieces(&self.tensors)).unwrap_or_default()
    }
}
