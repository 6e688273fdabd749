//! For every format of another system: any bytes are refused or applied, whole and within their limits; what is written is read.
#![no_main]

// Counts what the reader holds, as the tests do.
#[path = "../../tests/it/support/memory.rs"]
mod memory;

use libfuzzer_sys::arbitrary::{self, Arbitrary, Unstructured};
use libfuzzer_sys::fuzz_target;
use pulse_interop::{Checkpoint, Limits, PatchFormat, SparsePatch, Steps, Tensor, all};

const STEPS: Steps = Steps { base: 41, target: 42 };

/// What all seeds are patches of.
const SEED_BASE: (&[u16], &[u16]) = (&[0x0000, 0x3F80, 0x4000, 0x4040], &[0x3FC0, 0xC020, 0x0000]);

/// A reader may hold this much for errors' texts and its own fixed tables, and so much more for each byte of the patch.
const SLACK: (usize, usize) = (4 << 10, 4);

/// Each name begins with the one before, so that it looks like a part of that.
const SUFFIXES: [&str; 7] = [".indices", ".values", ".idx", ".val", "\"\\\n", "\u{fc}", "x"];

/// A pair of checkpoints, and what happens to the patch between them.
#[derive(Debug, Arbitrary)]
struct Input {
    tensors: Vec<(u8, Option<u8>, Vec<Unit>)>,
    /// Bytes that change in the patch, and in what its last frame holds.
    edits: Vec<(u16, u8)>,
    inner_edits: Vec<(u16, u8)>,
}

/// Some equal cells, of which the first changes by these bits.
#[derive(Debug, Arbitrary)]
struct Unit {
    cell: u16,
    change: u16,
    /// 0 to 14, for one cell to 16 Ki.
    log_count: u8,
}

fuzz_target!(|data: &[u8]| {
    let Some((&choice, rest)) = data.split_first() else { return };
    let formats = all();
    let format = formats[usize::from(choice / 4) % formats.len()].as_ref();
    // Half of the runs may spend no more than a header of that length costs.
    let room = if choice & 2 == 0 { 0 } else { 1 << 20 };
    if choice & 1 == 0 {
        let tensor = |name, shape: &[u64], cells| Tensor { name, shape: shape.to_vec(), cells };
        let base = vec![tensor("w.a", &[2, 2], SEED_BASE.0), tensor("w.b", &[3], SEED_BASE.1)];
        read(format, rest, &Checkpoint::new(base).expect("shapes fit"), room);
    } else if let Ok(input) = Unstructured::new(rest).arbitrary() {
        round_trip(format, &input, room);
    }
});

/// Both ways to read a patch: within the limits, of one mind, and a failure leaves the base.
fn read(format: &dyn PatchFormat, bytes: &[u8], base: &Checkpoint<'_>, room: u64) {
    let mut limits = Limits::default();
    limits.max_bytes = Limits::HEADER_COST * bytes.len() as u64 + room;
    // Copies of the base's tensors are not the patch's doing.
    let copies = 2 * 2 * base.cell_count() as usize;
    let most = limits.max_bytes as usize + copies + SLACK.0 + SLACK.1 * bytes.len();

    let mut cells = base.to_cells();
    let (applied, peak) = memory::peak_of(|| format.apply(bytes, base, &mut cells, &limits));
    assert!(peak <= most, "{} held {peak} bytes to apply where {most} are allowed", format.name());
    let (decoded, peak) = memory::peak_of(|| format.decode(bytes, base, &limits));
    assert!(peak <= most, "{} held {peak} bytes to decode where {most} are allowed", format.name());

    let mut expected = base.to_cells();
    match (&applied, decoded) {
        (Ok(()), Ok(patch)) => patch.apply(base, &mut expected).expect("what was decoded fits its base"),
        (Ok(()), Err(error)) => return assert_eq!(error.code(), "limit", "applied, but not decoded: {error}"),
        (Err(error), Ok(_)) => assert_eq!(error.code(), "limit", "decoded, but not applied: {error}"),
        (Err(_), Err(_)) => {}
    }
    assert!(cells == expected, "{}: the cells are neither the base nor the target", format.name());
}

fn round_trip(format: &dyn PatchFormat, input: &Input, room: u64) {
    let mut names = vec!["w".to_owned()];
    let (mut shapes, mut bases, mut targets) = (Vec::new(), Vec::new(), Vec::new());
    for (suffix, columns, units) in &input.tensors {
        names.push(format!("{}{}", names[names.len() - 1], SUFFIXES[usize::from(*suffix) % SUFFIXES.len()]));
        let (mut base, mut target) = (Vec::new(), Vec::new());
        for unit in units.iter().take(16) {
            target.push(unit.cell ^ unit.change);
            base.resize(base.len() + (1 << (unit.log_count % 15)), unit.cell);
            target.resize(base.len(), unit.cell);
        }
        let count = base.len() as u64;
        shapes.push(match columns.map(u64::from) {
            None => vec![count],
            Some(columns) if columns > 0 && count % columns == 0 => vec![count / columns, columns],
            Some(_) => vec![1, count, 1],
        });
        bases.push(base);
        targets.push(target);
    }
    let (base, target) = (view(&names, &shapes, &bases), view(&names, &shapes, &targets));
    let bytes = format.encode(STEPS, &base, &target).expect("small tensors fit every format");
    let patch = format.decode(&bytes, &base, &Limits::default()).expect("what was written can be read");
    let wanted = SparsePatch::diff(STEPS, &base, &target).expect("both are laid out alike");
    assert!(patch.tensors == wanted.tensors, "{}: other changes than were written", format.name());
    let mut cells = base.to_cells();
    format.apply(&bytes, &base, &mut cells, &Limits::default()).expect("what was written can be applied");
    assert!(cells == target.to_cells(), "{}: another target", format.name());
    read(format, &edited(&bytes, input), &base, room);
}

fn view<'a>(names: &'a [String], shapes: &[Vec<u64>], cells: &'a [Vec<u16>]) -> Checkpoint<'a> {
    let tensors = names[1..].iter().zip(shapes).zip(cells);
    let tensors = tensors.map(|((name, shape), cells)| Tensor { name, shape: shape.clone(), cells });
    Checkpoint::new(tensors.collect()).expect("names are distinct, and shapes fit")
}

/// The patch with some bytes changed: those inside its last frame, where it has one, and then those outside.
fn edited(bytes: &[u8], input: &Input) -> Vec<u8> {
    const MAGIC: [u8; 4] = 0xFD2F_B528_u32.to_le_bytes();
    let mut bytes = bytes.to_vec();
    let frame = bytes.windows(4).rposition(|four| four == MAGIC).filter(|_| !input.inner_edits.is_empty());
    if let Some((start, mut content)) =
        frame.and_then(|start| Some((start, zstd::bulk::decompress(&bytes[start..], 1 << 20).ok()?)))
    {
        edit(&mut content, &input.inner_edits);
        bytes.truncate(start);
        bytes.extend(zstd::bulk::compress(&content, 1).expect("memory suffices"));
    }
    edit(&mut bytes, &input.edits);
    bytes
}

fn edit(bytes: &mut [u8], edits: &[(u16, u8)]) {
    for (place, bits) in edits {
        let place = usize::from(*place) % bytes.len().max(1);
        bytes.get_mut(place).into_iter().for_each(|byte| *byte ^= bits);
    }
}
