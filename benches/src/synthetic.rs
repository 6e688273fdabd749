//! Synthetic pairs of any density: weights as training leaves them, moved by one step.
//!
//! Weights are normal with deviation 0.02; each master lies anywhere in its cell; a step moves it by a normal distance,
//! chosen so that the wanted share of cells changes. P(change) then halves with every binade of the weight, as on the real chains.

use crate::PairFiles;
use std::io::{BufWriter, Write};
use std::path::Path;

/// A small, fast, seeded generator (SplitMix64): benches must be repeatable, not unpredictable.
#[derive(Debug, Clone)]
pub struct Random(u64);

impl Random {
    /// The same numbers for the same seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Close to normal: the sum of eight 16-bit uniforms, which is all that a weight's shape needs.
    pub fn normal(&mut self) -> f32 {
        let (a, b) = (self.bits(), self.bits());
        let sum: u64 = (0..4).map(|i| (a >> (16 * i) & 0xffff) + (b >> (16 * i) & 0xffff)).sum();
        (sum as f32 - 4.0 * 65_535.0) / (65_536.0 * (8.0f32 / 12.0).sqrt())
    }
}

fn to_bf16(master: f32) -> u16 {
    let bits = master.to_bits();
    ((bits + 0x7fff + (bits >> 16 & 1)) >> 16) as u16
}

/// Base and target cells of one weight.
fn cells(random: &mut Random, deviation: f32) -> (u16, u16) {
    let master = random.normal() * 0.02;
    (to_bf16(master), to_bf16(master + random.normal() * deviation))
}

/// The step's deviation that changes `density` of the cells.
fn deviation(density: f64) -> f32 {
    const SAMPLE: usize = 400_000;
    let share = |deviation: f32| {
        let mut random = Random::new(7);
        (0..SAMPLE).filter(|_| matches!(cells(&mut random, deviation), (base, target) if base != target)).count() as f64
            / SAMPLE as f64
    };
    let (mut low, mut high) = (1e-9f32, 1e-1f32);
    for _ in 0..40 {
        let middle = (low * high).sqrt();
        if share(middle) < density { low = middle } else { high = middle }
    }
    low
}

/// Writes a pair of `cells` BF16 cells in tensors of 4 Mi, of which `density` change.
pub fn write_pair(folder: &Path, cells_wanted: u64, density: f64) -> PairFiles {
    const TENSOR_CELLS: u64 = 1 << 22;
    let name = format!("synthetic {} %", density * 100.0);
    let paths = ["base", "target"].map(|side| folder.join(format!("{side}_{density}.safetensors")));
    let mut outputs = paths
        .each_ref()
        .map(|path| BufWriter::with_capacity(1 << 20, std::fs::File::create(path).expect("the folder takes files")));
    let tensors: Vec<u64> =
        (0..cells_wanted.div_ceil(TENSOR_CELLS)).map(|i| TENSOR_CELLS.min(cells_wanted - i * TENSOR_CELLS)).collect();
    let header = safetensors_header(&tensors);
    outputs.iter_mut().for_each(|output| output.write_all(&header).expect("the disk has room"));
    let deviation = deviation(density);
    let mut random = Random::new(1);
    for _ in 0..cells_wanted {
        let (base, target) = cells(&mut random, deviation);
        for (output, cell) in outputs.iter_mut().zip([base, target]) {
            output.write_all(&cell.to_le_bytes()).expect("the disk has room");
        }
    }
    let [base, target] = paths;
    PairFiles { name, base, target }
}

/// Writes a pair of one tensor, whose BF16 cells are given as bits.
pub fn write_cells(folder: &Path, name: &str, base: &[u16], target: &[u16]) -> PairFiles {
    let write = |side: &str, cells: &[u16]| {
        let path = folder.join(format!("{side}.safetensors"));
        let mut file = safetensors_header(&[cells.len() as u64]);
        file.extend(cells.iter().flat_map(|cell| cell.to_le_bytes()));
        std::fs::write(&path, file).expect("the disk has room");
        path
    };
    PairFiles { name: name.into(), base: write("base", base), target: write("target", target) }
}

fn safetensors_header(tensors: &[u64]) -> Vec<u8> {
    let mut offset = 0;
    let entries = tensors.iter().enumerate().map(|(i, cells)| {
        let (start, end) = (offset, offset + 2 * cells);
        offset = end;
        format!(r#""layers.{i}.weight":{{"dtype":"BF16","shape":[{cells}],"data_offsets":[{start},{end}]}}"#)
    });
    let mut text = format!("{{{}}}", entries.collect::<Vec<_>>().join(","));
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut header = (text.len() as u64).to_le_bytes().to_vec();
    header.extend_from_slice(text.as_bytes());
    header
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pair_has_the_wanted_density() {
        let folder = tempfile::tempdir().unwrap();
        let pair = write_pair(folder.path(), 300_000, 0.02);
        let open = |path: &Path| pulse_encoder::Checkpoint::open(path).unwrap();
        let diff = pulse_encoder::diff(&open(&pair.base), &open(&pair.target), None, &pulse_encoder::Silent).unwrap();
        let density = diff.changes() as f64 / diff.cells() as f64;
        assert!((0.019..0.021).contains(&density), "{density}");
    }
}
