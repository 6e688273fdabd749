//! Every kernel on a device against its twin in plain Rust: the same commands leave the same bits in every buffer.

use crate::support::adapter;
use crate::support::cells::Random;
use pulse_applier_wasm::gpu::kernels::{CHANGES_PER_WORKGROUP, Kernel, PARAMS_BYTES, Params, Slot, Storage};
use pulse_applier_wasm::gpu::port::{Binding, Command, Usage};
use pulse_applier_wasm::gpu::{DeviceLimits, Port, TwinPort};
use std::collections::BTreeSet;

/// Noise before each binding, which must stay; the alignment of offsets.
const LEAD: u64 = 256;
/// Noise behind each binding.
const TAIL: u64 = 20;
const BLOCK: u32 = 1024;
const ESCAPE: u32 = 0x1ff;

/// Mantissa bits, and a mask of the exponent's.
fn format(storage: Storage) -> (u32, u32) {
    match storage {
        Storage::Packed8 => (3, 0xf),
        Storage::Packed16 | Storage::Widened | Storage::Half => (7, 0xff),
        Storage::Packed32 => (23, 0xff),
    }
}

/// Words between noise.
fn framed(words: &[u32], random: &mut Random) -> Vec<u8> {
    let mut bytes = random.bytes(LEAD as usize);
    bytes.extend(words.iter().flat_map(|word| word.to_le_bytes()));
    bytes.extend(random.bytes(TAIL as usize));
    bytes
}

/// The bits of an element, as kernels see the cell in it.
fn cell(storage: Storage, weights: &[u32], element: u32) -> u32 {
    let bits = storage.stored_bits();
    let word = weights[(element * bits / 32) as usize];
    if storage == Storage::Widened {
        return word >> 16;
    }
    word >> (element * bits % 32) & (u32::MAX >> (32 - bits))
}

fn put(storage: Storage, weights: &mut [u32], element: u32, value: u32) {
    let bits = storage.stored_bits();
    let word = &mut weights[(element * bits / 32) as usize];
    if storage == Storage::Widened {
        *word = value << 16;
        return;
    }
    let shift = element * bits % 32;
    *word = *word & !((u32::MAX >> (32 - bits)) << shift) | value << shift;
}

/// Where the cells of a piece lie.
#[derive(Clone, Copy, PartialEq)]
enum Shape {
    Flat,
    Strided,
    Transposed,
}

/// One segment of several pieces, and what is to be done to it.
struct Case {
    storage: Storage,
    /// Parameters of each piece: for ranks and steps, and for scattered values.
    pieces: Vec<(Params, Params)>,
    weights: Vec<u8>,
    table: Vec<u8>,
    changes: Vec<u8>,
    scattered: Vec<u8>,
    sums: Vec<u8>,
    /// Cells per active class.
    totals: Vec<u32>,
}

/// Parameters of where a piece lies, and the element of each of its cells; `start` is the first it may use.
fn lay_out(cells: u32, shape: Shape, start: u32, random: &mut Random) -> (Params, Vec<u32>) {
    let mut params = Params { cells, origin: start, ..Params::default() };
    if shape == Shape::Flat {
        return (params, (0..cells).map(|cell| start + cell).collect());
    }
    params.columns = 1 + random.below(40) as u32;
    params.first_cell = random.below(3 * params.columns as usize) as u32;
    let index = params.first_cell..params.first_cell + cells;
    let gap = random.below(4) as u32;
    (params.row_step, params.column_step) = match shape {
        Shape::Transposed => (1, index.end.div_ceil(params.columns) + gap),
        _ => (params.columns + gap, 1),
    };
    let places: Vec<u32> = index
        .map(|index| index / params.columns * params.row_step + index % params.columns * params.column_step)
        .collect();
    // The tensor's first cells may lie before the binding.
    let least = places.iter().copied().min().unwrap_or_default();
    params.origin = start.wrapping_sub(least);
    (params, places.into_iter().map(|place| place - least + start).collect())
}

/// Ranks of a class, a few of them past its end.
fn ranks(total: u32, random: &mut Random) -> BTreeSet<u32> {
    let wanted = random.below(2 + total.min(300) as usize);
    (0..wanted).map(|_| random.below(total as usize + 2) as u32).collect()
}

