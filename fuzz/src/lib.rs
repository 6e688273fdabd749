//! What the targets share: a codec, patches with right hashes around fuzzed bytes, small checkpoints.
#![forbid(unsafe_code)]

use pulse_format::contextual::{self, ContextualChanges};
use pulse_format::model::{ContextModel, Histogram};
use pulse_format::scan::{Hint, PiecePair, scan_absolute, scan_contextual};
use pulse_format::{Deflate, Dtype, Header, Inflate, Profile, Segment, Step, Tensor, absolute, layout, with_float_cell};

/// Reads any zstd frame, writes stored ones.
#[derive(Clone, Copy)]
pub struct Codec;

impl Inflate for Codec {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        use ruzstd::io::Read as _;
        let mut rest = frame;
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).ok()?;
        let mut content = vec![0; length];
        decoder.read_exact(&mut content).ok()?;
        let more = decoder.read(&mut [0]).ok()?;
        drop(decoder);
        (more == 0 && rest.is_empty()).then_some(content)
    }
}

impl Deflate for Codec {
    /// One frame of raw blocks (RFC 8878, 3.1.1).
    fn deflate(&self, raw: &[u8]) -> Option<Vec<u8>> {
        const BLOCK: usize = 1 << 16;
        // Magic; one segment with a content size of 4 bytes.
        let mut frame = vec![0x28, 0xb5, 0x2f, 0xfd, 0b1010_0000];
        frame.extend_from_slice(&u32::try_from(raw.len()).ok()?.to_le_bytes());
        let blocks = raw.len().div_ceil(BLOCK).max(1);
        for block in 0..blocks {
            let bytes = &raw[block * BLOCK..raw.len().min((block + 1) * BLOCK)];
            let header = (bytes.len() as u32) << 3 | u32::from(block + 1 == blocks);
            frame.extend_from_slice(&header.to_le_bytes()[..3]);
            frame.extend_from_slice(bytes);
        }
        Some(frame)
    }
}

/// A patch with `raw` as its header and right hashes in the preamble, then `payload`.
pub fn sealed(raw: &[u8], payload: &[u8]) -> Vec<u8> {
    let packed = Codec.deflate(raw).expect("fuzzed headers are short");
    let mut patch = layout::MAGIC.to_vec();
    patch.extend_from_slice(&layout::VERSION.to_le_bytes());
    patch.extend_from_slice(&[0, 0]);
    patch.extend_from_slice(&(packed.len() as u32).to_le_bytes());
    patch.extend_from_slice(&(raw.len() as u32).to_le_bytes());
    let hash = blake3::Hasher::new().update(&patch).update(&packed).finalize();
    patch.extend_from_slice(hash.as_bytes());
    patch.extend_from_slice(&packed);
    patch.extend_from_slice(payload);
    patch
}

/// A valid patch of one segment between two equally long runs of cells.
pub fn encode(dtype: Dtype, base: &[u8], target: &[u8], absolute_only: bool) -> (Header, Vec<u8>) {
    let cells = base.len() / dtype.cell_bytes();
    let pieces = [PiecePair { tensor: 0, first_word: 0, base, target }];
    let mut payload = Vec::new();
    let mut models = Vec::new();
    let (sums, profile, changes) = match dtype.float_format().filter(|_| !absolute_only) {
        Some(format) => {
            let mut changes = ContextualChanges::default();
            let mut hint = Hint::default();
            let sums = with_float_cell!(format, C => scan_contextual::<C>(&pieces, 0, &mut hint, &mut changes));
            let mut histogram = Histogram::default();
            histogram.count(&changes);
            models.push(ContextModel::from_histogram(&histogram));
            contextual::encode(&changes, &models[0], &mut payload).expect("the model is made for these changes");
            (sums, Profile::Contextual { model: 0 }, changes.len())
        }
        None => {
            let mut changes = Default::default();
            let sums = scan_absolute(&pieces, 0, dtype.cell_bytes(), &mut changes);
            absolute::encode(&changes, dtype.cell_bytes(), &Codec, &mut payload);
            (sums, Profile::Absolute, changes.len())
        }
    };
    let mut segment = Segment::unchanged(cells as u32, sums.base);
    if changes > 0 {
        segment = segment.with_payload(profile, changes as u32, sums.target, &payload).expect("payloads are short");
    } else {
        payload.clear();
    }
    (header(dtype, cells, models, segment), payload)
}

/// A header of one tensor and one segment.
pub fn header(dtype: Dtype, cells: usize, models: Vec<ContextModel>, segment: Segment) -> Header {
    let elements = cells as u64 * dtype.cell_bytes() as u64 * 8 / dtype.element_bits();
    Header {
        base_step: Step(0),
        target_step: Step(1),
        tensors: vec![Tensor { name: "w".into(), dtype, shape: vec![elements] }],
        models,
        segments: vec![segment],
        ..Header::default()
    }
}

/// A dtype whose elements fill cells, by a fuzzed byte.
pub fn dtype(byte: u8) -> Dtype {
    let whole: Vec<_> = Dtype::ALL.iter().filter(|dtype| dtype.element_bits() >= 8).collect();
    *whole[usize::from(byte) % whole.len()]
}
