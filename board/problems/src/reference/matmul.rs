//! Products of matrices.

use super::{Call, Mode, Real, Row, floats, rows};
use crate::compare::Values;

pub(super) const ROWS: &[Row] = rows! {
    "matrix-multiplication" => multiplication;
};

fn multiplication<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    floats(product(&call.floats("input_a"), &call.floats("input_b"), m, n, k))
}

/// `a` (m x k) times `b` (k x n), both row-major.
pub(super) fn product<M: Mode>(a: &[Real<M>], b: &[Real<M>], m: usize, n: usize, k: usize) -> Vec<Real<M>> {
    // Columns of b become rows, so that both factors are read in order.
    let columns = transposed(b, k, n);
    let dot = |row: &[Real<M>], column: &[Real<M>]| -> Real<M> {
        row.iter().zip(column).map(|(x, y)| *x * *y).sum()
    };
    let mut c = Vec::with_capacity(m * n);
    for row in a.chunks_exact(k) {
        c.extend(columns.chunks_exact(k).map(|column| dot(row, column)));
    }
    c
}

/// A matrix of `rows` rows on its side.
pub(super) fn transposed<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}
