//! Patches by hand: a second writer of the header, from FORMAT.md alone, which can also write what no writer should.

use pulse_format::layout::{MAGIC, PREAMBLE_BYTES, PREAMBLE_HASHED_BYTES};
use pulse_format::{Header, Inflate, Profile};

/// Bytes of a raw block of zstd, at most.
const BLOCK_BYTES: usize = 128 << 10;

/// A patch as its fields, none of them checked.
#[derive(Debug, Clone, Default)]
pub(crate) struct RawPatch {
    pub(crate) run_id: Vec<u8>,
    /// None of an anchor.
    pub(crate) base_step: Option<u64>,
    pub(crate) target_step: u64,
    pub(crate) seed: u64,
    pub(crate) tensors: Vec<RawTensor>,
    /// What the table's count says over the number of entries.
    pub(crate) extra_tensors: u64,
    pub(crate) models: Vec<RawModel>,
    pub(crate) extra_models: u64,
    pub(crate) segments: Vec<RawSegment>,
    pub(crate) extra_segments: u64,
    /// After the header's last field.
    pub(crate) trailing: Vec<u8>,
}

#[derive(Debug, Clone, Default)]
pub(crate) struct RawTensor {
    pub(crate) dtype: u8,
    pub(crate) shared: u64,
    pub(crate) suffix: Vec<u8>,
    pub(crate) shape: Vec<u64>,
}

impl RawTensor {
    pub(crate) fn new(dtype: u8, shared: u64, suffix: &str, shape: &[u64]) -> Self {
        Self { dtype, shared, suffix: suffix.into(), shape: shape.to_vec() }
    }
}

/// Class and its two alphabets, for each class that has an entry.
pub(crate) type RawModel = Vec<(u32, u64, [Vec<u64>; 2])>;

#[derive(Debug, Clone, Default)]
pub(crate) struct RawSegment {
    pub(crate) profile: u8,
    pub(crate) model: Option<u64>,
    pub(crate) cells: u64,
    pub(crate) changes: u64,
    pub(crate) payload: Vec<u8>,
    /// If other than the payload's own.
    pub(crate) declared_bytes: Option<u64>,
    pub(crate) base: [u8; 8],
    pub(crate) target: [u8; 8],
}

impl RawPatch {
    /// The fields of a sound patch.
    pub(crate) fn of(patch: &[u8], header: &Header) -> Self {
        let mut previous: &[u8] = &[];
        let tensors = header.tensors.iter().map(|tensor| {
            let name = tensor.name.as_bytes();
            let shared = previous.iter().zip(name).take_while(|(a, b)| a == b).count();
            previous = name;
            let (suffix, shape) = (name[shared..].to_vec(), tensor.shape.clone());
            RawTensor { dtype: tensor.dtype as u8, shared: shared as u64, suffix, shape }
        });
        let models = header.models.iter().map(|model| {
            let classes = (0..).zip(&model.classes).filter_map(|(class, entry)| Some((class, entry.as_ref()?)));
            let alphabet =
                |frequencies: &pulse_format::Frequencies| frequencies.get().iter().copied().map(u64::from).collect();
            let fields = |entry: &pulse_format::model::ClassModel| [alphabet(&entry.gaps), alphabet(&entry.steps)];
            classes.map(|(class, entry)| (class, entry.share.into(), fields(entry))).collect()
        });
        let segments = header.segments.iter().map(|segment| {
            let (profile, model) = match segment.profile {
                Profile::Unchanged => (0, None),
                Profile::Contextual { model } => (1, Some(model as u64)),
                Profile::Absolute => (2, None),
                Profile::Relative => (3, None),
                Profile::Dense => (4, None),
            };
            let range = segment.byte_range();
            RawSegment {
                profile,
                model,
                cells: segment.cells.into(),
                changes: segment.changes.into(),
                payload: patch[range.start as usize..range.end as usize].to_vec(),
                declared_bytes: None,
                base: segment.base.to_bytes(),
                target: segment.target.to_bytes(),
            }
        });
        Self {
            run_id: header.run_id.clone().into_bytes(),
            base_step: header.base_step.map(pulse_format::Step::get),
            target_step: header.target_step.get(),
            seed: header.seed,
            tensors: tensors.collect(),
            models: models.collect(),
            segments: segments.collect(),
            ..Self::default()
        }
    }

