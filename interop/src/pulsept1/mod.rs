//! PULSEPT1, the production format of the PULSE authors (`one-covenant/basilica`), v1, v2 and v3.
//!
//! ```text
//! "PULSEPT1" | u32 header length | header JSON | zstd-1( payload )   integers little-endian
//! payload: for each tensor, names ascending: positions | values
//! ```
//!
//! | version | positions (`idxEnc`) | values (`valEnc`) | needs the base |
//! |---|---|---|---|
//! | 1 | `delta-u16-esc` | absolute cells | no |
//! | 2 | `rice-gap` | `zz-delta-u8esc` | for values |
//! | 3 | `exp-class-rice` | `zz-delta-u8esc` | for both |
//!
//! The header lists every tensor, changed or not, with the digest of its new cells; `stateDigest` is the digest of
//! those digests, `baseStateDigest` (optional) that of the base. The reader checks them all, and that every list is
//! coded in the one way that the writer would choose. It is stricter than the original in two points that no
//! writer can meet: escaped gaps of v1 that fit two bytes, and the padding of Rice remainders.
//!
//! The frame need not be byte-equal to the original's, which depends on the version of zstd; payload and header are,
//! for names in ASCII.

mod bits;
mod class_ranks;
mod gaps;
mod header;
mod rice;
mod zigzag;

use crate::bytes::{Cursor, cells_as_bytes, cells_from_bytes};
use crate::diff::{changed_positions, gather};
use crate::limits::Budget;
use crate::patch::scatter;
use crate::{Checkpoint, Digest, Error, Limits, PatchFormat, SparsePatch, Steps, Tensor, TensorChanges, zstd_frame};

use header::{CELL_LIMIT, Header, HexDigest, ModelEntry, TensorEntry};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    V1,
    V2,
    V3,
}

impl Version {
    fn from_number(number: u32) -> Result<Self, Error> {
        match number {
            1 => Ok(Self::V1),
            2 => Ok(Self::V2),
            3 => Ok(Self::V3),
            _ => Err(Error::unsupported("header", format!("formatVersion {number}"))),
        }
    }

    const fn number(self) -> u32 {
        match self {
            Self::V1 => 1,
            Self::V2 => 2,
            Self::V3 => 3,
        }
    }

    const fn index_encoding(self) -> &'static str {
        match self {
            Self::V1 => "delta-u16-esc",
            Self::V2 => "rice-gap",
            Self::V3 => "exp-class-rice",
        }
    }

    const fn max_index_len(self, count: u64) -> u64 {
        match self {
            Self::V1 => gaps::max_len(count),
            Self::V2 => rice::max_len(count),
            Self::V3 => class_ranks::max_len(count),
        }
    }
}

/// What a header says about the model, for readers that ask.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Model {
    /// Name and revision, as `name@revision`.
    pub id: String,
    /// Digest of the model's state at step 0.
    pub digest: Digest,
}

/// A version to write, and what the caller knows. Every value reads all versions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PulsePt1 {
    version: Version,
    model: Option<Model>,
    base_digest: Option<Digest>,
}

impl PulsePt1 {
    /// Writes v1: gaps and absolute values.
    pub const fn v1() -> Self {
        Self::new(Version::V1)
    }

    /// Writes v2: Rice coded gaps and steps.
    pub const fn v2() -> Self {
        Self::new(Version::V2)
    }

    /// Writes v3: Rice coded ranks by exponent, and steps.
    pub const fn v3() -> Self {
        Self::new(Version::V3)
    }

    const fn new(version: Version) -> Self {
        Self { version, model: None, base_digest: None }
    }

    /// Names the model in the headers it writes; without, the base is taken for step 0 of an unnamed one.
    #[must_use]
    pub fn with_model(self, model: Model) -> Self {
        Self { model: Some(model), ..self }
    }

    /// Trusts the caller's [`Digest::of_state`] of the base instead of hashing it on every call, as the original does
    /// from step to step.
    #[must_use]
    pub fn with_base_digest(self, digest: Digest) -> Self {
        Self { base_digest: Some(digest), ..self }
    }
}

