//! Reduction loops: sums, products, extremes. A row is folded in lanes that are joined as a tree, which is fast, accurate, and
//! the same for every vector instruction level.

use num_complex::{Complex32, Complex64};
use tensor_core::dtype::DType;
use tensor_core::step::Reduction;

use crate::level::Level;

/// A binary reduction operation.
trait Join {
    type N: Copy;
    /// The neutral element.
    const START: Self::N;
    fn join(a: Self::N, b: Self::N) -> Self::N;
}

/// Loops of one reduction for one type.
#[derive(Clone, Copy, Debug)]
pub struct Folder {
    /// Folds a row of values into one.
    ///
    /// Safety: `values` holds `n` elements and `to` has room for one.
    pub row: unsafe fn(values: *const u8, n: usize, to: *mut u8),
    /// Folds each value into the element of `to` with the same index.
    ///
    /// Safety: both hold `n` elements and do not overlap.
    pub into: unsafe fn(to: *mut u8, values: *const u8, n: usize),
    /// Folds four rows of values, `stride` elements apart, into `to` column by column.
    ///
    /// Safety: all hold `n` elements, and `to` does not overlap them.
    pub four: unsafe fn(to: *mut u8, values: *const u8, stride: usize, n: usize),
    pub start: [u8; 16],
    pub bytes: usize,
}

/// Returns the folder of a register type; `None` if the reduction is not defined for it.
pub fn folder(reduction: Reduction, of: DType, level: Level) -> Option<Folder> {
    macro_rules! joined {
        ($make:ident, $N:ty, $start:expr, |$a:ident, $b:ident| $join:expr) => {{
            struct J;
            impl Join for J {
                type N = $N;
                const START: $N = $start;
                #[inline(always)]
                fn join($a: $N, $b: $N) -> $N {
                    $join
                }
            }
            $make::<J>(level)
        }};
    }
    macro_rules! integers {
        ($make:ident, $T:ident) => {
            match reduction {
                Reduction::Sum => joined!($make, $T, 0, |a, b| a.wrapping_add(b)),
                Reduction::Product => joined!($make, $T, 1, |a, b| a.wrapping_mul(b)),
                Reduction::Max => joined!($make, $T, $T::MIN, |a, b| a.max(b)),
                Reduction::Min => joined!($make, $T, $T::MAX, |a, b| a.min(b)),
                Reduction::Any | Reduction::All => return None,
            }
        };
    }
    macro_rules! floats {
        ($T:ident) => {
            match reduction {
                Reduction::Sum => joined!(wide, $T, 0.0, |a, b| a + b),
                Reduction::Product => joined!(wide, $T, 1.0, |a, b| a * b),
                Reduction::Max => {
                    joined!(wide, $T, $T::NEG_INFINITY, |a, b| if a > b || a.is_nan() { a } else { b })
                }
                Reduction::Min => {
                    joined!(wide, $T, $T::INFINITY, |a, b| if a < b || a.is_nan() { a } else { b })
                }
                Reduction::Any | Reduction::All => return None,
            }
        };
    }
    Some(match of {
        DType::Bool => match reduction {
            Reduction::Sum | Reduction::Max | Reduction::Any => joined!(wide, u8, 0, |a, b| a | b),
            Reduction::Product | Reduction::Min | Reduction::All => joined!(wide, u8, 1, |a, b| a & b),
        },
        DType::U8 => integers!(once, u8),
        DType::U16 => integers!(once, u16),
        DType::U32 => integers!(once, u32),
        DType::U64 => integers!(once, u64),
        DType::I8 => integers!(once, i8),
        DType::I16 => integers!(once, i16),
        DType::I32 => integers!(wide, i32),
        DType::I64 => integers!(wide, i64),
        DType::F16 | DType::BF16 | DType::F32 => floats!(f32),
        DType::F64 => floats!(f64),
        DType::C64 => match reduction {
            Reduction::Sum => joined!(once, Complex32, Complex32::new(0.0, 0.0), |a, b| a + b),
            Reduction::Product => joined!(once, Complex32, Complex32::new(1.0, 0.0), |a, b| a * b),
            _ => return None,
        },
        DType::C128 => match reduction {
            Reduction::Sum => joined!(once, Complex64, Complex64::new(0.0, 0.0), |a, b| a + b),
            Reduction::Product => joined!(once, Complex64, Complex64::new(1.0, 0.0), |a, b| a * b),
            _ => return None,
        },
    })
}

/// Number of lanes of a fold.
const LANES: usize = 32;

/// Prefetch distance in bytes: the hardware prefetcher does not cross a page, and mostly the next page is folded next.
const PAGE: usize = 4096;

