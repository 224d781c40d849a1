//! A few rows times a matrix: the matrix is read once and would be packed for nothing, so it is read as it lies. The sums are the same chains.

use std::any::TypeId;
use std::ops::Range;

use tensor_core::step::PANEL;

use super::kernel::Sum;
use super::pack::{SIDE, follow};
use super::{Sums, Whole, fetch};
use crate::element::Element;
use crate::level::Level;

/// Rows that are few.
const ROWS: usize = 4;
/// Columns whose sums are in registers at the same time.
const COLUMNS: usize = 64;
/// How many lines of memory before they are needed they are asked for.
const AHEAD: usize = 12;

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Whether these columns are better not packed: few rows of f32, and columns that lie side by side, or depth that does where squares can be
    /// turned in registers.
    pub fn is_thin(&self, columns: &Range<usize>) -> bool {
        let single = TypeId::of::<f32>();
        TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.left_rows.len() <= ROWS
            && !self.left_depth.is_empty()
            && (self.level == Level::Avx512 && follow(&self.right_depth)
                || self.level > Level::Plain && follow(&self.right_rows[columns.clone()]))
    }

    /// # Safety
    /// `is_thin` for these columns; both operands are in memory for all offsets, and `sums` has room.
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
                // SAFETY: the caller says that this is in memory, and is an f32.
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
        // SAFETY: the caller's promise.
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
    /// As `without_packing`, for so many rows.
    unsafe fn run<const ROWS: usize>(&self, level: Level) {
        let beside = follow(self.columns);
        // Where depth lies side by side, fewer columns at a time: each is read in one go.
        let most = if beside { COLUMNS } else { SIDE };
        for first in (0..self.columns.len()).step_by(most) {
            let width = most.min(self.columns.len() - first);
            for panel in (0..self.depth).step_by(PANEL) {
                let panel = panel..self.depth.min(panel + PANEL);
                // SAFETY: the caller's promise; the level was found on this processor.
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
                        // SAFETY: there is room for all columns of all rows.
                        unsafe {
                            let at = self.sums.start.add(row * self.sums.stride + first + column);
                            *at = if panel.start == 0 { sum } else { *at + sum };
                        }
                    }
                }
            }
        }
    }

    /// The sums of columns that lie side by side.
    ///
    /// # Safety
    /// As `run`; there are [`COLUMNS`] from the first on.
    #[inline(always)]
    unsafe fn wide<const ROWS: usize>(&self, first: usize, panel: &Range<usize>) -> [[f32; COLUMNS]; ROWS] {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        // SAFETY: the caller's promise.
        let start = unsafe { self.base.offset(self.columns[first]) };
        for k in panel.clone() {
            // SAFETY: the caller's promise.
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
    /// As `wide`, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn wide512<const ROWS: usize>(
        &self,
        first: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        // SAFETY: the caller's promise.
        unsafe { self.wide(first, panel) }
    }

    /// # Safety
    /// As `wide`, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn wide256<const ROWS: usize>(
        &self,
        first: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        // SAFETY: the caller's promise.
        unsafe { self.wide(first, panel) }
    }

    /// The last columns.
    ///
    /// # Safety
    /// As `run`; there are so many columns.
    unsafe fn narrow<const ROWS: usize>(
        &self,
        first: usize,
        width: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        let mut sums = [[0.0; COLUMNS]; ROWS];
        for k in panel.clone() {
            for column in 0..width {
                // SAFETY: the caller's promise.
                let value = unsafe { *self.base.offset(self.columns[first + column] + self.offsets[k]) };
                for (row, sums) in sums.iter_mut().enumerate() {
                    sums[column] = f32::mul_add(self.factors[row * self.depth + k], value, sums[column]);
                }
            }
        }
        sums
    }

    /// The sums of columns whose depth lies side by side: squares of sixteen are turned in registers.
    ///
    /// # Safety
    /// As `run`, with so many columns, at most sixteen, on a processor with these instructions.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f")]
    unsafe fn turned<const ROWS: usize>(
        &self,
        first: usize,
        width: usize,
        panel: &Range<usize>,
    ) -> [[f32; COLUMNS]; ROWS] {
        use super::pack::columns_of;
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
            // SAFETY: the caller's promise.
            let lines = unsafe { columns_of(base, columns, count) };
            for (k, &line) in lines.iter().enumerate().take(count) {
                for (row, sum) in sixteen.iter_mut().enumerate() {
                    let factor = _mm512_set1_ps(self.factors[row * self.depth + from + k]);
                    *sum = _mm512_fmadd_ps(factor, line, *sum);
                }
            }
        }
        for (sums, &sum) in sums.iter_mut().zip(&sixteen) {
            // SAFETY: there is room for more than sixteen.
            unsafe { _mm512_storeu_ps(sums.as_mut_ptr(), sum) };
        }
        sums
    }
}