impl PatchFormat for PulsePt1 {
    fn name(&self) -> &'static str {
        match self.version {
            Version::V1 => "pulsept1-v1",
            Version::V2 => "pulsept1-v2",
            Version::V3 => "pulsept1-v3",
        }
    }

    fn encode(&self, steps: Steps, base: &Checkpoint<'_>, target: &Checkpoint<'_>) -> Result<Vec<u8>, Error> {
        base.check_same_layout(target)?;
        let base_digest = self.base_digest.unwrap_or_else(|| Digest::of_state(base));
        let mut payload = Vec::new();
        let mut tensors = Vec::with_capacity(base.tensors().len());
        for (old, new) in base.tensors().iter().zip(target.tensors()) {
            tensors.push(write_tensor(self.version, old, new, &mut payload)?);
        }
        let model = self.model.as_ref();
        let header = Header {
            base_state_digest: Some(HexDigest(base_digest)),
            base_step: steps.base,
            format_version: self.version.number(),
            model: ModelEntry {
                digest: HexDigest(model.map_or(base_digest, |model| model.digest)),
                id: model.map_or_else(|| "unnamed".to_owned(), |model| model.id.clone()),
                param_count: base.cell_count(),
            },
            state_digest: HexDigest(Digest::of_digests(tensors.iter().map(|tensor| &tensor.tensor_digest.0))),
            step: steps.target,
            tensors,
        };
        let mut bytes = header.write()?;
        bytes.extend_from_slice(&zstd_frame::compress(&payload)?);
        Ok(bytes)
    }

    fn decode(&self, bytes: &[u8], base: &Checkpoint<'_>, limits: &Limits) -> Result<SparsePatch, Error> {
        let mut tensors = Vec::new();
        let header = self.read(bytes, base, limits, |entry, tensor, _, changes, check| {
            let Some((indices, values)) = changes else { return check(Digest::of_cells(tensor.cells)) };
            check(Digest::of_changed(tensor.cells, &indices, &values))?;
            tensors.push(TensorChanges { name: entry.name.clone(), shape: entry.shape.clone(), indices, values });
            Ok(())
        })?;
        Ok(SparsePatch { base_step: Some(header.base_step), target_step: Some(header.step), tensors })
    }

    fn apply(&self, bytes: &[u8], base: &Checkpoint<'_>, cells: &mut [Vec<u16>], limits: &Limits) -> Result<(), Error> {
        base.check_room(cells)?;
        let mut written = Vec::new();
        let outcome = self.read(bytes, base, limits, |_, _, place, changes, check| {
            let Some(cells) = cells.get_mut(place) else { return Ok(()) };
            if let Some((indices, values)) = changes {
                scatter(cells, &indices, &values);
                written.push((place, indices));
            }
            check(Digest::of_cells(cells))
        });
        if outcome.is_err() {
            for (place, indices) in written {
                if let (Some(cells), Some(tensor)) = (cells.get_mut(place), base.tensors().get(place)) {
                    scatter(cells, &indices, &gather(tensor.cells, &indices));
                }
            }
        }
        outcome.map(|_| ())
    }
}

/// Positions and new cells of one tensor; `None` where nothing changed.
type Changes = Option<(Vec<u64>, Vec<u16>)>;

impl PulsePt1 {
    /// Hands the changes of each tensor, changed or not, to `consume`: with its entry, the base's tensor, its place, and
    /// a check that the digest of the resulting cells must pass.
    fn read(
        &self,
        bytes: &[u8],
        base: &Checkpoint<'_>,
        limits: &Limits,
        mut consume: impl FnMut(
            &TensorEntry,
            &Tensor<'_>,
            usize,
            Changes,
            &dyn Fn(Digest) -> Result<(), Error>,
        ) -> Result<(), Error>,
    ) -> Result<Header, Error> {
        let mut budget = Budget::new(limits);
        let (header, version, frame) = Header::read(bytes, &mut budget)?;
        self.check_base(&header, base)?;
        let payload_len = header.payload_len()?;
        let payload = zstd_frame::decompress(frame, payload_len, &mut budget, "payload")?;
        if payload.len() as u64 != payload_len {
            return Err(Error::damaged("payload", format!("{} bytes where {payload_len} belong", payload.len())));
        }
        let mut cursor = Cursor::new(&payload, "payload");
        for (place, (entry, tensor)) in header.tensors.iter().zip(base.tensors()).enumerate() {
            let changes = read_tensor(version, entry, tensor, &mut cursor, &mut budget)?;
            consume(entry, tensor, place, changes, &|found| check_result(&header, entry, found))?;
        }
        cursor.finish()?;
        Ok(header)
    }

