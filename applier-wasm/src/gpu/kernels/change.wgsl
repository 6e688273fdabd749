// Where a kernel with an invocation a change begins: what becomes of one is its `change`.
@compute @workgroup_size(CHANGES_PER_WORKGROUP)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let index = flat(group, groups) * CHANGES_PER_WORKGROUP + lane;
    if index < params.count {
        change(index);
    }
}
