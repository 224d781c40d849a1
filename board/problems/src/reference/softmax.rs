//! Softmax, and losses and gating based on it.

use super::real::{Mode, Real, real};
use super::reduction::first_best;
use super::row::{Call, Row, WORK, each_row, floats, rows, write};
use crate::threads::{fill, fill_two};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cross-entropy" => cross_entropy;
    "log-softmax" => log_softmax;
    "softmax" => softmax;
    "top2-gating" => top2_gating;
};

fn softmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let columns = call.size("n");
    each_row(call, "input", columns, columns, |_, row, to| write(to, softmax_of(row)))
}

fn log_softmax<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let columns = call.size("n");
    each_row(call, "input", columns, columns, |_, row, to| {
        let total = log_sum_exp(row);
        write(to, row.iter().map(|x| *x - total));
    })
}

/// Mean over samples of the negative log-probability of the true class.
fn cross_entropy<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (samples, classes) = (call.size("n"), call.size("c"));
    let (logits, labels) = (call.reals("logits"), call.integers("labels"));
    let losses = fill(samples, 1, WORK * classes, |range, part: &mut [Real<M>]| {
        for (sample, to) in range.zip(part) {
            let row = logits.range(sample * classes..(sample + 1) * classes);
            *to = log_sum_exp(&row) - row[labels[sample] as usize];
        }
    });
    floats([losses.into_iter().sum::<Real<M>>() / real(samples as f64)])
}

/// Returns the two largest elements of each row, and the softmax of these two.
fn top2_gating<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (logits, e) = (call.reals("logits"), call.size("e"));
    let (experts, weights) = fill_two(logits.len() / e, (2, 2), WORK * e, |range, experts, weights| {
        let rows = logits.range(range.start * e..range.end * e);
        let outputs = experts.chunks_exact_mut(2).zip(weights.chunks_exact_mut(2));
        for (row, (experts, weights)) in rows.chunks_exact(e).zip(outputs) {
            let first = first_best(row, |new, best| new > best);
            let mut others = row.to_vec();
            others[first as usize] = real(-1e4);
            let second = first_best(&others, |new, best| new > best);
            experts.copy_from_slice(&[first, second]);
            write(weights, softmax_of(&[row[first as usize], row[second as usize]]));
        }
    });
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
