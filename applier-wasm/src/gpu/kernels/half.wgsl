// BF16 in f16, two to a word. What f16 does not hold exactly is in a hash table of pairs: the cell's index within the tensor plus 1
// (0: a free slot), and its bits (0: by now f16 holds the cell exactly). Slots are found by linear probing and never freed. Behind
// the last pair is the number of keys.
const NOWHERE = 0xffffffffu;

fn first_slot(key: u32) -> u32 {
    let mixed = key * SIDE_FACTOR;
    return (mixed ^ (mixed >> 15u)) & params.side_mask;
}

// Where the pair of a key is.
fn find(key: u32) -> u32 {
    var slot = first_slot(key);
    for (var i = 0u; i <= params.side_mask; i += 1u) {
        let found = side_load(2u * slot);
        if found == key {
            return 2u * slot;
        }
        if found == 0u {
            return NOWHERE;
        }
        slot = (slot + 1u) & params.side_mask;
    }
    return NOWHERE;
}

fn side_keys() -> u32 {
    return side_load(2u * params.side_mask + 2u);
}

// Whether a BF16 that is not exact may be rounded to this f16: up to 2^-17, and infinities.
fn may_be_rounded(held: u32) -> bool {
    let magnitude = held & 0x7fffu;
    return magnitude <= LARGEST_ROUNDED || magnitude == INFINITY;
}

// The f16 nearest to a BF16, ties to even, an infinity beyond f16's largest.
fn nearest(bits: u32) -> u32 {
    let sign = bits & 0x8000u;
    let exponent = (bits >> 7u) & 0xffu;
    let mantissa = bits & 0x7fu;
    if exponent == 0xffu {
        return sign | INFINITY | (mantissa << 3u);
    }
    if exponent >= TOO_LARGE {
        return sign | INFINITY;
    }
    if exponent >= NORMAL {
        return sign | ((exponent - (NORMAL - 1u)) << 10u) | (mantissa << 3u);
    }
    if exponent < SMALLEST - 1u {
        return sign;
    }
    // In quarters of 2^-24, a shift short.
    let quarters = (0x80u | mantissa) << 2u;
    let shift = NORMAL - 1u - exponent;
    let kept = quarters >> shift;
    let rest = quarters & ((1u << shift) - 1u);
    let tie = (1u << shift) >> 1u;
    let up = rest > tie || (rest == tie && (kept & 1u) == 1u);
    return sign | (kept + select(0u, 1u, up));
}

// An f16 as BF16, without the mantissa bits that do not fit; bit 16 tells that those are not zeros.
fn truncated(held: u32) -> u32 {
    let sign = held & 0x8000u;
    let magnitude = held & 0x7fffu;
    if magnitude == 0u {
        return sign;
    }
    var exponent = (magnitude >> 10u) + NORMAL - 1u;
    var mantissa = magnitude & 0x3ffu;
    if magnitude >= INFINITY {
        exponent = 0xffu;
    } else if magnitude < 0x400u {
        let top = firstLeadingBit(magnitude);
        exponent = SMALLEST + top;
        mantissa = (magnitude << (10u - top)) & 0x3ffu;
    }
    return sign | (exponent << 7u) | (mantissa >> 3u) | select(0u, 0x10000u, (mantissa & 7u) != 0u);
}

fn stored(element: u32, cell: u32) -> u32 {
    let held = (load(element / 2u) >> (element % 2u * 16u)) & 0xffffu;
    if may_be_rounded(held) {
        let at = find(cell + 1u);
        if at != NOWHERE {
            let bits = side_load(at + 1u);
            if bits != 0u {
                unsound += select(0u, 1u, nearest(bits) != held);
                return bits;
            }
        }
    }
    let bits = truncated(held);
    unsound += bits >> 16u;
    return bits & 0xffffu;
}
