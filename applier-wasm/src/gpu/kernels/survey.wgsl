// Fingerprints a piece (wrongly, where an element is unsound), and counts its cells per class and block. One workgroup a block.
@group(0) @binding(2) var<storage, read_write> table: array<u32>;
@group(0) @binding(4) var<storage, read_write> sums: array<atomic<u32>>;

const LANES = 64u;
// Copies, so that fewer invocations meet at one counter.
const COPIES = 8u;
var<workgroup> counts: array<atomic<u32>, COPIES * CLASSES>;
var<workgroup> sum_a: atomic<u32>;
var<workgroup> sum_b: atomic<u32>;

@compute @workgroup_size(LANES)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) lane: u32,
) {
    let block = flat(group, groups);
    let words = BLOCK_CELLS / PER_WORD;
    var a = 0u;
    var b = 0u;
    for (var i = lane; i < words; i += LANES) {
        let word = block * words + i;
        let first = word * PER_WORD;
        if first < params.cells {
            let bits = word_of(word);
            let index = params.first_word + word;
            let key_a = params.salt_a + index * INDEX_A;
            let key_b = params.salt_b + index * INDEX_B;
            var x = bits ^ key_a;
            x ^= x >> 16u;
            x *= key_b;
            x ^= x >> 16u;
            a += x;
            b += x * key_a;
            if params.classes != 0u {
                for (var k = 0u; k < PER_WORD; k += 1u) {
                    if first + k < params.cells {
                        let exponent_class = class_of(bits >> (k * CELL_BITS % 32u));
                        atomicAdd(&counts[lane % COPIES * CLASSES + exponent_class], 1u);
                    }
                }
            }
        }
    }
    // What is unsound must not look like the cell that it was rounded from.
    atomicAdd(&sum_a, a + unsound);
    atomicAdd(&sum_b, b + unsound);
    workgroupBarrier();
    // The last row of a two-dimensional dispatch may reach past the piece.
    if block * BLOCK_CELLS >= params.cells {
        return;
    }
    if lane < CLASSES && ((params.classes >> lane) & 1u) == 1u {
        var count = 0u;
        for (var copy = 0u; copy < COPIES; copy += 1u) {
            count += atomicLoad(&counts[copy * CLASSES + lane]);
        }
        let slot = countOneBits(params.classes & ((1u << lane) - 1u));
        table[params.table + slot * params.blocks + params.first_block + block] = count;
    }
    if lane == 0u {
        atomicAdd(&sums[params.sums], atomicLoad(&sum_a));
        atomicAdd(&sums[params.sums + 1u], atomicLoad(&sum_b));
        // Behind the totals: the keys of the side table, the most of those of the segment.
        let keys = side_keys();
        if keys != 0u {
            atomicMax(&sums[params.totals + CLASSES], keys);
        }
    }
}
