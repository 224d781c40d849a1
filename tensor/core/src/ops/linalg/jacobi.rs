//! Eigenvalues and singular values by Jacobi rotations: not the fastest method, but accurate to the last digits and free of
//! special cases.

use super::factor::qr;
use super::matrix::{Entry, Matrix, Turn};

/// Upper limit of sweeps; no matrix needs as many.
const ROUNDS: usize = 60;

/// Returns the eigenvalues of a Hermitian matrix in ascending order and its eigenvectors. Only the lower triangle is read.
pub(crate) fn eigen<E: Entry>(matrix: &Matrix<E>) -> (Vec<f64>, Matrix<E>) {
    let size = matrix.rows;
    let mut a: Matrix<E> = Matrix::made(size, size, |row, column| match row.cmp(&column) {
        std::cmp::Ordering::Greater => matrix[(row, column)],
        std::cmp::Ordering::Less => matrix[(column, row)].conj(),
        std::cmp::Ordering::Equal => E::of(matrix[(row, row)].real()),
    });
    let mut vectors = Matrix::unit(size, size);
    let all = a.entries.iter().fold(0_f64, |all, entry| all.hypot(entry.size()));
    for _ in 0..ROUNDS {
        let mut turned = false;
        for (first, second) in pairs(size) {
            let beside = a[(first, second)];
            let (p, q) = (a[(first, first)].real(), a[(second, second)].real());
            if beside.size().is_nan() || beside.size() <= f64::EPSILON * 1e-3 * all {
                continue;
            }
            turned = true;
            let turn = Turn::new(p, q, beside);
            a.turn_columns(first, second, &turn);
            a.turn_rows(first, second, &turn);
            vectors.turn_columns(first, second, &turn);
            // These are zero by construction; clear the rounding residue.
            a[(first, second)] = E::of(0.0);
            a[(second, first)] = E::of(0.0);
        }
        if !turned {
            break;
        }
    }
    let values: Vec<f64> = (0..size).map(|at| a[(at, at)].real()).collect();
    let mut order: Vec<usize> = (0..size).collect();
    order.sort_by(|&a, &b| values[a].total_cmp(&values[b]));
    (order.iter().map(|&at| values[at]).collect(), vectors.of_columns(&order))
}

/// Decomposes `A = U S V*`, with singular values in descending order. `U` and `V*` are square if `full`, else reduced.
pub(crate) fn singular<E: Entry>(matrix: &Matrix<E>, full: bool) -> (Matrix<E>, Vec<f64>, Matrix<E>) {
    if matrix.rows < matrix.columns {
        let (u, values, v) = singular(&matrix.adjoint(), full);
        return (v.adjoint(), values, u.adjoint());
    }
    let (rows, columns) = (matrix.rows, matrix.columns);
    let (mut a, mut v) = (matrix.clone(), Matrix::<E>::unit(columns, columns));
    for _ in 0..ROUNDS {
        let mut turned = false;
        for (first, second) in pairs(columns) {
            let (mut p, mut q, mut beside) = (0.0, 0.0, E::of(0.0));
            for row in 0..rows {
                let (x, y) = (a[(row, first)], a[(row, second)]);
                p += x.size() * x.size();
                q += y.size() * y.size();
                beside = beside + x.conj() * y;
            }
            if beside.size().is_nan() || beside.size() <= f64::EPSILON * (p * q).sqrt() {
                continue;
            }
            turned = true;
            let turn = Turn::new(p, q, beside);
            a.turn_columns(first, second, &turn);
            v.turn_columns(first, second, &turn);
        }
        if !turned {
            break;
        }
    }
    let lengths: Vec<f64> = (0..columns)
        .map(|column| (0..rows).fold(0_f64, |length, row| length.hypot(a[(row, column)].size())))
        .collect();
    let mut order: Vec<usize> = (0..columns).collect();
    order.sort_by(|&a, &b| lengths[b].total_cmp(&lengths[a]));
    let values: Vec<f64> = order.iter().map(|&column| lengths[column]).collect();
    let (a, v) = (a.of_columns(&order), v.of_columns(&order));
    // Columns of length zero have no direction: any orthogonal completion will do.
    let smallest = values.first().map_or(0.0, |largest| largest * f64::EPSILON * 1e-3);
    let known = values.iter().filter(|&&value| value > smallest).count();
    let unit = Matrix::made(rows, known, |row, column| a[(row, column)] / E::of(values[column]));
    let width = if full { rows } else { columns };
    let u =
        if known == width {
            unit
        } else {
            let (others, _) = qr(&unit);
            Matrix::made(rows, width, |row, column| {
                if column < known { unit[(row, column)] } else { others[(row, column)] }
            })
        };
    (u, values, v.adjoint())
}

fn pairs(size: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..size).flat_map(move |first| (first + 1..size).map(move |second| (first, second)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ops::linalg::matrix::tests::{close, product, some};

    #[test]
    fn eigenvectors_are_only_stretched() {
        let a = some(6, 6, 4);
        let hermitian = product(&a, &a.adjoint());
        let (values, vectors) = eigen(&hermitian);
        let stretched = Matrix::made(6, 6, |row, column| vectors[(row, column)] * values[column]);
        close(&product(&hermitian, &vectors), &stretched);
        close(&product(&vectors.adjoint(), &vectors), &Matrix::unit(6, 6));
        assert!(values.is_sorted());
    }

    #[test]
    fn singular_vectors_and_values_multiply_to_the_matrix() {
        for (rows, columns) in [(4, 4), (6, 3), (3, 6), (1, 3), (0, 2)] {
            for full in [false, true] {
                let a = some(rows, columns, 9);
                let (u, values, v) = singular(&a, full);
                let middle = Matrix::made(u.columns, v.rows, |row, column| {
                    num_complex::Complex64::from(if row == column { values[row] } else { 0.0 })
                });
                close(&product(&product(&u, &middle), &v), &a);
                close(&product(&u.adjoint(), &u), &Matrix::unit(u.columns, u.columns));
                close(&product(&v, &v.adjoint()), &Matrix::unit(v.rows, v.rows));
            }
        }
    }

    #[test]
    fn a_matrix_without_rank_has_orthogonal_vectors_all_the_same() {
        let flat: Matrix<f64> = Matrix::made(4, 3, |row, column| ((row + 1) * (column + 1)) as f64);
        let (u, values, _) = singular(&flat, false);
        assert!(values[1] < 1e-12 * values[0]);
        let squares: Matrix<f64> =
            Matrix::made(3, 3, |i, j| (0..4).map(|row| u[(row, i)] * u[(row, j)]).sum());
        for (row, column) in [(0, 0), (0, 1), (1, 2), (2, 2)] {
            assert!((squares[(row, column)] - f64::from(u8::from(row == column))).abs() < 1e-12);
        }
    }
}
