//! Softmax, and losses and gating based on it.

use super::real::{Mode, Real, real};
use super::reduction::first_best;
use super::row::{Call, Row, floats, rows};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cross-entropy" => cross_entropy;
    "log-softmax" => log_softmax;
    "softmax" => softmax;
    "top2-gating" => top2_gating;
};

fn softmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let columns = call.size("n");
    floats(call.floats("input").chunks_exact(columns).flat_map(softmax_of))
}

fn log_softmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let columns = call.size("n");
    floats(call.floats("input").chunks_exact(columns).flat_map(|row| {
        let total = log_sum_exp(row);
        row.iter().map(|x| *x - total).collect::<Vec<_>>()
    }))
}

/// Mean over samples of the negative log-probability of the true class.
fn cross_entropy<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (samples, classes) = (call.size("n"), call.size("c"));
    let logits = call.floats("logits");
    let losses = logits.chunks_exact(classes).zip(call.integers("labels"));
    let sum: Real<M> = losses.map(|(row, label)| log_sum_exp(row) - row[label as usize]).sum();
    floats([sum / real(samples as f64)])
}

/// Returns the two largest elements of each row, and the softmax of these two.
fn top2_gating<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (mut experts, mut weights) = (Vec::new(), Vec::new());
    for row in call.floats("logits").chunks_exact(call.size("e")) {
        let first = first_best(row, |new, best| new > best);
        let mut others = row.to_vec();
        others[first as usize] = real(-1e4);
        let second = first_best(&others, |new, best| new > best);
        experts.extend([first, second]);
        let share = softmax_of(&[row[first as usize], row[second as usize]]);
        weights.extend(share.into_iter().map(Real::output));
    }
    vec![Values::Integers(experts), Values::Floats(weights)]
}

fn log_sum_exp<M: Mode>(row: &[Real<M>]) -> Real<M> {
    let largest = largest(row);
    largest + row.iter().map(|x| (*x - largest).exp()).sum::<Real<M>>().ln()
}

fn largest<M: Mode>(row: &[Real<M>]) -> Real<M> {
    row.iter().copied().reduce(Real::max).unwrap_or(Real::zero())
}

/// Softmax of one row; the maximum is subtracted first.
pub(super) fn softmax_of<M: Mode>(row: &[Real<M>]) -> Vec<Real<M>> {
    let largest = largest(row);
    let powers: Vec<Real<M>> = row.iter().map(|x| (*x - largest).exp()).collect();
    let sum = Real::sum_of(&powers);
    powers.into_iter().map(|power| power / sum).collect()
}
