//! Prefix scans: cumulative sums and products, and algorithms built on them.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, integers, rows};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cumprod" => cumprod;
    "cumsum" => cumsum;
    "exclusive-scan" => exclusive;
    "running-sum-1d" => window;
    "stream-compaction" => compaction;
};

fn cumsum<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(prefixes(&call.floats("input")))
}

/// Computes inclusive prefix sums. In pairwise mode they are combined like in a tree.
fn prefixes<M: Mode>(values: &[Real<M>]) -> Vec<Real<M>> {
    if M::pairwise() && values.len() > 2 {
        let (left, right) = values.split_at(values.len() / 2);
        let mut sums = prefixes(left);
        let before = sums[sums.len() - 1];
        sums.extend(prefixes(right).into_iter().map(|sum| before + sum));
        return sums;
    }
    let mut sum = Real::zero();
    let mut step = |value: &Real<M>| {
        sum += *value;
        sum
    };
    values.iter().map(&mut step).collect()
}

fn cumprod<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let mut product = real::<M>(1.0);
    floats(call.floats("input").into_iter().map(|value| {
        product = product * value;
        product
    }))
}

fn exclusive<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let mut sum = 0;
    integers(call.integers("input").into_iter().map(|value| {
        sum += value;
        sum - value
    }))
}

/// Sums over a window that ends at the element.
fn window<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (input, width) = (call.floats("input"), call.size("W"));
    floats((0..input.len()).map(|end| Real::sum_of(&input[(end + 1).saturating_sub(width)..=end])))
}

fn compaction<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let input = call.integers("input");
    let mut kept: Vec<i64> = input.iter().copied().filter(|value| *value > 0).collect();
    let count = kept.len() as i64;
    kept.resize(input.len(), 0);
    vec![Values::Integers(kept), Values::Integers(vec![count])]
}
