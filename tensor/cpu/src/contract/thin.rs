//! Contractions with a few rows: the right operand is read only once, so packing would be wasted; it is read in place. The sums
//! are the same chains as in the packed path.

use std::any::TypeId;
use std::ops::Range;

use tensor_core::step::PANEL;

use super::kernel::Sum;
use super::pack::{SIDE, are_adjacent};
use super::{FEW_ROWS, Sums, Whole, fetch};
use crate::element::Element;
use crate::level::Level;

/// Columns whose sums are in registers at the same time.
const COLUMNS: usize = 64;
/// Prefetch distance, in rows of memory.
const AHEAD: usize = 12;

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Whether these columns should not be packed: few rows of f32, and columns that are adjacent, or a depth that is adjacent if
    /// blocks can be transposed in registers.
    pub fn is_thin(&self, columns: &Range<usize>) -> bool {
        let single = TypeId::of::<f32>();
        TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.left_rows.len() <= FEW_ROWS
            && !self.left_depth.is_empty()
            && (self.level == Level::Avx512 && are_adjacent(&self.right_depth)
                || self.level > Level::Plain && are_adjacent(&self.right_rows[columns.clone()]))
    }

    /// # Safety
    /// `is_thin` holds for these columns; both operands are in memory for all offsets, and `sums` has space.
    pub unsafe fn without_packing(
        &self,
        (left, right): (*const L, *const R),
        (rows, columns): (Range<usize>, Range<usize>),
        sums: Sums<N>,
    ) {
        let depth = self.left_depth.len();
        let mut factors = vec![0.0; rows.len() * depth];
        for (row, factors) in rows.clone().zip(factors.chunks_exact_mut(depth)) {
            for (factor, &offset) in factors.iter_mut().zip(&self.left_depth) {
                // SAFETY: the caller guarantees that this is in memory, and `is_thin` that it is an f32.
                *factor = unsafe { *left.cast::<f32>().offset(self.left_rows[row] + offset) };
            }
        }
        let lines = Lines {
            factors: &factors,
            depth,
            base: right.cast(),
            columns: &self.right_rows[columns.clone()],
            offsets: &self.right_depth,
            sums: Sums { start: sums.start.cast(), stride: sums.stride },
        };
        // SAFETY: guaranteed by the caller.
        unsafe {
            match rows.len() {
                1 => lines.run::<1>(self.level),
                2 => lines.run::<2>(self.level),
                3 => lines.run::<3>(self.level),
                _ => lines.run::<4>(self.level),
            }
        }
    }
}

/// Rows of factors, one after another, and the columns they are multiplied with.
struct Lines<'a> {
    factors: &'a [f32],
    depth: usize,
    base: *const f32,
    columns: &'a [isize],
    offsets: &'a [isize],
    sums: Sums<f32>,
}

impl Lines<'_> {
    /// # Safety
    /// Like `without_packing`, for `ROWS` rows.
    unsafe fn run<const ROWS: usize>(&self, level: Level) {
        let beside = are_adjacent(self.columns);
        // With adjacent depth, fewer columns at a time: each is read in one go.
        let most = if beside { COLUMNS } else { SIDE };
        for first in (0..self.columns.len()).step_by(most) {
            let width = most.min(self.columns.len() - first);
            for panel in (0..self.depth).step_by(PANEL) {
                let panel = panel..self.depth.min(panel + PANEL);
                // SAFETY: guaranteed by the caller; the level was detected on this processor.
                let sums = unsafe {
                    match level {
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 if !beside => self.turned::<ROWS>(first, width, &panel),
                        _ if width < COLUMNS => self.narrow::<ROWS>(first, width, &panel),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx512 => self.wide512::<ROWS>(first, &panel),
                        #[cfg(target_arch = "x86_64")]
                        Level::Avx2 => self.wide256::<ROWS>(first, &panel),
                        _ => self.wide::<ROWS>(first, &panel),
                    }
                };
                for (row, sums) in sums.iter().enumerate() {
                    for (column, &sum) in sums[..width].iter().enumerate() {
                        // SAFETY: there is space for all columns of all rows.
                        unsafe {
                            let at = self.sums.start.add(row * self.sums.stride + first + column);
                            *at = if panel.start == 0 { sum } else { *at + sum };
                        }
                    }
                }
            }
        }
    }

    /// The sums of adjacent columns.
    ///
    /// # Safety
    /// Like `run`; there are [`COLUMNS`] columns from the first on.
    #[inline(always)]
    unsafe fn wide<const ROWS: usize>(&self, first: usize, panel: &Range<usize>) -> [[f32; COLUMNS]; ROWS] {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        // SAFETY: guaranteed by the caller.
        let start = unsafe { self.base.offset(self.columns[first]) };
        for k in panel.clone() {
            // SAFETY: guaranteed by the caller.
            let line = unsafe { &*start.offset(self.offsets[k]).cast::<[f32; COLUMNS]>() };
            if let Some(&offset) = self.offsets.get(k + AHEAD) {
                fetch(start.wrapping_offset(offset), COLUMNS);
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                let factor = self.factors[row * self.depth + k];
                for (sum, &value) in sums.iter_mut().zip(line) {
                    *sum = f32::mul_add(factor, value, *sum);
                }
            }
        }
        sums
    }

    /// # Safety
    /// Like `wide`, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn wide512<const ROWS: usize>(
        &self,
        first: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.wide(first, panel) }
    }

    /// # Safety
    /// Like `wide`, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn wide256<const ROWS: usize>(
        &self,
        first: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        // SAFETY: guaranteed by the caller.
        unsafe { self.wide(first, panel) }
    }

    /// The sums of the last columns, fewer than [`COLUMNS`].
    ///
    /// # Safety
    /// Like `run`; there are `width` columns.
    unsafe fn narrow<const ROWS: usize>(
        &self,
        first: usize,
        width: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        for k in panel.clone() {
            for column in 0..width {
                // SAFETY: guaranteed by the caller.
                let value = unsafe { *self.base.offset(self.columns[first + column] + self.offsets[k]) };
                for (row, sums) in sums.iter_mut().enumerate() {
                    sums[column] = f32::mul_add(self.factors[row * self.depth + k], value, sums[column]);
                }
            }
        }
        sums
    }

    /// The sums of columns with adjacent depth: 16x16 blocks are transposed in registers.
    ///
    /// # Safety
    /// Like `run`, with `width` columns, at most sixteen, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn turned<const ROWS: usize>(
        &self,
        first: usize,
        width: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        use super::pack::load_transposed;
        use std::arch::x86_64::*;
        let mut sums = [[0.0; COLUMNS]; ROWS];
        let columns = &self.columns[first..first + width];
        let mut sixteen = [_mm512_setzero_ps(); ROWS];
        for from in panel.clone().step_by(SIDE) {
            let count = SIDE.min(panel.end - from);
            let base = self.base.wrapping_offset(self.offsets[from]);
            for &column in columns {
                fetch(base.wrapping_offset(column).wrapping_add(AHEAD * SIDE), 1);
            }
            // SAFETY: guaranteed by the caller.
            let lines = unsafe { load_transposed(base, columns, count) };
            for (k, &line) in lines.iter().enumerate().take(count) {
                for (row, sum) in sixteen.iter_mut().enumerate() {
                    let factor = _mm512_set1_ps(self.factors[row * self.depth + from + k]);
                    *sum = _mm512_fmadd_ps(factor, line, *sum);
                }
            }
        }
        for (sums, &sum) in sums.iter_mut().zip(&sixteen) {
            // SAFETY: `sums` has space for at least sixteen elements.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        }
        sums
    }
}
