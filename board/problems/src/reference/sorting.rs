//! Sorting, selection and merging. Elements are moved, never changed.

use super::real::{Mode, Real};
use super::row::{Call, Row, rows};
use crate::maker::Maker;
use crate::threads::parts;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "array-sort" => sort;
    "merge-sorted" => merge, sorted_inputs;
    "radix-sort" => pairs;
    "top-k" => top;
};

fn ordered<M: Mode>(call: &Call<'_, M>, names: &[&str]) -> Vec<f64> {
    let mut values: Vec<f64> = names.iter().flat_map(|name| call.floats(name)).map(Real::output).collect();
    values.sort_by(f64::total_cmp);
    values
}

fn sort<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    vec![Values::Floats(ordered(call, &["a"]))]
}

fn merge<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    vec![Values::Floats(ordered(call, &["a", "b"]))]
}

fn top<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (input, k) = (call.reals("input"), call.size("k"));
    // The largest of each part, then those of all.
    let largest = |mut values: Vec<f64>| {
        if values.len() > k {
            let last = values.len() - k;
            values.select_nth_unstable_by(last, f64::total_cmp);
            values.drain(..last);
        }
        values
    };
    let of_parts = parts(input.len(), PART.max(2 * k), |range| {
        largest(input.range(range).into_iter().map(Real::output).collect())
    });
    let mut values = largest(of_parts.concat());
    values.sort_by(|a, b| b.total_cmp(a));
    vec![Values::Floats(values)]
}

/// Numbers of which the largest are chosen at a time.
const PART: usize = 1 << 17;

/// Sorts pairs by key; the sort is stable.
fn pairs<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let mut pairs: Vec<(i64, i64)> = call.integers("keys").into_iter().zip(call.integers("values")).collect();
    pairs.sort_by_key(|(key, _)| *key);
    let (keys, values) = pairs.into_iter().unzip();
    vec![Values::Integers(keys), Values::Integers(values)]
}

fn sorted_inputs(maker: &mut Maker<'_>) {
    for (name, size) in [("a", "n"), ("b", "m")] {
        let count = maker.size(size);
        let mut random = maker.random(name);
        let mut values: Vec<i64> = (0..count).map(|_| random.integer(-1000, 1000)).collect();
        values.sort_unstable();
        maker.floats(name, values.into_iter().map(|value| value as f64));
    }
}
