//! Vector instruction levels, detected once. Loops are compiled for each level and selected at run time. All levels produce the
//! same bits, so a device limited to a lower level is only slower.

use std::sync::OnceLock;

/// The instruction set that kernels use.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    /// What every processor of the target has.
    Plain,
    /// AVX2 with FMA.
    Avx2,
    /// AVX-512 F, BW, DQ and VL.
    Avx512,
}

impl Level {
    /// Returns the highest level of this processor.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// Returns all levels of this processor.
    pub fn all() -> impl Iterator<Item = Level> {
        [Level::Plain, Level::Avx2, Level::Avx512].into_iter().filter(|level| *level <= Level::best())
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
fn detect() -> Level {
    if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
        return Level::Plain;
    }
    let wide = is_x86_feature_detected!("avx512f")
        && is_x86_feature_detected!("avx512bw")
        && is_x86_feature_detected!("avx512dq")
        && is_x86_feature_detected!("avx512vl");
    if wide { Level::Avx512 } else { Level::Avx2 }
}

#[cfg(not(all(target_arch = "x86_64", not(miri))))]
fn detect() -> Level {
    Level::Plain
}

/// Compiles a loop for each instruction level.
macro_rules! leveled {
    ($(#[$doc:meta])* $visible:vis unsafe fn $name:ident<$($G:ident: $B:path),*>($($argument:ident: $T:ty),*) $body:block) => {
        $(#[$doc])*
        #[allow(clippy::too_many_arguments, reason = "the loop's arguments, and the level")]
        $visible unsafe fn $name<$($G: $B),*>(level: $crate::level::Level, $($argument: $T),*) {
            #[inline(always)]
            unsafe fn body<$($G: $B),*>($($argument: $T),*) $body
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx2,fma")]
            unsafe fn avx2<$($G: $B),*>($($argument: $T),*) {
                // SAFETY: guaranteed by the caller.
                unsafe { body::<$($G),*>($($argument),*) }
            }
            #[cfg(target_arch = "x86_64")]
            #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
            unsafe fn avx512<$($G: $B),*>($($argument: $T),*) {
                // SAFETY: guaranteed by the caller.
                unsafe { body::<$($G),*>($($argument),*) }
            }
            // SAFETY: guaranteed by the caller; the level was detected on this processor.
            unsafe {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    $crate::level::Level::Avx512 => avx512::<$($G),*>($($argument),*),
                    #[cfg(target_arch = "x86_64")]
                    $crate::level::Level::Avx2 => avx2::<$($G),*>($($argument),*),
                    _ => body::<$($G),*>($($argument),*),
                }
            }
        }
    };
}
pub(crate) use leveled;
