//! Any header is refused or survives being written and read again.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::{Header, Limits};
use pulse_fuzz::{Codec, sealed};

fuzz_target!(|raw: &[u8]| {
    // As it is, for the preamble; and as a header with right hashes, for everything behind it.
    let _ = Header::read(raw, &Codec, &Limits::default());
    let Ok(mut header) = Header::read(&sealed(raw, &[]), &Codec, &Limits::default()) else { return };
    let written = header.write(&Codec).expect("what was read can be written");
    assert_eq!(written, sealed(raw, &[]), "there is one way to write a header");
    let cells: u64 =
        (0..header.segments.len()).flat_map(|segment| header.pieces(segment)).map(|piece| u64::from(piece.cells)).sum();
    assert_eq!(cells, header.cells().get(), "pieces cover the segments");
});
