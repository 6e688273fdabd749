//! The kernels of `pulse-format`, compiled for the widest instructions that the CPU at hand has.
//!
//! The kernels are plain loops over [`pulse_format::masks::Masks`]; only the instructions differ, so the results cannot. On x86-64 each
//! is compiled for AVX-512, for AVX2 and for any CPU, and chosen at run time; in wasm, which has no such choice, for the vector
//! instructions of the module. On other CPUs, AArch64 with its NEON among them, it is what the compiler makes of the plain loops.
//!
//! ```
//! use pulse_format::{Changes, Header, Placer};
//!
//! /// Places the changes of a segment on the cells of its only piece.
//! fn apply(header: &Header, segment: usize, changes: Changes<'_>, cells: &mut [u8]) -> Result<(), pulse_format::Error> {
//!     let mut placer = Placer::new(header.segment(segment)?, changes);
//!     pulse_simd::place(&mut placer, cells, 0, 0);
//!     placer.finish().map(drop)
//! }
//! ```

mod dispatch;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use dispatch::vectorized;
use pulse_format::cell::FloatCell;
use pulse_format::contextual::{self, ContextualChanges, Tokens};
use pulse_format::dense;
use pulse_format::model::ContextModel;
use pulse_format::positional::PositionalChanges;
use pulse_format::scan::{self, Fingerprints, PiecePair};
use pulse_format::{Deflate, Dtype, Fingerprint, Placer};

vectorized! {
    /// See [`scan::scan_contextual`].
    fn scan_contextual<C>(
        masks,
        pieces: &[PiecePair<'_>],
        seed: u64,
        changes: &mut ContextualChanges,
        by_region: &mut Vec<u32>,
    ) -> Fingerprints {
        scan::scan_contextual::<C>(masks, pieces, seed, changes, by_region)
    }

    /// See [`scan::scan_absolute`].
    fn scan_absolute(
        masks,
        pieces: &[PiecePair<'_>],
        seed: u64,
        cell_bytes: usize,
        changes: &mut PositionalChanges,
    ) -> Fingerprints {
        scan::scan_absolute(masks, pieces, seed, cell_bytes, changes)
    }

    /// See [`Tokens::new`].
    fn tokens(_masks, changes: &ContextualChanges, codec: &impl Deflate) -> Tokens {
        Tokens::new(changes, codec)
    }

    /// See [`contextual::encode`].
    fn encode_contextual(
        _masks,
        tokens: &Tokens,
        model: &ContextModel,
        out: &mut Vec<u8>,
    ) -> Result<(), pulse_format::Error> {
        contextual::encode(tokens, model, out)
    }

    /// See [`dense::encode`].
    fn encode_dense(_masks, cells: &[&[u8]], dtype: Dtype, codec: &impl Deflate, out: &mut Vec<u8>) {
        dense::encode(cells, dtype, codec, out)
    }

    /// See [`Placer::place`].
    fn place(masks, placer: &mut Placer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        placer.place(masks, cells, tensor, first_word)
    }

    /// See [`pulse_format::fingerprint`].
    fn fingerprint(_masks, cells: &[u8], seed: u64, tensor: u32, first_word: u64) -> Fingerprint {
        pulse_format::fingerprint(cells, seed, tensor, first_word)
    }
}
