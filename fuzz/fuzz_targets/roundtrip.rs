//! Any two runs of cells, cut in any way: the patch from one to the other, written and read, gives the other.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::apply::apply_segment;
use pulse_format::{Header, Limits};
use pulse_fuzz::{Codec, Shape};

/// More than the scan takes at once, few enough to be quick.
const MOST_UNITS: usize = 10 << 10;

fuzz_target!(|input: (Shape, Vec<(u16, u16, u8)>)| {
    let (shape, units) = input;
    // Some units stand for thousands of cells, so that a short input can have many blocks.
    let repeats = |times: u8| 1usize << (times / 18);
    let side = |unit: fn(u16, u16) -> u16| {
        let all =
            units.iter().flat_map(|(base, change, times)| std::iter::repeat_n(unit(*base, *change), repeats(*times)));
        let mut bytes: Vec<u8> = all.take(MOST_UNITS).flat_map(u16::to_le_bytes).collect();
        bytes.truncate(bytes.len() / shape.dtype().cell_bytes() * shape.dtype().cell_bytes());
        bytes
    };
    // Most cells stay: only where the change is odd does the target differ, by it.
    let (base, target) =
        (side(|base, _| base), side(|base, change| if change & 1 == 1 { base ^ change } else { base }));
    let (mut header, payloads) = shape.encode(&base, &target);
    let bytes = header.write(&Codec).expect("a valid header");
    let read = Header::read(&bytes, &Codec, &Limits::default()).expect("what was written can be read");
    assert_eq!(read, header);
    for (index, (base, target)) in shape.cut(&read, &base).into_iter().zip(shape.cut(&read, &target)).enumerate() {
        assert_eq!(apply_segment(&read, index, &payloads[index], base, &Codec).expect("the patch applies"), target);
    }
});
