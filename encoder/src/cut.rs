//! Where segments begin and end.

use pulse_format::layout::{BLOCK_CELLS, MAX_SEGMENT_CELLS};
use pulse_format::{CellIndex, Dtype, Piece, Tensor};

/// A segment of at least this many cells ends at the next layer, so that receivers of some layers fetch theirs only.
const LAYER_CUT_CELLS: u64 = 1 << 20;

/// Cuts the cells of all tensors into segments of at most `max_cells`, a multiple of the block.
///
/// A segment holds cells of one dtype. It ends before a tensor of another layer once it has [`LAYER_CUT_CELLS`], and within a tensor
/// only when it is full.
pub(crate) fn cut(tensors: &[Tensor], max_cells: u32) -> Vec<Vec<Piece>> {
    let max_cells =
        u64::from(max_cells.clamp(BLOCK_CELLS as u32, MAX_SEGMENT_CELLS)) / BLOCK_CELLS as u64 * BLOCK_CELLS as u64;
    let mut segments: Vec<Vec<Piece>> = Vec::new();
    let mut filled = 0;
    let mut previous: Option<(Dtype, &str)> = None;
    for (tensor, entry) in tensors.iter().enumerate() {
        let cells = entry.cells().unwrap_or_default().get();
        let group = (entry.dtype, layer(&entry.name));
        let new_dtype = previous.is_some_and(|(dtype, _)| dtype != group.0);
        let new_layer = previous.is_some_and(|previous| previous != group) && filled >= LAYER_CUT_CELLS.min(max_cells);
        let mut first = 0;
        if new_dtype
            || new_layer
            || previous.is_none()
            || filled + cells > max_cells && filled >= LAYER_CUT_CELLS.min(max_cells)
        {
            filled = max_cells;
        }
        while first < cells {
            // What is left in this segment, kept on the block grid of this tensor.
            let left = (max_cells - filled) / BLOCK_CELLS as u64 * BLOCK_CELLS as u64;
            let room = if cells - first <= max_cells - filled { cells - first } else { left };
            if room == 0 {
                segments.push(Vec::new());
                filled = 0;
                continue;
            }
            let piece = Piece { tensor, first_cell: CellIndex(first), cells: room as u32 };
            segments.last_mut().expect("the first tensor opens a segment").push(piece);
            first += room;
            filled += room;
        }
        if cells > 0 {
            previous = Some(group);
        }
    }
    segments
}

/// The name up to its first number: `model.layers.7` of `model.layers.7.mlp.up_proj.weight`.
fn layer(name: &str) -> &str {
    let mut end = 0;
    for part in name.split('.') {
        end += part.len();
        if !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit()) {
            return &name[..end];
        }
        end += 1;
    }
    ""
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tensor(name: &str, dtype: Dtype, cells: u64) -> Tensor {
        Tensor { name: name.into(), dtype, shape: vec![cells] }
    }

    fn sizes(tensors: &[Tensor], max_cells: u32) -> Vec<u32> {
        cut(tensors, max_cells).iter().map(|pieces| pieces.iter().map(|piece| piece.cells).sum()).collect()
    }

    #[test]
    fn small_tensors_share_and_large_ones_span() {
        let small = |i: u32| tensor(&format!("a.{i}"), Dtype::Bf16, 700);
        assert_eq!(sizes(&[small(0), small(1)], 4096), [1400], "layers far below a segment share it");
        assert_eq!(sizes(&[tensor("w", Dtype::Bf16, 10_000)], 4096), [4096, 4096, 1808]);
        assert_eq!(sizes(&[tensor("w", Dtype::Bf16, 10_000), tensor("x", Dtype::F32, 5)], 4096), [4096, 4096, 1808, 5]);
        assert_eq!(sizes(&[tensor("e", Dtype::Bf16, 0), tensor("f", Dtype::Bf16, 1)], 4096), [1]);
        assert_eq!(sizes(&[], 4096), [0; 0]);
    }

    #[test]
    fn cuts_within_a_tensor_stay_on_the_block_grid() {
        let tensors = [tensor("a", Dtype::Bf16, 1000), tensor("b", Dtype::Bf16, 9000), tensor("c", Dtype::Bf16, 3)];
        for pieces in cut(&tensors, 4096) {
            assert!(pieces.iter().all(|piece| piece.first_cell.get() % BLOCK_CELLS as u64 == 0));
        }
        assert_eq!(sizes(&tensors, 4096).iter().sum::<u32>(), 10_003);
    }

    #[test]
    fn large_layers_have_segments_of_their_own() {
        let layer_cells = (LAYER_CUT_CELLS + 5) as u32;
        let tensors = ["m.0.a", "m.0.b", "m.1.a", "n"].map(|name| tensor(name, Dtype::Bf16, layer_cells.into()));
        assert_eq!(sizes(&tensors, MAX_SEGMENT_CELLS), [2 * layer_cells, layer_cells, layer_cells]);
        assert_eq!(
            [layer("model.layers.12.mlp.w"), layer("a.b"), layer("7"), layer("")],
            ["model.layers.12", "", "7", ""]
        );
    }
}
