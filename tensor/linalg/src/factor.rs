//! Factorisations.

use faer::diag::Diag;
use faer::dyn_stack::{MemBuffer, MemStack};
use faer::linalg::evd;
use faer::linalg::solvers::{self, Solve};
use faer::traits::ComplexField;
use faer::{Auto, Mat, MatRef, Par, Side, Spec};
use num_complex::Complex64;

use crate::matrix::Matrix;

/// The size of a tridiagonal matrix below which its eigenvectors are computed by QR iterations, not by divide and conquer.
const LEAF: usize = 32;

/// `P A = L U` with partial pivoting.
#[derive(Debug)]
pub struct Lu<E> {
    /// The diagonal of `U`. If the matrix is singular, one entry is zero, and those after it are undefined.
    pub diagonal: Vec<E>,
    /// Whether the row permutation is odd.
    pub odd: bool,
}

/// Eigenvalues of a Hermitian matrix in ascending order, and eigenvectors as columns.
#[derive(Debug)]
pub struct Eigen<E> {
    /// The eigenvalues.
    pub values: Vec<f64>,
    /// The eigenvectors.
    pub vectors: Matrix<E>,
}

/// `A = Q R`.
#[derive(Debug)]
pub struct Qr<E> {
    /// Orthonormal columns.
    pub q: Matrix<E>,
    /// An upper triangle.
    pub r: Matrix<E>,
}

/// `A = U S V*`.
#[derive(Debug)]
pub struct Svd<E> {
    /// Orthonormal columns.
    pub u: Matrix<E>,
    /// Singular values in descending order.
    pub values: Vec<f64>,
    /// The adjoint of `V`: orthonormal rows.
    pub v: Matrix<E>,
}

/// The entry type of a matrix. The functions of several results return `None` if they do not converge, as for matrices with
/// infinite or undefined entries.
pub trait Entry: Copy {
    /// Factorises a square matrix by Gaussian elimination.
    fn lu(matrix: &Matrix<Self>) -> Lu<Self>;
    /// Solves `matrix X = right`; `None` if the matrix is singular.
    fn solve(matrix: &Matrix<Self>, right: &Matrix<Self>) -> Option<Matrix<Self>>;
    /// Returns the lower Cholesky factor. Only the lower triangle is read. `None` if the matrix is not positive definite.
    fn cholesky(matrix: &Matrix<Self>) -> Option<Matrix<Self>>;
    /// Factorises by Householder reflections, with a square `Q` if `complete`.
    fn qr(matrix: &Matrix<Self>, complete: bool) -> Qr<Self>;
    /// The eigenvalues and eigenvectors of a Hermitian matrix, of which only the lower triangle is read.
    fn eigen(matrix: &Matrix<Self>) -> Option<Eigen<Self>>;
    /// The eigenvalues alone.
    fn eigenvalues(matrix: &Matrix<Self>) -> Option<Vec<f64>>;
    /// The singular value decomposition; `U` and `V*` are square if `full`, else reduced.
    fn svd(matrix: &Matrix<Self>, full: bool) -> Option<Svd<Self>>;
    /// The singular values alone.
    fn singular_values(matrix: &Matrix<Self>) -> Option<Vec<f64>>;
}

// Not generic, so that faer's functions are compiled in this crate.
macro_rules! entries {
    ($($E:ty)*) => {$(
        impl Entry for $E {
            fn lu(matrix: &Matrix<$E>) -> Lu<$E> {
                lu(matrix)
            }

            fn solve(matrix: &Matrix<$E>, right: &Matrix<$E>) -> Option<Matrix<$E>> {
                solve(matrix, right)
            }

            fn cholesky(matrix: &Matrix<$E>) -> Option<Matrix<$E>> {
                Some(Matrix::of(solvers::Llt::new(matrix.view(), Side::Lower).ok()?.L()))
            }

            fn qr(matrix: &Matrix<$E>, complete: bool) -> Qr<$E> {
                qr(matrix, complete)
            }

            fn eigen(matrix: &Matrix<$E>) -> Option<Eigen<$E>> {
                eigen(matrix)
            }

            fn eigenvalues(matrix: &Matrix<$E>) -> Option<Vec<f64>> {
                if !is_finite_below(matrix) {
                    return None;
                }
                matrix.view().self_adjoint_eigenvalues(Side::Lower).ok()
            }

            fn svd(matrix: &Matrix<$E>, full: bool) -> Option<Svd<$E>> {
                svd(matrix, full)
            }

            fn singular_values(matrix: &Matrix<$E>) -> Option<Vec<f64>> {
                if !matrix.entries.iter().all(<$E as ComplexField>::is_finite_impl) {
                    return None;
                }
                matrix.view().singular_values().ok()
            }
        }
    )*};
}

entries! { f64 Complex64 }

/// What faer needs of a number whose real part is f64.
trait Number: ComplexField<Real = f64> + Copy {}

impl<T: ComplexField<Real = f64> + Copy> Number for T {}