    /// Section 3 of FORMAT.md.
    pub(crate) fn raw(&self) -> Vec<u8> {
        let mut out = Vec::new();
        push_varint(&mut out, self.run_id.len() as u64);
        out.extend_from_slice(&self.run_id);
        push_varint(&mut out, self.base_step.map_or(0, |step| step + 1));
        push_varint(&mut out, self.target_step);
        out.extend_from_slice(&self.seed.to_le_bytes());
        push_varint(&mut out, self.tensors.len() as u64 + self.extra_tensors);
        for tensor in &self.tensors {
            out.push(tensor.dtype);
            push_varint(&mut out, tensor.shared);
            push_varint(&mut out, tensor.suffix.len() as u64);
            out.extend_from_slice(&tensor.suffix);
            push_varint(&mut out, tensor.shape.len() as u64);
            tensor.shape.iter().for_each(|dimension| push_varint(&mut out, *dimension));
        }
        push_varint(&mut out, self.models.len() as u64 + self.extra_models);
        for model in &self.models {
            let mask: u32 = model.iter().map(|(class, ..)| 1 << class).sum();
            out.extend_from_slice(&mask.to_le_bytes());
            for (_, share, alphabets) in model {
                push_varint(&mut out, *share);
                for alphabet in alphabets {
                    push_varint(&mut out, alphabet.len() as u64);
                    alphabet.iter().for_each(|frequency| push_varint(&mut out, *frequency));
                }
            }
        }
        push_varint(&mut out, self.segments.len() as u64 + self.extra_segments);
        for segment in &self.segments {
            out.push(segment.profile);
            segment.model.into_iter().for_each(|model| push_varint(&mut out, model));
            push_varint(&mut out, segment.cells);
            if segment.profile != 0 && segment.profile != 4 {
                push_varint(&mut out, segment.changes);
            }
            if segment.profile != 0 {
                push_varint(&mut out, segment.declared_bytes.unwrap_or(segment.payload.len() as u64));
            }
        }
        for segment in &self.segments {
            if self.base_step.is_some() {
                out.extend_from_slice(&segment.base);
            }
            if segment.profile != 0 {
                out.extend_from_slice(&segment.target);
                out.extend_from_slice(blake3::hash(&segment.payload).as_bytes());
            }
        }
        out.extend_from_slice(&self.trailing);
        out
    }

    pub(crate) fn payload(&self) -> Vec<u8> {
        self.segments.iter().flat_map(|segment| &segment.payload).copied().collect()
    }

    /// The whole patch, its hashes right.
    pub(crate) fn patch(&self) -> Vec<u8> {
        let raw = self.raw();
        sign(&store(&raw), raw.len() as u64, &self.payload())
    }
}

/// A patch around any packed header, its hash right.
pub(crate) fn sign(packed: &[u8], raw_bytes: u64, payload: &[u8]) -> Vec<u8> {
    let mut patch = MAGIC.to_vec();
    patch.extend(1u16.to_le_bytes());
    patch.extend(0u16.to_le_bytes());
    patch.extend((packed.len() as u32).to_le_bytes());
    patch.extend((raw_bytes as u32).to_le_bytes());
    let hash = blake3::Hasher::new().update(&patch).update(packed).finalize();
    patch.extend_from_slice(hash.as_bytes());
    patch.extend_from_slice(packed);
    patch.extend_from_slice(payload);
    patch
}

/// The same patch with the hash over preamble and packed header made right.
pub(crate) fn resign(mut patch: Vec<u8>) -> Vec<u8> {
    let packed_bytes = u32::from_le_bytes(*patch[12..].first_chunk().unwrap()) as usize;
    let packed = &patch[PREAMBLE_BYTES..PREAMBLE_BYTES + packed_bytes];
    let hash = blake3::Hasher::new().update(&patch[..PREAMBLE_HASHED_BYTES]).update(packed).finalize();
    patch[PREAMBLE_HASHED_BYTES..PREAMBLE_BYTES].copy_from_slice(hash.as_bytes());
    patch
}

