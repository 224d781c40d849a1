//! Prefix scans: cumulative sums and products, and algorithms built on them.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, integers, rows, write};
use super::wide::wide;
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cumprod" => cumprod;
    "cumsum" => cumsum;
    "exclusive-scan" => exclusive;
    "running-sum-1d" => window;
    "stream-compaction" => compaction;
};

fn cumsum<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    if M::pairwise() {
        return floats(prefixes(&call.floats("input")));
    }
    let mut sum = Real::zero();
    floats(call.reals("input").iter().map(|value| {
        sum += value;
        sum
    }))
}

/// Computes inclusive prefix sums, combined like in a tree.
fn prefixes<M: Mode>(values: &[Real<M>]) -> Vec<Real<M>> {
    if values.len() > 2 {
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
    floats(call.reals("input").iter().map(|value| {
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
    vec![Values::Floats(fill(input.len(), TILE, width, |range, part| {
        for (index, to) in part.chunks_mut(TILE).enumerate() {
            let first = range.start + index * TILE;
            if first + 1 < width || to.len() < TILE || M::pairwise() {
                write(
                    to,
                    (first..)
                        .map(|end| Real::sum_of(&input[(end + 1).saturating_sub(width)..=end]))
                        .take(to.len()),
                );
                continue;
            }
            sums(&input[first + 1 - width..first + TILE], to);
        }
    }))]
}

wide! {
    /// Computes the sums of neighbouring windows. The first one ends so many elements before the end.
    fn sums<M: Mode>(elements: &[Real<M>], to: &mut [f64]) {
        let mut sums = [Real::<M>::zero(); TILE];
        for elements in elements.windows(TILE) {
            for place in 0..TILE {
                sums[place] += elements[place];
            }
        }
        write(to, sums);
    }
}

/// Neighbours that are computed at once: their sums do not wait for each other.
const TILE: usize = 16;

fn compaction<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let input = call.integers("input");
    let mut kept: Vec<i64> = input.iter().copied().filter(|value| *value > 0).collect();
    let count = kept.len() as i64;
    kept.resize(input.len(), 0);
    vec![Values::Integers(kept), Values::Integers(vec![count])]
}
