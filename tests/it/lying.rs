//! Small files that claim to be large: what they claim must be earned before memory is taken for it.

use crate::support::inflate::Ruzstd;
use crate::support::memory::peak_of;
use crate::support::paths::push_all;
use crate::support::raw::{RawPatch, RawSegment, RawTensor, bomb, resign, sign, store};
use pulse_encoder::Zstd;
use pulse_format::{Error, Header, Inflate, Limits, SegmentDecoder};

const MIB: usize = 1 << 20;
/// Cells of the largest segment.
const MOST_CELLS: usize = 1 << 22;

/// Reads `patch` in every way, decodes its segments, and holds the memory taken on the way to `most` bytes; returns the code of the error.
fn check(what: &str, patch: &[u8], most: usize) -> &'static str {
    let whole = measured(what, most, || read_whole(patch, &Zstd::default()));
    // Not measured: its window is the test's own to bound.
    let other = read_whole(patch, &Ruzstd);
    let pushed = measured(what, most, || push_all(patch, || 4096, Zstd::default(), |_, _, _| Ok(())));
    assert_eq!(
        whole.as_ref().err().map(Error::code),
        other.as_ref().err().map(Error::code),
        "{what}: the two decoders disagree"
    );
    // What only decoding finds passes a reader, which looks at no payload but for its hash.
    if let Err(error) = pushed {
        assert_eq!(Some(error.code()), whole.as_ref().err().map(Error::code), "{what}");
    }
    whole.err().map_or("none", |error| error.code())
}

fn measured<T>(what: &str, most: usize, work: impl FnOnce() -> T) -> T {
    let (result, peak) = peak_of(work);
    assert!(peak <= most, "{what}: {peak} bytes were taken, at most {most} are due");
    result
}

/// Header, and every segment decoded.
fn read_whole(patch: &[u8], codec: &impl Inflate) -> Result<(), Error> {
    let header = Header::read(patch, codec, &Limits::default())?;
    let mut decoder = SegmentDecoder::default();
    for (index, segment) in header.segments.iter().enumerate() {
        let range = segment.byte_range();
        let payload = patch.get(range.start as usize..).unwrap_or_default();
        let payload = payload.get(..segment.bytes as usize).unwrap_or(payload);
        let segment = header.segment(index)?;
        segment.check_payload(payload)?;
        decoder.decode(&segment, payload, codec)?;
    }
    Ok(())
}

/// One tensor, its cells in one segment, no change.
fn sound(dtype: u8, cells: u64) -> RawPatch {
    RawPatch {
        base_step: Some(0),
        target_step: 1,
        tensors: vec![RawTensor::new(dtype, 0, "t", &[cells])],
        segments: vec![RawSegment { cells, ..RawSegment::default() }],
        ..RawPatch::default()
    }
}

fn changed(patch: impl FnOnce(&mut RawPatch)) -> Vec<u8> {
    let mut raw = sound(1, 1000);
    patch(&mut raw);
    raw.patch()
}

/// One segment of `changes` changes with this payload.
fn segment(dtype: u8, profile: u8, changes: u64, payload: Vec<u8>) -> Vec<u8> {
    let mut raw = sound(dtype, MOST_CELLS as u64);
    let model = (profile == 1).then_some(0);
    // One class that has all changes, one token each, neither with raw bits: a change costs no bit at all.
    raw.models = vec![vec![(20, 4096, [vec![4096], vec![4096]])]];
    raw.segments[0] = RawSegment { profile, model, changes, payload, ..raw.segments[0].clone() };
    raw.patch()
}

#[test]
fn a_sound_patch_takes_little() {
    assert_eq!(check("sound", &sound(1, 1000).patch(), MIB), "none");
}

#[test]
fn counts_without_entries() {
    assert_eq!(check("2^40 tensors", &changed(|patch| patch.extra_tensors = 1 << 40), MIB), "limit");
    assert_eq!(check("2^40 segments", &changed(|patch| patch.extra_segments = 1 << 40), MIB), "limit");
    assert_eq!(check("2^40 models", &changed(|patch| patch.extra_models = 1 << 40), MIB), "damaged");
    assert_eq!(check("2^16 models", &changed(|patch| patch.extra_models = (1 << 16) - 1), MIB), "limit");
    // As many as are allowed, but not there: the bytes that follow are read as entries, and soon are none.
    for code in [
        check("2^20 tensors", &changed(|patch| patch.extra_tensors = (1 << 20) - 1), MIB),
        check("2^20 segments", &changed(|patch| patch.extra_segments = (1 << 20) - 1), MIB),
        check("2^12 models", &changed(|patch| patch.extra_models = (1 << 12) - 1), MIB),
    ] {
        assert!(["truncated", "damaged"].contains(&code), "{code}");
    }
}

