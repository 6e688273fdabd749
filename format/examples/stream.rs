//! Reads a patch as it arrives, in pieces of any size, and applies each segment as soon as it is there.
//!
//! `cargo run -p pulse-format --example stream [PATCH.pulse]`; without arguments a small patch of this repository's tests is read. Cells are
//! not touched: `cargo run -p pulse-encoder --example step` applies one.

use pulse_format::{Error, Event, Limits, Reader, SegmentDecoder};
use ruzstd::decoding::FrameDecoder;

/// The frames of this example's patch are read with ruzstd, as in wasm; any zstd will do.
struct Zstd;

impl pulse_format::Inflate for Zstd {
    fn inflate(&self, frame: &[u8], length: usize) -> Option<Vec<u8>> {
        let mut content = Vec::with_capacity(length);
        FrameDecoder::new().decode_all_to_vec(frame, &mut content).ok()?;
        (content.len() == length).then_some(content)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let bytes = match std::env::args().nth(1) {
        Some(path) => std::fs::read(path)?,
        None => include_bytes!("../../tests/vectors/v1/mixed.pulse").to_vec(),
    };
    read(bytes.chunks(100))?;
    Ok(())
}

fn read<'a>(chunks: impl Iterator<Item = &'a [u8]>) -> Result<(), Error> {
    let mut reader = Reader::new(Zstd, Limits::default());
    let mut decoder = SegmentDecoder::default();
    for chunk in chunks {
        let mut rest = chunk;
        while let Some(event) = reader.push(&mut rest)? {
            match event {
                Event::Header => println!("a header whose hash is right, every rule checked"),
                Event::Segment { index, payload } => {
                    println!("segment {index}: {} bytes, their hash right", payload.len());
                    let payload = payload.to_vec();
                    if let Some(header) = reader.header() {
                        println!("  {} changes", decoder.decode(&header.segment(index)?, &payload, &Zstd)?.len());
                    }
                }
                _ => println!("complete"),
            }
        }
    }
    reader.finish()
}
