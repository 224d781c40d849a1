//! Packing: copies operands of a contraction into the order in which the kernel reads them: groups of a tile's rows, depth by
//! depth. Elements are read from their strided locations, so a convolution never materialises all of its windows.

use std::any::TypeId;

use smallvec::SmallVec;

use crate::element::{Element, Number};
use crate::level::Level;

/// One operand: each element is at `base` plus the offset of its row plus the offset of its depth.
#[derive(Clone, Copy, Debug)]
pub struct Grid<'a, T> {
    pub base: *const T,
    pub rows: &'a [isize],
    pub depth: &'a [isize],
}

/// Whether the offsets are consecutive.
pub fn are_adjacent(offsets: &[isize]) -> bool {
    offsets.windows(2).all(|pair| pair[1] == pair[0] + 1)
}

/// Writes groups of `width` rows, each `depth.len()` times `width` elements; missing rows of the last group are zeros.
///
/// # Safety
/// Every sum of base and offsets is readable; `to` has space for all groups.
pub unsafe fn pack<T: Element>(grid: Grid<'_, T>, width: usize, to: *mut T::Wide, level: Level) {
    let depth_follows = are_adjacent(grid.depth);
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512
        && TypeId::of::<T>() == TypeId::of::<f32>()
        && width.is_multiple_of(SIDE)
        && are_adjacent(grid.rows)
    {
        let grid = Grid { base: grid.base.cast(), rows: grid.rows, depth: grid.depth };
        // SAFETY: guaranteed by the caller; the level was detected on this processor.
        return unsafe { pack_adjacent_rows_avx512(grid, width, to.cast()) };
    }
    #[cfg(target_arch = "x86_64")]
    if level == Level::Avx512 && TypeId::of::<T>() == TypeId::of::<f32>() && !depth_follows {
        let grid = Grid { base: grid.base.cast(), rows: grid.rows, depth: grid.depth };
        // SAFETY: guaranteed by the caller; the level was detected on this processor.
        return unsafe { pack_lanes_avx512(grid, width, to.cast()) };
    }
    for (group, rows) in grid.rows.chunks(width).enumerate() {
        // SAFETY: the caller guarantees the space.
        let to = unsafe { to.add(group * width * grid.depth.len()) };
        let grid = Grid { rows, ..grid };
        // SAFETY: guaranteed by the caller.
        unsafe {
            if rows.len() == width && are_adjacent(rows) {
                pack_adjacent_rows(grid, to);
            } else if depth_follows && !grid.depth.is_empty() {
                #[cfg(target_arch = "x86_64")]
                if level == Level::Avx512 && TypeId::of::<T>() == TypeId::of::<f32>() {
                    let grid = Grid { base: grid.base.cast(), rows, depth: grid.depth };
                    pack_adjacent_depth_avx512(grid, width, to.cast());
                    continue;
                }
                pack_adjacent_depth(grid, width, to);
            } else {
                let runs = runs(rows);
                if runs.len() * 4 <= width {
                    pack_row_runs(grid, &runs, width, to);
                } else {
                    pack_strided(grid, width, to);
                }
            }
        }
    }
}

/// Runs of adjacent rows: the number of the first, and the count.
fn runs(rows: &[isize]) -> SmallVec<[(usize, usize); 8]> {
    let mut runs: SmallVec<[(usize, usize); 8]> = SmallVec::new();
    for (row, &offset) in rows.iter().enumerate() {
        match runs.last_mut() {
            Some((first, count)) if rows[*first] + *count as isize == offset => *count += 1,
            _ => runs.push((row, 1)),
        }
    }
    runs
}

/// Packs rows that are adjacent in a few runs, as the windows of an image are.
///
/// # Safety
/// Like [`pack`].
unsafe fn pack_row_runs<T: Element>(
    grid: Grid<'_, T>,
    runs: &[(usize, usize)],
    width: usize,
    mut to: *mut T::Wide,
) {
    for &offset in grid.depth {
        for &(first, count) in runs {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let from = grid.base.offset(grid.rows[first] + offset);
                let to = to.add(first);
                for row in 0..count {
                    *to.add(row) = (*from.add(row)).widen();
                }
            }
        }
        for row in grid.rows.len()..width {
            // SAFETY: the caller guarantees the space.
            unsafe { *to.add(row) = T::Wide::ZERO };
        }
        // SAFETY: as above.
        to = unsafe { to.add(width) };
    }
}

/// Packs rows that are all adjacent.
///
/// # Safety
/// Like [`pack`].
unsafe fn pack_adjacent_rows<T: Element>(grid: Grid<'_, T>, mut to: *mut T::Wide) {
    for &offset in grid.depth {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let from = grid.base.offset(grid.rows[0] + offset);
            for row in 0..grid.rows.len() {
                *to.add(row) = (*from.add(row)).widen();
            }
            to = to.add(grid.rows.len());
        }
    }
}

