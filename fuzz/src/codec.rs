//! zstd without C, and patches with right hashes around fuzzed bytes.

use pulse_format::{Deflate, Inflate, layout};

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
