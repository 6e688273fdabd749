//! One function a kernel, which calls it as it is compiled for the CPU at hand.

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
pub(crate) use pulse_format::masks::Portable as Fallback;

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) use crate::wasm::Simd128 as Fallback;

/// Defines functions that call a kernel, which is `inline(always)`, with the widest instructions that this CPU has.
macro_rules! vectorized {
    ($($(#[$doc:meta])* fn $name:ident $(<$cell:ident>)? ($masks:ident, $($arg:ident: $type:ty),* $(,)?) $(-> $result:ty)? { $kernel:expr })+) => {$(
        $(#[$doc])*
        pub fn $name $(<$cell: FloatCell>)? ($($arg: $type),*) $(-> $result)? {
            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi,avx512bitalg,avx512vpopcntdq,gfni,avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn with_avx512 $(<$cell: FloatCell>)? ($masks: $crate::x86::Avx512, $($arg: $type),*) $(-> $result)? {
                    $kernel
                }
                #[target_feature(enable = "avx2,bmi1,bmi2,lzcnt,popcnt")]
                fn with_avx2 $(<$cell: FloatCell>)? ($masks: $crate::x86::Avx2, $($arg: $type),*) $(-> $result)? {
                    $kernel
                }
                if let Some(masks) = $crate::x86::Avx512::detect() {
                    // SAFETY: `masks` exists only where every feature that `with_avx512` is compiled with was found.
                    #[expect(unsafe_code)]
                    return unsafe { with_avx512 $(::<$cell>)? (masks, $($arg),*) };
                }
                if let Some(masks) = $crate::x86::Avx2::detect() {
                    // SAFETY: `masks` exists only where every feature that `with_avx2` is compiled with was found.
                    #[expect(unsafe_code)]
                    return unsafe { with_avx2 $(::<$cell>)? (masks, $($arg),*) };
                }
            }
            let $masks = $crate::dispatch::Fallback;
            $kernel
        }
    )+};
}

pub(crate) use vectorized;
