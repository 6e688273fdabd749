//! Envelope and JSON header.

use serde::{Deserialize, Serialize};

use super::Version;
use crate::bytes::Cursor;
use crate::checkpoint::cell_count;
use crate::limits::Budget;
use crate::{Digest, Error};

const MAGIC: &[u8; 8] = b"PULSEPT1";
const DIGEST_PREFIX: &str = "xxh3_128:";
const DTYPE: &str = "bf16";
const VALUES_AS_STEPS: &str = "zz-delta-u8esc";

/// A tensor must have fewer cells than this.
pub(super) const CELL_LIMIT: u64 = 1 << 32;

/// Fields in ascending order, as the writer must put them.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Header {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) base_state_digest: Option<HexDigest>,
    pub(super) base_step: u64,
    pub(super) format_version: u32,
    pub(super) model: ModelEntry,
    pub(super) state_digest: HexDigest,
    pub(super) step: u64,
    pub(super) tensors: Vec<TensorEntry>,
}

#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ModelEntry {
    pub(super) digest: HexDigest,
    pub(super) id: String,
    pub(super) param_count: u64,
}

/// One tensor, changed or not. Fields in ascending order.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct TensorEntry {
    pub(super) changed: u64,
    dtype: String,
    idx_bytes: u64,
    idx_enc: String,
    pub(super) name: String,
    numel: u64,
    pub(super) shape: Vec<u64>,
    pub(super) tensor_digest: HexDigest,
    val_bytes: u64,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    val_enc: Option<String>,
}

/// A digest as the header writes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub(super) struct HexDigest(pub(super) Digest);

impl From<HexDigest> for String {
    fn from(digest: HexDigest) -> Self {
        format!("{DIGEST_PREFIX}{}", digest.0)
    }
}

impl TryFrom<String> for HexDigest {
    type Error = &'static str;

    fn try_from(text: String) -> Result<Self, Self::Error> {
        let digest = text.strip_prefix(DIGEST_PREFIX).and_then(Digest::from_hex);
        digest.map(Self).ok_or("a digest is xxh3_128: and 32 hexadecimal digits")
    }
}

/// Sections of one tensor in the payload.
pub(super) struct Sections<'p> {
    pub(super) indices: &'p [u8],
    pub(super) values: &'p [u8],
}

impl TensorEntry {
    pub(super) fn new(
        version: Version,
        tensor: &crate::Tensor<'_>,
        changed: usize,
        digest: Digest,
        section_lens: (usize, usize),
    ) -> Self {
        Self {
            changed: changed as u64,
            dtype: DTYPE.to_owned(),
            idx_bytes: section_lens.0 as u64,
            idx_enc: version.index_encoding().to_owned(),
            name: tensor.name.to_owned(),
            numel: tensor.cells.len() as u64,
            shape: tensor.shape.clone(),
            tensor_digest: HexDigest(digest),
            val_bytes: section_lens.1 as u64,
            val_enc: (version != Version::V1).then(|| VALUES_AS_STEPS.to_owned()),
        }
    }

    pub(super) fn take<'p>(&self, payload: &mut Cursor<'p>) -> Result<Sections<'p>, Error> {
        Ok(Sections { indices: payload.take_u64(self.idx_bytes)?, values: payload.take_u64(self.val_bytes)? })
    }

    fn check(&self, version: Version) -> Result<(), Error> {
        let damaged = |what: String| Err(Error::damaged(&self.name, what));
        if self.dtype != DTYPE {
            return Err(Error::unsupported(&self.name, format!("dtype {}", self.dtype)));
        }
        if self.idx_enc != version.index_encoding() {
            return Err(Error::unsupported(&self.name, format!("idxEnc {}", self.idx_enc)));
        }
        let val_enc = (version != Version::V1).then_some(VALUES_AS_STEPS);
        if self.val_enc.as_deref() != val_enc {
            return Err(Error::unsupported(&self.name, format!("valEnc {:?}", self.val_enc)));
        }
        if self.numel >= CELL_LIMIT || cell_count(&self.shape) != Some(self.numel) {
            return damaged(format!("numel {} for shape {:?}", self.numel, self.shape));
        }
        if self.changed > self.numel {
            return damaged(format!("{} changes in {} cells", self.changed, self.numel));
        }
        // Below 2^36, so nothing here can overflow.
        let value_lens = match version {
            Version::V1 => 2 * self.changed..=2 * self.changed,
            Version::V2 | Version::V3 => self.changed..=3 * self.changed,
        };
        if !value_lens.contains(&self.val_bytes) {
            return damaged(format!("{} bytes of values for {} changes", self.val_bytes, self.changed));
        }
        if self.idx_bytes > version.max_index_len(self.changed) {
            return damaged(format!("{} bytes of indices for {} changes", self.idx_bytes, self.changed));
        }
        Ok(())
    }
}

impl Header {
    /// Writes everything in front of the payload's frame.
    pub(super) fn write(&self) -> Result<Vec<u8>, Error> {
        let json = serde_json::to_vec(self)
            .map_err(|error| Error::misuse(format!("the header cannot be written: {error}")))?;
        let len = u32::try_from(json.len()).map_err(|_| Error::unsupported("header", "more than 4 GiB"))?;
        let mut bytes = Vec::with_capacity(MAGIC.len() + 4 + json.len());
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&len.to_le_bytes());
        bytes.extend_from_slice(&json);
        Ok(bytes)
    }

    /// Reads a header and checks it against itself; returns it with the payload's frame.
    pub(super) fn read<'p>(bytes: &'p [u8], budget: &mut Budget) -> Result<(Self, Version, &'p [u8]), Error> {
        let mut cursor = Cursor::new(bytes, "envelope");
        if cursor.take(MAGIC.len())? != MAGIC {
            return Err(Error::damaged("envelope", "no PULSEPT1 magic"));
        }
        let json_len = cursor.u32()?;
        let json = cursor.take_u64(json_len.into())?;
        budget.spend_header(json.len())?;
        let header: Self = serde_json::from_slice(json).map_err(|error| Error::damaged("header", error.to_string()))?;
        budget.check_tensors(header.tensors.len())?;
        let version = Version::from_number(header.format_version)?;
        if !header.tensors.is_sorted_by(|a, b| a.name < b.name) {
            return Err(Error::damaged("header", "tensor names are not strictly ascending"));
        }
        header.tensors.iter().try_for_each(|tensor| tensor.check(version))?;
        let digests: Vec<Digest> = header.tensors.iter().map(|tensor| tensor.tensor_digest.0).collect();
        if Digest::of_digests(&digests) != header.state_digest.0 {
            return Err(Error::damaged("header", "stateDigest is not that of the tensorDigests"));
        }
        Ok((header, version, cursor.rest()))
    }

    /// Length of the payload before compression.
    pub(super) fn payload_len(&self) -> Result<u64, Error> {
        let mut lens = self.tensors.iter().flat_map(|tensor| [tensor.idx_bytes, tensor.val_bytes]);
        let sum = lens.try_fold(0u64, u64::checked_add);
        sum.ok_or_else(|| Error::damaged("header", "section lengths that do not add up"))
    }
}
