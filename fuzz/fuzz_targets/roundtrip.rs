//! Any two runs of cells, cut in any way: the patch from one to the other, written and read, gives the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::apply::apply_segment;
use pulse_format::{Header, Limits};
use pulse_fuzz::{Codec, Shape};

fuzz_target!(|input: (Shape, u8, Vec<(u16, u16)>)| {
    let (shape, repeats, cells) = input;
    let side = |cell: fn(&(u16, u16)) -> u16| {
        let bytes: Vec<u8> = cells.iter().flat_map(|pair| cell(pair).to_le_bytes()).collect();
        // Several times over, and now and then hundreds of times, so that a short input can have many blocks.
        let mut bytes = bytes.repeat(usize::from(repeats).pow(3) / 0x1_0000 + 1);
        bytes.truncate(bytes.len() / shape.dtype().cell_bytes() * shape.dtype().cell_bytes());
        bytes
    };
    // Most cells stay: only where the second number is odd does the target differ, by it.
    let (base, target) = (side(|pair| pair.0), side(|pair| if pair.1 & 1 == 1 { pair.0 ^ pair.1 } else { pair.0 }));
    let (mut header, payloads) = shape.encode(&base, &target);
    let bytes = header.write(&Codec).expect("a valid header");
    let read = Header::read(&bytes, &Codec, &Limits::default()).expect("what was written can be read");
    assert_eq!(read, header);
    for (index, (base, target)) in shape.cut(&read, &base).into_iter().zip(shape.cut(&read, &target)).enumerate() {
        assert_eq!(apply_segment(&read, index, &payloads[index], base, &Codec).expect("the patch applies"), target);
    }
});
