//! The block kernels of `pulse-format`, compiled a second time for AVX2 and chosen at run time.
//!
//! The kernels are plain loops; only the instructions that the compiler may use for them differ, so the results cannot.

use pulse_format::cell::FloatCell;
use pulse_format::contextual::ContextualChanges;
use pulse_format::place::ContextualPlacer;
use pulse_format::scan::{self, Fingerprints, Hint, PiecePair};

/// Proof that this CPU has AVX2 and the bit instructions that come with it.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
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

    fn scan<C: FloatCell>(
        self,
        pieces: &[PiecePair<'_>],
        seed: u64,
        hint: &mut Hint,
        changes: &mut ContextualChanges,
    ) -> Fingerprints {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<C: FloatCell>(
            pieces: &[PiecePair<'_>],
            seed: u64,
            hint: &mut Hint,
            changes: &mut ContextualChanges,
        ) -> Fingerprints {
            scan::scan_contextual::<C>(pieces, seed, hint, changes)
        }
        // SAFETY: `self` exists only where `detect` found every feature that `run` is compiled with.
        #[expect(unsafe_code)]
        unsafe {
            run::<C>(pieces, seed, hint, changes)
        }
    }

    fn place<C: FloatCell>(self, placer: &mut ContextualPlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
        #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
        fn run<C: FloatCell>(placer: &mut ContextualPlacer<'_>, cells: &mut [u8], tensor: u32, first_word: u64) {
            placer.place::<C>(cells, tensor, first_word);
        }
        // SAFETY: as in `scan`.
        #[expect(unsafe_code)]
        unsafe {
            run::<C>(placer, cells, tensor, first_word);
        }
    }
}

/// See [`scan::scan_contextual`].
pub(crate) fn scan_contextual<C: FloatCell>(
    pieces: &[PiecePair<'_>],
    seed: u64,
    hint: &mut Hint,
    changes: &mut ContextualChanges,
) -> Fingerprints {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::detect() {
        return avx2.scan::<C>(pieces, seed, hint, changes);
    }
    scan::scan_contextual::<C>(pieces, seed, hint, changes)
}

/// See [`ContextualPlacer::place`].
pub(crate) fn place_contextual<C: FloatCell>(
    placer: &mut ContextualPlacer<'_>,
    cells: &mut [u8],
    tensor: u32,
    first_word: u64,
) {
    #[cfg(target_arch = "x86_64")]
    if let Some(avx2) = Avx2::detect() {
        return avx2.place::<C>(placer, cells, tensor, first_word);
    }
    placer.place::<C>(cells, tensor, first_word);
}