#[test]
fn headers_without_bytes() {
    let sound = sound(1, 1000).patch();
    let claim = |packed: u32, raw: u32| {
        let mut patch = sound.clone();
        patch[12..16].copy_from_slice(&packed.to_le_bytes());
        patch[16..20].copy_from_slice(&raw.to_le_bytes());
        patch
    };
    assert_eq!(check("4 GiB of packed header", &claim(u32::MAX, 1000), MIB), "limit");
    assert_eq!(check("4 GiB of raw header", &claim(u32::MAX, u32::MAX), MIB), "limit");
    assert_eq!(check("16 MiB of packed header", &claim(16 << 20, 1000), MIB), "truncated");
    let claimed = resign(claim(sound.len() as u32 - 52, 16 << 20));
    assert_eq!(check("16 MiB of raw header", &claimed, 17 * MIB), "damaged");
    let claimed = resign(claim(sound.len() as u32 - 52, (16 << 20) + 1));
    assert_eq!(check("a byte more", &claimed, MIB), "limit");
}

/// The raw header takes the bytes that the preamble declares, within the limit, and no more, whatever its frame says.
#[test]
fn header_bombs() {
    for (blocks, declared) in [(8000, 1 << 30), (8000, u64::MAX), (8000, 0), (8000, 1000), (1, u64::MAX)] {
        let frame = bomb(blocks, 0, declared);
        for raw_bytes in [16 << 20, 1000, 0] {
            let patch = sign(&frame, raw_bytes, &[]);
            let code =
                check(&format!("{blocks} blocks, {declared} declared"), &patch, raw_bytes as usize + patch.len() + MIB);
            assert_eq!(code, "damaged");
        }
    }
    // A sound bomb: 8 MiB of zeros for 269 bytes, which are no header.
    assert_eq!(check("a sound bomb", &sign(&bomb(64, 0, 64 << 17), 64 << 17, &[]), (64 << 17) + MIB), "damaged");
}

#[test]
fn segments_without_bytes() {
    let claim = |bytes: u64| {
        changed(|patch| {
            let segment = &mut patch.segments[0];
            (segment.profile, segment.changes, segment.declared_bytes) = (2, 5, Some(bytes));
        })
    };
    assert_eq!(check("64 MiB of payload", &claim(64 << 20), MIB), "truncated");
    assert_eq!(check("64 MiB and a byte", &claim((64 << 20) + 1), MIB), "limit");
    assert_eq!(check("4 GiB less a byte", &claim(u32::MAX.into()), MIB), "limit");
}

/// A contextual change may cost no bits, so as many as a segment has cells are decoded, at 6 bytes each, before the end is checked.
#[test]
fn changes_without_bits() {
    let changes = MOST_CELLS as u64;
    // All are of the one class, as expected, and there are neither words nor raw bits.
    let mut payload = vec![0, 0];
    payload.extend([0, 0, 1, 0].repeat(4));
    payload.push(0);
    assert_eq!(
        check("as many changes as cells", &segment(1, 1, changes, payload.clone()), 6 * MOST_CELLS + MIB),
        "none"
    );
    payload.push(1);
    assert_eq!(
        check("and a byte left over", &segment(1, 1, changes, payload.clone()), 6 * MOST_CELLS + MIB),
        "damaged"
    );
    assert_eq!(check("cut", &segment(1, 1, changes, payload[..10].to_vec()), MIB), "truncated");
}

#[test]
fn rans_words_without_bytes() {
    for words in [1 << 20, u64::from(u32::MAX >> 1), u64::from(u32::MAX), u64::MAX] {
        let mut payload = vec![0];
        crate::support::raw::push_varint(&mut payload, words);
        payload.extend([0, 0, 1, 0].repeat(4));
        let code = check("rANS words", &segment(1, 1, 5, payload), MIB);
        assert!(["truncated", "damaged"].contains(&code), "{words} words: {code}");
    }
}

/// A plane may be 4 MiB for a few bytes; with the values of 8 bytes and the positions that is the most a segment can take.
#[test]
fn planes_without_bytes() {
    let changes = MOST_CELLS as u64;
    let most = MOST_CELLS * (8 + 4 + 2) + MIB;
    let plane = |frame: Vec<u8>| {
        let mut plane = vec![1];
        crate::support::raw::push_varint(&mut plane, frame.len() as u64);
        plane.extend(frame);
        plane
    };
    let full = plane(bomb(32, 0, changes));
    assert_eq!(check("stored plane", &segment(14, 2, changes, vec![0; 10]), MIB), "truncated");
    assert_eq!(check("one plane", &segment(14, 2, changes, full.clone()), most), "truncated");
    let all = [full.repeat(9), vec![0]].concat();
    assert_eq!(check("all planes", &segment(14, 2, changes, all), most), "none");
    assert_eq!(check("stored plane of a dense segment", &segment(14, 4, 0, vec![0; 10]), MIB), "truncated");
    assert_eq!(check("all planes of a dense segment", &segment(14, 4, 0, full.repeat(8)), most), "none");
    for (blocks, declared) in [(33, 33 << 17), (31, changes), (8000, 1 << 30), (1, u64::MAX)] {
        let what = format!("plane of {blocks} blocks, {declared} declared");
        assert_eq!(check(&what, &segment(14, 2, changes, plane(bomb(blocks, 0, declared))), most), "damaged");
        // A plane of a hundred bytes whose frame has megabytes.
        assert_eq!(check(&what, &segment(14, 2, 100_000, plane(bomb(blocks, 0, declared))), 2 * MIB), "damaged");
    }
}

