//! The one codec the format borrows: zstd, passed in by the caller (the C library natively, a Rust one in wasm).

use crate::bytes::push_varint;
use crate::layout::{METHOD_STORED, METHOD_ZSTD};
use alloc::vec::Vec;

/// Compresses to one zstd frame.
pub trait Deflate {
    /// The frame; `None` if the library fails.
    fn deflate(&self, raw: &[u8]) -> Option<Vec<u8>>;
}

/// Decompresses one zstd frame.
pub trait Inflate {
    /// The content, if `frame` is exactly one frame of exactly `length` bytes. Takes no more memory than a small multiple
    /// of `length`, whatever the frame says.
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>>;
}

/// Appends bytes of a payload: a method, and they themselves, or, where that is smaller, a length and a frame. `length` chooses it of the
/// two that a reader may lack, that of the bytes and that of the frame.
pub(crate) fn push_packed(
    bytes: &[u8],
    codec: &impl Deflate,
    length: impl FnOnce(usize, usize) -> usize,
    out: &mut Vec<u8>,
) {
    match deflate(bytes, codec) {
        Some(frame) => {
            out.push(METHOD_ZSTD);
            push_varint(out, length(bytes.len(), frame.len()) as u64);
            out.extend_from_slice(&frame);
        }
        None => {
            out.push(METHOD_STORED);
            out.extend_from_slice(bytes);
        }
    }
}

/// The frame of `bytes`, if it is smaller.
fn deflate(bytes: &[u8], codec: &impl Deflate) -> Option<Vec<u8>> {
    /// No frame has fewer bytes.
    const SMALLEST_FRAME: usize = 10;
    let worth = bytes.len() > SMALLEST_FRAME;
    worth.then(|| codec.deflate(bytes)).flatten().filter(|frame| frame.len() < bytes.len())
}
