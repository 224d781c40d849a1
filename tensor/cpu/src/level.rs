//! Which vector instructions this processor has, asked once. Loops are compiled for each level and chosen at run time; all levels give the
//! same bits, so a device that is asked to do with less computes the same, only slower.

use std::sync::OnceLock;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Level {
    Plain,
    /// With FMA.
    Avx2,
    /// F, BW, DQ and VL.
    Avx512,
}

impl Level {
    /// The highest that this processor has.
    pub fn best() -> Level {
        static BEST: OnceLock<Level> = OnceLock::new();
        *BEST.get_or_init(detect)
    }

    /// All that this processor has.
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
