//! Contractions with a few rows whose columns are not adjacent, such as depthwise convolutions and their gradients: operands are
//! read in place, whole vectors at a time. The sums are the same chains as in the packed path.

use std::any::TypeId;
use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use tensor_core::step::PANEL;

use super::kernel::Sum;
#[cfg(target_arch = "x86_64")]
use super::lanes::{LANES, Lanes, Part, mask, run};
use super::{FEW_ROWS, Sums, Whole};
use crate::element::Element;
use crate::level::Level;

/// Vectors of columns whose sums are in registers at the same time.
#[cfg(target_arch = "x86_64")]
const VECTORS: usize = 4;

/// A part of the columns, or all of them if these are few and the depth is read in vectors.
#[derive(Clone, Debug)]
pub struct Strip {
    #[cfg(target_arch = "x86_64")]
    first: usize,
    #[cfg(target_arch = "x86_64")]
    count: usize,
    #[cfg(target_arch = "x86_64")]
    lanes: Vec<Lanes>,
    #[cfg(target_arch = "x86_64")]
    by_depth: bool,
}

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Divides the columns into strips, if this path is better than packing.
    pub fn strips(&self) -> Vec<Strip> {
        let single = TypeId::of::<f32>();
        let fits = TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.level == Level::Avx512
            && self.left_rows.len() <= FEW_ROWS
            && !self.left_depth.is_empty()
            && !self.right_rows.is_empty()
            && !self.is_thin(&(0..self.right_rows.len()));
        if fits { self.divided() } else { Vec::new() }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn divided(&self) -> Vec<Strip> {
        Vec::new()
    }

    #[cfg(target_arch = "x86_64")]
    fn divided(&self) -> Vec<Strip> {
        let columns = &self.right_rows;
        let mut strips: Vec<Strip> = Vec::new();
        let mut at = 0;
        while at < columns.len() {
            let (count, step) = run(&columns[at..columns.len().min(at + VECTORS * LANES)]);
            let count = if step == 1 || step == 2 { count } else { 1 };
            let lanes = columns[at..at + count].chunks(LANES).map(Lanes::new).collect();
            strips.push(Strip { first: at, count, lanes, by_depth: false });
            at += count;
            if strips.len() * 4 > columns.len() {
                break;
            }
        }
        if at == columns.len() && strips.len() * 4 <= columns.len() {
            return strips;
        }
        // Few columns with a long depth, as in the gradient of a depthwise convolution's kernel.
        if columns.len() > LANES || self.right_depth.len() < 4 * LANES {
            return Vec::new();
        }
        let panels = self.right_depth.chunks(PANEL);
        let lanes: Vec<Lanes> = panels.flat_map(|panel| panel.chunks(LANES).map(Lanes::new)).collect();
        if !lanes.iter().all(|lanes| matches!(lanes, Lanes::Parts(..))) {
            return Vec::new();
        }
        vec![Strip { first: 0, count: columns.len(), lanes, by_depth: true }]
    }

    /// Whether this path computes these columns: all of them.
    pub fn is_direct(&self, columns: &Range<usize>) -> bool {
        !self.strips.is_empty() && columns.len() == self.right_rows.len()
    }

    /// # Safety
    /// `is_direct` holds; both operands are in memory for all offsets, and `sums` has space.
    pub unsafe fn directly(&self, operands: (*const L, *const R), rows: Range<usize>, sums: Sums<N>) {
        #[cfg(target_arch = "x86_64")]
        {
            let (left, right) = (operands.0.cast::<f32>(), operands.1.cast::<f32>());
            let depth = self.left_depth.len();
            let mut factors = vec![0.0; rows.len() * depth];
            for (row, factors) in rows.clone().zip(factors.chunks_exact_mut(depth)) {
                for (factor, &offset) in factors.iter_mut().zip(&self.left_depth) {
                    // SAFETY: the caller guarantees that this is in memory.
                    *factor = unsafe { *left.offset(self.left_rows[row].wrapping_add(offset)) };
                }
            }
            let direct = Direct {
                factors: &factors,
                depth: &self.right_depth,
                columns: &self.right_rows,
                base: right,
                sums: Sums { start: sums.start.cast(), stride: sums.stride },
            };
            for strip in &self.strips {
                // SAFETY: guaranteed by the caller; strips exist only if the processor has these instructions.
                unsafe {
                    match rows.len() {
                        1 => direct.strip::<1>(strip),
                        2 => direct.strip::<2>(strip),
                        3 => direct.strip::<3>(strip),
                        _ => direct.strip::<4>(strip),
                    }
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (operands, rows, sums);
    }
}

/// Rows of factors, one after another, and what they are multiplied with.
#[cfg(target_arch = "x86_64")]
struct Direct<'a> {
    factors: &'a [f32],
    depth: &'a [isize],
    columns: &'a [isize],
    base: *const f32,
    sums: Sums<f32>,
}

#[cfg(target_arch = "x86_64")]
impl Direct<'_> {
    /// # Safety
    /// Like `directly`, for `ROWS` rows, on a processor with these instructions.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn strip<const ROWS: usize>(&self, strip: &Strip) {
        // SAFETY: guaranteed by the caller.
        unsafe {
            match strip.lanes.len() {
                _ if strip.by_depth => self.by_depth::<ROWS>(strip),
                1 => self.by_columns::<ROWS, 1>(strip),
                2 => self.by_columns::<ROWS, 2>(strip),
                3 => self.by_columns::<ROWS, 3>(strip),
                _ => self.by_columns::<ROWS, VECTORS>(strip),
            }
        }
    }

    /// The sums of the columns of a strip, of `WIDE` vectors.
    ///
    /// # Safety
    /// Like `strip`.
    #[expect(clippy::needless_range_loop, reason = "iterators would be calls here")]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn by_columns<const ROWS: usize, const WIDE: usize>(&self, strip: &Strip) {
        use std::arch::x86_64::*;
        let depth = self.depth.len();
        // Each vector is a part of one run.
        let mut parts = [Part::Adjacent(0, 0); WIDE];
        for (part, lanes) in parts.iter_mut().zip(&strip.lanes) {
            if let Lanes::Parts([one, ..], 1) = lanes {
                *part = *one;
            }
        }
        if let Part::Adjacent(start, _) = parts[0] {
            let mut masks = [0; WIDE];
            for n in 0..WIDE {
                masks[n] = mask(strip.count - n * LANES);
            }
            for from in (0..depth).step_by(PANEL) {
                let end = depth.min(from + PANEL);
                let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
                for (k, &offset) in self.depth[from..end].iter().enumerate() {
                    let base = self.base.wrapping_offset(offset).wrapping_offset(start);
                    let mut lines = [_mm512_setzero_ps(); WIDE];
                    for n in 0..WIDE {
                        // SAFETY: guaranteed by the caller; the vectors of a run follow one another.
                        lines[n] = unsafe { _mm512_maskz_loadu_ps(masks[n], base.wrapping_add(n * LANES)) };
                    }
                    for row in 0..ROWS {
                        let factor = _mm512_set1_ps(self.factors[row * depth + from + k]);
                        for n in 0..WIDE {
                            sums[row][n] = _mm512_fmadd_ps(factor, lines[n], sums[row][n]);
                        }
                    }
                }
                // SAFETY: guaranteed by the caller.
                unsafe { self.put(strip, &sums, from == 0) };
            }
            return;
        }
        for from in (0..depth).step_by(PANEL) {
            let end = depth.min(from + PANEL);
            let mut sums = [[_mm512_setzero_ps(); WIDE]; ROWS];
            for (k, &offset) in self.depth[from..end].iter().enumerate() {
                let base = self.base.wrapping_offset(offset);
                // Loops over numbers: closures and other functions are not compiled for these instructions.
                let mut lines = [_mm512_setzero_ps(); WIDE];
                for n in 0..WIDE {
                    // SAFETY: guaranteed by the caller.
                    lines[n] = unsafe { parts[n].load(base) };
                }
                for row in 0..ROWS {
                    let factor = _mm512_set1_ps(self.factors[row * depth + from + k]);
                    for n in 0..WIDE {
                        sums[row][n] = _mm512_fmadd_ps(factor, lines[n], sums[row][n]);
                    }
                }
            }
            // SAFETY: guaranteed by the caller.
            unsafe { self.put(strip, &sums, from == 0) };
        }
    }

    /// Adds the sums of a strip to those of earlier panels, or writes those of the first.
    ///
    /// # Safety
    /// Like `strip`.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn put<const ROWS: usize, const WIDE: usize>(
        &self,
        strip: &Strip,
        sums: &[[std::arch::x86_64::__m512; WIDE]; ROWS],
        first: bool,
    ) {
        for (row, sums) in sums.iter().enumerate() {
            for (n, &sum) in sums.iter().enumerate() {
                let width = mask(strip.count - n * LANES);
                // SAFETY: there is space for all columns of all rows; lanes beyond the strip are masked.
                unsafe {
                    let at = self.sums.start.add(row * self.sums.stride + strip.first + n * LANES);
                    store(at, width, sum, first);
                }
            }
        }
    }

    /// The sums of all columns, of which there are at most sixteen: sixteen depths are loaded at a time and transposed.
    ///
    /// # Safety
    /// Like `strip`.
    #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
    unsafe fn by_depth<const ROWS: usize>(&self, strip: &Strip) {
        use std::arch::x86_64::*;
        let depth = self.depth.len();
        let mut lanes = strip.lanes.iter();
        for from in (0..depth).step_by(PANEL) {
            let end = depth.min(from + PANEL);
            let mut sums = [_mm512_setzero_ps(); ROWS];
            for first in (from..end).step_by(LANES) {
                let lanes = lanes.next().expect("there are lanes for all depths");
                let mut lines = [_mm512_setzero_ps(); LANES];
                for (line, &column) in lines.iter_mut().zip(self.columns) {
                    // SAFETY: guaranteed by the caller.
                    *line = unsafe { lanes.load(self.base.wrapping_offset(column)) };
                }
                let lines = super::pack::transposed(lines);
                for (k, &line) in (first..end).zip(&lines) {
                    for (row, sum) in sums.iter_mut().enumerate() {
                        let factor = _mm512_set1_ps(self.factors[row * depth + k]);
                        *sum = _mm512_fmadd_ps(factor, line, *sum);
                    }
                }
            }
            for (row, &sum) in sums.iter().enumerate() {
                // SAFETY: there is space for all columns of all rows.
                unsafe {
                    let at = self.sums.start.add(row * self.sums.stride);
                    store(at, mask(strip.count), sum, from == 0);
                }
            }
        }
    }
}

/// Adds sums to those of earlier panels, or writes those of the first.
///
/// # Safety
/// There is space for the lanes of the mask; the processor has these instructions.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn store(at: *mut f32, lanes: u16, sum: std::arch::x86_64::__m512, first: bool) {
    use std::arch::x86_64::*;
    // SAFETY: guaranteed by the caller.
    unsafe {
        let all = if first { sum } else { _mm512_add_ps(_mm512_maskz_loadu_ps(lanes, at), sum) };
        _mm512_mask_storeu_ps(at, lanes, all);
    }
}
