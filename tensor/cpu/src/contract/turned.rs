//! Contractions whose columns are channels times the places of a window, over positions that overlap, such as the gradient of a
//! convolution's kernel. The right operand is transposed once, to adjacent channels, instead of being packed once for each place
//! of the window. The sums are the same chains as in the packed path.

use std::any::TypeId;

use super::kernel::Sum;
use super::{FEW_ROWS, Whole};
use crate::element::Element;
use crate::level::Level;
use crate::threads::Threads;

impl<L, R, N> Whole<'_, L, R, N>
where
    L: Element<Wide = N>,
    R: Element<Wide = N>,
    N: Sum,
{
    /// Contracts all batches if this path is better than packing both operands; returns whether it did. The columns are `channels`
    /// times all others.
    pub fn by_turned_channels(&self, threads: &Threads, channels: usize) -> bool {
        let single = TypeId::of::<f32>();
        let (rows, depth) = (self.left_rows.len(), self.left_depth.len());
        let fits = TypeId::of::<L>() == single
            && TypeId::of::<R>() == single
            && self.level == Level::Avx512
            && self.images == 1
            && rows > FEW_ROWS
            // Sums are copied at the end.
            && depth >= 2 * rows;
        #[cfg(target_arch = "x86_64")]
        if fits {
            return self.turned(threads, channels);
        }
        #[cfg(not(target_arch = "x86_64"))]
        let _ = (threads, channels);
        fits && cfg!(target_arch = "x86_64")
    }
}

#[cfg(target_arch = "x86_64")]
pub use x86::{Piece, pieces, turn};

#[cfg(target_arch = "x86_64")]
mod x86 {
    use std::arch::x86_64::*;
    use std::ops::Range;

    use tensor_core::step::PANEL;

    use super::super::finish::Finish;
    use super::super::lanes::{LANES, mask};
    use super::super::pack::{Grid, load_transposed, pack, transposed};
    use super::super::tiles::{COLUMNS, Tiles, tall};
    use super::super::{PACKED, Packed, ROWS, Sums};
    use super::*;

    /// The most places of a window: more are positions, and the channels are rows of them.
    const PLACES: usize = 64;
    /// Channels whose sums are computed together.
    const CHANNELS: usize = 2 * COLUMNS;

    /// Depths of a panel whose windows are in one stretch of memory.
    #[derive(Debug)]
    pub struct Piece {
        pub depths: Range<usize>,
        /// The first element that a window reads, without the channel, and the count of elements up to the last one.
        pub first: isize,
        pub count: usize,
    }

    /// Divides a panel of depths. `places` are the offsets of the first and the last element of a window.
    pub fn pieces(panel: &[isize], places: (isize, isize)) -> Vec<Piece> {
        let reach = places.1 - places.0;
        let mut pieces = Vec::new();
        let mut start = 0;
        while start < panel.len() {
            // Stretches that overlap or nearly touch are one.
            let close =
                |pair: &[isize]| (0..=reach + LANES as isize).contains(&pair[1].wrapping_sub(pair[0]));
            let end = start + 1 + panel[start..].windows(2).take_while(|pair| close(pair)).count();
            let count = panel[end - 1] - panel[start] + reach + 1;
            pieces.push(Piece { depths: start..end, first: panel[start] + places.0, count: count as usize });
            start = end;
        }
        pieces
    }

    /// A contraction whose columns are channels times places.
    struct Turned<'a> {
        places: Vec<isize>,
        channels: Vec<isize>,
        /// Those of each panel.
        pieces: Vec<(&'a [isize], Vec<Piece>)>,
        /// The most elements of a channel that a panel needs.
        most: usize,
    }

    impl<'a> Turned<'a> {
        /// Returns `None` if transposing is not less work than packing.
        fn new(columns: &[isize], channels: usize, depth: &'a [isize]) -> Option<Turned<'a>> {
            let count = columns.len() / channels.max(1);
            if !(2..=PLACES).contains(&count) || channels < LANES {
                return None;
            }
            let places: Vec<isize> = columns[..count].iter().map(|at| at - columns[0]).collect();
            let ends = (*places.iter().min()?, *places.iter().max()?);
            // More would be far from the others.
            if ends.1 - ends.0 > 1 << 20 {
                return None;
            }
            let pieces: Vec<_> = depth.chunks(PANEL).map(|panel| (panel, pieces(panel, ends))).collect();
            let needs = |(_, pieces): &(&[isize], Vec<Piece>)| pieces.iter().map(|piece| piece.count).sum();
            let all: usize = pieces.iter().map(needs).sum();
            let most = pieces.iter().map(needs).max()?;
            let channels = columns.iter().step_by(count).map(|at| at - columns[0]).collect();
            (all < depth.len() * count / 2).then_some(Turned { places, channels, pieces, most })
        }
    }

