//! The kernels of `pulse-format`, compiled a second time for AVX2 and chosen at run time.
//!
//! The kernels are plain loops; only the instructions that the compiler may use for them differ, so the results cannot.

use pulse_format::Fingerprint;
use pulse_format::absolute::AbsoluteChanges;
use pulse_format::cell::FloatCell;
use pulse_format::contextual::ContextualChanges;
use pulse_format::place::{AbsolutePlacer, ContextualPlacer};
use pulse_format::scan::{self, Fingerprints, Hint, PiecePair};

/// Proof that this CPU has AVX2 and the bit instructions that come with it.
#[cfg(target_arch = "x86_64")]
struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    fn detect() -> Option<Self> {
        let found = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        found.then_some(Self(()))
    }
}

/// Defines functions that call a kernel, which is `inline(always)`, with the widest instructions that this CPU has.
macro_rules! vectorized {
    ($($(#[$doc:meta])* fn $name:ident $(<$cell:ident>)? ($($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? { $kernel:expr })+) => {$(
        $(#[$doc])*
        pub(crate) fn $name $(<$cell: FloatCell>)? ($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            if let Some(Avx2(())) = Avx2::detect() {
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn with_avx2 $(<$cell: FloatCell>)? ($($arg: $type),*) $(-> $result)? {
                    $kernel
                }
                // SAFETY: an `Avx2` exists only where `detect` found every feature that `with_avx2` is compiled with.
                #[expect(unsafe_code)]
                return unsafe { with_avx2 $(::<$cell>)? ($($arg),*) };
            }
            $kernel
        }
    )+};
}

vectorized! {
    /// See [`scan::scan_contextual`].
    fn scan_contextual<C>(
        pieces: &[PiecePair<'_>],
        seed: u64,
        hint: &mut Hint,
        changes: &mut ContextualChanges,
    ) -> Fingerprints {
        scan::scan_contextual::<C>(pieces, seed, hint, changes)
    }

    /// See [`scan::scan_absolute`].
    fn scan_absolute(
        pieces: &[PiecePair<'_>],
        seed: u64,
        cell_bytes: usize,
        changes: &mut AbsoluteChanges,
    ) -> Fingerprints {
        scan::scan_absolute(pieces, seed, cell_bytes, changes)
    }

    /// See [`ContextualPlacer::place`].
    fn place_contextual<C>(placer: &mut ContextualPlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        placer.place::<C>(cells, tensor, first_word)
    }

    /// See [`AbsolutePlacer::place`].
    fn place_absolute(placer: &mut AbsolutePlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        placer.place(cells, tensor, first_word)
    }

    /// See [`pulse_format::fingerprint`].
    fn fingerprint(cells: &[u8], seed: u64, tensor: u32, first_word: u64) -> Fingerprint {
        pulse_format::fingerprint(cells, seed, tensor, first_word)
    }
}