fn lu<E: Number>(matrix: &Matrix<E>) -> Lu<E> {
    let lu = solvers::PartialPivLu::new(matrix.view());
    Lu { diagonal: diagonal(lu.U()), odd: is_odd(lu.P().arrays().0) }
}

fn solve<E: Number>(matrix: &Matrix<E>, right: &Matrix<E>) -> Option<Matrix<E>> {
    let lu = solvers::PartialPivLu::new(matrix.view());
    if diagonal(lu.U()).contains(&E::zero_impl()) {
        return None;
    }
    let solution: Mat<E> = lu.solve(right.view());
    Some(Matrix::of_owned(&solution))
}

fn diagonal<E: Number>(matrix: MatRef<'_, E>) -> Vec<E> {
    (0..matrix.nrows()).map(|at| matrix[(at, at)]).collect()
}

fn is_odd(order: &[usize]) -> bool {
    let mut seen = vec![false; order.len()];
    let mut odd = false;
    for start in 0..order.len() {
        // A cycle of n rows is n - 1 swaps.
        let mut at = start;
        while !std::mem::replace(&mut seen[at], true) {
            at = order[at];
            odd ^= !seen[at];
        }
    }
    odd
}

fn qr<E: Number>(matrix: &Matrix<E>, complete: bool) -> Qr<E> {
    let qr = solvers::Qr::new(matrix.view());
    if complete {
        // faer leaves out the rows of zeros of a tall matrix.
        let (upper, zero) = (qr.R(), E::zero_impl());
        let r = |row, column| if row < upper.nrows() { upper[(row, column)] } else { zero };
        Qr { q: Matrix::of_owned(&qr.compute_Q()), r: Matrix::made(matrix.rows, matrix.columns, r) }
    } else {
        Qr { q: Matrix::of_owned(&qr.compute_thin_Q()), r: Matrix::of(qr.thin_R()) }
    }
}

/// Whether the lower triangle is of finite numbers: faer's iterations do not report others.
fn is_finite_below<E: Number>(matrix: &Matrix<E>) -> bool {
    let rows = matrix.entries.chunks_exact(matrix.columns.max(1)).enumerate();
    rows.flat_map(|(row, entries)| &entries[..=row]).all(E::is_finite_impl)
}

fn eigen<E: Number>(matrix: &Matrix<E>) -> Option<Eigen<E>> {
    if !is_finite_below(matrix) {
        return None;
    }
    let size = matrix.rows;
    let (mut values, mut vectors) = (Diag::<E>::zeros(size), Mat::zeros(size, size));
    let params = evd::SelfAdjointEvdParams { recursion_threshold: LEAF, ..Auto::<E>::auto() };
    let spec = Spec::new(params);
    let scratch = evd::self_adjoint_evd_scratch::<E>(size, evd::ComputeEigenvectors::Yes, Par::Seq, spec);
    let mut memory = MemBuffer::new(scratch);
    let stack = MemStack::new(&mut memory);
    evd::self_adjoint_evd(matrix.view(), values.as_mut(), Some(vectors.as_mut()), Par::Seq, stack, spec)
        .ok()?;
    let values = values.column_vector().iter().map(E::real_part_impl).collect();
    Some(Eigen { values, vectors: Matrix::of_owned(&vectors) })
}

