// BF16 widened to f32. The low half is zero in every such value.
fn stored(element: u32, cell: u32) -> u32 {
    let word = load(element);
    unsound += select(0u, 1u, (word & 0xffffu) != 0u);
    return word >> 16u;
}

fn side_keys() -> u32 {
    return 0u;
}
