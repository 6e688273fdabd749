@group(0) @binding(1) var<storage, read> weights: array<u32>;

fn load(index: u32) -> u32 {
    return weights[index];
}