fn svd<E: Number>(matrix: &Matrix<E>, full: bool) -> Option<Svd<E>> {
    if !matrix.entries.iter().all(E::is_finite_impl) {
        return None;
    }
    let svd = if full { solvers::Svd::new(matrix.view()) } else { solvers::Svd::new_thin(matrix.view()) };
    let svd = svd.ok()?;
    let values = svd.S().column_vector().iter().map(E::real_part_impl).collect();
    let v = svd.V();
    let v = Matrix::made(v.ncols(), v.nrows(), |row, column| E::conj_impl(&v[(column, row)]));
    Some(Svd { u: Matrix::of(svd.U()), values, v })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Deterministic pseudo-random numbers.
    fn some(rows: usize, columns: usize, salt: usize) -> Matrix<Complex64> {
        let number =
            |n: usize| ((n * n * n * 7919 + n * n * 31 + salt * 104_729) % 1009) as f64 / 504.5 - 1.0;
        Matrix::made(rows, columns, |row, column| {
            let n = 2 * (row * columns + column);
            Complex64::new(number(n + 1), number(n + 2))
        })
    }

    fn at(matrix: &Matrix<Complex64>, row: usize, column: usize) -> Complex64 {
        matrix.entries[row * matrix.columns + column]
    }

    fn product(a: &Matrix<Complex64>, b: &Matrix<Complex64>) -> Matrix<Complex64> {
        Matrix::made(a.rows, b.columns, |row, column| {
            (0..a.columns).map(|n| at(a, row, n) * at(b, n, column)).sum()
        })
    }

    fn adjoint(a: &Matrix<Complex64>) -> Matrix<Complex64> {
        Matrix::made(a.columns, a.rows, |row, column| at(a, column, row).conj())
    }

    fn unit(size: usize) -> Matrix<Complex64> {
        Matrix::made(size, size, |row, column| f64::from(u8::from(row == column)).into())
    }

    #[track_caller]
    fn close(a: &Matrix<Complex64>, b: &Matrix<Complex64>) {
        assert_eq!((a.rows, a.columns), (b.rows, b.columns));
        for (x, y) in a.entries.iter().zip(&b.entries) {
            assert!((x - y).norm() < 1e-9, "{x} is not {y}");
        }
    }

    #[test]
    fn solutions_solve() {
        for size in [1, 5, 40] {
            let (a, b) = (some(size, size, 1), some(size, 2, 2));
            close(&product(&a, &Entry::solve(&a, &b).unwrap()), &b);
        }
    }

    #[test]
    fn a_singular_matrix_has_no_solution_and_a_zero_on_its_diagonal() {
        for size in [1, 3, 40] {
            let flat: Matrix<f64> = Matrix::made(size, size, |row, _| row as f64);
            assert!(Entry::solve(&flat, &flat).is_none());
            assert!(Entry::lu(&flat).diagonal.contains(&0.0));
        }
    }

    #[test]
    fn permutations_have_the_sign_of_their_swaps() {
        let orders: [(&[usize], bool); 4] =
            [(&[0, 1, 2], false), (&[1, 0, 2], true), (&[1, 2, 0], false), (&[3, 2, 1, 0], false)];
        for (order, odd) in orders {
            let matrix: Matrix<f64> = Matrix::made(order.len(), order.len(), |row, column| {
                f64::from(u8::from(order[row] == column))
            });
            assert_eq!(Entry::lu(&matrix).odd, odd, "{order:?}");
        }
    }

    #[test]
    fn triangles_and_reflections_multiply_to_the_matrix() {
        for (rows, columns) in [(4, 4), (5, 3), (3, 5)] {
            for complete in [false, true] {
                let a = some(rows, columns, 3);
                let Qr { q, r } = Entry::qr(&a, complete);
                close(&product(&q, &r), &a);
                close(&product(&adjoint(&q), &q), &unit(q.columns));
                assert_eq!(at(&r, 1, 0), Complex64::ZERO);
            }
        }
        let a = some(4, 4, 7);
        let mut positive = product(&a, &adjoint(&a));
        (0..4).for_each(|n| positive.entries[n * 5] += 1.0);
        let lower = Entry::cholesky(&positive).unwrap();
        close(&product(&lower, &adjoint(&lower)), &positive);
        assert_eq!(at(&lower, 0, 1), Complex64::ZERO);
        positive.entries[10] = Complex64::new(-1.0, 0.0);
        assert!(Entry::cholesky(&positive).is_none());
    }

    #[test]
    fn eigenvectors_are_only_stretched() {
        let a = some(6, 6, 4);
        let mut hermitian = product(&a, &adjoint(&a));
        let whole = hermitian.clone();
        // The upper triangle is not read.
        hermitian.entries[1] = Complex64::new(f64::NAN, 0.0);
        let Eigen { values, vectors } = Entry::eigen(&hermitian).unwrap();
        let stretched = Matrix::made(6, 6, |row, column| at(&vectors, row, column) * values[column]);
        close(&product(&whole, &vectors), &stretched);
        close(&product(&adjoint(&vectors), &vectors), &unit(6));
        assert!(values.is_sorted());
        for (one, other) in values.iter().zip(Entry::eigenvalues(&hermitian).unwrap()) {
            assert!((one - other).abs() < 1e-9);
        }
    }

    #[test]
    fn singular_vectors_and_values_multiply_to_the_matrix() {
        for (rows, columns) in [(4, 4), (6, 3), (3, 6), (1, 3), (0, 2)] {
            for full in [false, true] {
                let a = some(rows, columns, 9);
                let Svd { u, values, v } = Entry::svd(&a, full).unwrap();
                let middle = Matrix::made(u.columns, v.rows, |row, column| {
                    Complex64::from(if row == column { values[row] } else { 0.0 })
                });
                close(&product(&product(&u, &middle), &v), &a);
                close(&product(&adjoint(&u), &u), &unit(u.columns));
                close(&product(&v, &adjoint(&v)), &unit(v.rows));
                assert_eq!(Entry::singular_values(&a).unwrap().len(), values.len());
            }
        }
    }

    #[test]
    fn a_matrix_without_rank_has_orthogonal_vectors_all_the_same() {
        let flat = Matrix::made(4, 3, |row, column| Complex64::from(((row + 1) * (column + 1)) as f64));
        let Svd { u, values, .. } = Entry::svd(&flat, false).unwrap();
        assert!(values[1] < 1e-12 * values[0]);
        close(&product(&adjoint(&u), &u), &unit(3));
    }

    #[test]
    fn what_is_no_number_has_no_factors() {
        let broken: Matrix<f64> = Matrix::made(3, 3, |row, _| if row == 1 { f64::NAN } else { 1.0 });
        assert!(Entry::eigen(&broken).is_none() && Entry::eigenvalues(&broken).is_none());
        assert!(Entry::svd(&broken, false).is_none() && Entry::cholesky(&broken).is_none());
    }
}
