//! Small contractions whose columns are adjacent: a panel of the right operand fits into the first-level cache and is read in
//! place; only rows are packed. The sums are the same chains as in the packed path.

use std::any::TypeId;
use std::ops::Range;

use tensor_core::step::PANEL;

use super::kernel::Sum;
use super::pack::are_adjacent;
use super::{FEW_ROWS, Sums, Whole};
use crate::element::Element;
use crate::level::Level;

/// The most elements between the first and the last one of a panel of columns.
const REACH: isize = 8192;

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Whether this path computes the contraction.
    pub fn is_near(&self) -> bool {
        let single = TypeId::of::<f32>();
        let (columns, depth) = (&self.right_rows, &self.right_depth);
        let reach = |panel: &[isize]| {
            let ends = panel.iter().fold((0, 0), |(least, most), &at| (at.min(least), at.max(most)));
            ends.1.saturating_sub(ends.0)
        };
        cfg!(target_arch = "x86_64")
            && TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.level == Level::Avx512
            && self.left_rows.len() > FEW_ROWS
            && !depth.is_empty()
            && columns.len() <= REACH as usize
            && are_adjacent(columns)
            && depth.chunks(PANEL).all(|panel| reach(panel) <= REACH - columns.len() as isize)
    }

    /// Computes the sums of a field, with space for a panel of its rows: whole vectors of them for each depth.
    ///
    /// # Safety
    /// `is_near` holds; both operands are in memory for all offsets, and there is space for the sums.
    pub unsafe fn nearly(
        &self,
        operands: (*const L, *const R),
        field: (Range<usize>, Range<usize>),
        sums: Sums<N>,
        packed: *mut N,
    ) {
        #[cfg(target_arch = "x86_64")]
        {
            use super::ROWS;
            use super::lanes::LANES;
            use super::pack::{Grid, pack};
            use super::tiles::{Tiles, tall};
            let ((left, right), (rows, columns), depth) = (operands, field, self.left_depth.len());
            for from in (0..depth).step_by(PANEL) {
                let panel = from..depth.min(from + PANEL);
                for top in rows.clone().step_by(ROWS) {
                    let block = top..rows.end.min(top + ROWS);
                    let step = block.len().next_multiple_of(LANES);
                    let grid = Grid {
                        base: left,
                        rows: &self.left_rows[block.clone()],
                        depth: &self.left_depth[panel.clone()],
                    };
                    // SAFETY: guaranteed by the caller; the panel has space for whole vectors of rows, and this path is taken
                    // only if the processor has the instructions.
                    unsafe {
                        pack(grid, step, packed, self.level);
                        let tiles = Tiles {
                            left: packed.cast(),
                            apart: 1,
                            step,
                            tall: tall(block.len()),
                            right: right.wrapping_offset(self.right_rows[columns.start]).cast(),
                            depth: &self.right_depth[panel.clone()],
                            sums: Sums {
                                start: sums.start.add((top - rows.start) * sums.stride).cast(),
                                stride: sums.stride,
                            },
                            first: from == 0,
                        };
                        tiles.run(block.len(), columns.len());
                    }
                }
            }
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (operands, field, sums, packed);
    }
}