impl Case {
    fn new(storage: Storage, sizes: &[u32], shape: Shape, classes: u32, seed: u64) -> Self {
        let random = &mut Random::new(seed);
        let (mantissa_bits, exponent_mask) = format(storage);
        let first_exponent = random.below(exponent_mask as usize) as u32;
        let slots = classes.count_ones();
        let blocks: u32 = sizes.iter().map(|cells| cells.div_ceil(BLOCK)).sum();
        let table = random.below(5) as u32;
        let (mut element, mut first_block, mut first_in_segment) = (random.below(9) as u32, 0, 0);
        let mut laid: Vec<(Params, Vec<u32>)> = Vec::new();
        for (number, cells) in (0..).zip(sizes.iter().copied()) {
            let (place, elements) = lay_out(cells, shape, element, random);
            let params = Params {
                first_word: random.word(),
                salt_a: random.word() | 1,
                salt_b: random.word() | 1,
                mantissa_bits,
                exponent_mask,
                first_exponent,
                classes,
                table,
                blocks,
                first_block,
                first_in_segment,
                sums: 1 + 2 * number,
                totals: 1 + 2 * sizes.len() as u32,
                ..place
            };
            element = elements.iter().max().unwrap_or(&element) + 1 + random.below(6) as u32;
            first_block += cells.div_ceil(BLOCK);
            first_in_segment += cells;
            laid.push((params, elements));
        }
        let words = (element * storage.stored_bits()).div_ceil(32);
        let mut weights: Vec<u32> = (0..words).map(|_| random.word()).collect();
        let mut counts = [0u32; 32];
        for element in laid.iter().flat_map(|(_, elements)| elements) {
            // Half of the cells spread over all classes; the noise that others are has them all in principle.
            if random.below(2) == 0 {
                let exponent = (first_exponent + random.below(33) as u32).min(exponent_mask);
                let noise = random.word() & !(exponent_mask << mantissa_bits);
                let value = (noise | exponent << mantissa_bits) & (u32::MAX >> (32 - storage.cell_bits()));
                put(storage, &mut weights, *element, value);
            }
            let exponent = cell(storage, &weights, *element) >> mantissa_bits & exponent_mask;
            counts[exponent.saturating_sub(first_exponent).min(31) as usize] += 1;
        }
        let totals: Vec<u32> = (0..32).filter(|class| classes >> class & 1 == 1).map(|class| counts[class]).collect();
        let mut case = Self {
            storage,
            pieces: laid.iter().map(|(params, _)| (*params, *params)).collect(),
            weights: framed(&weights, random),
            table: framed(&vec![7; (table + slots * blocks) as usize], random),
            changes: Vec::new(),
            scattered: Vec::new(),
            sums: framed(&vec![9; 1 + 2 * sizes.len() + slots as usize], random),
            totals,
        };
        case.change(random);
        case.scatter(random);
        case
    }

    /// Changes by rank, with steps of all sizes.
    fn change(&mut self, random: &mut Random) {
        let (mut starts, mut entries, mut escapes) = (Vec::new(), Vec::new(), Vec::new());
        for total in &self.totals {
            starts.push(entries.len() as u32);
            for rank in ranks(*total, random) {
                let code = if random.below(4) == 0 { ESCAPE } else { random.below(ESCAPE as usize) as u32 };
                if code == ESCAPE {
                    escapes.extend([entries.len() as u32, random.word()]);
                }
                entries.push(rank << 9 | code);
            }
        }
        let noise = 1 + random.below(5);
        let mut words: Vec<u32> = (0..noise).map(|_| random.word()).collect();
        let mut place = |part: &[u32]| {
            let start = words.len() as u32;
            words.extend(part);
            start
        };
        let (starts, changes, list) = (place(&starts), place(&entries), place(&escapes));
        for (params, _) in &mut self.pieces {
            (params.starts, params.changes, params.escapes) = (starts, changes, list);
            (params.count, params.escape_count) = (entries.len() as u32, escapes.len() as u32 / 2);
        }
        self.changes = framed(&words, random);
    }

