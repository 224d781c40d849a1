//! LU, Cholesky and QR factorisation.

use super::matrix::{Entry, Matrix};

/// `P A = L U`: both triangles in one matrix, and the row permutation.
pub(crate) struct Lu<E> {
    both: Matrix<E>,
    order: Vec<usize>,
    odd: bool,
}

impl<E: Entry> Lu<E> {
    /// Factorises with partial pivoting. A singular matrix leaves a zero on the diagonal.
    pub fn new(matrix: &Matrix<E>) -> Lu<E> {
        let size = matrix.rows;
        let mut lu = Lu { both: matrix.clone(), order: (0..size).collect(), odd: false };
        for step in 0..size {
            let best = (step..size)
                .max_by(|&a, &b| {
                    lu.both[(a, step)].size().total_cmp(&lu.both[(b, step)].size()).then(b.cmp(&a))
                })
                .unwrap_or(step);
            if best != step {
                for column in 0..size {
                    lu.both.entries.swap(best * size + column, step * size + column);
                }
                lu.order.swap(best, step);
                lu.odd = !lu.odd;
            }
            if lu.both[(step, step)].size() == 0.0 {
                continue;
            }
            for row in step + 1..size {
                let factor = lu.both[(row, step)] / lu.both[(step, step)];
                lu.both[(row, step)] = factor;
                for column in step + 1..size {
                    lu.both[(row, column)] = lu.both[(row, column)] - factor * lu.both[(step, column)];
                }
            }
        }
        lu
    }

    pub fn diagonal(&self) -> impl Iterator<Item = E> {
        (0..self.both.rows).map(|at| self.both[(at, at)])
    }

    /// The sign of the row permutation.
    pub fn sign(&self) -> E {
        E::of(if self.odd { -1.0 } else { 1.0 })
    }

    /// Solves `A X = right`; `None` if the matrix is singular.
    pub fn solve(&self, right: &Matrix<E>) -> Option<Matrix<E>> {
        if self.diagonal().any(|entry| entry.size() == 0.0) {
            return None;
        }
        let size = self.both.rows;
        let mut x = Matrix::made(size, right.columns, |row, column| right[(self.order[row], column)]);
        for column in 0..x.columns {
            for row in 0..size {
                x[(row, column)] =
                    (0..row).fold(x[(row, column)], |rest, at| rest - self.both[(row, at)] * x[(at, column)]);
            }
            for row in (0..size).rev() {
                let rest = (row + 1..size)
                    .fold(x[(row, column)], |rest, at| rest - self.both[(row, at)] * x[(at, column)]);
                x[(row, column)] = rest / self.both[(row, row)];
            }
        }
        Some(x)
    }
}

/// Returns the lower Cholesky factor. Only the lower triangle of the matrix is read. `None` if the matrix is not positive
/// definite.
pub(crate) fn cholesky<E: Entry>(matrix: &Matrix<E>) -> Option<Matrix<E>> {
    let size = matrix.rows;
    let mut lower: Matrix<E> = Matrix::made(size, size, |_, _| E::of(0.0));
    for column in 0..size {
        let square = (0..column).fold(matrix[(column, column)].real(), |rest, at| {
            let entry = lower[(column, at)].size();
            rest - entry * entry
        });
        if square <= 0.0 || square.is_nan() {
            return None;
        }
        let side = square.sqrt();
        lower[(column, column)] = E::of(side);
        for row in column + 1..size {
            let rest = (0..column)
                .fold(matrix[(row, column)], |rest, at| rest - lower[(row, at)] * lower[(column, at)].conj());
            lower[(row, column)] = rest / E::of(side);
        }
    }
    Some(lower)
}

/// Factorises `A = Q R` by Householder reflections, with a square `Q`.
pub(crate) fn qr<E: Entry>(matrix: &Matrix<E>) -> (Matrix<E>, Matrix<E>) {
    let (rows, columns) = (matrix.rows, matrix.columns);
    let (mut q, mut r) = (Matrix::unit(rows, rows), matrix.clone());
    for step in 0..columns.min(rows) {
        let length = (step..rows).fold(0_f64, |length, row| length.hypot(r[(row, step)].size()));
        if length == 0.0 {
            continue;
        }
        // The normal of the reflection; its sign avoids cancellation.
        let aim = -r[(step, step)].direction() * E::of(length);
        let mut normal: Vec<E> = (step..rows).map(|row| r[(row, step)]).collect();
        normal[0] = normal[0] - aim;
        let square: f64 = normal.iter().map(|entry| entry.size() * entry.size()).sum();
        if square == 0.0 {
            continue;
        }
        let twice = E::of(2.0 / square);
        for column in step..columns {
            let along = normal
                .iter()
                .zip(step..)
                .fold(E::of(0.0), |along, (&entry, row)| along + entry.conj() * r[(row, column)]);
            for (&entry, row) in normal.iter().zip(step..) {
                r[(row, column)] = r[(row, column)] - twice * entry * along;
            }
        }
        for row in step + 1..rows {
            r[(row, step)] = E::of(0.0);
        }
        for row in 0..rows {
            let along = normal
                .iter()
                .zip(step..)
                .fold(E::of(0.0), |along, (&entry, column)| along + q[(row, column)] * entry);
            for (&entry, column) in normal.iter().zip(step..) {
                q[(row, column)] = q[(row, column)] - twice * along * entry.conj();
            }
        }
    }
    (q, r)
}

#[cfg(test)]
mod tests {
    use num_complex::Complex64;

    use super::*;
    use crate::ops::linalg::matrix::tests::{close, product, some};

    #[test]
    fn solutions_solve() {
        let (a, b) = (some(5, 5, 1), some(5, 2, 2));
        let x = Lu::new(&a).solve(&b).unwrap();
        close(&product(&a, &x), &b);
    }

    #[test]
    fn a_singular_matrix_has_no_solution() {
        let flat: Matrix<f64> = Matrix::made(3, 3, |row, _| row as f64);
        assert!(Lu::new(&flat).solve(&flat).is_none());
    }

    #[test]
    fn triangles_and_reflections_multiply_to_the_matrix() {
        for (rows, columns) in [(4, 4), (5, 3), (3, 5)] {
            let a = some(rows, columns, 3);
            let (q, r) = qr(&a);
            close(&product(&q, &r), &a);
            close(&product(&q, &q.adjoint()), &Matrix::unit(rows, rows));
        }
        let a = some(4, 4, 7);
        let mut positive = product(&a, &a.adjoint());
        (0..4).for_each(|at| positive[(at, at)] += Complex64::new(1.0, 0.0));
        let lower = cholesky(&positive).unwrap();
        close(&product(&lower, &lower.adjoint()), &positive);
        positive[(2, 2)] = Complex64::new(-1.0, 0.0);
        assert!(cholesky(&positive).is_none());
    }
}
