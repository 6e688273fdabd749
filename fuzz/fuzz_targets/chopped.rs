//! However a patch is chopped, whole or damaged, the reader says the same.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::{Error, Event, Limits, Reader};
use pulse_fuzz::{Codec, Shape};

/// Everything a reader said: payloads, whether it ended, and the error.
type Said = (Vec<(usize, Vec<u8>)>, bool, Option<Error>);

fn read(patch: &[u8], mut pieces: impl Iterator<Item = usize>) -> Said {
    let mut reader = Reader::new(Codec, Limits::default());
    let (mut segments, mut ended) = (Vec::new(), false);
    let mut rest = patch;
    loop {
        let (mut now, later) = rest.split_at(pieces.next().unwrap_or(rest.len()).min(rest.len()));
        rest = later;
        loop {
            match reader.push(&mut now) {
                Ok(Some(Event::Segment { index, payload })) => segments.push((index, payload.to_vec())),
                Ok(Some(Event::End)) => ended = true,
                Ok(Some(_)) => {}
                Ok(None) => break,
                Err(error) => {
                    assert_eq!(reader.finish(), Err(error.clone()), "an error stays");
                    return (segments, ended, Some(error));
                }
            }
        }
        assert!(now.is_empty(), "all input is used");
        if rest.is_empty() {
            return (segments, ended, reader.finish().err());
        }
    }
}

fuzz_target!(|input: (Shape, Vec<u16>, Vec<u8>, Option<(u16, u8)>, u8, Vec<u8>)| {
    let (shape, base, changes, damage, cut, sizes) = input;
    let changes = changes.iter().chain(std::iter::repeat(&0));
    let target = base.iter().zip(changes).map(|(cell, change)| cell ^ u16::from(*change));
    let bytes = |cells: &mut dyn Iterator<Item = u16>| {
        let mut bytes: Vec<u8> = cells.flat_map(u16::to_le_bytes).collect();
        bytes.truncate(bytes.len() / shape.dtype().cell_bytes() * shape.dtype().cell_bytes());
        bytes
    };
    let (mut header, payloads) = shape.encode(&bytes(&mut base.iter().copied()), &bytes(&mut { target }));
    let mut patch = header.write(&Codec).expect("a valid header");
    payloads.iter().for_each(|payload| patch.extend_from_slice(payload));
    assert_eq!(patch.len() as u64, header.patch_bytes().get());
    let sound = patch.clone();
    if let Some((place, bits)) = damage {
        let place = usize::from(place) % patch.len();
        patch[place] ^= bits;
    }
    patch.truncate(patch.len().saturating_sub(cut.into()));
    let whole = read(&patch, std::iter::empty());
    // Pieces of nothing too; then byte by byte.
    let chopped = read(&patch, sizes.iter().map(|size| usize::from(*size)).chain(std::iter::repeat(1)));
    assert_eq!(whole, chopped);
    if patch == sound {
        let expected = payloads.into_iter().enumerate().filter(|(_, payload)| !payload.is_empty());
        assert_eq!(whole, (expected.collect(), true, None), "a sound patch is read to its end");
    } else {
        assert!(!whole.1 && whole.2.is_some(), "damage is found");
    }
});
