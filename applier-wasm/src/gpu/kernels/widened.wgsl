// BF16 widened to f32. The low half is zero in every such value; where it is not, the bits differ and so will the fingerprint.
fn stored(element: u32) -> u32 {
    let word = load(element);
    return (word >> 16u) ^ (word & 0xffffu);
}
