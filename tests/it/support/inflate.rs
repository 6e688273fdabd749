//! The zstd decoder that has no C in it.

use pulse_format::Inflate;
use ruzstd::decoding::{BlockDecodingStrategy, FrameDecoder};

/// Content taken per turn, so that a frame that lies about its length is noticed early.
const TURN_BYTES: usize = 128 << 10;

/// zstd by `ruzstd`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ruzstd;

impl Inflate for Ruzstd {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut source = frame;
        let mut decoder = FrameDecoder::new();
        // A single segment's window is its content; 1 KiB is the smallest window a frame can declare otherwise.
        decoder.set_max_window_size(length.max(8 << 20) as u64);
        decoder.init(&mut source).ok()?;
        let mut content = Vec::with_capacity(length);
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
