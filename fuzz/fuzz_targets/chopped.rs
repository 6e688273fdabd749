//! However a patch is chopped, whole or damaged, the reader says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::{Dtype, Error, Event, Limits, Reader};
use pulse_fuzz::{Codec, encode};

/// Everything a reader said: payloads, whether it ended, and the error.
type Said = (Vec<(usize, Vec<u8>)>, bool, Option<Error>);

fn read(patch: &[u8], mut pieces: impl Iterator<Item = usize>) -> Said {
    let mut reader = Reader::new(Codec, Limits::default());
    let (mut segments, mut ended) = (Vec::new(), false);
    let mut rest = patch;
    loop {
        let (mut now, later) = rest.split_at(pieces.next().unwrap_or(rest.len()).clamp(1, rest.len().max(1)).min(rest.len()));
        rest = later;
        loop {
            match reader.push(&mut now) {
                Ok(Some(Event::Segment { index, payload })) => segments.push((index, payload.to_vec())),
                Ok(Some(Event::End)) => ended = true,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => return (segments, ended, Some(error)),
            }
        }
        if rest.is_empty() {
            return (segments, ended, reader.finish().err());
        }
    }
}

fuzz_target!(|input: (Vec<u16>, Vec<u8>, Option<(u16, u8)>, u16, Vec<u8>)| {
    let (base, changes, damage, cut, sizes) = input;
    if base.is_empty() {
        return;
    }
    let target: Vec<u16> = base.iter().zip(changes.iter().chain(std::iter::repeat(&0))).map(|(cell, change)| cell ^ u16::from(*change)).collect();
    let bytes = |cells: &[u16]| cells.iter().flat_map(|cell| cell.to_le_bytes()).collect::<Vec<u8>>();
    let (mut header, payload) = encode(Dtype::Bf16, &bytes(&base), &bytes(&target), false);
    let mut patch = header.write(&Codec).expect("a valid header");
    patch.extend_from_slice(&payload);
    if let Some((place, bits)) = damage {
        let place = usize::from(place) % patch.len();
        patch[place] ^= bits;
    }
    patch.truncate(patch.len().saturating_sub(usize::from(cut) % 64));
    let whole = read(&patch, std::iter::empty());
    let chopped = read(&patch, sizes.iter().map(|size| usize::from(*size)).chain(std::iter::repeat(1)));
    assert_eq!(whole, chopped);
    if damage.is_none_or(|(_, bits)| bits == 0) && cut % 64 == 0 {
        assert!(whole.1 && whole.2.is_none(), "an undamaged patch is read to its end");
    }
});
