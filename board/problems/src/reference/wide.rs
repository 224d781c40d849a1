//! Functions that are compiled twice: for every processor, and for those with AVX2, which compute four doubles at once. The results are
//! the same, because the compiler neither reorders nor fuses operations of floating-point numbers.

/// Defines a function of a mode of arithmetic that is compiled twice.
macro_rules! wide {
    ($(#[$doc:meta])* $visibility:vis fn $name:ident<$mode:ident: Mode>($($argument:ident: $type:ty),* $(,)?) $body:block) => {
        $(#[$doc])*
        $visibility fn $name<$mode: Mode>($($argument: $type),*) {
            #[inline(always)]
            fn narrow<$mode: Mode>($($argument: $type),*) $body

            #[cfg(target_arch = "x86_64")]
            {
                #[target_feature(enable = "avx2")]
                fn with_avx2<$mode: Mode>($($argument: $type),*) {
                    narrow($($argument),*);
                }
                if std::arch::is_x86_feature_detected!("avx2") {
                    // SAFETY: the processor has AVX2.
                    return unsafe { with_avx2($($argument),*) };
                }
            }
            narrow($($argument),*);
        }
    };
}
pub(crate) use wide;
