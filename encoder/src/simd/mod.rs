//! The kernels of `pulse-format`, compiled again for wider instructions and chosen at run time.
//!
//! The kernels are plain loops over [`pulse_format::masks::Masks`]; only the instructions differ, so the results cannot.

#[cfg(target_arch = "x86_64")]
mod x86;

use crate::zstd::Zstd;
use pulse_format::Fingerprint;
use pulse_format::absolute::AbsoluteChanges;
use pulse_format::cell::FloatCell;
use pulse_format::contextual::{self, ContextualChanges, Tokens};
use pulse_format::masks::Portable;
use pulse_format::model::ContextModel;
use pulse_format::place::{AbsolutePlacer, ContextualPlacer};
use pulse_format::scan::{self, Fingerprints, PiecePair};

/// Defines functions that call a kernel, which is `inline(always)`, with the widest instructions that this CPU has.
macro_rules! vectorized {
    ($($(#[$doc:meta])* fn $name:ident $(<$cell:ident>)? ($masks:ident, $($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? { $kernel:expr })+) => {$(
        $(#[$doc])*
        pub(crate) fn $name $(<$cell: FloatCell>)? ($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn with_avx512 $(<$cell: FloatCell>)? ($masks: x86::Avx512, $($arg: $type),*) $(-> $result)? {
                    $kernel
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn with_avx2 $(<$cell: FloatCell>)? ($masks: x86::Avx2, $($arg: $type),*) $(-> $result)? {
                    $kernel
                }
                if let Some(masks) = x86::Avx512::detect() {
                    // SAFETY: `masks` exists only where every feature that `with_avx512` is compiled with was found.
                    #[expect(unsafe_code)]
                    return unsafe { with_avx512 $(::<$cell>)? (masks, $($arg),*) };
                }
                if let Some(masks) = x86::Avx2::detect() {
                    // SAFETY: `masks` exists only where every feature that `with_avx2` is compiled with was found.
                    #[expect(unsafe_code)]
                    return unsafe { with_avx2 $(::<$cell>)? (masks, $($arg),*) };
                }
            }
            let $masks = Portable;
            $kernel
        }
    )+};
}

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
        changes: &mut AbsoluteChanges,
    ) -> Fingerprints {
        scan::scan_absolute(masks, pieces, seed, cell_bytes, changes)
    }

    /// See [`Tokens::new`].
    fn tokens(_masks, changes: &ContextualChanges) -> Tokens {
        Tokens::new(changes, &Zstd::PLANES)
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

    /// See [`ContextualPlacer::place`].
    fn place_contextual<C>(masks, placer: &mut ContextualPlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        placer.place::<C>(masks, cells, tensor, first_word)
    }

    /// See [`AbsolutePlacer::place`].
    fn place_absolute(_masks, placer: &mut AbsolutePlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        placer.place(cells, tensor, first_word)
    }

    /// See [`pulse_format::fingerprint`].
    fn fingerprint(_masks, cells: &[u8], seed: u64, tensor: u32, first_word: u64) -> Fingerprint {
        pulse_format::fingerprint(cells, seed, tensor, first_word)
    }
}