    fn check_base(&self, header: &Header, base: &Checkpoint<'_>) -> Result<(), Error> {
        for entry in &header.tensors {
            base.find(&entry.name, Some(&entry.shape))?;
        }
        // Names are unique on both sides, so equal numbers mean equal sets.
        if header.tensors.len() != base.tensors().len() {
            let (expected, found) = (header.tensors.len(), base.tensors().len());
            return Err(Error::wrong_base("state", format_args!("{expected} tensors"), format_args!("{found}")));
        }
        let Some(HexDigest(expected)) = header.base_state_digest else { return Ok(()) };
        let found = self.base_digest.unwrap_or_else(|| Digest::of_state(base));
        if found == expected { Ok(()) } else { Err(Error::wrong_base("state", expected, found)) }
    }
}

fn check_result(header: &Header, entry: &TensorEntry, found: Digest) -> Result<(), Error> {
    let expected = entry.tensor_digest.0;
    if found == expected {
        return Ok(());
    }
    let expected = format!("a result with digest {expected}");
    // With the base known to be right, only the bytes can be wrong.
    match header.base_state_digest {
        Some(_) => Err(Error::damaged(&entry.name, format!("expected {expected}, found {found}"))),
        None => Err(Error::wrong_base(&entry.name, expected, found)),
    }
}

fn write_tensor(
    version: Version,
    old: &Tensor<'_>,
    new: &Tensor<'_>,
    payload: &mut Vec<u8>,
) -> Result<TensorEntry, Error> {
    if old.cells.len() as u64 >= CELL_LIMIT {
        return Err(Error::unsupported(old.name, "a tensor of 2^32 cells or more"));
    }
    let positions = changed_positions(old.cells, new.cells);
    let start = payload.len();
    match version {
        Version::V1 => gaps::write(&positions, payload),
        Version::V2 => rice::write(positions.iter().map(|&position| position as u32), payload),
        Version::V3 => class_ranks::write(&positions, old.cells, payload),
    }
    let index_len = payload.len() - start;
    let values = gather(new.cells, &positions);
    match version {
        Version::V1 => payload.extend_from_slice(&cells_as_bytes(&values)),
        Version::V2 | Version::V3 => zigzag::write(&gather(old.cells, &positions), &values, payload),
    }
    let value_len = payload.len() - start - index_len;
    Ok(TensorEntry::new(version, new, positions.len(), Digest::of_cells(new.cells), (index_len, value_len)))
}

fn read_tensor(
    version: Version,
    entry: &TensorEntry,
    tensor: &Tensor<'_>,
    payload: &mut Cursor<'_>,
    budget: &mut Budget,
) -> Result<Changes, Error> {
    let sections = entry.take(payload)?;
    let (name, base) = (entry.name.as_str(), tensor.cells);
    // The header was checked against itself and the base: at most as many changes as cells, one byte or more each.
    let count = usize::try_from(entry.changed).unwrap_or(usize::MAX);
    if count == 0 {
        Cursor::new(sections.indices, name).finish()?;
        return Ok(None);
    }
    // Positions, ranks on the way to them, old and new cells.
    budget.spend_elements::<(u64, u32, u16, u16)>(count)?;
    let positions: Vec<u64> = match version {
        Version::V1 => gaps::read(name, sections.indices, count, base.len())?,
        Version::V2 => rice::read(name, sections.indices, count, base.len())?.into_iter().map(u64::from).collect(),
        Version::V3 => class_ranks::read(name, sections.indices, count, base)?,
    };
    let values = match version {
        Version::V1 => cells_from_bytes(sections.values),
        Version::V2 | Version::V3 => zigzag::read(name, sections.values, &gather(base, &positions))?,
    };
    Ok(Some((positions, values)))
}
