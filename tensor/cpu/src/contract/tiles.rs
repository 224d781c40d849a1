//! Tiles of sums whose columns are read in place: vectors of adjacent columns, anywhere for each depth. The rows are packed. The
//! sums are the same chains as in the packed path.

use std::arch::x86_64::*;

use super::Sums;
use super::lanes::{LANES, mask};

/// The most rows of a tile.
const TALL: usize = 12;
/// Vectors of a tile's columns.
const WIDE: usize = 2;
/// Columns of a tile.
pub const COLUMNS: usize = WIDE * LANES;
/// Prefetch distance, in steps of depth.
const AHEAD: usize = 12;

/// Rows of each tile if `rows` are divided evenly into as few tiles as possible.
pub fn tall(rows: usize) -> usize {
    rows.div_ceil(rows.div_ceil(TALL).max(1)).max(1)
}

/// A panel of packed rows, a panel of columns in place, and their sums.
#[derive(Debug)]
pub struct Tiles<'a> {
    pub left: *const f32,
    /// The distance between tiles of packed rows, for each of their rows.
    pub apart: usize,
    /// The distance between depths of packed rows.
    pub step: usize,
    /// Rows of a tile, at most [`TALL`].
    pub tall: usize,
    /// The first column, to which the offsets of depths are added.
    pub right: *const f32,
    pub depth: &'a [isize],
    pub sums: Sums<f32>,
    /// The sums are those of the first panel, and not added to others.
    pub first: bool,
}

impl Tiles<'_> {
    /// # Safety
    /// There are as many packed rows, and all columns are readable for every depth; there is space for their sums; the processor has
    /// these instructions.
    #[target_feature(enable = "avx512f")]
    pub unsafe fn run(&self, rows: usize, columns: usize) {
        for column in (0..columns).step_by(COLUMNS) {
            let left = columns - column;
            for row in (0..rows).step_by(self.tall) {
                let count = self.tall.min(rows - row);
                macro_rules! tile {
                    ($($count:literal)*) => {
                        match count {
                            // SAFETY: guaranteed by the caller; each kind of tile masks the columns that it does not have.
                            $($count => unsafe {
                                if left >= COLUMNS {
                                    self.tile::<$count, WIDE, true>(row, column, [!0; WIDE]);
                                } else if left > LANES {
                                    self.tile::<$count, WIDE, false>(row, column, [!0, mask(left - LANES)]);
                                } else {
                                    self.tile::<$count, 1, false>(row, column, [mask(left)]);
                                }
                            },)*
                            _ => unreachable!("a tile has one to twelve rows"),
                        }
                    };
                }
                tile!(1 2 3 4 5 6 7 8 9 10 11 12);
            }
        }
    }

    /// # Safety
    /// Like `run`, for a tile of `R` rows and `W` vectors; if it is `FULL`, there are columns for all lanes.
    #[expect(clippy::needless_range_loop, reason = "iterators would be calls here")]
    #[target_feature(enable = "avx512f")]
    unsafe fn tile<const R: usize, const W: usize, const FULL: bool>(
        &self,
        row: usize,
        column: usize,
        lanes: [u16; W],
    ) {
        // SAFETY: guaranteed by the caller; lanes beyond the columns are masked. Offsets are read below the number of depths.
        unsafe {
            let mut left = self.left.add(row * self.apart);
            let right = self.right.wrapping_add(column);
            let (step, count) = (self.step, self.depth.len());
            let mut sums = [[_mm512_setzero_ps(); W]; R];
            for k in 0..count {
                let line = right.wrapping_offset(*self.depth.get_unchecked(k));
                // Columns are read for the first time by the first rows.
                if row == 0 {
                    let next = *self.depth.get_unchecked(k.wrapping_add(AHEAD).min(count - 1));
                    let next = right.wrapping_offset(next);
                    _mm_prefetch::<_MM_HINT_T0>(next.cast());
                    _mm_prefetch::<_MM_HINT_T0>(next.wrapping_add(W * LANES - 1).cast());
                }
                let mut values = [_mm512_setzero_ps(); W];
                for n in 0..W {
                    let at = line.wrapping_add(n * LANES);
                    // A mask would take another instruction.
                    values[n] = if FULL { _mm512_loadu_ps(at) } else { _mm512_maskz_loadu_ps(lanes[n], at) };
                }
                for row in 0..R {
                    let one = _mm512_set1_ps(*left.add(row));
                    for n in 0..W {
                        sums[row][n] = _mm512_fmadd_ps(one, values[n], sums[row][n]);
                    }
                }
                left = left.wrapping_add(step);
            }
            for row_of in 0..R {
                let to = self.sums.start.add((row + row_of) * self.sums.stride + column);
                for n in 0..W {
                    let (at, sum) = (to.wrapping_add(n * LANES), sums[row_of][n]);
                    if self.first {
                        _mm512_mask_storeu_ps(at, lanes[n], sum);
                    } else {
                        let all = _mm512_add_ps(_mm512_maskz_loadu_ps(lanes[n], at), sum);
                        _mm512_mask_storeu_ps(at, lanes[n], all);
                    }
                }
            }
        }
    }
}
