// Counts per block become counts before each block. One workgroup a class.
@group(0) @binding(2) var<storage, read_write> table: array<u32>;
@group(0) @binding(4) var<storage, read_write> sums: array<u32>;

const LANES = 256u;
var<workgroup> ends: array<u32, LANES>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let slot = flat(group, groups);
    if slot >= countOneBits(params.classes) {
        return;
    }
    let row = params.table + slot * params.blocks;
    let share = (params.blocks + LANES - 1u) / LANES;
    let first = min(lane * share, params.blocks);
    let end = min(first + share, params.blocks);
    var count = 0u;
    for (var i = first; i < end; i += 1u) {
        count += table[row + i];
    }
    ends[lane] = count;
    workgroupBarrier();
    for (var distance = 1u; distance < LANES; distance *= 2u) {
        var earlier = 0u;
        if lane >= distance {
            earlier = ends[lane - distance];
        }
        workgroupBarrier();
        ends[lane] += earlier;
        workgroupBarrier();
    }
    var before = ends[lane] - count;
    for (var i = first; i < end; i += 1u) {
        let here = table[row + i];
        table[row + i] = before;
        before += here;
    }
    if lane == LANES - 1u {
        sums[params.totals + slot] = ends[lane];
    }
}
