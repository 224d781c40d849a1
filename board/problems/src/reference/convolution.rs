//! Convolutions as in neural networks (cross-correlation: the kernel is not flipped), with zero padding.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows, write};
use super::wide::wide;
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "conv-1d" => one;
    "conv-2d" => two;
    "conv-square-3d" => cube;
    "conv2d-relu-hardswish" => two_hardswish;
    "depthwise-conv-2d" => depthwise;
};

/// Sizes of a volume or a kernel. Planes and lines are volumes of thickness 1.
#[derive(Clone, Copy)]
struct Extent {
    depth: usize,
    height: usize,
    width: usize,
}

/// Neighbours along a line that are computed at once: their sums do not wait for each other.
const TILE: usize = 16;

/// Convolution with "same" padding: the kernel is centred on the element, and the result is as large as the input.
fn same<M: Mode>(input: &[Real<M>], size: Extent, kernel: &[Real<M>], reach: Extent) -> Vec<f64> {
    let (width, taps) = (size.width, kernel.len());
    // Whole lines, unless there is one.
    let unit = if size.depth * size.height == 1 { TILE } else { width };
    fill(input.len(), unit, 2 * taps, |range, part| {
        let mut terms = Vec::with_capacity(taps);
        let (mut at, mut rest) = (range.start, part);
        while !rest.is_empty() {
            let (line, x) = (at / width, at % width);
            let (z, y) = (line / size.height, line % size.height);
            let left = (reach.width - 1) / 2;
            let inside = x >= left && x + TILE + reach.width - left <= width + 1;
            let count = if inside && rest.len() >= TILE && !M::pairwise() { TILE } else { 1 };
            let (to, others) = rest.split_at_mut(count);
            let lines = lines(size, reach, z, y);
            match to.first_chunk_mut::<TILE>() {
                Some(to) => tile(input, kernel, width, reach.width, lines, x - left, to),
                None => {
                    terms.clear();
                    for (line, taps) in lines {
                        for (dx, tap) in kernel[taps * reach.width..][..reach.width].iter().enumerate() {
                            let Some(px) = meets(x, dx, reach.width, width) else { continue };
                            terms.push(*tap * input[line * width + px]);
                        }
                    }
                    to[0] = Real::sum_of(&terms).output();
                }
            }
            (at, rest) = (at + count, others);
        }
    })
}

/// Input index of a kernel tap along one axis; `None` outside of the input.
fn meets(at: usize, tap: usize, reach: usize, size: usize) -> Option<usize> {
    (at + tap).checked_sub((reach - 1) / 2).filter(|place| *place < size)
}

/// The lines of the input that an element at these coordinates depends on, each with its line of the kernel.
fn lines(size: Extent, reach: Extent, z: usize, y: usize) -> impl Iterator<Item = (usize, usize)> {
    let planes = (0..reach.depth).filter_map(move |dz| Some((meets(z, dz, reach.depth, size.depth)?, dz)));
    planes.flat_map(move |(pz, dz)| {
        let rows =
            (0..reach.height).filter_map(move |dy| Some((meets(y, dy, reach.height, size.height)?, dy)));
        rows.map(move |(py, dy)| (pz * size.height + py, dz * reach.height + dy))
    })
}

wide! {
    /// Computes neighbours along a line that are so far from its ends that they have all taps. `first` is the first one's first tap.
    fn tile<M: Mode>(
        input: &[Real<M>],
        kernel: &[Real<M>],
        width: usize,
        reach: usize,
        lines: impl Iterator<Item = (usize, usize)>,
        first: usize,
        to: &mut [f64; TILE],
    ) {
        let mut sums = [Real::zero(); TILE];
        for (line, taps) in lines {
            let start = line * width + first;
            let windows = input[start..start + reach + TILE - 1].windows(TILE);
            for (tap, window) in kernel[taps * reach..][..reach].iter().zip(windows) {
                for place in 0..TILE {
                    sums[place] += *tap * window[place];
                }
            }
        }
        write(to, sums);
    }
}

