//! One zstd frame at a time, at the level that all these systems use.

use zstd::bulk::{Compressor, Decompressor};
use zstd::zstd_safe::{compress_bound, find_frame_compressed_size, get_frame_content_size};

use crate::Error;
use crate::limits::Budget;

const LEVEL: i32 = 1;
const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();

/// Negated `ZSTD_error_srcSize_wrong`, which zstd promises to keep: the frame goes on after the last byte.
const CUT_SHORT: usize = 72_usize.wrapping_neg();

/// Output a reader allocates for each input byte without asking how much there will be.
const EARNED_RATIO: usize = 64;
const EARNED_LEAST: usize = 1 << 16;

/// Writes frames into a buffer that is kept between calls.
pub(crate) struct FrameWriter {
    compressor: Compressor<'static>,
    buffer: Vec<u8>,
}

impl FrameWriter {
    pub(crate) fn new() -> Result<Self, Error> {
        let compressor = Compressor::new(LEVEL).map_err(|error| encoder_failed(&error))?;
        Ok(Self { compressor, buffer: Vec::new() })
    }

    /// Compresses `bytes`; the frame is valid until the next call.
    pub(crate) fn compress(&mut self, bytes: &[u8]) -> Result<&[u8], Error> {
        self.buffer.clear();
        self.buffer.reserve(compress_bound(bytes.len()));
        self.compressor.compress_to_buffer(bytes, &mut self.buffer).map_err(|error| encoder_failed(&error))?;
        Ok(&self.buffer)
    }
}

fn encoder_failed(error: &std::io::Error) -> Error {
    Error::misuse(format!("the zstd encoder failed: {error}"))
}

/// Compresses `bytes` into one frame.
pub(crate) fn compress(bytes: &[u8]) -> Result<Vec<u8>, Error> {
    zstd::bulk::compress(bytes, LEVEL).map_err(|error| encoder_failed(&error))
}

/// Checks that `bytes` is exactly one frame: all of it, and nothing behind it.
fn check_frame(bytes: &[u8], at: &str) -> Result<(), Error> {
    match bytes.first_chunk() {
        None => return Err(Error::truncated(at, MAGIC.len(), bytes.len())),
        Some(&MAGIC) => {}
        Some(other) => return Err(Error::damaged(at, format!("no zstd frame: it begins with {other:02x?}"))),
    }
    match find_frame_compressed_size(bytes) {
        Ok(len) if len == bytes.len() => Ok(()),
        Ok(len) => Err(Error::damaged(at, format!("{} bytes after the zstd frame", bytes.len().saturating_sub(len)))),
        Err(CUT_SHORT) => Err(Error::truncated(at, bytes.len().saturating_add(1), bytes.len())),
        Err(_) => Err(Error::damaged(at, "malformed zstd frame")),
    }
}

/// Decompresses a frame of at most `max_len` bytes.
///
/// A frame can claim any size, so the buffer starts with what the input's length makes plausible and doubles.
pub(crate) fn decompress(bytes: &[u8], max_len: u64, budget: &mut Budget, at: &str) -> Result<Vec<u8>, Error> {
    check_frame(bytes, at)?;
    let declared = get_frame_content_size(bytes).map_err(|_| Error::damaged(at, "malformed zstd frame header"))?;
    if declared.is_some_and(|len| len > max_len) {
        let len = declared.unwrap_or(u64::MAX);
        return Err(Error::damaged(at, format!("a zstd frame of {len} bytes where at most {max_len} belong")));
    }
    let most = usize::try_from(declared.unwrap_or(max_len)).unwrap_or(usize::MAX);
    let mut decompressor =
        Decompressor::new().map_err(|error| Error::misuse(format!("the zstd decoder failed: {error}")))?;
    let mut capacity = most.min(bytes.len().saturating_mul(EARNED_RATIO).max(EARNED_LEAST));
    budget.spend(capacity as u64)?;
    loop {
        let mut out = Vec::with_capacity(capacity);
        match decompressor.decompress_to_buffer(bytes, &mut out) {
            Ok(_) => return Ok(out),
            Err(_) if capacity < most => {
                let larger = most.min(capacity.saturating_mul(2));
                budget.spend(larger.saturating_sub(capacity) as u64)?;
                capacity = larger;
            }
            Err(error) => return Err(Error::damaged(at, format!("zstd: {error}"))),
        }
    }
}

/// Decompresses a frame that must fill `out` exactly.
pub(crate) fn decompress_into(
    decompressor: &mut Decompressor<'_>,
    bytes: &[u8],
    out: &mut [u8],
    at: &str,
) -> Result<(), Error> {
    check_frame(bytes, at)?;
    match decompressor.decompress_to_buffer(bytes, out) {
        Ok(len) if len == out.len() => Ok(()),
        Ok(len) => Err(Error::damaged(at, format!("{len} bytes decompressed where {} belong", out.len()))),
        Err(error) => Err(Error::damaged(at, format!("zstd: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Limits;

    fn read(bytes: &[u8], max_len: u64, max_bytes: u64) -> Result<Vec<u8>, Error> {
        decompress(bytes, max_len, &mut Budget::new(&Limits { max_bytes, ..Limits::default() }), "frame")
    }

    #[test]
    fn frames_round_trip_at_any_ratio() {
        for len in [0, 1, 1000, 3 << 20] {
            let bytes = vec![7; len];
            let frame = compress(&bytes).unwrap();
            assert_eq!(read(&frame, u64::MAX, 1 << 30).unwrap(), bytes);
            let mut writer = FrameWriter::new().unwrap();
            assert_eq!(writer.compress(&bytes).unwrap(), frame);
        }
    }

    #[test]
    fn a_frame_of_undeclared_size_is_read() {
        let bytes = vec![7; 3 << 20];
        let frame = zstd::stream::encode_all(&bytes[..], LEVEL).unwrap();
        assert_eq!(get_frame_content_size(&frame).unwrap(), None);
        assert_eq!(read(&frame, 1 << 40, 1 << 30).unwrap(), bytes);
    }

    #[test]
    fn a_bomb_meets_the_limits() {
        let frame = compress(&vec![0; 1 << 24]).unwrap();
        assert_eq!(read(&frame, u64::MAX, 1 << 20).unwrap_err().code(), "limit");
        assert_eq!(read(&frame, 1 << 20, 1 << 30).unwrap_err().code(), "damaged");
    }

    #[test]
    fn cut_and_extended_frames_are_told_apart() {
        let mut frame = compress(b"a frame that is cut at every byte").unwrap();
        for len in 0..frame.len() {
            assert_eq!(read(&frame[..len], 100, 1 << 20).unwrap_err().code(), "truncated", "{len}");
        }
        frame.push(0);
        assert_eq!(read(&frame, 100, 1 << 20).unwrap_err(), Error::damaged("frame", "1 bytes after the zstd frame"));
        assert_eq!(read(b"not zstd", 100, 1 << 20).unwrap_err().code(), "damaged");
    }
}