/// A patch with its raw header and payload apart.
pub(crate) fn open(patch: &[u8], codec: &impl Inflate) -> (Vec<u8>, Vec<u8>) {
    let packed_bytes = u32::from_le_bytes(*patch[12..].first_chunk().unwrap()) as usize;
    let raw_bytes = u32::from_le_bytes(*patch[16..].first_chunk().unwrap()) as usize;
    let (packed, payload) = patch[PREAMBLE_BYTES..].split_at(packed_bytes);
    (codec.inflate(packed, raw_bytes).unwrap(), payload.to_vec())
}

/// A zstd frame that stores `content` as it is.
pub(crate) fn store(content: &[u8]) -> Vec<u8> {
    let mut frame = frame_header(content.len() as u64);
    let blocks = content.chunks(BLOCK_BYTES).collect::<Vec<_>>();
    for (index, block) in blocks.iter().enumerate() {
        let last = index + 1 == blocks.len();
        push_block_header(&mut frame, 0, block.len(), last);
        frame.extend_from_slice(block);
    }
    frame
}

/// A zstd frame of `blocks` blocks of 128 KiB of one byte each, four bytes a block, that declares `declared` bytes of content.
pub(crate) fn bomb(blocks: usize, byte: u8, declared: u64) -> Vec<u8> {
    let mut frame = frame_header(declared);
    for block in 0..blocks {
        push_block_header(&mut frame, 1, BLOCK_BYTES, block + 1 == blocks);
        frame.push(byte);
    }
    frame
}

/// A frame of one segment, without checksum and dictionary, with 8 bytes of content size.
fn frame_header(content: u64) -> Vec<u8> {
    let mut frame = 0xfd2f_b528u32.to_le_bytes().to_vec();
    frame.push(0b1110_0000);
    frame.extend(content.to_le_bytes());
    frame
}

/// Kind 0 is raw, 1 one byte repeated.
fn push_block_header(frame: &mut Vec<u8>, kind: usize, length: usize, last: bool) {
    let header = length << 3 | kind << 1 | usize::from(last);
    frame.extend_from_slice(&header.to_le_bytes()[..3]);
}

/// Unsigned LEB128 in its shortest form.
pub(crate) fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value > 0x7f {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Reads what [`push_varint`] wrote off the front of `bytes`.
pub(crate) fn take_varint(bytes: &mut &[u8]) -> u64 {
    let length = bytes.iter().position(|byte| *byte < 0x80).unwrap() + 1;
    let (varint, rest) = bytes.split_at(length);
    *bytes = rest;
    varint.iter().rev().fold(0, |value, byte| value << 7 | u64::from(byte & 0x7f))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::support::cells::Pair;
    use crate::support::inflate::Ruzstd;
    use pulse_encoder::Zstd;
    use pulse_format::Limits;

    /// Both directions: this writer and the format's agree on every byte of a header.
    #[test]
    fn a_second_writer_writes_the_same_header() {
        let patch = Pair::mixed().encode(&Pair::mixed_options());
        let header = Header::read(&patch, &Zstd::default(), &Limits::default()).unwrap();
        let by_hand = RawPatch::of(&patch, &header);
        let (raw, payload) = open(&patch, &Ruzstd);
        assert_eq!((by_hand.raw(), by_hand.payload()), (raw, payload));
        let read = Header::read(&by_hand.patch(), &Zstd::default(), &Limits::default()).unwrap();
        assert_eq!(read.segments.len(), header.segments.len());
        assert_eq!((read.tensors, read.models), (header.tensors, header.models));
        assert_eq!(resign(patch.clone()), patch);
    }

    #[test]
    fn frames_by_hand_are_sound() {
        let content: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
        for codec in [&Zstd::default() as &dyn Inflate, &Ruzstd] {
            assert_eq!(codec.inflate(&store(&content), content.len()).as_ref(), Some(&content));
            assert_eq!(
                codec.inflate(&bomb(2, 7, 2 * BLOCK_BYTES as u64), 2 * BLOCK_BYTES),
                Some(vec![7; 2 * BLOCK_BYTES])
            );
        }
    }
}
