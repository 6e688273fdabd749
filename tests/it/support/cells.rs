//! Cells and checkpoints made up for tests, the same in every run.

use pulse_encoder::{Checkpoint, EncodeOptions, PackOptions, Silent, encode, pack};
use pulse_format::Dtype;
pub(crate) use pulse_tests::random::Random;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// The cells of a checkpoint, by tensor.
pub(crate) type Cells = BTreeMap<String, Vec<u8>>;

/// A tensor before and after.
#[derive(Debug, Clone)]
pub(crate) struct TestTensor {
    pub(crate) name: String,
    pub(crate) dtype: Dtype,
    pub(crate) shape: Vec<u64>,
    pub(crate) base: Vec<u8>,
    pub(crate) target: Vec<u8>,
}

impl TestTensor {
    pub(crate) fn new(name: &str, dtype: Dtype, shape: &[u64], base: Vec<u8>, target: Vec<u8>) -> Self {
        assert_eq!(base.len() as u64 * 8, shape.iter().product::<u64>() * dtype.element_bits(), "bytes of {name}");
        assert_eq!(base.len(), target.len(), "bytes of {name}");
        Self { name: name.into(), dtype, shape: shape.to_vec(), base, target }
    }

    /// Any bits. About one cell in `every` becomes any other bits; none if `every` is 0.
    pub(crate) fn noise(name: &str, dtype: Dtype, shape: &[u64], every: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let base = random.bytes((shape.iter().product::<u64>() * dtype.element_bits() / 8) as usize);
        let mut target = base.clone();
        for cell in target.chunks_mut(dtype.cell_bytes()) {
            if every > 0 && random.below(every) == 0 {
                let byte = random.below(cell.len());
                cell[byte] ^= 1 + random.below(255) as u8;
            }
        }
        Self::new(name, dtype, shape, base, target)
    }

    /// BF16 weights as training leaves and moves them: about one in `every` by a ULP step or two, the small ones more often.
    pub(crate) fn weights(name: &str, shape: &[u64], every: usize, seed: u64) -> Self {
        let mut random = Random::new(seed);
        let (mut base, mut target) = (Vec::new(), Vec::new());
        for _ in 0..shape.iter().product::<u64>() {
            let octave = random.word().trailing_zeros().min(14) as u16;
            let cell = (random.word() as u16 & 0x807f) | (122 - octave) << 7;
            let changes = random.below(every.max(1) * 8) < 4 + usize::from(octave) && every > 0;
            let step = [1, 1, 1, 2][random.below(4)];
            let moved = if random.below(2) == 0 { cell + step } else { cell - step };
            base.extend(cell.to_le_bytes());
            target.extend(if changes { moved } else { cell }.to_le_bytes());
        }
        Self::new(name, Dtype::Bf16, shape, base, target)
    }

    /// BF16 weights, half of which double: what a relative segment codes.
    pub(crate) fn doubled(name: &str, shape: &[u64], seed: u64) -> Self {
        let mut tensor = Self::weights(name, shape, 0, seed);
        for cell in tensor.target.as_chunks_mut().0.iter_mut().step_by(2) {
            *cell = (u16::from_le_bytes(*cell) + (1 << 7)).to_le_bytes();
        }
        tensor
    }

    /// How many cells differ.
    pub(crate) fn changes(&self) -> u64 {
        let width = self.dtype.cell_bytes();
        self.base.chunks(width).zip(self.target.chunks(width)).filter(|(base, target)| base != target).count() as u64
    }
}

/// Two checkpoints of the same tensors.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// In the order in which files hold them.
    pub(crate) tensors: Vec<TestTensor>,
}

impl Pair {
    pub(crate) fn new(tensors: impl Into<Vec<TestTensor>>) -> Self {
        Self { tensors: tensors.into() }
    }

