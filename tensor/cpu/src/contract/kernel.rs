//! Microkernels of contractions: a tile of sums, each one chain of fused multiply-adds from zero in order of depth. The chain is
//! the same for every vector instruction level and every position in a tile, so results have the same bits everywhere.

use num_complex::{Complex32, Complex64};

use crate::element::Number;
use crate::level::Level;

/// Adds a tile of `rows` times [`Tile::columns`] sums over `depth` to `to`, whose rows are `stride` apart; if `first`, overwrites
/// instead.
///
/// # Safety
/// `rows` is from 1 to [`Tile::rows`]; `left` holds `depth` groups of [`Tile::rows`] elements, `right` of [`Tile::columns`]; `to`
/// has space for the tile.
type Run<N> = unsafe fn(
    rows: usize,
    depth: usize,
    left: *const N,
    right: *const N,
    to: *mut N,
    stride: usize,
    first: bool,
);

/// A microkernel and the size of its tile.
#[derive(Clone, Copy, Debug)]
pub struct Tile<N> {
    pub rows: usize,
    pub columns: usize,
    pub run: Run<N>,
}

/// The largest tile of any kernel.
pub const LARGEST: usize = 12 * 32;

/// A type that contractions accumulate in.
pub trait Sum: Number {
    fn tile(level: Level) -> Tile<Self>;
}

macro_rules! vectors {
    ($name:ident, $N:ty, $feature:literal, $rows:literal, $width:literal,
     $load:ident, $store:ident, $spread:ident, $zero:ident, $fma:ident, $add:ident) => {
        #[cfg(target_arch = "x86_64")]
        mod $name {
            use std::arch::x86_64::*;

            pub const ROWS: usize = $rows;
            pub const COLUMNS: usize = 2 * $width;

            /// # Safety
            /// Like `Run`, for `R` rows, on a processor with these instructions.
            #[target_feature(enable = $feature)]
            unsafe fn tile<const R: usize>(
                depth: usize,
                mut left: *const $N,
                mut right: *const $N,
                to: *mut $N,
                stride: usize,
                first: bool,
            ) {
                // SAFETY: the caller guarantees that the panels are readable and the tile is writable.
                unsafe {
                    // Prefetch the destination while the sums are computed.
                    for row in 0..R {
                        let at = to.wrapping_add(row.wrapping_mul(stride));
                        _mm_prefetch::<_MM_HINT_T0>(at.cast());
                        _mm_prefetch::<_MM_HINT_T0>(at.wrapping_add(2 * $width - 1).cast());
                    }
                    let mut sums = [[$zero(); 2]; R];
                    for _ in 0..depth {
                        let low = $load(right);
                        let high = $load(right.add($width));
                        for row in 0..R {
                            let one = $spread(*left.add(row));
                            sums[row][0] = $fma(one, low, sums[row][0]);
                            sums[row][1] = $fma(one, high, sums[row][1]);
                        }
                        left = left.add(ROWS);
                        right = right.add(COLUMNS);
                    }
                    for row in 0..R {
                        let at = to.add(row.wrapping_mul(stride));
                        let next = at.add($width);
                        if first {
                            $store(at, sums[row][0]);
                            $store(next, sums[row][1]);
                        } else {
                            $store(at, $add($load(at), sums[row][0]));
                            $store(next, $add($load(next), sums[row][1]));
                        }
                    }
                }
            }

            /// # Safety
            /// Like `Run`, on a processor with these instructions.
            pub unsafe fn run(
                rows: usize,
                depth: usize,
                left: *const $N,
                right: *const $N,
                to: *mut $N,
                stride: usize,
                first: bool,
            ) {
                macro_rules! rows {
                    ($one:literal $two:literal) => {
                        match rows {
                            $one => tile::<$one>(depth, left, right, to, stride, first),
                            _ => tile::<$two>(depth, left, right, to, stride, first),
                        }
                    };
                }
                // SAFETY: guaranteed by the caller.
                unsafe {
                    match rows {
                        1 | 2 => rows!(1 2),
                        3 | 4 => rows!(3 4),
                        5 | 6 => rows!(5 6),
                        7 | 8 if ROWS > 6 => rows!(7 8),
                        9 | 10 if ROWS > 6 => rows!(9 10),
                        _ if ROWS > 6 => rows!(11 12),
                        _ => unreachable!("a tile has at most twelve rows"),
                    }
                }
            }
        }
    };
}

vectors!(
    single512,
    f32,
    "avx512f",
    12,
    16,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_setzero_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps
);
vectors!(
    double512,
    f64,
    "avx512f",
    12,
    8,
    _mm512_loadu_pd,
    _mm512_storeu_pd,
    _mm512_set1_pd,
    _mm512_setzero_pd,
    _mm512_fmadd_pd,
    _mm512_add_pd
);
vectors!(
    single256,
    f32,
    "avx2,fma",
    6,
    8,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_setzero_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps
);
vectors!(
    double256,
    f64,
    "avx2,fma",
    6,
    4,
    _mm256_loadu_pd,
    _mm256_storeu_pd,
    _mm256_set1_pd,
    _mm256_setzero_pd,
    _mm256_fmadd_pd,
    _mm256_add_pd
);

/// The tile of [`plain`].
const ROWS: usize = 4;
const COLUMNS: usize = 8;

/// The portable microkernel, for every type and processor.
///
/// # Safety
/// Like [`Run`].
unsafe fn plain<N: Number>(
    rows: usize,
    depth: usize,
    left: *const N,
    right: *const N,
    to: *mut N,
    stride: usize,
    first: bool,
) {
    let mut sums = [[N::ZERO; COLUMNS]; ROWS];
    for k in 0..depth {
        for (row, sums) in sums.iter_mut().enumerate() {
            // SAFETY: the caller guarantees that there are `depth` groups of elements.
            unsafe {
                let one = *left.add(k * ROWS + row);
                for (column, sum) in sums.iter_mut().enumerate() {
                    *sum = one.fma(*right.add(k * COLUMNS + column), *sum);
                }
            }
        }
    }
    for (row, sums) in sums.iter().enumerate().take(rows) {
        for (column, &sum) in sums.iter().enumerate() {
            // SAFETY: the caller guarantees space for the tile.
            unsafe {
                let at = to.add(row * stride + column);
                *at = if first { sum } else { (*at).add(sum) };
            }
        }
    }
}

fn anywhere<N: Number>() -> Tile<N> {
    Tile { rows: ROWS, columns: COLUMNS, run: plain::<N> }
}

macro_rules! sums {
    ($($N:ty, $wide:ident, $medium:ident;)*) => {$(
        impl Sum for $N {
            fn tile(level: Level) -> Tile<$N> {
                match level {
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx512 => Tile { rows: $wide::ROWS, columns: $wide::COLUMNS, run: $wide::run },
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => Tile { rows: $medium::ROWS, columns: $medium::COLUMNS, run: $medium::run },
                    _ => anywhere(),
                }
            }
        }
    )*};
}

sums! {
    f32, single512, single256;
    f64, double512, double256;
}

macro_rules! anywhere {
    ($($N:ty)*) => {$(
        impl Sum for $N {
            fn tile(_: Level) -> Tile<$N> {
                anywhere()
            }
        }
    )*};
}

anywhere!(i32 i64 Complex32 Complex64);
