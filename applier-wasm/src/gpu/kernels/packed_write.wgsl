// Cells share words: flipping the bits that differ leaves the neighbour alone, whoever comes first.
fn replace(element: u32, cell: u32, before: u32, after: u32) {
    let per_word = 32u / STORED_BITS;
    atomicXor(&weights[element / per_word], (before ^ after) << (element % per_word * STORED_BITS));
}
