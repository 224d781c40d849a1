//! Reductions along the middle of three axes, and over all elements.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, integers, rows};
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
fn along<M: Mode, T>(call: &Call<'_, M>, reduce: impl Fn(&[Real<M>]) -> T) -> Vec<T> {
    let (outer, length, inner) = (call.size("outer"), call.size("length"), call.size("inner"));
    let input = call.floats("input");
    let mut line = Vec::with_capacity(length);
    let mut results = Vec::with_capacity(outer * inner);
    for slab in input.chunks_exact(length * inner) {
        for column in 0..inner {
            line.clear();
            line.extend(slab[column..].iter().step_by(inner));
            results.push(reduce(&line));
        }
    }
    results
}

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
    let sum: Real<M> = call.floats("a").into_iter().zip(call.floats("b")).map(|(a, b)| a * b).sum();
    floats([sum])
}

fn frobenius<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let sum: Real<M> = call.floats("X").into_iter().map(Real::square).sum();
    floats([sum.sqrt()])
}
