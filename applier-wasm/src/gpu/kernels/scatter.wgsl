// Exchanges the cells of the piece at the given places with the given values: run again, it undoes itself. One invocation a change.
@group(0) @binding(3) var<storage, read_write> changes: array<atomic<u32>>;

fn change(index: u32) {
    let cell = atomicLoad(&changes[params.changes + index]);
    if cell >= params.cells {
        return;
    }
    let word = params.values + index / PER_WORD;
    let shift = index % PER_WORD * CELL_BITS % 32u;
    let after = (atomicLoad(&changes[word]) >> shift) & (0xffffffffu >> (32u - CELL_BITS));
    let before = cell_at(cell);
    replace(element_of(cell), params.first_cell + cell, before, after);
    // Values share words as cells do.
    atomicXor(&changes[word], (before ^ after) << shift);
}
