//! Image processing: pixels, neighbourhoods, histograms.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, integers, rows};
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
    let image = call.floats("rgb_image");
    let weights = [0.299, 0.587, 0.114].map(real::<M>);
    let gray = |pixel: &[Real<M>]| weights[0] * pixel[0] + weights[1] * pixel[1] + weights[2] * pixel[2];
    floats(image.chunks_exact(call.size("channels")).map(gray))
}

fn threshold<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let level = call.scalar("threshold_value");
    let cut = |x| if x > level { real::<M>(255.0) } else { Real::zero() };
    floats(call.floats("input_image").into_iter().map(cut))
}

/// Mean of the pixels in the window; windows at the edges contain fewer pixels.
fn box_blur<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let reach = (call.size("kernel_size") - 1) / 2;
    floats(around(call, reach, |window| Real::sum_of(window) / real(window.len() as f64)))
}

/// Lower median of the pixels in the window.
fn median<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(around(call, 1, |window| {
        let mut sorted = window.to_vec();
        sorted.sort_by(|a, b| a.output().total_cmp(&b.output()));
        sorted[(sorted.len() - 1) / 2]
    }))
}

/// Applies `f` to the square window around each pixel.
fn around<M: Mode>(call: &Call<'_, M>, reach: usize, f: impl Fn(&[Real<M>]) -> Real<M>) -> Vec<Real<M>> {
    let (height, width) = (call.size("height"), call.size("width"));
    let image = call.floats("input_image");
    let mut window = Vec::new();
    let mut output = Vec::with_capacity(image.len());
    for y in 0..height {
        for x in 0..width {
            window.clear();
            for row in y.saturating_sub(reach)..=(y + reach).min(height - 1) {
                let left = row * width + x.saturating_sub(reach);
                let right = row * width + (x + reach).min(width - 1);
                window.extend_from_slice(&image[left..=right]);
            }
            output.push(f(&window));
        }
    }
    output
}

/// Magnitude of the Sobel gradient; zero at the edges of the image.
fn edges<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (height, width) = (call.size("height"), call.size("width"));
    let image = call.floats("input_image");
    let two = real::<M>(2.0);
    let mut output = vec![Real::zero(); image.len()];
    for y in 1..height.saturating_sub(1) {
        for x in 1..width.saturating_sub(1) {
            let at = |dy: usize, dx: usize| image[(y + dy - 1) * width + x + dx - 1];
            let right = at(0, 2) + two * at(1, 2) + at(2, 2);
            let left = at(0, 0) + two * at(1, 0) + at(2, 0);
            let below = at(2, 0) + two * at(2, 1) + at(2, 2);
            let above = at(0, 0) + two * at(0, 1) + at(0, 2);
            output[y * width + x] = ((right - left).square() + (below - above).square()).sqrt();
        }
    }
    floats(output)
}

fn histogram<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let bins = call.size("num_bins");
    let mut counts = vec![0; bins];
    for value in call.integers("image") {
        counts[value as usize * bins / 256] += 1;
    }
    integers(counts)
}
