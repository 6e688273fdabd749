//! zstd by its C library.

use pulse_format::{Deflate, Inflate};
use std::cell::RefCell;
use zstd::bulk::Compressor;

/// Both directions; level 12 for compression, since what is compressed is small.
#[derive(Debug, Clone, Copy)]
pub struct Zstd {
    level: i32,
}

impl Default for Zstd {
    fn default() -> Self {
        Self { level: 12 }
    }
}

impl Zstd {
    /// For byte planes, which are larger than headers and gain nothing from a higher level.
    pub(crate) const PLANES: Self = Self { level: 3 };
    /// To learn about how small something will be, and for what rarely gets smaller.
    pub(crate) const PROBE: Self = Self { level: 1 };
}

impl Deflate for Zstd {
    fn deflate(&self, raw: &[u8]) -> Option<Vec<u8>> {
        // Making a context takes longer than compressing the few kilobytes of a plane.
        thread_local! {
            static COMPRESSOR: RefCell<Option<Compressor<'static>>> = const { RefCell::new(None) };
        }
        COMPRESSOR.with_borrow_mut(|compressor| {
            if compressor.is_none() {
                *compressor = Some(Compressor::new(self.level).ok()?);
            }
            let compressor = compressor.as_mut()?;
            compressor.set_compression_level(self.level).ok()?;
            compressor.compress(raw).ok()
        })
    }
}

impl Inflate for Zstd {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        // The library would go on to further frames, and take none for an empty one.
        if zstd::zstd_safe::find_frame_compressed_size(frame).ok()? != frame.len() {
            return None;
        }
        // Decodes straight into a buffer of `length` bytes: the window needs no memory of its own, and longer content fails.
        let content = zstd::bulk::decompress(frame, length).ok()?;
        (content.len() == length).then_some(content)
    }
}
