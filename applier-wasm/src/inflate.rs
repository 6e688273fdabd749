//! zstd in pure Rust, for wasm as for native.

use pulse_format::Inflate;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Content taken per turn, so that a frame that lies about its length is noticed early.
const TURN_BYTES: usize = 128 << 10;
/// What a frame of little content may declare as its window: encoders do not cut it to the content.
const LEAST_WINDOW_BYTES: usize = 8 << 20;

/// Decompresses by `ruzstd`; never yields more than was asked for, and takes memory for content only as it comes.
#[derive(Debug, Clone, Copy, Default)]
pub struct Zstd;

impl Inflate for Zstd {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut source = frame;
        // Not its streaming reader: that keeps the words of every error it may box.
        let mut decoder = FrameDecoder::new();
        decoder.set_max_window_size(length.max(LEAST_WINDOW_BYTES) as u64);
        decoder.init(&mut source).ok()?;
        let mut content = Vec::new();
        while !decoder.is_finished() {
            decoder.decode_blocks(&mut source, BlockDecodingStrategy::UptoBytes(TURN_BYTES)).ok()?;
            content.extend(decoder.collect().unwrap_or_default());
            if content.len() > length {
                return None;
            }
        }
        (source.is_empty() && content.len() == length).then_some(content)
    }
}
