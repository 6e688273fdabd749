// One piece of a segment, or one segment: what a dispatch works on. `Params` in kernels/mod.rs has the same fields.
struct Params {
    // Cells of the piece, and the index of its first 32-bit word and first cell within the tensor.
    cells: u32,
    first_word: u32,
    first_cell: u32,
    // Keys of the fingerprint.
    salt_a: u32,
    salt_b: u32,
    // Where cell 0 of the tensor (with columns) or of the piece (without) is, in elements from the start of the binding.
    origin: u32,
    // Cells of a row; 0 where cells follow one another.
    columns: u32,
    row_step: u32,
    column_step: u32,
    // The cell format.
    mantissa_bits: u32,
    exponent_mask: u32,
    first_exponent: u32,
    // The segment: active classes as a bit set, its table, its blocks, and which of them are the piece's.
    classes: u32,
    table: u32,
    blocks: u32,
    first_block: u32,
    // The piece's first cell within the segment.
    first_in_segment: u32,
    // Its changes, where each class begins among them, and the steps that do not fit an entry.
    changes: u32,
    count: u32,
    starts: u32,
    escapes: u32,
    escape_count: u32,
    values: u32,
    // Where its fingerprint and its class totals are summed.
    sums: u32,
    totals: u32,
    // The side table of an f16 tensor: its slots less one.
    side_mask: u32,
}

@group(0) @binding(0) var<uniform> params: Params;

const BLOCK_CELLS = 1024u;

// Dispatches are two-dimensional where one dimension is not enough.
fn flat(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