/// Raw bits may be four bytes a change for a few bytes.
#[test]
fn raw_bits_without_bytes() {
    let changes = MOST_CELLS as u64;
    let packed = |blocks: usize, declared: u64| {
        let mut bits = vec![1];
        crate::support::raw::push_varint(&mut bits, declared);
        bits.extend(bomb(blocks, 0, declared));
        bits
    };
    let mut contextual = vec![0, 0];
    contextual.extend([0, 0, 1, 0].repeat(4));
    // Planes of zeros: gaps of 0, which have no raw bits.
    let mut plane = vec![1];
    let frame = bomb(32, 0, changes);
    crate::support::raw::push_varint(&mut plane, frame.len() as u64);
    plane.extend(frame);
    for (what, profile, front, most) in [
        ("contextual", 1, contextual, MOST_CELLS * (4 + 6)),
        ("absolute", 2, plane.repeat(3), MOST_CELLS * (2 + 1 + 4 + 4)),
    ] {
        let payload = |bits: Vec<u8>| [front.clone(), bits].concat();
        let of = |bits: Vec<u8>| segment(1, profile, changes, payload(bits));
        assert_eq!(check(what, &of(packed(128, 4 * changes)), most + MIB), "damaged");
        assert_eq!(check(what, &of(packed(128, 4 * changes + 1)), most + MIB), "damaged");
        assert_eq!(check(what, &of(packed(8000, 1000)), most + MIB), "damaged");
    }
}

/// Names share all but their last letter, and each entry of 8 bytes becomes a string of 4 KiB.
#[test]
fn names_that_share_nearly_everything() {
    let mut patch = sound(8, 1);
    patch.tensors.clear();
    let mut previous = vec![b'a'; 4096];
    patch.tensors.push(RawTensor { dtype: 8, shared: 0, suffix: previous.clone(), shape: vec![0] });
    for number in 1..20_000u32 {
        let mut name = vec![b'a'; 4096];
        for (place, digit) in (0..).zip([number / 26 / 26 / 26, number / 26 / 26, number / 26, number]) {
            name[4092 + place] = b'a' + (digit % 26) as u8;
        }
        let shared = previous.iter().zip(&name).take_while(|(a, b)| a == b).count();
        patch.tensors.push(RawTensor {
            dtype: 8,
            shared: shared as u64,
            suffix: name[shared..].to_vec(),
            shape: vec![0],
        });
        previous = name;
    }
    patch.segments.clear();
    let raw = patch.raw();
    // `Limits` allows 16 MiB of names, and a growing table is copied as it grows.
    let code = check("20,000 names of 4 KiB", &patch.patch(), 64 * raw.len() + 40 * MIB);
    assert!(["none", "limit"].contains(&code), "{code}");
}

/// A model without a class is 4 bytes.
#[test]
fn models_of_nothing() {
    let mut patch = sound(1, 1000);
    patch.models = vec![vec![]; 65_536];
    let raw = patch.raw();
    let code = check("65,536 models of nothing", &patch.patch(), 64 * raw.len() + MIB);
    assert!(["none", "limit", "damaged"].contains(&code), "{code}");
}

/// The densest tables that a header can hold: their memory stays in proportion to its bytes.
#[test]
fn tables_of_short_entries() {
    let mut patch = sound(8, 1 << 30);
    let cell = RawSegment { cells: 1024, ..RawSegment::default() };
    patch.segments = vec![cell; 1 << 20];
    let raw = patch.raw();
    assert_eq!(check("2^20 segments", &patch.patch(), 64 * raw.len() + MIB), "none");
    let packed = store(&raw);
    assert_eq!(
        check("the same, cut", &sign(&packed[..packed.len() / 2], raw.len() as u64, &[]), 2 * raw.len() + MIB),
        "damaged"
    );
    let mut patch = sound(8, 1);
    patch.segments.clear();
    // "a" to "~", each in front of as many again: two bytes a name at most.
    let letters = b'!'..=b'~';
    patch.tensors = letters
        .clone()
        .flat_map(|first| letters.clone().map(move |second| [first, second]))
        .map(|name| RawTensor {
            dtype: 8,
            shared: u64::from(name[1] > b'!'),
            suffix: name[usize::from(name[1] > b'!')..].to_vec(),
            shape: vec![0; 16],
        })
        .collect();
    let raw = patch.raw();
    assert_eq!(check("8,836 tensors", &patch.patch(), 64 * raw.len() + MIB), "none");
}
