@group(0) @binding(5) var<storage, read> side: array<u32>;

fn side_load(index: u32) -> u32 {
    return side[index];
}
