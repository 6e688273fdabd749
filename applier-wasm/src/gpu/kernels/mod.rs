//! The kernels: WGSL for a GPU, and a plain Rust twin of each. u32 arithmetic only, no optional feature, at most four storage buffers.

/// A file of this folder, without comments and indentation (`build.rs`).
macro_rules! wgsl {
    ($name:literal) => {
        include_str!(concat!(env!("OUT_DIR"), "/kernels/", $name))
    };
}

pub(crate) mod twin;

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
        let params = wgsl!("params.wgsl");
        let (storage, body, writes) = match self {
            Self::Prefix => return [params, wgsl!("prefix.wgsl")].concat(),
            Self::Survey(storage) => (storage, wgsl!("survey.wgsl"), false),
            Self::Resolve(storage) => (storage, wgsl!("resolve.wgsl"), false),
            Self::Step(storage) | Self::StepBack(storage) => (storage, wgsl!("step.wgsl"), true),
            Self::Scatter(storage) | Self::Add(storage) => (storage, wgsl!("scatter.wgsl"), true),
        };
        let [read, replace] = storage.sources(writes);
        let constants = format!(
            "const CELL_BITS = {}u;\nconst STORED_BITS = {}u;\nconst BACK = {};\nconst ADD = {};\n",
            storage.cell_bits(),
            storage.stored_bits(),
            matches!(self, Self::StepBack(_)),
            matches!(self, Self::Add(_))
        );
        let access = if writes { wgsl!("write_access.wgsl") } else { wgsl!("read.wgsl") };
        let entry = wgsl!("entry.wgsl");
        [params, &constants, access, read, replace, wgsl!("cells.wgsl"), entry, body].join("\n")
    }
}

/// Declares the parameters once: as fields, and in the order in which they are written for a kernel.
macro_rules! params {
    ($($name:ident),+ $(,)?) => {
        /// What a dispatch works on; `params.wgsl` explains the fields. Sums of parameters wrap.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
        #[expect(missing_docs, reason = "see params.wgsl")]
        pub struct Params { $(pub $name: u32,)+ }

        impl Params {
            /// As a kernel reads it.
            pub fn to_bytes(self) -> [u8; PARAMS_BYTES as usize] {
                let mut bytes = [0; PARAMS_BYTES as usize];
                let fields = [$(self.$name),+];
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

            #[cfg(test)]
            const NAMES: &[&str] = &[$(stringify!($name)),+];
        }
    };
}

params! {
    cells, first_word, first_cell, salt_a, salt_b, origin, columns, row_step, column_step, mantissa_bits, exponent_mask,
    first_exponent, classes, table, blocks, first_block, first_in_segment, changes, count, starts, escapes,
    escape_count, values, sums, totals, side_mask,
}

/// A change as kernels take it: see `entry.wgsl`.
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
    pub(crate) fn first_place(cell: u32, mask: u32) -> u32 {
        let mixed = cell.wrapping_add(1).wrapping_mul(FACTOR);
        (mixed ^ (mixed >> 15)) & mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_declared_alike_in_both_languages() {
        let wgsl: Vec<&str> =
            wgsl!("params.wgsl").lines().filter_map(|line| line.trim().strip_suffix(": u32,")).collect();
        assert_eq!(wgsl, Params::NAMES);
        assert!(Params::NAMES.len() * 4 <= PARAMS_BYTES as usize);
    }

    #[test]
    fn slots_are_what_the_source_declares() {
        let kernels = Storage::ALL.into_iter().flat_map(|storage| {
            let of = [Kernel::Survey, Kernel::Resolve, Kernel::Step, Kernel::StepBack, Kernel::Scatter, Kernel::Add];
            of.map(|kernel| kernel(storage))
        });
        for kernel in kernels.chain([Kernel::Prefix]) {
            let source = kernel.source();
            let declared: Vec<u32> = (1..9).filter(|slot| source.contains(&format!("@binding({slot})"))).collect();
            let mut slots: Vec<u32> = kernel.slots().iter().map(|slot| *slot as u32).collect();
            slots.sort();
            assert_eq!(declared, slots, "{kernel:?}");
            assert!(slots.len() <= 4);
        }
    }

    #[test]
    fn constants_are_alike_in_both_languages() {
        let wgsl = wgsl!("entry.wgsl");
        for (name, value) in [
            ("STEP_MASK", format!("{:#x}u", entry::STEP_MASK)),
            ("PLACE_SHIFT", format!("{}u", entry::PLACE_SHIFT)),
            ("PLACE_MASK", format!("{:#x}u", entry::PLACE_MASK)),
            ("RESOLVED", format!("{:#x}u", entry::RESOLVED)),
        ] {
            assert!(wgsl.contains(&format!("const {name} = {value};")), "{name}");
        }
        let half = wgsl!("half.wgsl");
        assert!(half.contains(&format!("const SIDE_FACTOR = {:#x}u;", side::FACTOR)));
        let classes = pulse_format::layout::CLASSES;
        assert!(include_str!("survey.wgsl").contains(&format!("const CLASSES = {classes}u;")));
        let cells = pulse_format::layout::BLOCK_CELLS;
        assert!(wgsl!("params.wgsl").contains(&format!("const BLOCK_CELLS = {cells}u;")));
    }
}
