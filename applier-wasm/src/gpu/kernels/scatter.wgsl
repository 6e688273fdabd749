// Exchanges the cells of the piece at the given places with the given values: run again, it undoes itself. Where ADD is true it adds the
// values to the cells instead, and leaves the cells before in their place, so that an exchange undoes it. One invocation a change.
@group(0) @binding(3) var<storage, read_write> changes: array<atomic<u32>>;

fn change(index: u32) {
    let cell = atomicLoad(&changes[params.changes + index]);
    if cell >= params.cells {
        return;
    }
    let word = params.values + index / PER_WORD;
    let shift = index % PER_WORD * CELL_BITS % 32u;
    let all = 0xffffffffu >> (32u - CELL_BITS);
    let value = (atomicLoad(&changes[word]) >> shift) & all;
    let before = cell_at(cell);
    let after = select(value, (before + value) & all, ADD == 1u);
    replace(element_of(cell), params.first_cell + cell, before, after);
    // Values share words as cells do.
    atomicXor(&changes[word], (before ^ value) << shift);
}
