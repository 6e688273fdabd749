const PER_WORD = 32u / CELL_BITS;

// How many elements were read that hold what no cell gives: somebody else has written there.
var<private> unsound = 0u;

// The element that holds a cell of the piece.
fn element_of(cell: u32) -> u32 {
    if params.columns == 0u {
        return params.origin + cell;
    }
    let index = params.first_cell + cell;
    let row = index / params.columns;
    return params.origin + row * params.row_step + (index - row * params.columns) * params.column_step;
}

// A cell of the piece.
fn cell_at(cell: u32) -> u32 {
    return stored(element_of(cell), params.first_cell + cell);
}

// The 32-bit word of the tensor, as a checkpoint holds it, that begins with a cell of the piece; zeros past its end.
fn word_of(word: u32) -> u32 {
    let first = word * PER_WORD;
    var bits = 0u;
    for (var i = 0u; i < PER_WORD; i += 1u) {
        if first + i < params.cells {
            bits |= cell_at(first + i) << (i * CELL_BITS % 32u);
        }
    }
    return bits;
}

// The exponent class of the cell in the low bits.
fn class_of(bits: u32) -> u32 {
    let exponent = (bits >> params.mantissa_bits) & params.exponent_mask;
    return min(max(exponent, params.first_exponent) - params.first_exponent, CLASSES - 1u);
}