/// Like [`pack_adjacent_rows`], for f32 and all groups at once, so that memory is read in long stretches.
///
/// # Safety
/// Like [`pack`], on a processor with these instructions.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f")]
unsafe fn pack_adjacent_rows_avx512(grid: Grid<'_, f32>, width: usize, to: *mut f32) {
    use std::arch::x86_64::*;
    let (rows, depth) = (grid.rows.len(), grid.depth.len());
    let Some(&first) = grid.rows.first() else { return };
    for (k, &offset) in grid.depth.iter().enumerate() {
        // SAFETY: guaranteed by the caller; lanes beyond the rows are masked.
        unsafe {
            let from = grid.base.offset(first + offset);
            for row in (0..rows.next_multiple_of(width)).step_by(SIDE) {
                let line = _mm512_maskz_loadu_ps(mask(rows.saturating_sub(row)), from.wrapping_add(row));
                _mm512_storeu_ps(to.add(row / width * width * depth + k * width + row % width), line);
            }
        }
    }
}

/// Packs f32 at any distances: whole vectors of rows if these are adjacent in long runs, or else of depths, which are transposed
/// in registers.
///
/// # Safety
/// Like [`pack`], on a processor with these instructions.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::needless_range_loop, reason = "lines of known numbers stay in registers")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
unsafe fn pack_lanes_avx512(grid: Grid<'_, f32>, width: usize, to: *mut f32) {
    use super::lanes::{LANES, Lanes, run};
    use std::arch::x86_64::*;
    // Runs that end at a vector are as good as longer ones.
    let count = |offsets: &[isize]| {
        let (mut runs, mut at) = (0, 0);
        while at < offsets.len() && runs * 4 <= offsets.len() {
            let limit = offsets.len().min(at / LANES * LANES + LANES);
            let (count, step) = run(&offsets[at..limit]);
            runs += if step == 1 || step == 2 { 1 } else { LANES };
            at += count;
        }
        (runs, offsets.len())
    };
    let depth = grid.depth.len();
    let (row_runs, rows) = count(grid.rows);
    let by_depth = row_runs * 4 > rows && {
        let (runs, depths) = count(grid.depth);
        runs * 4 <= depths
    };
    for (group, rows) in grid.rows.chunks(width).enumerate() {
        // SAFETY: the caller guarantees the space.
        let to = unsafe { to.add(group * width * depth) };
        for beside in (0..width).step_by(LANES) {
            let rows = rows.get(beside..rows.len().min(beside + LANES)).unwrap_or_default();
            let store = mask(width - beside);
            if !by_depth {
                let lanes = Lanes::new(rows);
                // SAFETY: guaranteed by the caller; lanes beyond the width are masked.
                unsafe { lanes.copy(grid.base, grid.depth, width, store, to.add(beside)) };
                continue;
            }
            for (first, depths) in (0..depth).step_by(LANES).zip(grid.depth.chunks(LANES)) {
                let lanes = Lanes::new(depths);
                let mut lines = [_mm512_setzero_ps(); LANES];
                for n in 0..LANES {
                    if n < rows.len() {
                        // SAFETY: guaranteed by the caller.
                        lines[n] = unsafe { lanes.load(grid.base.wrapping_offset(rows[n])) };
                    }
                }
                let (lines, to) = (transposed(lines), to.wrapping_add(first * width + beside));
                for k in 0..LANES {
                    if k < depths.len() {
                        // SAFETY: as above.
                        unsafe { _mm512_mask_storeu_ps(to.wrapping_add(k * width), store, lines[k]) };
                    }
                }
            }
        }
    }
}

/// Packs rows that are contiguous along the depth: a transposition, in square blocks for cache locality.
///
/// # Safety
/// Like [`pack`].
unsafe fn pack_adjacent_depth<T: Element>(grid: Grid<'_, T>, width: usize, to: *mut T::Wide) {
    const SIDE: usize = 16;
    let depth = grid.depth.len();
    for first in (0..depth).step_by(SIDE) {
        let count = SIDE.min(depth - first);
        for (row, offset) in grid.rows.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let from = grid.base.offset(offset + grid.depth[first]);
                let to = to.add(first * width + row);
                for k in 0..count {
                    *to.add(k * width) = (*from.add(k)).widen();
                }
            }
        }
    }
    for row in grid.rows.len()..width {
        for k in 0..depth {
            // SAFETY: the caller guarantees the space.
            unsafe { *to.add(k * width + row) = T::Wide::ZERO };
        }
    }
}

