//! Pooling over one, two and three axes, with the same window along each axis.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, WORK, rows};
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "avg-pool-1d" => average_1d;
    "avg-pool-2d" => average_2d;
    "avg-pool-3d" => average_3d;
    "max-pool-1d" => max_1d;
    "max-pool-2d" => max_2d;
    "max-pool-3d" => max_3d;
};

fn average_1d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    average(call, [1, 1, call.size("H")], 1)
}

fn average_2d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    average(call, [1, call.size("H"), call.size("W")], 2)
}

fn average_3d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    average(call, [call.size("H"), call.size("W"), call.size("D")], 3)
}

fn max_1d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    max(call, [1, 1, call.size("H")], 1)
}

fn max_2d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    max(call, [1, call.size("H"), call.size("W")], 2)
}

fn max_3d<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    max(call, [call.size("H"), call.size("W"), call.size("D")], 3)
}

/// Padding counts as zeros.
fn average<M: Mode>(call: &Call<'_, M>, size: [usize; 3], axes: u32) -> Vec<Values> {
    let count = real::<M>(call.size("kernel_size").pow(axes) as f64);
    windows(call, size, axes, 1, |window| Real::sum_of(window) / count)
}

/// Padding is ignored.
fn max<M: Mode>(call: &Call<'_, M>, size: [usize; 3], axes: u32) -> Vec<Values> {
    let largest = |window: &[Real<M>]| window.iter().copied().reduce(Real::max).unwrap_or(Real::zero());
    windows(call, size, axes, call.size("dilation"), largest)
}

/// Applies `pool` to the input elements of every window. Only the last `axes` of the three have windows wider than one.
fn windows<M: Mode>(
    call: &Call<'_, M>,
    size: [usize; 3],
    axes: u32,
    dilation: usize,
    pool: impl Fn(&[Real<M>]) -> Real<M> + Sync,
) -> Vec<Values> {
    let (kernel, stride, padding) = (call.size("kernel_size"), call.size("stride"), call.size("padding"));
    let input = call.floats("input");
    // For each axis and output index, the input indices that its window covers.
    let covered = |axis: usize| -> Vec<Vec<usize>> {
        if axis + (axes as usize) < 3 {
            return vec![vec![0]];
        }
        let count = (size[axis] + 2 * padding - dilation * (kernel - 1) - 1) / stride + 1;
        let place = |at: usize, tap: usize| {
            (at * stride + tap * dilation).checked_sub(padding).filter(|place| *place < size[axis])
        };
        (0..count).map(|at| (0..kernel).filter_map(|tap| place(at, tap)).collect()).collect()
    };
    let [zs, ys, xs] = [covered(0), covered(1), covered(2)];
    let (lines, length) = (zs.len() * ys.len(), xs.len());
    // Whole lines, unless there is one.
    let unit = if lines == 1 { 1 } else { length };
    vec![Values::Floats(fill(lines * length, unit, WORK * kernel.pow(axes), |range, part| {
        let mut window = Vec::new();
        for (index, to) in range.zip(part) {
            let (line, x) = (index / length, &xs[index % length]);
            window.clear();
            for pz in &zs[line / ys.len()] {
                for py in &ys[line % ys.len()] {
                    window.extend(x.iter().map(|px| input[(pz * size[1] + py) * size[2] + px]));
                }
            }
            *to = pool(&window).output();
        }
    }))]
}
