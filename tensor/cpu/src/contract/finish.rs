//! Epilogues of contractions: they run over sums that are complete, in the order of the output.

use std::ops::Range;

use super::kernel::Sum;
use super::{Sums, Whole};
use crate::element::Element;
use crate::kernels::BLOCK;
use crate::map::index_walk;
use crate::plan::Frame;

/// Columns whose sums are adjacent, and which are adjacent in the output.
#[derive(Debug)]
pub struct Stretch {
    /// The first of them among the sums.
    pub from: usize,
    /// The image, and the place of the first column in it.
    pub image: usize,
    pub place: usize,
    /// The number of columns.
    pub count: usize,
}

/// The scratch state of a task for its epilogues.
pub struct Finish<'a> {
    frame: Frame<'a>,
    copy: Vec<u64>,
}

impl<'a> Finish<'a> {
    pub fn new<L, R, N>(whole: &'a Whole<'_, L, R, N>) -> Finish<'a> {
        // SAFETY: views were checked to be within their buffers for every position of the output, whose shape they have.
        let frame = unsafe { Frame::new(&whole.plan, &whole.feeds.0, &|axis| index_walk(whole.shape, axis)) };
        Finish { frame, copy: vec![0; BLOCK * size_of::<N>().div_ceil(8)] }
    }
}

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Runs the epilogue for a block of rows, whose sums are complete.
    ///
    /// # Safety
    /// Like `field`.
    pub unsafe fn finish(
        &self,
        batch: usize,
        rows: Range<usize>,
        columns: Range<usize>,
        sums: Sums<N>,
        finish: &mut Finish,
    ) {
        if self.images > 1 {
            // SAFETY: guaranteed by the caller.
            unsafe { self.finish_stretches(batch, rows, &self.by_images(&columns), sums, finish) };
            return;
        }
        // Rows that are adjacent in the output are treated as one long row.
        let joined =
            columns.len() == self.right_rows.len() && (self.in_place || sums.stride == columns.len());
        let (lines, length) =
            if joined { (1, rows.len() * columns.len()) } else { (rows.len(), columns.len()) };
        for line in 0..lines {
            let row = batch * self.left_rows.len() + rows.start + line;
            let position = row * self.right_rows.len() + columns.start;
            for first in (0..length).step_by(BLOCK) {
                let count = BLOCK.min(length - first);
                // SAFETY: the sums of this row are complete, and these are elements of the output; sums held there are copied
                // before they are overwritten.
                unsafe {
                    let mut given = sums.start.add(line * sums.stride + first).cast_const().cast::<u8>();
                    if self.in_place {
                        let copy = finish.copy.as_mut_ptr().cast::<u8>();
                        std::ptr::copy_nonoverlapping(given, copy, count * size_of::<N>());
                        given = copy;
                    }
                    let out = self.out.get().add((position + first) * self.out_dtype.bytes());
                    finish.frame.run(position + first, count, given, &[out]);
                }
            }
        }
    }

    /// The columns, each image for itself.
    fn by_images(&self, columns: &Range<usize>) -> Vec<Stretch> {
        let each = self.right_rows.len() / self.images;
        let mut stretches = Vec::new();
        let mut column = columns.start;
        while column < columns.end {
            let (image, place) = (column / each, column % each);
            let count = (each - place).min(columns.end - column);
            stretches.push(Stretch { from: column - columns.start, image, place, count });
            column += count;
        }
        stretches
    }

    /// Like `finish`, for columns that are not in the order of the output: their sums are copied into it.
    ///
    /// # Safety
    /// Like `field`; the sums are not in the output.
    pub unsafe fn finish_stretches(
        &self,
        batch: usize,
        rows: Range<usize>,
        stretches: &[Stretch],
        sums: Sums<N>,
        finish: &mut Finish,
    ) {
        let each = self.right_rows.len() / self.images;
        if self.copied {
            for row in rows.clone() {
                for stretch in stretches {
                    let whole = (stretch.image * self.batches + batch) * self.left_rows.len() + row;
                    // SAFETY: the sums of this row are complete, and these are elements of the output, which has their type.
                    unsafe {
                        let from = sums.start.add((row - rows.start) * sums.stride + stretch.from);
                        let to = self.out.get().cast::<N>().add(whole * each + stretch.place);
                        std::ptr::copy_nonoverlapping(from, to, stretch.count);
                    }
                }
            }
            return;
        }
        let copy = finish.copy.as_mut_ptr().cast::<N>();
        // The positions of the copied sums.
        let mut held = 0..0;
        // Rows of an image follow each other in the output, and so do stretches of a row.
        for same in stretches.chunk_by(|one, other| one.image == other.image) {
            for row in rows.clone() {
                for stretch in same {
                    let whole = (stretch.image * self.batches + batch) * self.left_rows.len() + row;
                    for first in (0..stretch.count).step_by(BLOCK) {
                        let part = BLOCK.min(stretch.count - first);
                        let position = whole * each + stretch.place + first;
                        // SAFETY: the sums of this row are complete, the copy has space for a block, and these are elements of
                        // the output.
                        unsafe {
                            if held.end != position || held.len() + part > BLOCK {
                                self.put(held, finish);
                                held = position..position;
                            }
                            let at = (row - rows.start) * sums.stride + stretch.from + first;
                            std::ptr::copy_nonoverlapping(sums.start.add(at), copy.add(held.len()), part);
                        }
                        held.end += part;
                    }
                }
            }
        }
        // SAFETY: as above.
        unsafe { self.put(held, finish) };
    }

    /// Runs the epilogue for the copied sums of these positions.
    ///
    /// # Safety
    /// The positions are in the output, and no other task writes them.
    unsafe fn put(&self, positions: Range<usize>, finish: &mut Finish) {
        if !positions.is_empty() {
            // SAFETY: guaranteed by the caller.
            unsafe {
                let out = self.out.get().add(positions.start * self.out_dtype.bytes());
                let given = finish.copy.as_ptr().cast();
                finish.frame.run(positions.start, positions.len(), given, &[out]);
            }
        }
    }
}