    impl<L, R, N> Whole<'_, L, R, N>
    where
        L: Element<Wide = N>,
        R: Element<Wide = N>,
        N: Sum,
    {
        /// Returns whether this path computed it.
        pub(super) fn turned(&self, threads: &Threads, channels: usize) -> bool {
            let Some(turned) = Turned::new(&self.right_rows, channels, &self.right_depth) else {
                return false;
            };
            let (m, n) = (self.left_rows.len(), self.right_rows.len());
            let tall = tall(m.min(ROWS));
            // Fewer rows and channels if that gives every thread work.
            let wanted = (threads.count() * 2).div_ceil(self.batches);
            let wide = match channels.div_ceil(CHANNELS) < wanted && threads.count() > 1 {
                true => COLUMNS,
                false => CHANNELS,
            };
            let across = channels.div_ceil(wide);
            let blocks = match threads.count() > 1 {
                true => wanted.div_ceil(across).min(m.div_ceil(2 * tall)),
                false => 1,
            };
            let high = m.div_ceil(blocks.max(m.div_ceil(ROWS))).next_multiple_of(tall);
            let down = m.div_ceil(high);
            let cost = (self.batches * m * n).saturating_mul(self.left_depth.len()) / 40;
            threads.each(self.batches * down * across, cost, |task| {
                let (channel, rest) = (task % across * wide, task / across);
                let (row, batch) = (rest % down * high, rest / down);
                let (rows, channels) = (row..m.min(row + high), channel..channels.min(channel + wide));
                // SAFETY: views are within their buffers; the rows and columns of tasks do not overlap; this path is taken only if
                // the processor has the instructions.
                unsafe { self.turned_part(&turned, batch, rows, channels, tall) };
            });
            true
        }

        /// # Safety
        /// Both operands and the output are in memory for all offsets; no other task writes these rows and channels; the
        /// processor has these instructions.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn turned_part(
            &self,
            turned: &Turned,
            batch: usize,
            rows: Range<usize>,
            channels: Range<usize>,
            tall: usize,
        ) {
            let places = turned.places.len();
            let (groups, all) = (channels.len().div_ceil(COLUMNS), rows.len().next_multiple_of(tall));
            let mut packed = Packed::take(&PACKED);
            let (left, right) = packed.room::<N>(all * PANEL, turned.most * groups * COLUMNS);
            // For each row, groups of channels for each place.
            let stride = groups * places * COLUMNS;
            let mut sums = vec![0.0_f32; rows.len() * stride];
            // SAFETY: the batch exists.
            let operands = unsafe { self.operands(batch) };
            let base = operands.1.wrapping_offset(self.right_rows[0]).cast::<f32>();
            let mut from = 0;
            let mut lines = Vec::new();
            for (panel, pieces) in &turned.pieces {
                let depths = from..from + panel.len();
                let grid = Grid {
                    base: operands.0,
                    rows: &self.left_rows[rows.clone()],
                    depth: &self.left_depth[depths.clone()],
                };
                // SAFETY: guaranteed by the caller, and there is space for a panel.
                unsafe { pack(grid, tall, left, self.level) };
                // Where each depth starts in the transposed elements, without its place.
                lines.clear();
                let mut done = 0;
                for piece in pieces {
                    let starts = panel[piece.depths.clone()].iter();
                    lines.extend(starts.map(|at| (at - piece.first + done as isize) * COLUMNS as isize));
                    for group in 0..groups {
                        let first = channels.start + group * COLUMNS;
                        let own = &turned.channels[first..channels.end.min(first + COLUMNS)];
                        let to = right.wrapping_add((group * turned.most + done) * COLUMNS).cast();
                        // SAFETY: what is between elements of a channel is in its memory, and there is space for the most
                        // elements of each group.
                        unsafe { turn(base.wrapping_offset(piece.first), own, piece.count, to) };
                    }
                    done += piece.count;
                }
                for group in 0..groups {
                    let first = channels.start + group * COLUMNS;
                    let width = (channels.end - first).min(COLUMNS);
                    for (number, place) in turned.places.iter().enumerate() {
                        let right =
                            right.wrapping_add(group * turned.most * COLUMNS).cast::<f32>().cast_const();
                        let tiles = Tiles {
                            left: left.cast(),
                            apart: panel.len(),
                            step: tall,
                            tall,
                            right: right.wrapping_offset(place * COLUMNS as isize),
                            depth: &lines,
                            sums: Sums {
                                start: sums[(group * places + number) * COLUMNS..].as_mut_ptr(),
                                stride,
                            },
                            first: from == 0,
                        };
                        // SAFETY: the elements of all places were transposed; there is space for the sums of each place.
                        unsafe { tiles.run(rows.len(), width) };
                    }
                }
                from = depths.end;
            }
            // SAFETY: the sums are complete, and no other task writes these columns.
            unsafe { self.put_turned(&sums, places, batch, rows, channels) };
        }

