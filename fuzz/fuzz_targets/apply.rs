//! Any payload gives the same by the reference and by the fast path: the same refusal, or the same cells.
#![no_main]

use libfuzzer_sys::fuzz_target;
use pulse_format::apply::{apply_segment, segment_fingerprint};
use pulse_format::contextual::{ContextualChanges, ContextualDecoder};
use pulse_format::model::{ContextModel, Histogram};
use pulse_format::place::{AbsolutePlacer, ContextualPlacer};
use pulse_format::{Header, Profile, Segment, absolute, with_float_cell};
use pulse_fuzz::{Codec, dtype, header};

fuzz_target!(|input: (u8, bool, u16, Vec<(u8, u8, u8, u8)>, Vec<u8>, Vec<u8>)| {
    let (dtype_byte, absolute_only, changes, tokens, mut base, payload) = input;
    let dtype = dtype(dtype_byte);
    base.truncate(base.len() / dtype.cell_bytes() * dtype.cell_bytes());
    let cells = base.len() / dtype.cell_bytes();
    if cells == 0 {
        return;
    }
    let contextual = dtype.float_format().is_some() && !absolute_only;
    let profile = if contextual { Profile::Contextual { model: 0 } } else { Profile::Absolute };
    let segment = Segment::unchanged(cells as u32, Default::default());
    let Ok(segment) = segment.with_payload(profile, u32::from(changes), Default::default(), &payload) else { return };
    let mut header = header(dtype, cells, vec![model(&tokens)], segment);
    header.segments[0].base = segment_fingerprint(&header, 0, &base);
    let fast = fast_path(&header, &payload, &base);
    if let Some(cells) = &fast {
        header.segments[0].target = segment_fingerprint(&header, 0, cells);
    }
    if header.write(&Codec).is_err() {
        return;
    }
    let reference = apply_segment(&header, 0, &payload, &base, &Codec);
    assert_eq!(reference.ok(), fast);
});

fn model(tokens: &[(u8, u8, u8, u8)]) -> ContextModel {
    let mut histogram = Histogram::default();
    for (class, gap, step, count) in tokens {
        let class = usize::from(class % 32);
        histogram.gaps[class][usize::from(*gap) % histogram.gaps[class].len()] += u32::from(*count) + 1;
        histogram.steps[class][usize::from(*step) % histogram.steps[class].len()] += u32::from(*count) + 1;
    }
    ContextModel::from_histogram(&histogram)
}

fn fast_path(header: &Header, payload: &[u8], base: &[u8]) -> Option<Vec<u8>> {
    let segment = &header.segments[0];
    let dtype = header.tensors[0].dtype;
    let mut cells = base.to_vec();
    if segment.changes == 0 || segment.changes > segment.cells || payload.is_empty() {
        return None;
    }
    let sums = if segment.profile == Profile::Absolute {
        let changes = absolute::decode(payload, segment.cells, segment.changes, dtype.cell_bytes(), &Codec).ok()?;
        let mut placer = AbsolutePlacer::new(&changes, dtype.cell_bytes(), header.seed);
        placer.place(&mut cells, 0, 0);
        placer.finish()?
    } else {
        let mut changes = ContextualChanges::default();
        ContextualDecoder::default().decode(header, 0, payload, &mut changes).ok()?;
        let mut placer = ContextualPlacer::new(&changes, header.seed);
        with_float_cell!(dtype.float_format()?, C => placer.place::<C>(&mut cells, 0, 0));
        placer.finish()?
    };
    assert_eq!(sums.base, segment_fingerprint(header, 0, base));
    assert_eq!(sums.target, segment_fingerprint(header, 0, &cells));
    Some(cells)
}