/// Like [`pack_adjacent_depth`], for f32, sixteen rows and depths at a time in registers.
///
/// # Safety
/// Like [`pack`], on a processor with these instructions.
#[cfg(target_arch = "x86_64")]
#[expect(clippy::needless_range_loop, reason = "lines of known numbers stay in registers")]
#[target_feature(enable = "avx512f")]
unsafe fn pack_adjacent_depth_avx512(grid: Grid<'_, f32>, width: usize, to: *mut f32) {
    use std::arch::x86_64::*;
    let depth = grid.depth.len();
    for first in (0..depth).step_by(SIDE) {
        let count = SIDE.min(depth - first);
        for beside in (0..width).step_by(SIDE) {
            let rows = grid.rows.get(beside..grid.rows.len().min(beside + SIDE)).unwrap_or_default();
            // SAFETY: guaranteed by the caller.
            let lines = unsafe { load_transposed(grid.base.offset(grid.depth[first]), rows, count) };
            let (store, to) = (mask(width - beside), to.wrapping_add(first * width + beside));
            // Loops of known length, so that the lines stay in registers.
            for k in 0..SIDE {
                if k < count {
                    // SAFETY: the caller guarantees the space; lanes beyond the width are masked.
                    unsafe { _mm512_mask_storeu_ps(to.wrapping_add(k * width), store, lines[k]) };
                }
            }
        }
    }
}

/// The side of a square block that is transposed in registers.
pub const SIDE: usize = 16;

/// A mask of the first `count` lanes.
#[cfg(target_arch = "x86_64")]
fn mask(count: usize) -> u16 {
    if count >= SIDE { !0 } else { (1 << count) - 1 }
}

/// Loads rows of `count` adjacent elements and transposes them: the first elements of all rows, then the second, and so on; zeros
/// for missing rows.
///
/// # Safety
/// There are at most sixteen rows, each with `count` readable elements; the processor has these instructions.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub unsafe fn load_transposed(
    base: *const f32,
    rows: &[isize],
    count: usize,
) -> [std::arch::x86_64::__m512; SIDE] {
    use std::arch::x86_64::*;
    let mut lines = [_mm512_setzero_ps(); SIDE];
    let lanes = mask(count);
    for n in 0..SIDE {
        if n < rows.len() {
            // SAFETY: guaranteed by the caller; lanes beyond the depth are masked.
            lines[n] = unsafe { _mm512_maskz_loadu_ps(lanes, base.offset(rows[n])) };
        }
    }
    transposed(lines)
}

/// Transposes a 16x16 block: pairs, pairs of pairs, then quarters of registers.
#[cfg(target_arch = "x86_64")]
#[inline]
#[target_feature(enable = "avx512f")]
pub fn transposed(rows: [std::arch::x86_64::__m512; 16]) -> [std::arch::x86_64::__m512; 16] {
    use std::arch::x86_64::*;
    let mut pairs = rows;
    for half in 0..8 {
        let n = 2 * half;
        pairs[n] = _mm512_unpacklo_ps(rows[n], rows[n + 1]);
        pairs[n + 1] = _mm512_unpackhi_ps(rows[n], rows[n + 1]);
    }
    // Now register `group + n` holds element `4 * quarter + n` of rows `group..group + 4` in its quarters.
    let mut fours = pairs;
    for half in 0..8 {
        {
            let (n, high) = (half / 2 * 4, half % 2);
            let to = n + 2 * high;
            let (low, up) = (_mm512_castps_pd(pairs[n + high]), _mm512_castps_pd(pairs[n + high + 2]));
            fours[to] = _mm512_castpd_ps(_mm512_unpacklo_pd(low, up));
            fours[to + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(low, up));
        }
    }
    let mut columns = fours;
    for n in 0..4 {
        let even = _mm512_shuffle_f32x4::<0x88>(fours[n], fours[n + 4]);
        let odd = _mm512_shuffle_f32x4::<0xDD>(fours[n], fours[n + 4]);
        let even_high = _mm512_shuffle_f32x4::<0x88>(fours[n + 8], fours[n + 12]);
        let odd_high = _mm512_shuffle_f32x4::<0xDD>(fours[n + 8], fours[n + 12]);
        columns[n] = _mm512_shuffle_f32x4::<0x88>(even, even_high);
        columns[n + 4] = _mm512_shuffle_f32x4::<0x88>(odd, odd_high);
        columns[n + 8] = _mm512_shuffle_f32x4::<0xDD>(even, even_high);
        columns[n + 12] = _mm512_shuffle_f32x4::<0xDD>(odd, odd_high);
    }
    columns
}

/// Packs rows at any distance, element by element.
///
/// # Safety
/// Like [`pack`].
unsafe fn pack_strided<T: Element>(grid: Grid<'_, T>, width: usize, mut to: *mut T::Wide) {
    for &offset in grid.depth {
        // SAFETY: guaranteed by the caller.
        unsafe {
            let from = grid.base.offset(offset);
            for (row, &at) in grid.rows.iter().enumerate() {
                *to.add(row) = (*from.offset(at)).widen();
            }
            for row in grid.rows.len()..width {
                *to.add(row) = T::Wide::ZERO;
            }
            to = to.add(width);
        }
    }
}
