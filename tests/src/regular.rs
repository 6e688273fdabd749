//! Updates that tools make and training does not: regular ones, of a matrix of BF16 weights.

use crate::random::Random;

/// Rows of the matrix, and columns.
pub const SIDE: usize = 1024;
/// Cells of the matrix.
pub const CELLS: usize = SIDE * SIDE;

/// The value 1.
const ONE: u16 = 0x3f80;

/// A matrix before and after.
#[derive(Debug, Clone)]
pub struct Update {
    /// What was done to it.
    pub name: &'static str,
    /// As bits, row by row.
    pub base: Vec<u16>,
    /// As many.
    pub target: Vec<u16>,
}

/// All of them.
pub fn updates() -> Vec<Update> {
    let base = weights();
    let update = |name, target| Update { name, base: base.clone(), target };
    let every = |change: fn(u16) -> u16| changed(&base, |_, _, cell| change(cell));
    let columns =
        |wanted: fn(usize) -> bool| changed(&base, |_, column, cell| if wanted(column) { double(cell) } else { cell });
    let seventh = |change: fn(u16) -> u16| {
        changed(&base, |row, column, cell| if (row * SIDE + column).is_multiple_of(7) { change(cell) } else { cell })
    };
    let rows_zeroed = |wanted: fn(usize) -> bool| changed(&base, |row, _, cell| if wanted(row) { 0 } else { cell });
    vec![
        update("all doubled", every(double)),
        update("all signs flipped", every(|cell| cell ^ 0x8000)),
        update("all one ULP up", every(|cell| if cell & 0x8000 == 0 { cell + 1 } else { cell - 1 })),
        update("all one ULP from zero", every(|cell| cell + 1)),
        // A function of the mantissa: seven bits and the carry, at random.
        update("all tripled", every(triple)),
        update("half the columns doubled", columns(|column| column.is_multiple_of(2))),
        // Which columns looks random, but is the same in every row.
        update("some columns doubled, irregularly", columns(|column| (column * 0x9e37_79b1) >> 7 & 3 == 0)),
        update("one column doubled", columns(|column| column == 77)),
        update("every seventh doubled", seventh(double)),
        update("every seventh zeroed", seventh(|_| 0)),
        update("two rows zeroed", rows_zeroed(|row| (500..502).contains(&row))),
        update("all zeroed", rows_zeroed(|_| true)),
        update("a block to ones", block_to_ones(&base)),
        zeros_to_ones("rows of zeros to ones", changed(&base, |row, _, cell| if row < 10 { 0 } else { cell })),
        zeros_to_ones("scattered zeros to ones", scattered_zeros(&base)),
        update("two rows exchanged", rows_exchanged(&base)),
        update("all replaced", replaced()),
    ]
}

/// Weights about as training leaves them: a sign, a bell of exponents, and mantissas of every kind.
pub fn weights() -> Vec<u16> {
    let mut random = Random::new(8);
    let cell = |random: &mut Random| {
        let octave = random.word().trailing_zeros().min(14) as u16;
        (random.word() as u16 & 0x807f) | (122 - octave) << 7
    };
    (0..CELLS).map(|_| cell(&mut random)).collect()
}

/// The product with 2.
pub fn double(cell: u16) -> u16 {
    cell + (1 << 7)
}

/// The product with 3, to nearest even.
fn triple(cell: u16) -> u16 {
    let bits = (f32::from_bits(u32::from(cell) << 16) * 3.0).to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// The base with `change` made to each cell, which gets its row, its column, and what it was.
fn changed(base: &[u16], change: impl Fn(usize, usize, u16) -> u16) -> Vec<u16> {
    base.iter().enumerate().map(|(index, cell)| change(index / SIDE, index % SIDE, *cell)).collect()
}

fn block_to_ones(base: &[u16]) -> Vec<u16> {
    let block = |row: usize, column: usize| (100..200).contains(&row) && (300..500).contains(&column);
    changed(base, |row, column, cell| if block(row, column) { ONE } else { cell })
}

fn scattered_zeros(base: &[u16]) -> Vec<u16> {
    let mut random = Random::new(3);
    base.iter().map(|cell| if random.below(100) == 0 { 0 } else { *cell }).collect()
}

fn zeros_to_ones(name: &'static str, base: Vec<u16>) -> Update {
    let target = changed(&base, |_, _, cell| if cell == 0 { ONE } else { cell });
    Update { name, base, target }
}

fn rows_exchanged(base: &[u16]) -> Vec<u16> {
    let mut target = base.to_vec();
    let (a, b) = (10 * SIDE..11 * SIDE, 20 * SIDE..21 * SIDE);
    target[a.clone()].copy_from_slice(&base[b.clone()]);
    target[b].copy_from_slice(&base[a]);
    target
}

fn replaced() -> Vec<u16> {
    let mut random = Random::new(9);
    (0..CELLS).map(|_| random.word() as u16 & 0xbfff).collect()
}
