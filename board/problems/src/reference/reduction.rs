//! Reductions along the middle of three axes, and over all elements.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, WORK, floats, integers, rows};
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "argmax" => argmax;
    "argmin" => argmin;
    "dot-product" => dot;
    "frobenius-norm" => frobenius;
    "max-dim" => max;
    "mean-dim" => mean;
    "min-dim" => min;
    "product-dim" => product;
    "sum-dim" => sum;
};

/// Applies `reduce` to every line along the middle axis.
fn along<M: Mode, T: Copy + Default + Send>(
    call: &Call<'_, M>,
    reduce: impl Fn(&[Real<M>]) -> T + Sync,
) -> Vec<T> {
    let (outer, length, inner) = (call.size("outer"), call.size("length"), call.size("inner"));
    let input = call.reals("input");
    fill(outer * inner, 1, WORK * length, |range, part| {
        let (mut at, mut rest) = (range.start, part);
        while !rest.is_empty() {
            let (slab, column) = (at / inner, at % inner);
            // Neighbours are read together.
            let count = rest.len().min(inner - column).min(NEIGHBOURS);
            let start = |place: usize| (slab * length + place) * inner + column;
            let lines = match inner {
                1 => input.range(start(0)..start(length)),
                _ => {
                    let mut lines = vec![Real::zero(); count * length];
                    for place in 0..length {
                        let to = lines[place..].iter_mut().step_by(length);
                        to.zip(input.range(start(place)..start(place) + count)).for_each(|(to, x)| *to = x);
                    }
                    lines
                }
            };
            let (to, others) = rest.split_at_mut(count);
            to.iter_mut().zip(lines.chunks_exact(length)).for_each(|(to, line)| *to = reduce(line));
            (at, rest) = (at + count, others);
        }
    })
}

/// Lines that are read together.
const NEIGHBOURS: usize = 64;

fn sum<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(along(call, Real::sum_of))
}

fn mean<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = real::<M>(call.size("length") as f64);
    floats(along(call, |line| Real::sum_of(line) / length))
}

fn product<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(along(call, |line| line.iter().fold(real::<M>(1.0), |product, x| product * *x)))
}

fn max<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(along(call, |line| line.iter().copied().reduce(Real::max).unwrap_or(Real::zero())))
}

fn min<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(along(call, |line| line.iter().copied().reduce(Real::min).unwrap_or(Real::zero())))
}

fn argmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    integers(along(call, |line| first_best(line, |new, best| new > best)))
}

fn argmin<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    integers(along(call, |line| first_best(line, |new, best| new < best)))
}

/// Returns the first index whose element no other element beats.
pub(super) fn first_best<M: Mode>(line: &[Real<M>], beats: impl Fn(Real<M>, Real<M>) -> bool) -> i64 {
    let mut best = 0;
    for place in 1..line.len() {
        if beats(line[place], line[best]) {
            best = place;
        }
    }
    best as i64
}

fn dot<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (a, b) = (call.reals("a"), call.reals("b"));
    floats([a.iter().zip(b.iter()).map(|(a, b)| a * b).sum::<Real<M>>()])
}

fn frobenius<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats([call.reals("X").iter().map(Real::square).sum::<Real<M>>().sqrt()])
}