#[inline(always)]
fn fetch(from: *const u8) {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: a prefetch never faults, whatever the address.
    unsafe {
        std::arch::x86_64::_mm_prefetch::<{ std::arch::x86_64::_MM_HINT_T0 }>(from.cast());
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = from;
}

/// # Safety
/// Like `Folder::row`.
#[inline(always)]
unsafe fn row<J: Join>(values: *const u8, n: usize, to: *mut u8) {
    let values = values.cast::<J::N>();
    if n < LANES {
        // A short row is not worth a tree.
        let mut all = J::START;
        for i in 0..n {
            // SAFETY: there are `n` values.
            all = J::join(all, unsafe { *values.add(i) });
        }
        // SAFETY: `to` has space for one value.
        unsafe { *to.cast() = all };
        return;
    }
    let mut lanes = [J::START; LANES];
    let whole = n / LANES * LANES;
    let mut at = 0;
    while at < whole {
        for line in (0..LANES * size_of::<J::N>()).step_by(64) {
            fetch(values.wrapping_add(at).cast::<u8>().wrapping_add(PAGE + line));
        }
        for (lane, joined) in lanes.iter_mut().enumerate() {
            // SAFETY: the index is below `n`.
            *joined = J::join(*joined, unsafe { *values.add(at + lane) });
        }
        at += LANES;
    }
    for (lane, joined) in lanes.iter_mut().enumerate().take(n - whole) {
        // SAFETY: the index is below `n`.
        *joined = J::join(*joined, unsafe { *values.add(whole + lane) });
    }
    // Fixed lengths, so that the lanes stay in registers.
    macro_rules! halve {
        ($($width:literal)*) => {$(
            for lane in 0..$width {
                lanes[lane] = J::join(lanes[lane], lanes[lane + $width]);
            }
        )*};
    }
    halve!(16 8 4 2 1);
    // SAFETY: `to` has space for one value.
    unsafe { *to.cast() = lanes[0] };
}

/// # Safety
/// Like `Folder::into`.
#[inline(always)]
unsafe fn into<J: Join>(to: *mut u8, values: *const u8, n: usize) {
    let (to, values) = (to.cast::<J::N>(), values.cast::<J::N>());
    for i in 0..n {
        // SAFETY: both hold `n` elements.
        unsafe { *to.add(i) = J::join(*to.add(i), *values.add(i)) };
    }
}

/// # Safety
/// Like `Folder::four`.
#[inline(always)]
unsafe fn four<J: Join>(to: *mut u8, values: *const u8, stride: usize, n: usize) {
    let (to, values) = (to.cast::<J::N>(), values.cast::<J::N>());
    // SAFETY: the caller guarantees that all hold `n` elements, and `i` is below `n`.
    let sum = |i: usize| unsafe {
        let first = J::join(*values.add(i), *values.add(stride.wrapping_add(i)));
        let third = values.add(stride.wrapping_mul(2).wrapping_add(i));
        let second = J::join(*third, *third.add(stride));
        J::join(*to.add(i), J::join(first, second))
    };
    let whole = n / LANES * LANES;
    let mut at = 0;
    while at < whole {
        // A few in registers at a time, so that the compiler needs no aliasing checks between loads and stores.
        let mut sums = [J::START; LANES];
        for (lane, joined) in sums.iter_mut().enumerate() {
            *joined = sum(at + lane);
        }
        // SAFETY: as above.
        unsafe { std::ptr::copy_nonoverlapping(sums.as_ptr(), to.add(at), LANES) };
        at += LANES;
    }
    for i in whole..n {
        let value = sum(i);
        // SAFETY: as above.
        unsafe { *to.add(i) = value };
    }
}

macro_rules! levels {
    ($($module:ident, $feature:literal;)*) => {$(
        #[cfg(target_arch = "x86_64")]
        mod $module {
            use super::Join;

            /// # Safety
            /// Like `Folder::row`, on a processor with these instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn row<J: Join>(values: *const u8, n: usize, to: *mut u8) {
                // SAFETY: guaranteed by the caller.
                unsafe { super::row::<J>(values, n, to) }
            }

            /// # Safety
            /// Like `Folder::into`, on a processor with these instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn into<J: Join>(to: *mut u8, values: *const u8, n: usize) {
                // SAFETY: guaranteed by the caller.
                unsafe { super::into::<J>(to, values, n) }
            }

            /// # Safety
            /// Like `Folder::four`, on a processor with these instructions.
            #[target_feature(enable = $feature)]
            pub unsafe fn four<J: Join>(to: *mut u8, values: *const u8, stride: usize, n: usize) {
                // SAFETY: guaranteed by the caller.
                unsafe { super::four::<J>(to, values, stride, n) }
            }
        }
    )*};
}

levels! {
    avx2, "avx2,fma";
    avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma";
}

/// For rare types, compiled for one level only to save compile time.
fn once<J: Join>(_: Level) -> Folder {
    let mut start = [0; 16];
    let (bytes, value) = (size_of::<J::N>(), J::START);
    // SAFETY: no register type is wider than 16 bytes, and all are plain numbers.
    unsafe {
        std::ptr::copy_nonoverlapping((&raw const value).cast::<u8>(), start.as_mut_ptr(), bytes);
    }
    Folder { row: row::<J>, into: into::<J>, four: four::<J>, start, bytes }
}

fn wide<J: Join>(level: Level) -> Folder {
    let folder = once::<J>(level);
    match level {
        Level::Plain => folder,
        #[cfg(target_arch = "x86_64")]
        Level::Avx2 => Folder { row: avx2::row::<J>, into: avx2::into::<J>, four: avx2::four::<J>, ..folder },
        #[cfg(target_arch = "x86_64")]
        Level::Avx512 => {
            Folder { row: avx512::row::<J>, into: avx512::into::<J>, four: avx512::four::<J>, ..folder }
        }
        #[cfg(not(target_arch = "x86_64"))]
        _ => folder,
    }
}
