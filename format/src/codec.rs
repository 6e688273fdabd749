//! The one codec the format borrows: zstd, passed in by the caller (the C library natively, a Rust one in wasm).

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
