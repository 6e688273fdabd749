// Dispatches are two-dimensional where one dimension is not enough.
fn flat(group: vec3<u32>, groups: vec3<u32>) -> u32 {
    return group.y * groups.x + group.x;
}