    /// Values for some cells of each piece; places past its end are other pieces'.
    fn scatter(&mut self, random: &mut Random) {
        let mut words = vec![random.word()];
        for (_, params) in &mut self.pieces {
            let wanted = random.below(500);
            let mut cells: BTreeSet<u32> = (0..wanted).map(|_| random.below(params.cells as usize) as u32).collect();
            cells.extend([params.cells, u32::MAX]);
            let values = (cells.len() as u32 * self.storage.cell_bits()).div_ceil(32);
            (params.changes, params.count) = (words.len() as u32, cells.len() as u32);
            words.extend(cells.iter().rev());
            params.values = words.len() as u32;
            words.extend((0..values).map(|_| random.word()));
        }
        self.scattered = framed(&words, random);
    }

    /// Runs it all and returns every buffer after every submit.
    fn run<P: Port>(&self, port: &P, together: bool) -> Vec<[Vec<u8>; 5]> {
        let made = [&self.weights, &self.table, &self.changes, &self.scattered, &self.sums].map(|bytes| {
            let buffer = port.create("test", bytes.len() as u64, Usage::Storage).unwrap();
            port.write(&buffer, 0, bytes).unwrap();
            buffer
        });
        let params = port.create("test", 2 * PARAMS_BYTES * self.pieces.len() as u64, Usage::Uniform).unwrap();
        for (at, params_of) in (0..).zip(self.pieces.iter().flat_map(|(first, second)| [first, second])) {
            port.write(&params, at * PARAMS_BYTES, &params_of.to_bytes()).unwrap();
        }
        let bound = |buffer: &P::Buffer| Binding {
            buffer: buffer.clone(),
            offset: LEAD,
            bytes: port.size(buffer) - LEAD - TAIL,
        };
        let dispatch = |kernel: Kernel, piece: usize, scattered: bool, workgroups: u32| {
            let slot = |slot: &Slot| match slot {
                Slot::Weights => 0,
                Slot::Table => 1,
                Slot::Changes => 2 + usize::from(scattered),
                Slot::Sums | Slot::Side => 4,
            };
            let offset = (2 * piece as u64 + u64::from(scattered)) * PARAMS_BYTES;
            Command::Dispatch {
                kernel,
                params: Binding { buffer: params.clone(), offset, bytes: PARAMS_BYTES },
                slots: kernel.slots().iter().map(|wanted| (*wanted, bound(&made[slot(wanted)]))).collect(),
                workgroups,
            }
        };
        let per_change = |kernel: Kernel, scattered: bool| -> Vec<Command<P::Buffer>> {
            let each = self.pieces.iter().enumerate().map(|(piece, (ranked, placed))| {
                let count = if scattered { placed.count } else { ranked.count };
                dispatch(kernel, piece, scattered, count.div_ceil(CHANGES_PER_WORKGROUP))
            });
            each.collect()
        };
        let mut survey = vec![Command::Clear(bound(&made[4]))];
        for (piece, (params, _)) in self.pieces.iter().enumerate() {
            survey.push(dispatch(Kernel::Survey(self.storage), piece, false, params.cells.div_ceil(BLOCK)));
        }
        survey.push(dispatch(Kernel::Prefix, 0, false, self.totals.len() as u32));
        let mut stages: Vec<Vec<Command<P::Buffer>>> = vec![survey];
        stages.push(per_change(Kernel::Resolve(self.storage), false));
        stages.push(per_change(Kernel::Step(self.storage), false));
        if together {
            stages = vec![stages.concat()];
        }
        stages.push(per_change(Kernel::StepBack(self.storage), false));
        let by_position = [Kernel::Scatter, Kernel::Scatter, Kernel::Add, Kernel::Scatter];
        stages.extend(by_position.map(|kernel| per_change(kernel(self.storage), true)));
        let after = |commands: Vec<Command<P::Buffer>>| {
            port.submit(&commands).unwrap();
            made.each_ref().map(|buffer| pollster::block_on(port.read(buffer, 0, port.size(buffer))).unwrap())
        };
        let found = stages.into_iter().map(after).collect();
        made.iter().chain([&params]).for_each(|buffer| port.destroy(buffer));
        found
    }

