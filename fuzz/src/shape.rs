//! Small checkpoints cut in any way, and the patches between them.

use crate::Codec;
use libfuzzer_sys::arbitrary::{self, Arbitrary};
use pulse_format::apply::segment_fingerprint;
use pulse_format::contextual::{self, ContextualChanges, Tokens};
use pulse_format::layout::{BLOCK_CELLS, MAX_RELATIVE_CELL_BYTES};
use pulse_format::masks::Portable;
use pulse_format::model::{ContextModel, Histogram};
use pulse_format::scan::{PiecePair, scan_absolute, scan_contextual};
use pulse_format::{Dtype, Header, Profile, Segment, Step, Tensor, dense, positional, with_float_cell};

/// How cells are spread over tensors and segments, and coded.
#[derive(Debug, Arbitrary)]
pub struct Shape {
    dtype: u8,
    absolute_only: bool,
    is_dense: bool,
    seed: u8,
    /// Cells of each tensor but the last, which takes the rest.
    tensors: Vec<u16>,
    tensors_a_segment: u8,
    blocks_a_segment: u8,
    blocks_a_run: u8,
}

/// A few fuzzed bits spread over many, so that short inputs reach far. 0 stays 0.
fn spread(byte: u8) -> u64 {
    u64::from(byte).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

impl Shape {
    /// One whose elements fill cells; half the time, one that may be contextual.
    pub fn dtype(&self) -> Dtype {
        let fits = |dtype: &&Dtype| match self.dtype {
            ..0x80 => dtype.float_format().is_some(),
            _ => dtype.element_bits() >= 8,
        };
        let fitting: Vec<_> = Dtype::ALL.iter().filter(fits).collect();
        *fitting[usize::from(self.dtype) % fitting.len()]
    }

    /// The same for all segments.
    pub fn is_contextual(&self) -> bool {
        self.dtype().float_format().is_some() && !self.absolute_only && !self.is_dense
    }

    /// Whether all cells are told, changed or not.
    pub fn is_dense(&self) -> bool {
        self.is_dense
    }

    /// Whether changes by position are differences: half the time where the dtype has them.
    pub fn is_relative(&self) -> bool {
        self.seed >= 0x80 && self.dtype().cell_bytes() <= MAX_RELATIVE_CELL_BYTES
    }

    /// Cells that a placer is given at once.
    pub fn run_cells(&self) -> usize {
        (usize::from(self.blocks_a_run % 4) + 1) * BLOCK_CELLS
    }

    /// A valid header of unchanged segments over `cells` cells. Segments end behind a tensor, or within one on the block grid.
    pub fn header(&self, cells: usize) -> Header {
        let mut left = cells;
        let mut lengths = Vec::new();
        for wanted in &self.tensors {
            lengths.push(left.min(usize::from(*wanted)));
            left -= lengths[lengths.len() - 1];
        }
        lengths.push(left);
        let (tensors_a_segment, most) = (
            usize::from(self.tensors_a_segment % 4) + 1,
            [1, 2, 9, 4096][usize::from(self.blocks_a_segment % 4)] * BLOCK_CELLS,
        );
        let mut segments = Vec::new();
        let mut open = 0;
        for (number, length) in (1..).zip(&lengths) {
            let mut length = *length;
            while length > most {
                segments.push(std::mem::take(&mut open) + most);
                length -= most;
            }
            open += length;
            if number % tensors_a_segment == 0 || number == lengths.len() {
                segments.push(std::mem::take(&mut open));
            }
        }
        let segments = segments.iter().filter(|cells| **cells > 0);
        let tensor = |(number, length): (usize, &usize)| Tensor {
            name: format!("{number:06}"),
            dtype: self.dtype(),
            shape: vec![*length as u64 * self.dtype().cell_bytes() as u64 * 8 / self.dtype().element_bits()],
        };
        let mut header = Header {
            base_step: Some(Step(0)),
            target_step: Step(1),
            seed: spread(self.seed),
            tensors: lengths.iter().enumerate().map(tensor).collect(),
            segments: segments.map(|cells| Segment::unchanged(*cells as u32, Default::default())).collect(),
            ..Header::default()
        };
        header.write(&Codec).expect("the cuts are valid");
        header
    }

    /// The bytes of each segment's cells, one after the other.
    pub fn cut<'a>(&self, header: &Header, mut bytes: &'a [u8]) -> Vec<&'a [u8]> {
        let cells = header.segments.iter().map(|segment| segment.cells as usize * self.dtype().cell_bytes());
        cells.map(|length| bytes.split_off(..length).expect("segments cover the cells")).collect()
    }

    /// A valid patch between two equally long runs of cells: its header, and each segment's payload.
    pub fn encode(&self, base: &[u8], target: &[u8]) -> (Header, Vec<Vec<u8>>) {
        let mut header = self.header(base.len() / self.dtype().cell_bytes());
        let sides: Vec<_> = self.cut(&header, base).into_iter().zip(self.cut(&header, target)).collect();
        let mut payloads = Vec::new();
        for (index, (base, target)) in sides.into_iter().enumerate() {
            let pairs = self.pairs(&header, index, base, target);
            let (segment, payload, model) =
                self.encode_segment(&pairs, header.segments[index].cells, header.models.len());
            assert_eq!(segment.base, segment_fingerprint(&header, index, base));
            assert_eq!(segment.target, segment_fingerprint(&header, index, target));
            header.models.extend(model);
            let Segment { tensor, first_cell, .. } = header.segments[index];
            header.segments[index] = Segment { tensor, first_cell, ..segment };
            payloads.push(payload);
        }
        (header, payloads)
    }

    fn pairs<'a>(&self, header: &Header, index: usize, mut base: &'a [u8], mut target: &'a [u8]) -> Vec<PiecePair<'a>> {
        let width = self.dtype().cell_bytes();
        let pair = |piece: pulse_format::Piece| {
            let length = piece.cells as usize * width;
            let next = |side: &mut &'a [u8]| side.split_off(..length).expect("pieces cover the segment");
            let first_word = piece.first_cell.get() * width as u64 / 4;
            PiecePair { tensor: piece.tensor as u32, first_word, base: next(&mut base), target: next(&mut target) }
        };
        header.pieces(index).into_iter().map(pair).collect()
    }

    fn encode_segment(
        &self,
        pairs: &[PiecePair<'_>],
        cells: u32,
        models: usize,
    ) -> (Segment, Vec<u8>, Option<ContextModel>) {
        let mut payload = Vec::new();
        if self.is_dense {
            let mut changes = positional::PositionalChanges::default();
            let sums = scan_absolute(Portable, pairs, spread(self.seed), self.dtype().cell_bytes(), &mut changes);
            let target: Vec<&[u8]> = pairs.iter().map(|pair| pair.target).collect();
            dense::encode(&target, self.dtype(), &Codec, &mut payload);
            let segment =
                Segment::unchanged(cells, sums.base).with_payload(Profile::Dense, cells, sums.target, &payload);
            return (segment.expect("payloads are short"), payload, None);
        }
        let (sums, profile, changes, model) = match self.dtype().float_format().filter(|_| self.is_contextual()) {
            Some(format) => {
                let mut changes = ContextualChanges::default();
                let sums = with_float_cell!(format, C => scan_contextual::<C>(Portable, pairs, spread(self.seed), &mut changes, &mut Vec::new()));
                let mut histogram = Histogram::default();
                let tokens = Tokens::new(&changes, &Codec);
                histogram.count(&tokens);
                let model = ContextModel::from_histogram(&histogram);
                contextual::encode(&tokens, &model, &mut payload).expect("the model is made for these changes");
                (sums, Profile::Contextual { model: models }, changes.len(), Some(model))
            }
            None => {
                let mut changes = positional::PositionalChanges::default();
                let sums = scan_absolute(Portable, pairs, spread(self.seed), self.dtype().cell_bytes(), &mut changes);
                if self.is_relative() {
                    changes.make_relative(pairs.iter().map(|pair| pair.base), self.dtype().cell_bytes());
                }
                positional::encode(&changes, self.dtype().cell_bytes(), &Codec, &mut payload);
                let profile = if self.is_relative() { Profile::Relative } else { Profile::Absolute };
                (sums, profile, changes.len(), None)
            }
        };
        let unchanged = Segment::unchanged(cells, sums.base);
        if changes == 0 {
            assert_eq!(sums.base, sums.target);
            return (unchanged, Vec::new(), None);
        }
        let segment = unchanged.with_payload(profile, changes as u32, sums.target, &payload);
        (segment.expect("payloads are short"), payload, model)
    }
}
