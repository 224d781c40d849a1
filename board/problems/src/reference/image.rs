//! Image processing: pixels, neighbourhoods, histograms.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, WORK, each, each_row, integers, rows, write};
use super::wide::wide;
use crate::threads::{fill, parts};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "box-blur" => box_blur;
    "edge-detect" => edges;
    "grayscale" => grayscale;
    "histogram" => histogram;
    "median-filter" => median;
    "threshold" => threshold;
};

fn grayscale<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let weights = [0.299, 0.587, 0.114].map(real::<M>);
    each_row(call, "rgb_image", call.size("channels"), 1, |_, pixel, to| {
        to[0] = (weights[0] * pixel[0] + weights[1] * pixel[1] + weights[2] * pixel[2]).output();
    })
}

fn threshold<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let level = call.scalar("threshold_value");
    each(call, ["input_image"], |[x]| if x > level { real::<M>(255.0) } else { Real::zero() })
}

/// Mean of the pixels in the window; windows at the edges contain fewer pixels.
fn box_blur<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let reach = (call.size("kernel_size") - 1) / 2;
    around(call, reach, |window| Real::sum_of(window) / real(window.len() as f64), means)
}

wide! {
    /// Computes the means of neighbours with whole windows.
    fn means<M: Mode>(rows: &[&[Real<M>]], to: &mut [f64; TILE]) {
        let mut sums = [Real::<M>::zero(); TILE];
        let mut count = 0;
        for row in rows {
            for elements in row.windows(TILE) {
                for place in 0..TILE {
                    sums[place] += elements[place];
                }
                count += 1;
            }
        }
        write(to, sums.map(|sum| sum / real(f64::from(count))));
    }
}

/// Lower median of the pixels in the window.
fn median<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let lower = |window: &mut [i64]| {
        window.sort_unstable();
        window[(window.len() - 1) / 2]
    };
    let of_window = |window: &[Real<M>]| {
        let mut keys: Vec<i64> = window.iter().map(|x| order(x.output())).collect();
        real(number(lower(&mut keys)))
    };
    around(call, 1, of_window, |rows, to| {
        let keys = |row: usize| -> [i64; TILE + 2] { std::array::from_fn(|x| order(rows[row][x].output())) };
        let rows = [keys(0), keys(1), keys(2)];
        for (place, element) in to.iter_mut().enumerate() {
            let mut keys = [0; 9];
            for (keys, row) in keys.chunks_exact_mut(3).zip(&rows) {
                keys.copy_from_slice(&row[place..place + 3]);
            }
            *element = number(lower(&mut keys));
        }
    })
}

/// An integer with the place of a number in the total order of numbers.
fn order(value: f64) -> i64 {
    let bits = value.to_bits() as i64;
    bits ^ (((bits >> 63) as u64) >> 1) as i64
}

/// The number of [`order`].
fn number(order: i64) -> f64 {
    f64::from_bits((order ^ (((order >> 63) as u64) >> 1) as i64) as u64)
}

/// Neighbours along a row that are computed at once: their sums do not wait for each other.
const TILE: usize = 16;

/// Applies `one` to the square window around each pixel. Where no window of neighbours reaches beyond an edge, applies `tile` to the rows
/// of all of them.
fn around<M: Mode>(
    call: &Call<'_, M>,
    reach: usize,
    one: impl Fn(&[Real<M>]) -> Real<M> + Sync,
    tile: impl Fn(&[&[Real<M>]], &mut [f64; TILE]) + Sync,
) -> Vec<Values> {
    let (height, width) = (call.size("height"), call.size("width"));
    let image = call.floats("input_image");
    let side = 2 * reach + 1;
    vec![Values::Floats(fill(image.len(), width, WORK * side * side, |range, part| {
        let mut window = Vec::with_capacity(side * side);
        let mut rows: Vec<&[Real<M>]> = Vec::with_capacity(side);
        for (y, line) in (range.start / width..).zip(part.chunks_exact_mut(width)) {
            let above = y.saturating_sub(reach)..=(y + reach).min(height - 1);
            let inside = y >= reach && y + reach < height && !M::pairwise();
            let mut x = 0;
            while x < width {
                let left = x.saturating_sub(reach);
                let wide = inside && x >= reach && x + TILE + reach <= width;
                let right = if wide { x + TILE + reach } else { (x + reach + 1).min(width) };
                rows.clear();
                rows.extend(above.clone().map(|row| &image[row * width + left..row * width + right]));
                match line[x..].first_chunk_mut::<TILE>() {
                    Some(to) if wide => {
                        tile(&rows, to);
                        x += TILE;
                    }
                    _ => {
                        window.clear();
                        rows.iter().for_each(|row| window.extend_from_slice(row));
                        line[x] = one(&window).output();
                        x += 1;
                    }
                }
            }
        }
    }))]
}

/// Magnitude of the Sobel gradient; zero at the edges of the image.
fn edges<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (height, width) = (call.size("height"), call.size("width"));
    let image = call.floats("input_image");
    let two = real::<M>(2.0);
    vec![Values::Floats(fill(image.len(), width, WORK, |range, part| {
        for (y, line) in (range.start / width..).zip(part.chunks_exact_mut(width)) {
            if y == 0 || y + 1 == height {
                continue;
            }
            for x in 1..width.saturating_sub(1) {
                let at = |dy: usize, dx: usize| image[(y + dy - 1) * width + x + dx - 1];
                let right = at(0, 2) + two * at(1, 2) + at(2, 2);
                let left = at(0, 0) + two * at(1, 0) + at(2, 0);
                let below = at(2, 0) + two * at(2, 1) + at(2, 2);
                let above = at(0, 0) + two * at(0, 1) + at(0, 2);
                line[x] = ((right - left).square() + (below - above).square()).sqrt().output();
            }
        }
    }))]
}

fn histogram<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let bins = call.size("num_bins");
    let image = call.whole("image");
    let of_parts = parts(image.len(), PIXELS, |range| {
        let mut counts = vec![0; bins];
        for value in image.range(range) {
            counts[value as usize * bins / 256] += 1;
        }
        counts
    });
    let mut counts = vec![0; bins];
    for of_part in of_parts {
        counts.iter_mut().zip(of_part).for_each(|(all, some)| *all += some);
    }
    integers(counts)
}

/// Pixels that are counted at a time.
const PIXELS: usize = 1 << 16;
