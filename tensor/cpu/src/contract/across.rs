//! Contractions of a few rows and columns over a long depth, such as the gradient of a depthwise convolution's kernel. The lanes of a
//! vector are batches, so both operands are transposed such that batches are adjacent. An element that several windows of the right
//! operand share is transposed once. The sums are the same chains as in the packed path.

use std::any::TypeId;

use super::kernel::Sum;
use super::{FEW_ROWS, Whole};
use crate::element::Element;
use crate::level::Level;
use crate::threads::Threads;

/// The most columns.
const MOST: usize = 64;

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Contracts all batches if this path is better than others; returns whether it did.
    pub fn across_batches(&self, threads: &Threads) -> bool {
        let single = TypeId::of::<f32>();
        let fits = TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.level == Level::Avx512
            && self.images == 1
            && self.left_rows.len() <= FEW_ROWS
            && (2..=MOST).contains(&self.right_rows.len());
        #[cfg(target_arch = "x86_64")]
        if fits {
            return self.across(threads);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = threads;
        fits && cfg!(target_arch = "x86_64")
    }
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;

    use tensor_core::step::PANEL;

    use super::super::finish::Finish;
    use super::super::lanes::LANES;
    use super::super::tiles::COLUMNS;
    use super::super::turned::{Piece, pieces, turn};
    use super::super::{PACKED, Packed, Sums};
    use super::*;
    use crate::threads::Shared;

    /// Columns whose sums are in registers at the same time.
    const CHUNK: usize = 10;

    /// A panel of depths of one operand.
    struct Side<'a> {
        panel: &'a [isize],
        pieces: Vec<Piece>,
        /// The elements of a batch that are transposed.
        count: usize,
    }

    impl<'a> Side<'a> {
        fn new(panel: &'a [isize], places: (isize, isize)) -> Side<'a> {
            let pieces = pieces(panel, places);
            let count = pieces.iter().map(|piece| piece.count).sum();
            Side { panel, pieces, count }
        }

        /// Transposes the elements of some batches; returns where each depth starts.
        ///
        /// # Safety
        /// Like [`turn`], for each piece.
        #[target_feature(enable = "avx512f")]
        unsafe fn turned(&self, base: *const f32, batches: &[isize], to: *mut f32) -> Vec<isize> {
            let (mut starts, mut done) = (Vec::with_capacity(self.panel.len()), 0);
            for piece in &self.pieces {
                let depths = self.panel[piece.depths.clone()].iter();
                starts.extend(depths.map(|at| (at - piece.first + done as isize) * COLUMNS as isize));
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let to = to.wrapping_add(done * COLUMNS);
                    turn(base.wrapping_offset(piece.first), batches, piece.count, to);
                }
                done += piece.count;
            }
            starts
        }
    }

    impl<L, R, N> Whole<'_, L, R, N>
    where
        L: Element<Wide = N>,
        R: Element<Wide = N>,
        N: Sum,
    {
        /// Returns whether this path computed it.
        pub(super) fn across(&self, threads: &Threads) -> bool {
            let (m, n, depth) = (self.left_rows.len(), self.right_rows.len(), self.right_depth.len());
            if self.batches < LANES || depth < 4 * LANES {
                return false;
            }
            let places: Vec<isize> = self.right_rows.iter().map(|at| at - self.right_rows[0]).collect();
            let ends = places.iter().fold((0, 0), |(least, most), &at| (at.min(least), at.max(most)));
            if ends.1 - ends.0 > 1 << 20 {
                return false;
            }
            let lefts: Vec<_> = self.left_depth.chunks(PANEL).map(|panel| Side::new(panel, (0, 0))).collect();
            let rights: Vec<_> = self.right_depth.chunks(PANEL).map(|panel| Side::new(panel, ends)).collect();
            let all = |sides: &[Side]| sides.iter().map(|side| side.count).sum::<usize>();
            // Else transposing takes longer than it saves.
            if all(&lefts) > 2 * depth || all(&rights) >= depth * n / 2 {
                return false;
            }
            let offsets = |walk: &crate::walk::Walk| walk.offsets(self.batches);
            let (left_batches, right_batches) = (offsets(&self.left_batches), offsets(&self.right_batches));
            let (groups, panels) = (self.batches.div_ceil(COLUMNS), lefts.len());
            let size = m * n * COLUMNS;
            let mut sums = vec![0.0_f32; panels * groups * size];
            let to = Shared::new(sums.as_mut_ptr());
            let cost = (self.batches * m * n).saturating_mul(depth) / 40;
            threads.each(panels * groups, cost, |task| {
                let (panel, first) = (task / groups, task % groups * COLUMNS);
                let own = first..self.batches.min(first + COLUMNS);
                let batches = (&left_batches[own.clone()], &right_batches[own]);
                // SAFETY: views are within their buffers; each task has sums of its own; this path is taken only if the processor
                // has the instructions.
                unsafe {
                    let to = to.get().add(task * size);
                    self.across_panel((&lefts[panel], &rights[panel]), batches, &places, to);
                }
            });
            threads.each(groups, panels * groups * size / 8, |group| {
                let mut parts = sums.chunks_exact(size).skip(group).step_by(groups);
                let mut all = parts.next().map(<[f32]>::to_vec).unwrap_or_default();
                // In order of the panels.
                for part in parts {
                    all.iter_mut().zip(part).for_each(|(sum, part)| *sum += part);
                }
                // SAFETY: the sums of these batches are complete, and no other task writes them.
                unsafe { self.put_across(&all, group * COLUMNS) };
            });
            true
        }

        /// Computes the sums of a panel: for each row and column, those of all batches.
        ///
        /// # Safety
        /// Both operands are in memory for all offsets, and there is space for the sums; the processor has these instructions.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn across_panel(
            &self,
            (left, right): (&Side, &Side),
            batches: (&[isize], &[isize]),
            places: &[isize],
            to: *mut f32,
        ) {
            let mut packed = Packed::take(&PACKED);
            let room = packed.room::<N>(left.count * COLUMNS, right.count * COLUMNS);
            let turned = (room.0.cast::<f32>(), room.1.cast::<f32>());
            let base = self.right.get().wrapping_offset(self.right_rows[0]).cast::<f32>();
            // SAFETY: what is between elements of a batch is in its memory, and there is space for the elements of all pieces.
            let rights = unsafe { right.turned(base, batches.1, turned.1) };
            for (row, &offset) in self.left_rows.iter().enumerate() {
                let base = self.left.get().wrapping_offset(offset).cast::<f32>();
                // SAFETY: as above.
                let lefts = unsafe { left.turned(base, batches.0, turned.0) };
                for (number, places) in places.chunks(CHUNK).enumerate() {
                    let to = to.wrapping_add((row * self.right_rows.len() + number * CHUNK) * COLUMNS);
                    let lines = Lines { left: turned.0, lefts: &lefts, right: turned.1, rights: &rights };
                    macro_rules! chunk {
                        ($($count:literal)*) => {
                            match places.len() {
                                // SAFETY: the elements of all depths and places were transposed, and there is space for sums.
                                $($count => unsafe { lines.chunk::<$count>(places, to) },)*
                                _ => unreachable!("a chunk has one to ten columns"),
                            }
                        };
                    }
                    chunk!(1 2 3 4 5 6 7 8 9 10);
                }
            }
        }

        /// Writes the sums of some batches, and runs the epilogue.
        ///
        /// # Safety
        /// No other task writes these batches.
        unsafe fn put_across(&self, sums: &[f32], first: usize) {
            let (m, n) = (self.left_rows.len(), self.right_rows.len());
            let mut finish = (!self.plain).then(|| Finish::new(self));
            let mut line = vec![N::ZERO; n];
            for (lane, batch) in (first..self.batches.min(first + COLUMNS)).enumerate() {
                for row in 0..m {
                    let to = match self.in_place {
                        // SAFETY: this is the first element of a row of the output.
                        true => unsafe { self.out.get().cast::<N>().add((batch * m + row) * n) },
                        false => line.as_mut_ptr(),
                    };
                    for column in 0..n {
                        let sum = sums[(row * n + column) * COLUMNS + lane];
                        // SAFETY: there is space for all columns, which are of f32 on this path.
                        unsafe { *to.cast::<f32>().add(column) = sum };
                    }
                    if let Some(finish) = &mut finish {
                        // SAFETY: the sums of this row are complete.
                        unsafe {
                            self.finish(batch, row..row + 1, 0..n, Sums { start: to, stride: n }, finish)
                        };
                    }
                }
            }
        }
    }

    /// Transposed elements of both operands, and where those of each depth start.
    struct Lines<'a> {
        left: *const f32,
        lefts: &'a [isize],
        right: *const f32,
        rights: &'a [isize],
    }

    impl Lines<'_> {
        /// The sums of `C` columns at these places.
        ///
        /// # Safety
        /// There are elements for each depth and place, and space for the sums; the processor has these instructions.
        #[expect(clippy::needless_range_loop, reason = "iterators would be calls here")]
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn chunk<const C: usize>(&self, places: &[isize], to: *mut f32) {
            let mut offsets = [0; C];
            for n in 0..C {
                offsets[n] = places[n] * COLUMNS as isize;
            }
            let mut sums = [[_mm512_setzero_ps(); 2]; C];
            for (&left, &right) in self.lefts.iter().zip(self.rights) {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let (left, right) = (self.left.wrapping_offset(left), self.right.wrapping_offset(right));
                    let factors = [_mm512_loadu_ps(left), _mm512_loadu_ps(left.wrapping_add(LANES))];
                    for n in 0..C {
                        let at = right.wrapping_offset(offsets[n]);
                        sums[n][0] = _mm512_fmadd_ps(factors[0], _mm512_loadu_ps(at), sums[n][0]);
                        let at = at.wrapping_add(LANES);
                        sums[n][1] = _mm512_fmadd_ps(factors[1], _mm512_loadu_ps(at), sums[n][1]);
                    }
                }
            }
            for n in 0..C {
                // SAFETY: guaranteed by the caller.
                unsafe {
                    _mm512_storeu_ps(to.wrapping_add(n * COLUMNS), sums[n][0]);
                    _mm512_storeu_ps(to.wrapping_add(n * COLUMNS + LANES), sums[n][1]);
                }
            }
        }
    }
}
