//! Every magic, code, width and cap of the format, in one place; only the tables of dtypes (`dtype.rs`) and of the fields of floats
//! (`cell.rs`) stand beside what reads them. FORMAT.md gives the same numbers in prose.

/// First eight bytes of a patch. The high bit and the line ending catch transfers that mangle binary files.
pub const MAGIC: [u8; 8] = *b"\x89PULSE\r\n";
/// The one version this build reads and writes.
pub const VERSION: u16 = 1;
/// Magic, version, flags, packed and raw header length, hash.
pub const PREAMBLE_BYTES: usize = 8 + 2 + 2 + 4 + 4 + HASH_BYTES;
/// Bytes of the preamble that its hash covers, followed by the packed header.
pub const PREAMBLE_HASHED_BYTES: usize = PREAMBLE_BYTES - HASH_BYTES;
/// A BLAKE3 hash.
pub const HASH_BYTES: usize = 32;

/// Longest run id, in bytes of UTF-8.
pub const MAX_RUN_ID_BYTES: usize = 256;
/// Longest tensor name, in bytes of UTF-8.
pub const MAX_NAME_BYTES: usize = 4096;
/// Most dimensions of a tensor.
pub const MAX_RANK: usize = 16;
/// Most context models of a patch.
pub const MAX_MODELS: usize = 1 << 16;

/// Cells a segment covers at most: 8 MiB of BF16, and ranks that fit 22 bits.
pub const MAX_SEGMENT_CELLS: u32 = 1 << 22;
/// A cut inside a tensor falls on a multiple of this many cells; also the unit of the GPU kernels.
pub const BLOCK_CELLS: usize = 1024;
/// Widest cell, in bytes.
pub const MAX_CELL_BYTES: usize = 8;

/// What the keys of a fingerprint grow by from word to word: even, so that keys stay odd, and twice an odd number, so that a page has
/// none twice.
pub const KEY_STEP_A: u32 = 0x9e37_79b2;
/// Of the second key.
pub const KEY_STEP_B: u32 = 0x85eb_ca76;
/// Words whose keys differ: they share a salt.
pub const PAGE_WORDS: u64 = 1 << 31;
/// SplitMix64's increment, which spreads the places that salts are made of.
pub const SALT_STEP: u64 = 0x9e37_79b9_7f4a_7c15;
/// SplitMix64's finaliser: shift and factor of each round …
pub const SALT_ROUNDS: [(u32, u64); 2] = [(30, 0xbf58_476d_1ce4_e5b9), (27, 0x94d0_49bb_1331_11eb)];
/// … and the shift behind them.
pub const SALT_LAST_SHIFT: u32 = 31;

/// Profile code of a segment without changes.
pub const PROFILE_UNCHANGED: u8 = 0;
/// Profile code of ranks and ULP steps.
pub const PROFILE_CONTEXTUAL: u8 = 1;
/// Profile code of positions and values.
pub const PROFILE_ABSOLUTE: u8 = 2;
/// Profile code of positions and differences.
pub const PROFILE_RELATIVE: u8 = 3;
/// Profile code of all cells as they become.
pub const PROFILE_DENSE: u8 = 4;
/// Widest cell of a relative segment, in bytes: a difference is one addition of 32 bits.
pub const MAX_RELATIVE_CELL_BYTES: usize = 4;

/// Exponent classes of a contextual segment.
pub const CLASSES: usize = 32;
/// The BF16 exponent field of class 0; smaller exponents join it, exponents from 31 above it join class 31.
pub const BF16_FIRST_EXPONENT: u16 = 100;

/// Values below `1 << TOKEN_DIRECT_BITS` are tokens of their own.
pub const TOKEN_DIRECT_BITS: u32 = 3;
/// Bits below the leading one that a token carries; the rest are raw bits.
pub const TOKEN_MANTISSA_BITS: u32 = 2;
/// Tokens of rank gaps, which are below [`MAX_SEGMENT_CELLS`].
pub const GAP_TOKENS: usize = tokens_below_power(MAX_SEGMENT_CELLS.ilog2());
/// Tokens of zigzag ULP steps, which are below 2^16.
pub const STEP_TOKENS: usize = tokens_below_power(16);

/// Bytes of raw bits that a change has at most: all but the three leading bits of a gap and of a step.
pub const MAX_RAW_BYTES: u64 = (MAX_SEGMENT_CELLS.ilog2() - 3 + 16 - 3).div_ceil(8) as u64;
/// A plane or raw bits, stored as they are.
pub const METHOD_STORED: u8 = 0;
/// A plane or raw bits, as a zstd frame.
pub const METHOD_ZSTD: u8 = 1;
/// A plane, coded by rANS with frequencies of its own.
pub const METHOD_RANS: u8 = 2;
/// rANS states of a plane: as many as two vectors of the widest CPUs hold.
pub const PLANE_LANES: usize = 32;

/// Token frequencies of one alphabet sum to `1 << PROBABILITY_BITS`.
pub const PROBABILITY_BITS: u32 = 12;
/// The sum of the frequencies of one alphabet.
pub const PROBABILITY_SUM: u32 = 1 << PROBABILITY_BITS;
/// Interleaved rANS states of a contextual segment.
pub const RANS_LANES: usize = 4;
/// Lower bound of a rANS state; states are renormalised by 16-bit words.
pub const RANS_LOW: u32 = 1 << 16;

const fn tokens_below_power(bits: u32) -> usize {
    (1 << TOKEN_DIRECT_BITS) + (((bits - TOKEN_DIRECT_BITS) as usize) << TOKEN_MANTISSA_BITS)
}

const _: () = {
    assert!(PREAMBLE_BYTES == 52);
    assert!(TOKEN_MANTISSA_BITS <= TOKEN_DIRECT_BITS);
    assert!(GAP_TOKENS == 84 && STEP_TOKENS == 60);
    // A decoding table entry packs a token in 8 bits beside two 12-bit fields.
    assert!(GAP_TOKENS <= 256 && PROBABILITY_BITS * 2 + 8 <= 32);
    // One renormalisation step is always enough.
    assert!(PROBABILITY_BITS <= 16);
    assert!((MAX_SEGMENT_CELLS as usize).is_multiple_of(BLOCK_CELLS));
    // Raw bits of one gap and one step fit a 64-bit window at any bit offset.
    assert!(MAX_SEGMENT_CELLS.ilog2() + 16 + 7 <= 64);
};
