// Turns ranks into places: for each change finds the block by its counts, then the cell in it. One invocation a change.
// Changes of other pieces are left alone. Nothing is written but the entries.
@group(0) @binding(2) var<storage, read> table: array<u32>;
@group(0) @binding(3) var<storage, read_write> changes: array<u32>;

fn change(index: u32) {
    let entry = changes[params.changes + index];
    if (entry & RESOLVED) != 0u {
        return;
    }
    let rank = entry >> PLACE_SHIFT;
    // The class whose changes begin last at or before this one.
    var wanted = 0u;
    var slot = 0u;
    var slots = 0u;
    for (var other = 0u; other < CLASSES; other += 1u) {
        if ((params.classes >> other) & 1u) == 1u {
            if changes[params.starts + slots] <= index {
                wanted = other;
                slot = slots;
            }
            slots += 1u;
        }
    }
    // The last block with no more cells of the class before it than the rank.
    let row = params.table + slot * params.blocks;
    var block = 0u;
    var past = params.blocks;
    while past - block > 1u {
        let middle = (block + past) / 2u;
        if table[row + middle] <= rank {
            block = middle;
        } else {
            past = middle;
        }
    }
    let words = BLOCK_CELLS / PER_WORD;
    let first_word = (block - params.first_block) * words;
    if block < params.first_block || first_word * PER_WORD >= params.cells {
        return;
    }
    var left = rank - table[row + block];
    for (var i = 0u; i < words; i += 1u) {
        let first = (first_word + i) * PER_WORD;
        if first >= params.cells {
            return;
        }
        let bits = word_of(first_word + i);
        for (var k = 0u; k < PER_WORD; k += 1u) {
            if first + k < params.cells && class_of(bits >> (k * CELL_BITS % 32u)) == wanted {
                if left == 0u {
                    let place = params.first_in_segment + first + k;
                    changes[params.changes + index] = RESOLVED | (place << PLACE_SHIFT) | (entry & STEP_MASK);
                    return;
                }
                left -= 1u;
            }
        }
    }
}
