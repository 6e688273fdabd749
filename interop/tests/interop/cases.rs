//! Seeded pairs of checkpoints.

use pulse_interop::{Checkpoint, Steps, Tensor};

pub(crate) const STEPS: Steps = Steps { base: 41, target: 42 };

/// A small, fixed generator (SplitMix64): cases must not change with a dependency.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Uniform below `end`.
    pub(crate) fn below(&mut self, end: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(end)) >> 64) as u64
    }

    /// A weight with an exponent around 2^-5: half of them there, a quarter a binade below, and so on.
    pub(crate) fn weight(&mut self) -> u16 {
        let exponent = 122 - self.next().trailing_zeros().min(40) as u16;
        ((self.next() as u16) & 0x807F) | (exponent << 7)
    }
}

/// A tensor before and after.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    pub(crate) name: String,
    pub(crate) shape: Vec<u64>,
    pub(crate) base: Vec<u16>,
    pub(crate) target: Vec<u16>,
}

impl Pair {
    pub(crate) fn new(name: &str, shape: &[u64], base: Vec<u16>, target: Vec<u16>) -> Self {
        Self { name: name.into(), shape: shape.into(), base, target }
    }

    /// Constant cells, of which those at `positions` change.
    pub(crate) fn sparse(name: &str, shape: &[u64], positions: &[usize]) -> Self {
        let base = vec![0x3C00; shape.iter().product::<u64>() as usize];
        let mut target = base.clone();
        for &position in positions {
            target[position] += 1 + position as u16 % 300;
        }
        Self::new(name, shape, base, target)
    }

    /// Random weights that change as in training: the smaller, the likelier and the farther.
    pub(crate) fn trained(name: &str, shape: &[u64], random: &mut Random) -> Self {
        let base: Vec<u16> = (0..shape.iter().product()).map(|_| random.weight()).collect();
        let step = |&cell: &u16| {
            let binades = 122 - i64::from((cell >> 7) & 0xFF);
            let odds = 1 << (8 - binades).max(0);
            let size = 1 + (random.below(1 << (binades - 8).clamp(0, 12)) as u16);
            match random.below(odds) {
                0 if random.below(2) == 0 => cell.wrapping_add(size),
                0 => cell.wrapping_sub(size),
                _ => cell,
            }
        };
        let target = base.iter().map(step).collect();
        Self::new(name, shape, base, target)
    }
}

pub(crate) fn base(pairs: &[Pair]) -> Checkpoint<'_> {
    view(pairs, |pair| &pair.base)
}

pub(crate) fn target(pairs: &[Pair]) -> Checkpoint<'_> {
    view(pairs, |pair| &pair.target)
}

fn view(pairs: &[Pair], cells: impl Fn(&Pair) -> &[u16]) -> Checkpoint<'_> {
    let tensors = pairs.iter().map(|pair| Tensor { name: &pair.name, shape: pair.shape.clone(), cells: cells(pair) });
    Checkpoint::new(tensors.collect()).unwrap()
}

/// A few changes of every kind, small enough to try every bit of their patches.
pub(crate) fn small() -> Vec<Pair> {
    vec![
        Pair::sparse("a.weight", &[3, 5], &[1, 4, 14]),
        Pair::new("b.bias", &[4], vec![0, 0x7FC0, 0x3F80, 5], vec![0x8000, 0x7FC1, 0x3F81, 5]),
        Pair::sparse("c.same", &[2], &[]),
        Pair::new("d.scalar", &[], vec![0x4000], vec![0xC000]),
        Pair::sparse("e.dense", &[2, 2, 2], &[0, 1, 2, 3, 5, 7]),
    ]
}

/// Everything that has an edge, by name.
pub(crate) fn all() -> Vec<(&'static str, Vec<Pair>)> {
    let mut random = Random::new(1);
    let noise = |random: &mut Random, len: usize| (0..len).map(|_| random.next() as u16).collect::<Vec<_>>();
    let everything: Vec<u16> = (0..=u16::MAX).collect();
    let shifted: Vec<u16> = everything.iter().map(|cell| cell.wrapping_mul(0x9E37).wrapping_add(7)).collect();
    let rows = |rows: u64| Pair::sparse("w", &[rows, 2], &[0, 1, 513, 2 * rows as usize - 1]);
    vec![
        ("no tensors", vec![]),
        ("no change", vec![Pair::sparse("w", &[7, 9], &[])]),
        ("all changed", vec![Pair::sparse("w", &[7, 9], &(0..63).collect::<Vec<_>>())]),
        ("one cell", vec![Pair::sparse("w", &[7, 9], &[62])]),
        ("first cell", vec![Pair::sparse("w", &[7, 9], &[0])]),
        (
            "empty tensors",
            vec![Pair::sparse("a", &[0], &[]), Pair::sparse("b", &[3, 0, 2], &[]), Pair::sparse("c", &[1], &[0])],
        ),
        ("scalar", vec![Pair::sparse("w", &[], &[0])]),
        ("vector", vec![Pair::sparse("w", &[1000], &[0, 1, 255, 256, 257, 999])]),
        (
            "three and more dimensions",
            vec![Pair::sparse("a", &[2, 3, 4], &[0, 11, 12, 23]), Pair::sparse("b", &[2, 1, 3, 1, 2], &[5, 6, 7])],
        ),
        ("small", small()),
        ("every cell to another", vec![Pair::new("w", &[256, 256], everything, shifted)]),
        ("noise", vec![Pair::new("w", &[40, 50], noise(&mut random, 2000), noise(&mut random, 2000))]),
        (
            "gaps beyond two bytes",
            vec![Pair::sparse("w", &[4, 70_000], &[0, 65_535, 131_070, 131_071, 196_607, 279_999])],
        ),
        ("rows beyond a byte", vec![rows(700)]),
        ("rows beyond two bytes", vec![rows(70_000)]),
        (
            "awkward names",
            vec![
                Pair::sparse("w", &[3], &[0]),
                Pair::sparse("w.indices", &[3], &[1]),
                Pair::sparse("w.values", &[3], &[2]),
                Pair::sparse("w.values.indices", &[3], &[0, 2]),
                Pair::sparse("quote\" slash\\ line\n ü 重", &[3], &[1, 2]),
            ],
        ),
        (
            "trained",
            vec![
                Pair::trained("layer.0.weight", &[96, 130], &mut random),
                Pair::trained("layer.1.weight", &[300, 41], &mut random),
                Pair::trained("norm", &[577], &mut random),
            ],
        ),
    ]
}
