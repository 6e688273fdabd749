//! zstd in pure Rust, for wasm as for native.

use pulse_format::Inflate;
use ruzstd::io::Read as _;

/// Decompresses by `ruzstd`; never yields, nor takes memory for, more than was asked for.
#[derive(Debug, Clone, Copy, Default)]
pub struct Zstd;

impl Inflate for Zstd {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut rest = frame;
        let mut decoder = ruzstd::decoding::StreamingDecoder::new(&mut rest).ok()?;
        let mut out = Vec::new();
        let mut chunk = [0; 1 << 12];
        loop {
            let read = decoder.read(&mut chunk).ok()?;
            if read == 0 {
                break;
            }
            if out.len() + read > length {
                return None;
            }
            out.extend_from_slice(chunk.get(..read)?);
        }
        drop(decoder);
        (out.len() == length && rest.is_empty()).then_some(out)
    }
}
