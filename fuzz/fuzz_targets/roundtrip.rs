//! Any two runs of cells: the patch from one to the other, written and read, gives the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::apply::apply_segment;
use pulse_format::{Header, Limits};
use pulse_fuzz::{Codec, dtype, encode};

fuzz_target!(|input: (u8, bool, Vec<(u16, u16)>)| {
    let (dtype_byte, absolute_only, cells) = input;
    let dtype = dtype(dtype_byte);
    let side = |cell: fn(&(u16, u16)) -> u16| {
        let mut bytes: Vec<u8> = cells.iter().flat_map(|pair| cell(pair).to_le_bytes()).collect();
        bytes.truncate(bytes.len() / dtype.cell_bytes() * dtype.cell_bytes());
        bytes
    };
    // Most cells stay: only where the second number is odd does the target differ, by it.
    let (base, target) = (side(|pair| pair.0), side(|pair| if pair.1 & 1 == 1 { pair.0 ^ pair.1 } else { pair.0 }));
    if base.is_empty() {
        return;
    }
    let (mut header, payload) = encode(dtype, &base, &target, absolute_only);
    let bytes = header.write(&Codec).expect("a valid header");
    let read = Header::read(&bytes, &Codec, &Limits::default()).expect("what was written can be read");
    assert_eq!(read, header);
    assert_eq!(apply_segment(&read, 0, &payload, &base, &Codec).expect("the patch applies"), target);
});
