//! Sorting, selection and merging. Elements are moved, never changed.

use super::real::{Mode, Real};
use super::row::{Call, Row, rows};
use crate::maker::Maker;
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
    let values = ordered(call, &["input"]);
    vec![Values::Floats(values.into_iter().rev().take(call.size("k")).collect())]
}

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
