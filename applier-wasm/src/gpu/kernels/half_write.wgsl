@group(0) @binding(5) var<storage, read_write> side: array<atomic<u32>>;

fn side_load(index: u32) -> u32 {
    return atomicLoad(&side[index]);
}

// Cells share words: flipping the bits that differ leaves the neighbour alone, whoever comes first.
fn replace(element: u32, cell: u32, before: u32, after: u32) {
    let held = nearest(before);
    let wanted = nearest(after);
    atomicXor(&weights[element / 2u], (held ^ wanted) << (element % 2u * 16u));
    if truncated(wanted) != after {
        put(cell + 1u, after);
    } else if may_be_rounded(held) || may_be_rounded(wanted) {
        let at = find(cell + 1u);
        if at != NOWHERE {
            atomicStore(&side[at + 1u], 0u);
        }
    }
}

// No other invocation has this key, but others look for slots at the same time.
fn put(key: u32, bits: u32) {
    var slot = first_slot(key);
    for (var i = 0u; i < 2u * params.side_mask + 2u; i += 1u) {
        let claim = atomicCompareExchangeWeak(&side[2u * slot], 0u, key);
        if claim.exchanged || claim.old_value == key {
            atomicStore(&side[2u * slot + 1u], bits);
            if claim.exchanged {
                atomicAdd(&side[2u * params.side_mask + 2u], 1u);
            }
            return;
        }
        // A weak exchange may fail where the slot is free; then it is tried again.
        if claim.old_value != 0u {
            slot = (slot + 1u) & params.side_mask;
        }
    }
}
