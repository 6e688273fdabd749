// Cells as they are in a checkpoint: 32 / STORED_BITS of them in a word.
fn stored(element: u32, cell: u32) -> u32 {
    let per_word = 32u / STORED_BITS;
    let word = load(element / per_word);
    if STORED_BITS == 32u {
        return word;
    }
    return (word >> (element % per_word * STORED_BITS)) & ((1u << (STORED_BITS % 32u)) - 1u);
}

fn side_keys() -> u32 {
    return 0u;
}