fn one<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let size = Extent { depth: 1, height: 1, width: call.size("N") };
    let reach = Extent { depth: 1, height: 1, width: call.size("K") };
    vec![Values::Floats(same(&call.floats("A"), size, &call.floats("B"), reach))]
}

fn two<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, reach) = plane(call);
    vec![Values::Floats(same(&call.floats("A"), size, &call.floats("B"), reach))]
}

fn plane<M: Mode>(call: &Call<'_, M>) -> (Extent, Extent) {
    let size = Extent { depth: 1, height: call.size("H"), width: call.size("W") };
    (size, Extent { depth: 1, height: call.size("Kh"), width: call.size("Kw") })
}

fn cube<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let cube = |edge| Extent { depth: edge, height: edge, width: edge };
    let (size, reach) = (cube(call.size("size")), cube(call.size("K")));
    vec![Values::Floats(same(&call.floats("A"), size, &call.floats("B"), reach))]
}

fn two_hardswish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, reach) = plane(call);
    let sums = same(&call.floats("image"), size, &call.floats("kernel"), reach);
    floats(sums.into_iter().map(real::<M>).map(|sum| {
        let x = sum.max(Real::zero());
        x * (x + real(3.0)).min(real(6.0)) / real(6.0)
    }))
}

fn depthwise<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (height, width, k) = (call.size("H"), call.size("W"), call.size("K"));
    let (input, weight) = (call.reals("input"), call.floats("weight"));
    let area = height * width;
    let size = Extent { depth: 1, height, width };
    let reach = Extent { depth: 1, height: k, width: k };
    vec![Values::Floats(fill(input.len(), area, 2 * k * k, |range, part| {
        for (channel, to) in (range.start / area..range.end / area).zip(part.chunks_exact_mut(area)) {
            let plane = input.range(channel * area..(channel + 1) * area);
            to.copy_from_slice(&same(&plane, size, &weight[channel * k * k..(channel + 1) * k * k], reach));
        }
    }))]
}

#[cfg(test)]
mod tests {
    use super::super::real::Exact;
    use super::*;
    use crate::generator::mixed;
    use crate::threads::with_small_parts;

    #[test]
    fn convolutions_have_the_bits_of_sums_that_are_computed_alone() {
        let numbers = |count: usize, seed| -> Vec<Real<Exact>> {
            (1..=count as u64).map(|index| Real::input(mixed(seed, index) as i64 as f64 / 1e15)).collect()
        };
        let extent = |depth, height, width| Extent { depth, height, width };
        for (size, reach) in [
            (extent(1, 1, 300), extent(1, 1, 31)),
            (extent(1, 1, 40), extent(1, 1, 50)),
            (extent(1, 20, 61), extent(1, 5, 4)),
            (extent(6, 7, 40), extent(3, 3, 5)),
        ] {
            let count = |of: Extent| of.depth * of.height * of.width;
            let (input, kernel) = (numbers(count(size), 1), numbers(count(reach), 2));
            let mut alone = Vec::new();
            for index in 0..input.len() {
                let (line, x) = (index / size.width, index % size.width);
                let (z, y) = (line / size.height, line % size.height);
                let mut sum = 0.0;
                for (tap, weight) in kernel.iter().enumerate() {
                    let (line, dx) = (tap / reach.width, tap % reach.width);
                    let (dz, dy) = (line / reach.height, line % reach.height);
                    let place = (
                        meets(z, dz, reach.depth, size.depth),
                        meets(y, dy, reach.height, size.height),
                        meets(x, dx, reach.width, size.width),
                    );
                    if let (Some(z), Some(y), Some(x)) = place {
                        sum += weight.output() * input[(z * size.height + y) * size.width + x].output();
                    }
                }
                alone.push(sum.to_bits());
            }
            for threads in [1, 3] {
                let found = with_small_parts(threads, || same(&input, size, &kernel, reach));
                let found: Vec<u64> = found.into_iter().map(f64::to_bits).collect();
                assert_eq!(found, alone, "{threads}");
            }
        }
    }
}