        /// Writes sums in the order of the columns, and runs the epilogue.
        ///
        /// # Safety
        /// Like `turned_part`.
        #[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma")]
        unsafe fn put_turned(
            &self,
            sums: &[f32],
            places: usize,
            batch: usize,
            rows: Range<usize>,
            channels: Range<usize>,
        ) {
            let columns = channels.start * places..channels.end * places;
            let mut finish = (!self.plain).then(|| Finish::new(self));
            let mut line = vec![N::ZERO; if self.in_place { 0 } else { columns.len() }];
            let all = sums.len() / rows.len().max(1);
            for (row, sums) in rows.zip(sums.chunks_exact(all.max(1))) {
                let to = match self.in_place {
                    true => {
                        let at = (batch * self.left_rows.len() + row) * self.right_rows.len() + columns.start;
                        // SAFETY: this is the first of these elements of the output.
                        unsafe { self.out.get().cast::<N>().add(at) }
                    }
                    false => line.as_mut_ptr(),
                };
                // SAFETY: there is space for all columns, and sums for whole groups of channels.
                unsafe { exchange(sums, places, channels.len(), to.cast()) };
                if let Some(finish) = &mut finish {
                    let sums = Sums { start: to, stride: columns.len() };
                    // SAFETY: the sums of this row are complete.
                    unsafe { self.finish(batch, row..row + 1, columns.clone(), sums, finish) };
                }
            }
        }
    }

    /// Writes `count` elements of each channel with the channels of an element side by side, `COLUMNS` for each.
    ///
    /// # Safety
    /// There are at most `COLUMNS` channels, whose elements are readable from `base` on; there is space for all of them; the
    /// processor has these instructions.
    #[expect(clippy::needless_range_loop, reason = "lines of known numbers stay in registers")]
    #[target_feature(enable = "avx512f")]
    pub unsafe fn turn(base: *const f32, channels: &[isize], count: usize, to: *mut f32) {
        for first in (0..count).step_by(LANES) {
            let some = LANES.min(count - first);
            for beside in (0..channels.len()).step_by(LANES) {
                let own = &channels[beside..channels.len().min(beside + LANES)];
                // SAFETY: guaranteed by the caller.
                unsafe {
                    let lines = load_transposed(base.wrapping_add(first), own, some);
                    let to = to.wrapping_add(first * COLUMNS + beside);
                    // A loop of known length, so that the lines stay in registers.
                    for n in 0..LANES {
                        if n < some {
                            _mm512_storeu_ps(to.wrapping_add(n * COLUMNS), lines[n]);
                        }
                    }
                }
            }
        }
    }

    /// Writes sums of groups of channels for each place as sums of places for each channel.
    ///
    /// # Safety
    /// There is space for as many places of each channel; the processor has these instructions.
    #[target_feature(enable = "avx512f")]
    unsafe fn exchange(sums: &[f32], places: usize, channels: usize, to: *mut f32) {
        for first in (0..channels).step_by(LANES) {
            let group = &sums[first / COLUMNS * COLUMNS * places + first % COLUMNS..];
            for place in (0..places).step_by(LANES) {
                let count = LANES.min(places - place);
                let mut lines = [_mm512_setzero_ps(); LANES];
                for (n, line) in lines.iter_mut().enumerate().take(count) {
                    let from = &group[(place + n) * COLUMNS..][..LANES];
                    // SAFETY: the slice has sixteen elements.
                    *line = unsafe { _mm512_loadu_ps(from.as_ptr()) };
                }
                for (n, line) in transposed(lines).iter().enumerate().take(channels - first) {
                    // SAFETY: the caller guarantees the space; lanes beyond the places are masked.
                    unsafe {
                        _mm512_mask_storeu_ps(to.add((first + n) * places + place), mask(count), *line)
                    };
                }
            }
        }
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// Offsets of channels times the places of a window, and of positions of images.
        fn offsets(channels: isize, kernel: isize, side: isize, stride: isize) -> (Vec<isize>, Vec<isize>) {
            let size = side * side;
            let columns = (0..channels * kernel * kernel).map(|n| {
                let (channel, place) = (n / (kernel * kernel), n % (kernel * kernel));
                channel * size + place / kernel * side + place % kernel
            });
            let out = (side - kernel) / stride + 1;
            let depth = (0..3 * out * out).map(|n| {
                let (image, place) = (n / (out * out), n % (out * out));
                image * channels * size + (place / out * side + place % out) * stride
            });
            (columns.collect(), depth.collect())
        }

        #[test]
        fn windows_that_overlap_are_transposed() {
            let (columns, depth) = offsets(20, 3, 17, 1);
            let turned = Turned::new(&columns, 20, &depth).expect("nine places of twenty channels");
            assert_eq!((turned.places.len(), turned.channels.len()), (9, 20));
            // Images of 225 positions: each panel of 256 depths but the last has parts of two.
            let counts: Vec<usize> = turned.pieces.iter().map(|(_, pieces)| pieces.len()).collect();
            assert_eq!(counts, [2, 2, 1]);
        }

        #[test]
        fn few_channels_single_places_and_windows_apart_are_not_transposed() {
            for (channels, kernel, side, stride) in [(3, 3, 18, 1), (20, 1, 18, 1), (20, 2, 18, 2)] {
                let (columns, depth) = offsets(channels, kernel, side, stride);
                assert!(Turned::new(&columns, channels as usize, &depth).is_none(), "{channels} {kernel}");
            }
        }
    }
}
