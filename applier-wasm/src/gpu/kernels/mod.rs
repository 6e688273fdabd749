//! The kernels: WGSL for a GPU, and beside each its twin in plain Rust. u32 arithmetic only, no optional feature, at most four storage
//! buffers. Numbers and parameters that both languages share are declared in Rust, and written into the WGSL.

/// A file of this folder, without comments and indentation (`build.rs`).
macro_rules! wgsl {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/kernels/", $name))
    };
}

mod cells;
mod prefix;
mod resolve;
mod scatter;
mod step;
mod survey;
pub(crate) mod twin;
pub(crate) mod words;

use super::half;
use pulse_format::layout::{BLOCK_CELLS, CLASSES, KEY_STEP_A, KEY_STEP_B};

/// How cells are stored, as far as kernels care.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Storage {
    /// As in a checkpoint, cells of one byte.
    Packed8,
    /// As in a checkpoint, cells of two bytes.
    Packed16,
    /// As in a checkpoint, cells of four bytes (or halves of cells of eight).
    Packed32,
    /// BF16 in the upper half of an f32.
    Widened,
    /// BF16 as the nearest f16; the cells that it does not hold exactly are in [`Slot::Side`].
    Half,
}

impl Storage {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Packed8, Self::Packed16, Self::Packed32, Self::Widened, Self::Half];

    /// Bits of a cell as a checkpoint holds it.
    pub fn cell_bits(self) -> u32 {
        match self {
            Self::Packed8 => 8,
            Self::Packed16 | Self::Widened | Self::Half => 16,
            Self::Packed32 => 32,
        }
    }

    /// Bits of the element that holds a cell.
    pub fn stored_bits(self) -> u32 {
        match self {
            Self::Packed8 => 8,
            Self::Packed16 | Self::Half => 16,
            Self::Packed32 | Self::Widened => 32,
        }
    }

    /// How elements are read, and, if the kernel `writes`, changed.
    fn sources(self, writes: bool) -> [&'static str; 2] {
        match (self, writes) {
            (Self::Packed8 | Self::Packed16 | Self::Packed32, false) => [wgsl!("packed.wgsl"), ""],
            (Self::Packed8 | Self::Packed16 | Self::Packed32, true) => {
                [wgsl!("packed.wgsl"), wgsl!("packed_write.wgsl")]
            }
            (Self::Widened, false) => [wgsl!("widened.wgsl"), ""],
            (Self::Widened, true) => [wgsl!("widened.wgsl"), wgsl!("widened_write.wgsl")],
            (Self::Half, false) => [wgsl!("half.wgsl"), wgsl!("half_read.wgsl")],
            (Self::Half, true) => [wgsl!("half.wgsl"), wgsl!("half_write.wgsl")],
        }
    }
}

/// A kernel, compiled for one way of storing cells where it touches them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kernel {
    /// Fingerprints a piece, and counts its cells per class and block. A workgroup a block.
    Survey(Storage),
    /// Counts per block become counts before each block; totals per class. A workgroup a class.
    Prefix,
    /// Ranks become places. An invocation a change.
    Resolve(Storage),
    /// Adds ULP steps. An invocation a change.
    Step(Storage),
    /// Takes ULP steps back. An invocation a change.
    StepBack(Storage),
    /// Exchanges values. An invocation a change.
    Scatter(Storage),
    /// Adds differences, and leaves in their place the cells before: [`Kernel::Scatter`] takes it back. An invocation a change.
    Add(Storage),
}

/// The buffers that kernels name, in the order of their binding numbers, which begin with 1.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Slot {
    /// The engine's buffer.
    Weights = 1,
    /// Counts per class and block.
    Table = 2,
    /// Changes.
    Changes = 3,
    /// Fingerprints and totals.
    Sums = 4,
    /// The cells of a tensor that f16 does not hold exactly: see `half.wgsl`. Of [`Storage::Half`] alone.
    Side = 5,
}

/// Bytes between the parameters of one dispatch and the next: the alignment every device allows.
pub const PARAMS_BYTES: u64 = 256;
/// Invocations of a workgroup that takes a change each.
pub const CHANGES_PER_WORKGROUP: u32 = 64;

