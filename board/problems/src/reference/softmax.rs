//! Softmax and what is made of it.

use super::{Call, Mode, Real, Row, floats, rows};
use crate::compare::Values;

pub(super) const ROWS: &[Row] = rows! {
    "softmax" => softmax;
};

fn softmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let columns = call.size("n");
    floats(call.floats("input").chunks_exact(columns).flat_map(|row| softmax_of(row)))
}

/// The softmax of one row, with the largest element taken off first.
pub(super) fn softmax_of<M: Mode>(row: &[Real<M>]) -> Vec<Real<M>> {
    let largest = row.iter().copied().reduce(Real::max).unwrap_or(Real::zero());
    let powers: Vec<Real<M>> = row.iter().map(|x| (*x - largest).exp()).collect();
    let sum = Real::sum_of(&powers);
    powers.into_iter().map(|power| power / sum).collect()
}
