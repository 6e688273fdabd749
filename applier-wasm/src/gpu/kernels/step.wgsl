// Moves each changed cell of the piece by its ULP step, or back where BACK is 1. One invocation a change of the segment.
@group(0) @binding(3) var<storage, read> changes: array<u32>;

// The step of a change, modulo 2^32: -1, +1, -2, +2, ... by its code, or from the escapes, which ascend by index.
fn step_of(index: u32, entry: u32) -> u32 {
    var code = entry & STEP_MASK;
    if code == STEP_MASK {
        var first = 0u;
        var past = params.escape_count;
        while past - first > 1u {
            let middle = (first + past) / 2u;
            if changes[params.escapes + 2u * middle] <= index {
                first = middle;
            } else {
                past = middle;
            }
        }
        code = changes[params.escapes + 2u * first + 1u];
    }
    let z = code + 1u;
    return (z >> 1u) ^ (0u - (z & 1u));
}

// The place on the number line, and back.
fn ordinal(cell: u32) -> u32 {
    let sign = 1u << (CELL_BITS - 1u);
    return select(cell ^ sign, cell ^ (sign | (sign - 1u)), (cell & sign) != 0u);
}

fn from_ordinal(place: u32) -> u32 {
    let sign = 1u << (CELL_BITS - 1u);
    return select(place ^ (sign | (sign - 1u)), place ^ sign, (place & sign) != 0u);
}

fn change(index: u32) {
    let entry = changes[params.changes + index];
    let cell = ((entry >> PLACE_SHIFT) & PLACE_MASK) - params.first_in_segment;
    if (entry & RESOLVED) == 0u || cell >= params.cells {
        return;
    }
    var step = step_of(index, entry);
    if BACK == 1u {
        step = 0u - step;
    }
    let before = cell_at(cell);
    let sign = 1u << (CELL_BITS - 1u);
    let after = from_ordinal((ordinal(before) + step) & (sign | (sign - 1u)));
    replace(element_of(cell), params.first_cell + cell, before, after);
}