    /// A few kilobytes that use every profile but `relative`, small segments and every kind of piece.
    pub(crate) fn mixed() -> Self {
        Self::new([
            TestTensor::weights("layers.0.w", &[30, 70], 12, 1),
            TestTensor::weights("layers.1.norm", &[65], 4, 2),
            TestTensor::noise("scale", Dtype::F8E4m3, &[130], 9, 3),
            TestTensor::noise("counts", Dtype::U16, &[1300], 11, 4),
            TestTensor::noise("ids", Dtype::I64, &[90], 6, 6),
            TestTensor::noise("mask", Dtype::U8, &[33], 0, 5),
        ])
    }

    /// [`EncodeOptions`] that cut [`Pair::mixed`] into several segments of each dtype.
    pub(crate) fn mixed_options() -> EncodeOptions {
        EncodeOptions { segment_cells: 1024, seed: 77, run_id: "mixed".into(), ..EncodeOptions::default() }
    }

    /// From the target back to the base.
    pub(crate) fn reversed(&self) -> Self {
        let swapped = |tensor: &TestTensor| {
            let TestTensor { base, target, .. } = tensor.clone();
            TestTensor { base: target, target: base, ..tensor.clone() }
        };
        Self::new(self.tensors.iter().map(swapped).collect::<Vec<_>>())
    }

    pub(crate) fn base_cells(&self) -> Cells {
        self.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.base.clone())).collect()
    }

    pub(crate) fn target_cells(&self) -> Cells {
        self.tensors.iter().map(|tensor| (tensor.name.clone(), tensor.target.clone())).collect()
    }

    pub(crate) fn changes(&self) -> u64 {
        self.tensors.iter().map(TestTensor::changes).sum()
    }

    /// The target's anchor, with what of the options it can have.
    pub(crate) fn pack(&self, options: &EncodeOptions) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (_, target) = self.write(folder.path());
        let EncodeOptions { cast, run_id, target_step: step, seed, segment_cells, .. } = options.clone();
        let options = PackOptions { cast, run_id, step, seed, segment_cells };
        pack(&Checkpoint::open(&target).unwrap(), &options, &Silent).unwrap().into_bytes().unwrap()
    }

    /// The base as a safetensors file.
    pub(crate) fn base_file(&self) -> Vec<u8> {
        safetensors_file(self.tensors.iter().map(|tensor| (tensor, tensor.base.as_slice())))
    }

    /// The target as a safetensors file with the same header.
    pub(crate) fn target_file(&self) -> Vec<u8> {
        safetensors_file(self.tensors.iter().map(|tensor| (tensor, tensor.target.as_slice())))
    }

    /// Writes both files into `folder`.
    pub(crate) fn write(&self, folder: &Path) -> (PathBuf, PathBuf) {
        let (base, target) = (folder.join("base.safetensors"), folder.join("target.safetensors"));
        std::fs::write(&base, self.base_file()).unwrap();
        std::fs::write(&target, self.target_file()).unwrap();
        (base, target)
    }

    /// The patch from base to target.
    pub(crate) fn encode(&self, options: &EncodeOptions) -> Vec<u8> {
        let folder = tempfile::tempdir().unwrap();
        let (base, target) = self.write(folder.path());
        let (base, target) = (Checkpoint::open(&base).unwrap(), Checkpoint::open(&target).unwrap());
        encode(&base, &target, options, &Silent).unwrap().into_bytes().unwrap()
    }
}

/// A safetensors file with its tensors in the order given, which the crate's own writer would sort and align.
pub(crate) fn safetensors_file<'a>(tensors: impl Iterator<Item = (&'a TestTensor, &'a [u8])>) -> Vec<u8> {
    let mut entries = serde_json::Map::new();
    let mut data = Vec::new();
    for (tensor, bytes) in tensors {
        let offsets = [data.len(), data.len() + bytes.len()];
        data.extend_from_slice(bytes);
        let entry = serde_json::json!({ "dtype": tensor.dtype.name(), "shape": tensor.shape, "data_offsets": offsets });
        entries.insert(tensor.name.clone(), entry);
    }
    let header = serde_json::Value::Object(entries).to_string();
    let mut file = (header.len() as u64).to_le_bytes().to_vec();
    file.extend_from_slice(header.as_bytes());
    file.extend_from_slice(&data);
    file
}
