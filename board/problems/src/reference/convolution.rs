//! Convolutions as in neural networks (cross-correlation: the kernel is not flipped), with zero padding.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows};
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

/// Convolution with "same" padding: the kernel is centred on the element, and the result is as large as the input.
fn same<M: Mode>(input: &[Real<M>], size: Extent, kernel: &[Real<M>], reach: Extent) -> Vec<Real<M>> {
    // Input index of a kernel tap along one axis; `None` outside of the input.
    let meets = |at: usize, tap: usize, reach: usize, size: usize| {
        (at + tap).checked_sub((reach - 1) / 2).filter(|place| *place < size)
    };
    let mut output = Vec::with_capacity(input.len());
    let mut terms = Vec::with_capacity(kernel.len());
    for z in 0..size.depth {
        for y in 0..size.height {
            for x in 0..size.width {
                terms.clear();
                for dz in 0..reach.depth {
                    let Some(pz) = meets(z, dz, reach.depth, size.depth) else { continue };
                    for dy in 0..reach.height {
                        let Some(py) = meets(y, dy, reach.height, size.height) else { continue };
                        for dx in 0..reach.width {
                            let Some(px) = meets(x, dx, reach.width, size.width) else { continue };
                            let tap = kernel[(dz * reach.height + dy) * reach.width + dx];
                            terms.push(tap * input[(pz * size.height + py) * size.width + px]);
                        }
                    }
                }
                output.push(Real::sum_of(&terms));
            }
        }
    }
    output
}

fn one<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let size = Extent { depth: 1, height: 1, width: call.size("N") };
    let reach = Extent { depth: 1, height: 1, width: call.size("K") };
    floats(same(&call.floats("A"), size, &call.floats("B"), reach))
}

fn two<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, reach) = plane(call);
    floats(same(&call.floats("A"), size, &call.floats("B"), reach))
}

fn plane<M: Mode>(call: &Call<'_, M>) -> (Extent, Extent) {
    let size = Extent { depth: 1, height: call.size("H"), width: call.size("W") };
    (size, Extent { depth: 1, height: call.size("Kh"), width: call.size("Kw") })
}

fn cube<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let cube = |edge| Extent { depth: edge, height: edge, width: edge };
    floats(same(&call.floats("A"), cube(call.size("size")), &call.floats("B"), cube(call.size("K"))))
}

fn two_hardswish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, reach) = plane(call);
    let sums = same(&call.floats("image"), size, &call.floats("kernel"), reach);
    floats(sums.into_iter().map(|sum| {
        let x = sum.max(Real::zero());
        x * (x + real(3.0)).min(real(6.0)) / real(6.0)
    }))
}

fn depthwise<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (height, width, k) = (call.size("H"), call.size("W"), call.size("K"));
    let (input, weight) = (call.floats("input"), call.floats("weight"));
    let channels = input.chunks_exact(height * width).zip(weight.chunks_exact(k * k));
    let size = Extent { depth: 1, height, width };
    let reach = Extent { depth: 1, height: k, width: k };
    floats(channels.flat_map(|(plane, kernel)| same(plane, size, kernel, reach)))
}