impl Kernel {
    /// Its name, for labels and counters.
    pub fn name(self) -> &'static str {
        match self {
            Self::Survey(_) => "survey",
            Self::Prefix => "prefix",
            Self::Resolve(_) => "resolve",
            Self::Step(_) => "step",
            Self::StepBack(_) => "step back",
            Self::Scatter(_) => "scatter",
            Self::Add(_) => "add",
        }
    }

    /// The buffers it binds besides its parameters (binding 0).
    pub fn slots(self) -> &'static [Slot] {
        match self {
            Self::Survey(Storage::Half) => &[Slot::Weights, Slot::Table, Slot::Sums, Slot::Side],
            Self::Survey(_) => &[Slot::Weights, Slot::Table, Slot::Sums],
            Self::Prefix => &[Slot::Table, Slot::Sums],
            Self::Resolve(Storage::Half) => &[Slot::Weights, Slot::Table, Slot::Changes, Slot::Side],
            Self::Resolve(_) => &[Slot::Weights, Slot::Table, Slot::Changes],
            Self::Step(Storage::Half)
            | Self::StepBack(Storage::Half)
            | Self::Scatter(Storage::Half)
            | Self::Add(Storage::Half) => &[Slot::Weights, Slot::Changes, Slot::Side],
            Self::Step(_) | Self::StepBack(_) | Self::Scatter(_) | Self::Add(_) => &[Slot::Weights, Slot::Changes],
        }
    }

    /// Its WGSL; the entry point is `main`.
    pub fn source(self) -> String {
        let (storage, body, writes) = match self {
            Self::Prefix => return [&constants(&[]), Params::WGSL, wgsl!("flat.wgsl"), wgsl!("prefix.wgsl")].concat(),
            Self::Survey(storage) => (storage, [wgsl!("survey.wgsl"), ""], false),
            Self::Resolve(storage) => (storage, [wgsl!("resolve.wgsl"), wgsl!("change.wgsl")], false),
            Self::Step(storage) | Self::StepBack(storage) => {
                (storage, [wgsl!("step.wgsl"), wgsl!("change.wgsl")], true)
            }
            Self::Scatter(storage) | Self::Add(storage) => {
                (storage, [wgsl!("scatter.wgsl"), wgsl!("change.wgsl")], true)
            }
        };
        let constants = constants(&[
            ("CELL_BITS", storage.cell_bits()),
            ("STORED_BITS", storage.stored_bits()),
            ("BACK", matches!(self, Self::StepBack(_)).into()),
            ("ADD", matches!(self, Self::Add(_)).into()),
        ]);
        let [read, replace] = storage.sources(writes);
        let access = if writes { wgsl!("write_access.wgsl") } else { wgsl!("read.wgsl") };
        let [body, entry] = body;
        let cells = wgsl!("cells.wgsl");
        [&constants, Params::WGSL, wgsl!("flat.wgsl"), access, read, replace, cells, body, entry].concat()
    }
}

/// The numbers that kernels share with the host, and those of one kernel, as WGSL.
fn constants(own: &[(&str, u32)]) -> String {
    let shared = [
        ("BLOCK_CELLS", BLOCK_CELLS as u32),
        ("CLASSES", CLASSES as u32),
        ("CHANGES_PER_WORKGROUP", CHANGES_PER_WORKGROUP),
        ("INDEX_A", KEY_STEP_A),
        ("INDEX_B", KEY_STEP_B),
        ("STEP_MASK", entry::STEP_MASK),
        ("PLACE_SHIFT", entry::PLACE_SHIFT),
        ("PLACE_MASK", entry::PLACE_MASK),
        ("RESOLVED", entry::RESOLVED),
        ("SIDE_FACTOR", side::FACTOR),
        ("LARGEST_ROUNDED", half::LARGEST_ROUNDED.into()),
        ("INFINITY", half::INFINITY.into()),
        ("SMALLEST", half::SMALLEST.into()),
        ("NORMAL", half::NORMAL.into()),
        ("TOO_LARGE", half::TOO_LARGE.into()),
    ];
    shared.iter().chain(own).map(|(name, value)| format!("const {name}={value}u;\n")).collect()
}

