@group(0) @binding(1) var<storage, read_write> weights: array<atomic<u32>>;

fn load(index: u32) -> u32 {
    return atomicLoad(&weights[index]);
}
