//! Contractions with many rows: all threads pack the right operand, or a slab of its depth that fits into [`ROOM`]. Then each
//! thread takes rows of the left operand, packs them once, and multiplies them with all columns. So nothing is packed twice.

use std::cell::RefCell;
use std::ops::Range;

use tensor_core::step::PANEL;

use super::finish::Finish;
use super::kernel::Sum;
use super::pack::{Grid, pack};
use super::{PACKED, Packed, Sums, Whole};
use crate::element::Element;
use crate::memory::Line;
use crate::threads::{Shared, Threads};

/// Rows that are packed at a time, approximately.
const ROWS: usize = 240;
/// The most bytes of the right operand that are packed at a time.
const ROOM: usize = 32 << 20;
/// The least number of row tiles of a task, when rows are split further to get more tasks.
const FEW: usize = 8;
/// Multiply-adds of a matrix from which waking all threads twice is worthwhile.
const WORTH: usize = 1 << 24;

thread_local! {
    /// The packed right operand; the memory is reused.
    static RIGHT: RefCell<Vec<Line>> = const { RefCell::new(Vec::new()) };
}

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Whether the right operand would otherwise be packed more than once, and the work is large enough.
    pub fn is_tall(&self, batch: usize) -> bool {
        let (m, n, k) = (self.left_rows.len(), self.right_rows.len(), self.left_depth.len());
        let work = m.saturating_mul(n).saturating_mul(k);
        m >= ROWS && (work >= WORTH || (batch == 1 && k > 0)) && (self.in_place || self.slab() >= k)
    }

    /// The depth of a slab that fits: whole panels.
    fn slab(&self) -> usize {
        let columns = self.right_rows.len().next_multiple_of(self.tile.columns);
        (ROOM / (columns * size_of::<N>()) / PANEL).max(1) * PANEL
    }

    /// Contracts one batch.
    pub fn by_rows(&self, threads: &Threads, batch: usize) {
        let depth = self.left_depth.len();
        let slab = self.slab();
        let columns = self.right_rows.len().next_multiple_of(self.tile.columns);
        let mut packed = Packed::take(&RIGHT);
        let right = Shared::new(packed.room::<N>(columns * slab.min(depth), 0).0);
        for from in (0..depth).step_by(slab) {
            let slab = from..depth.min(from + slab);
            self.pack_right(threads, batch, slab.clone(), right);
            self.multiply(threads, batch, slab, right);
        }
    }

    fn pack_right(&self, threads: &Threads, batch: usize, slab: Range<usize>, to: Shared<N>) {
        // Several groups at a time, so that long stretches of memory are read.
        let width = 4 * self.tile.columns;
        let (n, panels) = (self.right_rows.len(), slab.len().div_ceil(PANEL));
        let stripes = n.div_ceil(width);
        threads.each(panels * stripes, n * slab.len() / 4, |task| {
            let (panel, first) = (slab.start + task / stripes * PANEL, task % stripes * width);
            let depth = panel..slab.end.min(panel + PANEL);
            // SAFETY: the operand is in memory for all offsets; each panel of the slab has space for all columns, and tasks write
            // disjoint parts.
            unsafe {
                let grid = Grid {
                    base: self.operands(batch).1,
                    rows: &self.right_rows[first..n.min(first + width)],
                    depth: &self.right_depth[depth.clone()],
                };
                let to = self.panel(to, &slab, panel).add(first * depth.len());
                pack(grid, self.tile.columns, to, self.level);
            }
        });
    }

    /// The address of a panel of a slab.
    fn panel(&self, slab: Shared<N>, depth: &Range<usize>, panel: usize) -> *mut N {
        let columns = self.right_rows.len().next_multiple_of(self.tile.columns);
        slab.get().wrapping_add((panel - depth.start) * columns)
    }

    fn multiply(&self, threads: &Threads, batch: usize, slab: Range<usize>, right: Shared<N>) {
        let (m, n, depth) = (self.left_rows.len(), self.right_rows.len(), self.left_depth.len());
        let (tall, broad) = (m.div_ceil(self.tile.rows), n.div_ceil(self.tile.columns));
        let count = threads.count();
        let least = m.div_ceil(ROWS);
        let blocks = least.next_multiple_of(count).min(tall / FEW).max(least);
        let stripes = count.div_ceil(blocks).min(broad);
        // Split into tasks of nearly equal size.
        let part = |all: usize, parts: usize, number: usize, tile: usize, end: usize| {
            (all * number / parts * tile)..end.min(all * (number + 1) / parts * tile)
        };
        let cost = m.saturating_mul(n).saturating_mul(slab.len()) / 40;
        threads.each(blocks * stripes, cost, |task| {
            let rows = part(tall, blocks, task / stripes, self.tile.rows, m);
            let columns = part(broad, stripes, task % stripes, self.tile.columns, n);
            let mut finish = (slab.end == depth && !self.plain).then(|| Finish::new(self));
            let mut packed = Packed::take(&PACKED);
            let left = packed.room::<N>(rows.len().next_multiple_of(self.tile.rows) * PANEL, 0).0;
            let mut held = Vec::new();
            let sums = match self.in_place {
                true => {
                    let at = (batch * m + rows.start) * n + columns.start;
                    // SAFETY: this is the first element of the task, which is in the output.
                    Sums { start: unsafe { self.out.get().cast::<N>().add(at) }, stride: n }
                }
                false => {
                    held.resize(rows.len() * columns.len(), N::ZERO);
                    Sums { start: held.as_mut_ptr(), stride: columns.len() }
                }
            };
            for from in slab.clone().step_by(PANEL) {
                let panel = from..slab.end.min(from + PANEL);
                // SAFETY: the operand is in memory for all offsets, there is space for the rows, and no other task writes this
                // part of the output.
                unsafe {
                    let grid = Grid {
                        base: self.operands(batch).0,
                        rows: &self.left_rows[rows.clone()],
                        depth: &self.left_depth[panel.clone()],
                    };
                    pack(grid, self.tile.rows, left, self.level);
                    let right = self.panel(right, &slab, from).add(columns.start * panel.len());
                    self.block(rows.len(), columns.len(), panel.len(), sums, (left, right), from == 0);
                }
            }
            if let Some(finish) = &mut finish {
                // SAFETY: the sums of these rows and columns are complete.
                unsafe { self.finish(batch, rows, columns, sums, finish) };
            }
        });
    }
}
