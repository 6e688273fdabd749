//! Any payload gives the same by the reference and by the fast path: the same refusal, or the same cells.
#![no_main]

use libfuzzer_sys::arbitrary::{self, Arbitrary};
use libfuzzer_sys::fuzz_target;
use pulse_format::apply::{apply_segment, segment_fingerprint};
use pulse_format::masks::Portable;
use pulse_format::model::{ContextModel, Histogram};
use pulse_format::{Error, Header, Placer, Profile, Segment, SegmentDecoder};
use pulse_fuzz::{Codec, Shape};

/// Where payloads come from.
#[derive(Debug, Arbitrary)]
enum Source {
    /// Nowhere: any bytes, under any model.
    Invented { changes: u16, tokens: Vec<(u8, u8, u8, u8)>, payload: Vec<u8> },
    /// The encoder, for a target that differs in these bytes; then some bytes of each payload are changed or added.
    Edited { changes: Vec<(u16, u8)>, edits: Vec<(u16, u8)> },
}

fuzz_target!(|input: (Shape, Source, u8, Vec<u8>)| {
    let (shape, source, repeats, base) = input;
    let mut base = base.repeat(usize::from(repeats % 64) + 1);
    base.truncate(base.len() / shape.dtype().cell_bytes() * shape.dtype().cell_bytes());
    match source {
        Source::Invented { changes, tokens, payload } => {
            let mut header = shape.header(base.len() / shape.dtype().cell_bytes());
            header.models = vec![model(&tokens)];
            let profile = match () {
                () if shape.is_dense() => Profile::Dense,
                () if shape.is_contextual() => Profile::Contextual { model: 0 },
                () if shape.is_relative() => Profile::Relative,
                () => Profile::Absolute,
            };
            for (index, base) in shape.cut(&header.clone(), &base).into_iter().enumerate() {
                check(&shape, &header, index, (profile, changes.into()), &payload, base);
            }
        }
        Source::Edited { changes, edits } => {
            let mut target = base.clone();
            for (place, bits) in changes.iter().filter(|_| !base.is_empty()) {
                target[usize::from(*place) % base.len()] ^= bits;
            }
            let (header, payloads) = shape.encode(&base, &target);
            let targets = shape.cut(&header, &target);
            for (index, base) in shape.cut(&header, &base).into_iter().enumerate() {
                let Segment { profile, changes, .. } = header.segments[index];
                if profile == Profile::Unchanged {
                    continue;
                }
                let mut payload = payloads[index].clone();
                for (place, bits) in &edits {
                    let place = usize::from(*place) % (payload.len() + 1);
                    payload.get_mut(place).map(|byte| *byte ^= bits).unwrap_or_else(|| payload.push(*bits));
                }
                let found = check(&shape, &header, index, (profile, changes), &payload, base);
                if payload == payloads[index] {
                    assert_eq!(found.as_deref(), Some(targets[index]), "an untouched payload gives the target");
                }
            }
        }
    }
});

/// Both paths, with the hash and the fingerprints that fit. Only cells that `payload` gives are a target.
fn check(
    shape: &Shape,
    header: &Header,
    index: usize,
    (profile, changes): (Profile, u32),
    payload: &[u8],
    base: &[u8],
) -> Option<Vec<u8>> {
    let mut header = header.clone();
    let Segment { cells, tensor, first_cell, .. } = header.segments[index];
    let segment = Segment::unchanged(cells, segment_fingerprint(&header, index, base));
    let segment = segment.with_payload(profile, changes, Default::default(), payload).ok()?;
    header.segments[index] = Segment { tensor, first_cell, ..segment };
    // A header that no reader lets through promises nothing.
    header.write(&Codec).ok()?;
    let mut fast = fast_path(shape, &header, index, payload, base);
    if let Err(Error::WrongTarget { found, .. }) = fast {
        header.segments[index].target = found;
        fast = fast_path(shape, &header, index, payload, base);
    }
    assert_eq!(apply_segment(&header, index, payload, base, &Codec), fast);
    fast.ok()
}

fn model(tokens: &[(u8, u8, u8, u8)]) -> ContextModel {
    let mut histogram = Histogram::default();
    for (class, gap, step, count) in tokens {
        let class = usize::from(class % 32);
        let (gaps, steps) = (&mut histogram.gaps[class], &mut histogram.steps[class]);
        gaps[usize::from(*gap) % gaps.len()] += u32::from(*count) + 1;
        steps[usize::from(*step) % steps.len()] += u32::from(*count) + 1;
    }
    ContextModel::from_histogram(&histogram)
}

fn fast_path(shape: &Shape, header: &Header, index: usize, payload: &[u8], base: &[u8]) -> Result<Vec<u8>, Error> {
    let segment = header.segment(index)?;
    let width = shape.dtype().cell_bytes();
    let mut cells = base.to_vec();
    let mut rest = &mut cells[..];
    let mut runs = Vec::new();
    for piece in segment.pieces() {
        let bytes = rest.split_off_mut(..piece.cells as usize * width).expect("pieces cover the segment");
        let first_words = (piece.first_cell.get() * width as u64 / 4..).step_by(shape.run_cells() * width / 4);
        let tensor = piece.tensor as u32;
        runs.extend(
            bytes.chunks_mut(shape.run_cells() * width).zip(first_words).map(|(run, word)| (run, tensor, word)),
        );
    }
    let mut decoder = SegmentDecoder::default();
    let changes = decoder.decode(&segment, payload, &Codec)?;
    let mut placer = Placer::new(segment, changes);
    runs.into_iter().for_each(|(run, tensor, first_word)| placer.place(Portable, run, tensor, first_word));
    let sums = placer.finish()?;
    assert_eq!(sums.base, segment_fingerprint(header, index, base));
    assert_eq!(sums.target, segment_fingerprint(header, index, &cells));
    Ok(cells)
}