/// Declares the parameters once: as fields, in the order in which they are written for a kernel, and as kernels read them.
macro_rules! params {
    ($($(#[$doc:meta])+ $name:ident),+ $(,)?) => {
        /// What a dispatch works on: one piece of a segment, or one segment. Sums of parameters wrap.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        pub struct Params { $($(#[$doc])+ pub $name: u32,)+ }

        impl Params {
            /// Their declaration in WGSL.
            const WGSL: &str = concat!(
                "struct Params {\n",
                $(stringify!($name), ": u32,\n",)+
                "}\n@group(0) @binding(0) var<uniform> params: Params;\n"
            );

            /// As a kernel reads it.
            pub fn to_bytes(self) -> [u8; PARAMS_BYTES as usize] {
                let mut bytes = [0; PARAMS_BYTES as usize];
                let fields = [$(self.$name),+];
                const { assert!(size_of::<Params>() <= PARAMS_BYTES as usize) }
                for (to, field) in bytes.as_chunks_mut::<4>().0.iter_mut().zip(fields) {
                    *to = field.to_le_bytes();
                }
                bytes
            }

            /// The inverse of [`Params::to_bytes`], from words.
            pub(crate) fn from_words(words: &[u32]) -> Self {
                let mut words = words.iter().copied();
                Self { $($name: words.next().unwrap_or_default(),)+ }
            }
        }
    };
}

params! {
    /// Cells of the piece.
    cells,
    /// Index of the piece's first 32-bit word within the tensor.
    first_word,
    /// Index of the piece's first cell within the tensor.
    first_cell,
    /// First key of the fingerprint.
    salt_a,
    /// Second key of the fingerprint.
    salt_b,
    /// Where cell 0 of the tensor (with columns) or of the piece (without) is, in elements from the start of the binding.
    origin,
    /// Cells of a row; 0 where cells follow one another.
    columns,
    /// Elements from a row to the next.
    row_step,
    /// Elements from a column to the next.
    column_step,
    /// Where the exponent begins in a cell, in bits.
    mantissa_bits,
    /// The exponent's bits, where it begins.
    exponent_mask,
    /// The exponent of class 0.
    first_exponent,
    /// The segment's active classes, as a bit set.
    classes,
    /// Where the segment's table begins, in words.
    table,
    /// Blocks of the segment: words of a row of the table.
    blocks,
    /// The piece's first block within the segment.
    first_block,
    /// The piece's first cell within the segment.
    first_in_segment,
    /// Where the changes begin, in words.
    changes,
    /// Changes.
    count,
    /// Where the index of each active class's first change is, in words.
    starts,
    /// Where the steps that do not fit an entry begin, in words: pairs of a change's index and its code, ascending.
    escapes,
    /// Steps that do not fit an entry.
    escape_count,
    /// Where the values of a scatter begin, in words.
    values,
    /// Where the piece's fingerprint is summed: two words.
    sums,
    /// Where the segment's cells per active class are summed, in words.
    totals,
    /// Places of the side table of an f16 tensor, less one.
    side_mask,
}

/// A change as kernels take it: a step in the low bits, above it a rank or a place in the segment, and in the top bit which of the two.
pub(crate) mod entry {
    pub(crate) const STEP_MASK: u32 = 0x1ff;
    pub(crate) const PLACE_SHIFT: u32 = 9;
    pub(crate) const PLACE_MASK: u32 = 0x3f_ffff;
    pub(crate) const RESOLVED: u32 = 1 << 31;
}

/// The hash table of the cells that f16 does not hold exactly: see `half.wgsl`.
pub(crate) mod side {
    pub(crate) const FACTOR: u32 = 0x9e37_79b1;

    /// Where to look first for the pair of a cell (its index within the tensor), in a table of `mask` + 1 pairs.
    pub(crate) fn first_slot(cell: u32, mask: u32) -> u32 {
        let mixed = cell.wrapping_add(1).wrapping_mul(FACTOR);
        (mixed ^ (mixed >> 15)) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernels() -> impl Iterator<Item = Kernel> {
        let of = [Kernel::Survey, Kernel::Resolve, Kernel::Step, Kernel::StepBack, Kernel::Scatter, Kernel::Add];
        let stored = Storage::ALL.into_iter().flat_map(move |storage| of.map(|kernel| kernel(storage)));
        stored.chain([Kernel::Prefix])
    }

    #[test]
    fn slots_are_what_the_source_declares() {
        for kernel in kernels() {
            let source = kernel.source();
            let declared: Vec<u32> = (1..9).filter(|slot| source.contains(&format!("@binding({slot})"))).collect();
            let mut slots: Vec<u32> = kernel.slots().iter().map(|slot| *slot as u32).collect();
            slots.sort();
            assert_eq!(declared, slots, "{kernel:?}");
            assert!(slots.len() <= 4);
        }
    }

    /// A number that no kernel reads, or that one declares for itself, is not shared.
    #[test]
    fn every_shared_number_is_read() {
        let sources: Vec<String> = kernels().map(Kernel::source).collect();
        let names = |source: &str| -> Vec<String> {
            let declared = source.lines().filter_map(|line| line.strip_prefix("const ")?.split_once('='));
            declared.map(|(name, _)| name.to_owned()).collect()
        };
        for name in names(&constants(&[])) {
            let counts = sources.iter().map(|source| source.matches(name.as_str()).count());
            assert!(counts.max() > Some(1), "{name}");
            assert!(
                sources.iter().all(|source| names(source).iter().filter(|other| **other == name).count() == 1),
                "{name}"
            );
        }
    }
}