    /// What must hold whatever the kernels do alike: counts are right, changes change, and both kinds undo themselves.
    fn check(&self, found: &[[Vec<u8>; 5]], name: &str) {
        let [.., stepped, back, scattered, last, added, taken] = found else { panic!("{name}: too few stages") };
        let sums: Vec<u32> = found[0][4].as_chunks::<4>().0.iter().map(|bytes| u32::from_le_bytes(*bytes)).collect();
        let totals = LEAD as usize / 4 + 1 + 2 * self.pieces.len();
        assert_eq!(sums[totals..totals + self.totals.len()], self.totals, "{name}: totals");
        let largest = self.totals.iter().max().unwrap_or(&0);
        assert!(*largest < 100 || stepped[0] != self.weights, "{name}: nothing was stepped");
        assert!(back[0] == self.weights, "{name}: steps are not taken back");
        assert!(*largest < 100 || scattered[0] != self.weights, "{name}: nothing was scattered");
        assert!(last[0] == self.weights, "{name}: values are not exchanged back");
        assert!(last[3] == self.scattered, "{name}: values are lost");
        assert!(*largest < 100 || added[0] != self.weights, "{name}: nothing was added");
        assert!(taken[0] == self.weights, "{name}: sums are not exchanged back");
    }
}

fn assert_same(found: &[[Vec<u8>; 5]], expected: &[[Vec<u8>; 5]], name: &str) {
    for (stage, (found, expected)) in found.iter().zip(expected).enumerate() {
        for (buffer, (found, expected)) in found.iter().zip(expected).enumerate() {
            let differs = found.iter().zip(expected).position(|(found, expected)| found != expected);
            assert_eq!(differs, None, "{name}: stage {stage}, buffer {buffer} differs from the twin's at this byte");
            assert_eq!(found.len(), expected.len());
        }
    }
}

/// All shapes and sizes of one way of storing, in dispatches of one dimension and of two.
fn check_storage(storage: Storage) {
    let Some(mut port) = adapter::open() else { return };
    let twin = TwinPort::new(DeviceLimits::DEFAULT);
    let sizes: [&[u32]; 6] = [&[1], &[1023], &[1025], &[1024, 1, 2047], &[5000, 7, 3333], &[70_001]];
    for workgroups in [u32::MAX, 3] {
        let limits = DeviceLimits { workgroups, ..port.limits() };
        port = port.with_limits(limits);
        for (number, (sizes, shape)) in (0..).zip(
            sizes
                .iter()
                .flat_map(|sizes| [Shape::Flat, Shape::Strided, Shape::Transposed].map(|shape| (*sizes, shape))),
        ) {
            for (seed, classes) in [(1, u32::MAX), (2, Random::new(number).word() | 1 << 31), (3, 1 << 4)] {
                let name =
                    format!("{storage:?}, {sizes:?}, case {number}, classes {classes:#x}, {workgroups} workgroups");
                let case = Case::new(storage, sizes, shape, classes, 100 * number + seed);
                let together = seed == 1;
                let expected = case.run(&twin, together);
                case.check(&expected, &name);
                assert_same(&case.run(&port, together), &expected, &name);
            }
        }
    }
}

#[test]
fn cells_of_a_byte() {
    check_storage(Storage::Packed8);
}

#[test]
fn cells_of_two_bytes() {
    check_storage(Storage::Packed16);
}

#[test]
fn cells_of_four_bytes() {
    check_storage(Storage::Packed32);
}

#[test]
fn widened_cells() {
    check_storage(Storage::Widened);
}

/// More blocks than a workgroup of the prefix has invocations.
#[test]
fn many_blocks() {
    let Some(port) = adapter::open() else { return };
    let twin = TwinPort::new(DeviceLimits::DEFAULT);
    let case = Case::new(Storage::Packed8, &[290_001, 300_000], Shape::Flat, 0xf0f0, 5);
    let expected = case.run(&twin, true);
    case.check(&expected, "many blocks");
    assert_same(&case.run(&port, true), &expected, "many blocks");
}

/// A survey without classes fingerprints and counts nothing.
#[test]
fn without_classes() {
    let Some(port) = adapter::open() else { return };
    let twin = TwinPort::new(DeviceLimits::DEFAULT);
    let case = Case::new(Storage::Packed16, &[3000], Shape::Flat, 0, 6);
    assert_same(&case.run(&port, false), &case.run(&twin, false), "no classes");
}
