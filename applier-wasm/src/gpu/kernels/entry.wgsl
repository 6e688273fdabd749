// A change: a step in bits 0 to 8, a rank or a place in the segment in bits 9 to 30, and in bit 31 which of the two.
const STEP_MASK = 0x1ffu;
const PLACE_SHIFT = 9u;
const PLACE_MASK = 0x3fffffu;
const RESOLVED = 0x80000000u;
