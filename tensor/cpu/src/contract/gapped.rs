//! Contractions whose columns are adjacent but for small gaps, such as convolutions with stride one: a row of an image is followed
//! by its padding and the next row. The gaps are computed like columns and left out of the result, so vectors are loaded from the
//! image, and only the left operand is packed. The sums are the same chains as in the packed path.

use std::any::TypeId;

use super::Whole;
#[cfg(target_arch = "x86_64")]
use super::finish::{Finish, Stretch};
use super::kernel::Sum;
#[cfg(target_arch = "x86_64")]
use super::{FEW_ROWS, FIELD, PACKED, Packed, ROWS, Sums};
use crate::element::Element;
use crate::level::Level;
use crate::threads::Threads;

/// Columns from which this path is worthwhile.
const LEAST: usize = 128;

/// Whether these columns, and a depth of windows that overlap, are computed by this path.
pub fn is_gapped(columns: &[isize], depth: &[isize]) -> bool {
    let (Some(first), Some(last)) = (columns.first(), columns.last()) else { return false };
    // Few columns are computed in vain, and columns are in order.
    let near = last.wrapping_sub(*first) < (columns.len() + columns.len() / 8) as isize
        && columns.windows(2).all(|pair| pair[0] < pair[1]);
    // Without overlaps every depth is in another page, and copies are read faster.
    let beside = depth.windows(2).filter(|pair| pair[1] == pair[0] + 1).count();
    columns.len() >= LEAST && near && beside * 2 >= depth.len().max(1)
}

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Contracts all batches if this path is better than packing both operands; returns whether it did.
    pub fn by_gapped_columns(&self, threads: &Threads) -> bool {
        let single = TypeId::of::<f32>();
        let fits = TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.level == Level::Avx512
            && self.images == 1
            && self.left_rows.len() > FEW_ROWS
            && is_gapped(&self.right_rows, &self.right_depth);
        #[cfg(target_arch = "x86_64")]
        if fits {
            self.gapped(threads);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = threads;
        fits && cfg!(target_arch = "x86_64")
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::ops::Range;

    use tensor_core::step::PANEL;

    use super::super::pack::{Grid, pack};
    use super::super::tiles::{COLUMNS, Tiles, tall};
    use super::*;

    impl<L, R, N> Whole<'_, L, R, N>
    where
        L: Element<Wide = N>,
        R: Element<Wide = N>,
        N: Sum,
    {
        pub(super) fn gapped(&self, threads: &Threads) {
            let (m, k) = (self.left_rows.len(), self.left_depth.len());
            let span = (self.right_rows[self.right_rows.len() - 1] - self.right_rows[0]) as usize + 1;
            let parts = (threads.count() * 2).div_ceil(self.batches).min(span.div_ceil(FIELD.1));
            let share = span.div_ceil(parts).next_multiple_of(COLUMNS);
            let parts = span.div_ceil(share);
            let cost = (self.batches * m * span).saturating_mul(k) / 40;
            threads.each(self.batches * parts, cost, |task| {
                let first = task % parts * share;
                // SAFETY: views are within their buffers; the columns of tasks do not overlap.
                unsafe { self.gapped_part(task / parts, first..span.min(first + share)) };
            });
        }

        /// Computes columns, counted from the first one with gaps.
        ///
        /// # Safety
        /// Both operands and the output are in memory for all offsets; no other task writes these columns.
        unsafe fn gapped_part(&self, batch: usize, columns: Range<usize>) {
            let (m, depth) = (self.left_rows.len(), self.left_depth.len());
            let tall = tall(m);
            let all = m.next_multiple_of(tall);
            let mut packed = Packed::take(&PACKED);
            let (left, sums) = packed.room::<N>(all * depth, all * FIELD.1);
            // SAFETY: the batch exists.
            let operands = unsafe { self.operands(batch) };
            for from in (0..depth).step_by(PANEL) {
                let panel = &self.left_depth[from..depth.min(from + PANEL)];
                let grid = Grid { base: operands.0, rows: &self.left_rows, depth: panel };
                // SAFETY: guaranteed by the caller, and there is space for all panels.
                unsafe { pack(grid, tall, left.add(all * from), self.level) };
            }
            let mut finish = Finish::new(self);
            for first in columns.clone().step_by(FIELD.1) {
                let field = first..columns.end.min(first + FIELD.1);
                for from in (0..depth).step_by(PANEL) {
                    let panel = from..depth.min(from + PANEL);
                    let block = ROWS / tall * tall;
                    for top in (0..m).step_by(block) {
                        let rows = block.min(m - top);
                        let tiles = Tiles {
                            // SAFETY: there is space for all panels and rows.
                            left: unsafe { left.add(all * from + top * panel.len()) }.cast(),
                            apart: panel.len(),
                            step: tall,
                            tall,
                            right: operands.1.wrapping_offset(self.right_rows[0]).wrapping_add(first).cast(),
                            depth: &self.right_depth[panel.clone()],
                            // SAFETY: as above.
                            sums: Sums { start: unsafe { sums.add(top * FIELD.1) }.cast(), stride: FIELD.1 },
                            first: from == 0,
                        };
                        // SAFETY: what is between elements of an operand is in its memory; this path is taken only if the
                        // processor has the instructions.
                        unsafe { tiles.run(rows, field.len()) };
                    }
                }
                let stretches = self.stretches(&field);
                let sums = Sums { start: sums, stride: FIELD.1 };
                // SAFETY: the sums of these columns are complete, and no other task writes them.
                unsafe { self.finish_stretches(batch, 0..m, &stretches, sums, &mut finish) };
            }
        }

        /// The columns of the output among these.
        fn stretches(&self, field: &Range<usize>) -> Vec<Stretch> {
            let all = &self.right_rows;
            let at = |column: usize| (all[column] - all[0]) as usize;
            let mut column = all.partition_point(|offset| ((offset - all[0]) as usize) < field.start);
            let mut stretches: Vec<Stretch> = Vec::new();
            while column < all.len() && at(column) < field.end {
                let from = at(column) - field.start;
                match stretches.last_mut() {
                    Some(last) if last.from + last.count == from => last.count += 1,
                    _ => stretches.push(Stretch { from, image: 0, place: column, count: 1 }),
                }
                column += 1;
            }
            stretches
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_with_stride_one_are_gapped_and_others_are_not() {
        let columns = |stride: isize, pitch: isize, side: isize| -> Vec<isize> {
            (0..side * side).map(|n| n / side * pitch * stride + n % side * stride).collect()
        };
        let windows: Vec<isize> = (0..9).map(|n| n / 3 * 58 + n % 3).collect();
        assert!(is_gapped(&columns(1, 58, 56), &windows));
        assert!(!is_gapped(&columns(2, 58, 28), &windows));
        assert!(!is_gapped(&columns(1, 58, 28), &windows));
        assert!(!is_gapped(&columns(1, 58, 56), &[0, 3364, 6728]));
        assert!(!is_gapped(&[], &windows));
    }
}
