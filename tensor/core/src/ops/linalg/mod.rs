//! Linear algebra: determinants, inverses, factorisations, eigenvalues. Computed on the host in f64, whatever the device, so
//! these operations wait for their input.

mod batch;
mod gradient;

use num_complex::Complex64;
use tensor_linalg::{Eigen, Entry, Matrix, Qr, Svd};

use crate::dtype::DType;
use crate::error::TensorError;
use crate::layout::Shape;
use crate::numbers::Number;
use crate::ops::axes::broadcast;
use crate::ops::create::eye;
use crate::ops::elementwise::{conjugate, mul, unary};
use crate::ops::matmul::matmul;
use crate::ops::shape::{broadcast_to, to_shape, transpose};
use crate::program::Unary;
use crate::tensor::{Result, Tensor, same_device};
use batch::{Numbers, matrices, sides, stacked};

/// Calls a function with each matrix of a batch and stacks the results. `$matrix` is of f64 or of Complex64.
macro_rules! each {
    ($x:expr, $answers:expr, |$matrix:ident| $body:expr) => {
        if $x.dtype().is_complex() {
            stacked::<Complex64>($x, $answers, |$matrix| $body)
        } else {
            stacked::<f64>($x, $answers, |$matrix| $body)
        }
    };
}

/// Returns an error unless `x` is a batch of matrices of a supported type.
fn matrix(operation: &'static str, x: &Tensor) -> Result<()> {
    if x.rank() < 2 {
        return Err(TensorError::shape(
            operation,
            format!("{:?} is neither a matrix nor a batch of matrices", x.shape()),
        ));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64 | DType::C64 | DType::C128) {
        return Err(TensorError::type_of(
            operation,
            format!(
                "it needs matrices of float32, float64, complex64 or complex128, not {}; cast first",
                x.dtype()
            ),
        ));
    }
    Ok(())
}

fn square(operation: &'static str, x: &Tensor) -> Result<usize> {
    matrix(operation, x)?;
    let (rows, columns) = sides(x);
    if rows != columns {
        return Err(TensorError::shape(operation, format!("the matrices of {:?} are not square", x.shape())));
    }
    Ok(rows)
}

fn singular_matrix(operation: &'static str) -> TensorError {
    TensorError::state(operation, "the matrix is singular")
}

fn without_end(operation: &'static str) -> TensorError {
    TensorError::state(
        operation,
        "the computation does not converge; a matrix has entries that are infinite or not a number",
    )
}

/// Records the rule of one of several results. The rule gets the matrix and the results: as they are, or computed again if their
/// own gradients are needed.
fn remembered<R: Clone + Send + Sync + 'static>(
    operation: &'static str,
    x: &Tensor,
    answer: Tensor,
    results: &R,
    compute: fn(&Tensor) -> Result<R>,
    rule: impl Fn(&R, &Tensor) -> Result<Tensor> + Send + Sync + 'static,
) -> Tensor {
    answer.record(operation, &[x], |_| {
        let (x, results) = (x.saved(), results.clone());
        Box::new(move |g| {
            let again = crate::grad_mode::is_enabled() && x.requires_grad();
            let results = if again { compute(&x)? } else { results.clone() };
            Ok(vec![Some(rule(&results, g)?)])
        })
    })
}

fn only(mut answers: Vec<Tensor>) -> Tensor {
    answers.swap_remove(0)
}

/// Solves `a @ x = b` for `x`, for batches that broadcast; the last two axes of `b` are a matrix of right-hand sides.
pub fn solve(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let size = square("solve", a)?;
    matrix("solve", b)?;
    same_device("solve", a, b)?;
    if b.shape()[b.rank() - 2] != size {
        return Err(TensorError::shape(
            "solve",
            format!(
                "{:?} and {:?}: the right-hand side and the matrix must have equally many rows",
                a.shape(),
                b.shape()
            ),
        ));
    }
    let dtype = a.dtype().promote(b.dtype());
    let stack = broadcast("solve", &a.shape()[..a.rank() - 2], &b.shape()[..b.rank() - 2])?;
    let with = |x: &Tensor| {
        let mut shape = stack.clone();
        shape.extend_from_slice(&x.shape()[x.rank() - 2..]);
        broadcast_to(&x.cast(dtype)?, &shape)
    };
    solution("solve", &with(a)?, &with(b)?)
}

/// Solves batches of one shape and type.
fn solution(operation: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
    fn solved<E: Number>(operation: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let mut bytes = Vec::new();
        for (left, right) in matrices::<E>(a)?.zip(matrices::<E>(b)?) {
            let x = E::solve(&left, &right).ok_or_else(|| singular_matrix(operation))?;
            E::write(&x.entries, a.dtype(), &mut bytes);
        }
        Tensor::from_bytes(a.device(), a.dtype(), b.shape(), &bytes)
    }
    let x = if a.dtype().is_complex() {
        solved::<Complex64>(operation, a, b)?
    } else {
        solved::<f64>(operation, a, b)?
    };
    Ok(x.record(operation, &[a, b], |x| {
        let a = a.saved();
        Box::new(move |g| {
            let of_b = solution(operation, &adjoint(&a)?, g)?;
            let of_a = unary(Unary::Neg, &matmul(&of_b, &adjoint(&x)?)?)?;
            Ok(vec![Some(of_a), Some(of_b)])
        })
    }))
}

/// The conjugate transpose of each matrix.
fn adjoint(x: &Tensor) -> Result<Tensor> {
    conjugate(&transpose(x, -2, -1)?)
}

/// The inverse of square matrices.
pub fn inv(x: &Tensor) -> Result<Tensor> {
    let size = square("inv", x)?;
    let unit = eye(x.device(), x.dtype(), size, size)?;
    solution("inv", x, &broadcast_to(&unit, x.shape())?)
}

/// The determinants of square matrices.
pub fn det(x: &Tensor) -> Result<Tensor> {
    square("det", x)?;
    let answer =
        only(each!(x, &[(&[], x.dtype())], |matrix| { Ok(vec![Numbers::Own(vec![determinant(matrix)])]) })?);
    Ok(answer.record("det", &[x], |answer| {
        let x = x.saved();
        Box::new(move |g| Ok(vec![Some(times_inverse(&mul(g, &conjugate(&answer)?)?, &x)?)]))
    }))
}

/// Returns the sign of the determinant and the logarithm of its absolute value.
pub fn slogdet(x: &Tensor) -> Result<(Tensor, Tensor)> {
    square("slogdet", x)?;
    let answers = each!(x, &[(&[], x.dtype()), (&[], x.dtype().part())], |matrix| {
        let (sign, size) = sign_and_logarithm(matrix);
        Ok(vec![Numbers::Own(vec![sign]), Numbers::Real(vec![size])])
    })?;
    let [sign, size] =
        <[Tensor; 2]>::try_from(answers).unwrap_or_else(|_| unreachable!("two results were requested"));
    let size = size.record("slogdet", &[x], |_| {
        let x = x.saved();
        Box::new(move |g| Ok(vec![Some(times_inverse(&g.cast(x.dtype())?, &x)?)]))
    });
    Ok((sign, size))
}

/// The determinant of a matrix.
fn determinant<E: Number>(matrix: &Matrix<E>) -> E {
    let lu = E::lu(matrix);
    let sign = if lu.odd { -1.0 } else { 1.0 };
    if lu.diagonal.iter().any(|entry| entry.size() == 0.0) {
        return E::from(0.0);
    }
    lu.diagonal.iter().fold(E::from(sign), |product, &entry| product * entry)
}

/// The sign of a determinant, and the logarithm of its absolute value.
fn sign_and_logarithm<E: Number>(matrix: &Matrix<E>) -> (E, f64) {
    let lu = E::lu(matrix);
    if lu.diagonal.iter().any(|entry| entry.size() == 0.0) {
        return (E::from(0.0), f64::NEG_INFINITY);
    }
    let sign = E::from(if lu.odd { -1.0 } else { 1.0 });
    let sign = lu.diagonal.iter().fold(sign, |sign, &entry| sign * (entry / E::from(entry.size())));
    (sign, lu.diagonal.iter().map(|entry| entry.size().ln()).sum())
}

/// Multiplies a number for each matrix by the adjoint of the matrix's inverse.
fn times_inverse(g: &Tensor, x: &Tensor) -> Result<Tensor> {
    let mut shape = Shape::from(g.shape());
    shape.extend([1, 1]);
    mul(&to_shape(g, &shape)?, &adjoint(&inv(x)?)?)
}

/// Returns the lower Cholesky factor.
pub fn cholesky(x: &Tensor) -> Result<Tensor> {
    let size = square("cholesky", x)?;
    let answers = each!(x, &[(&[size, size], x.dtype())], |matrix| {
        let lower = Entry::cholesky(matrix)
            .ok_or_else(|| TensorError::state("cholesky", "the matrix is not positive definite"))?;
        Ok(vec![Numbers::Own(lower.entries)])
    })?;
    Ok(only(answers)
        .record("cholesky", &[x], |lower| Box::new(move |g| Ok(vec![Some(gradient::cholesky(&lower, g)?)]))))
}

/// Returns orthonormal columns and an upper triangle; `complete` makes the first square.
pub fn qr(x: &Tensor, complete: bool) -> Result<(Tensor, Tensor)> {
    matrix("qr", x)?;
    let (rows, columns) = sides(x);
    let width = if complete { rows } else { rows.min(columns) };
    let answers = each!(x, &[(&[rows, width], x.dtype()), (&[width, columns], x.dtype())], |matrix| {
        let Qr { q, r } = Entry::qr(matrix, complete);
        Ok(vec![Numbers::Own(q.entries), Numbers::Own(r.entries)])
    })?;
    let [q, r] =
        <[Tensor; 2]>::try_from(answers).unwrap_or_else(|_| unreachable!("two results were requested"));
    if complete && rows > columns {
        let refuse = |answer: Tensor| {
            answer.record("qr", &[x], |_| {
                Box::new(|_| {
                    Err(TensorError::state(
                        "qr",
                        "a complete factorisation of a tall matrix has no gradient; use the reduced one",
                    ))
                })
            })
        };
        return Ok((refuse(q), refuse(r)));
    }
    let results = gradient::Qr { matrix: x.snapshot(), q: q.snapshot(), r: r.snapshot() };
    let again = |x: &Tensor| -> Result<gradient::Qr> {
        let (q, r) = qr(x, false)?;
        Ok(gradient::Qr { matrix: x.clone(), q, r })
    };
    Ok((
        remembered("qr", x, q, &results, again, |it, g| it.of_q(g)),
        remembered("qr", x, r, &results, again, |it, g| it.of_r(g)),
    ))
}

/// Returns the eigenvalues of Hermitian matrices in ascending order, and eigenvectors. Only the lower triangle is read.
pub fn eigh(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let size = square("eigh", x)?;
    let answers = each!(x, &[(&[size], x.dtype().part()), (&[size, size], x.dtype())], |matrix| {
        let Eigen { values, vectors } = Entry::eigen(matrix).ok_or_else(|| without_end("eigh"))?;
        Ok(vec![Numbers::Real(values), Numbers::Own(vectors.entries)])
    })?;
    let [values, vectors] =
        <[Tensor; 2]>::try_from(answers).unwrap_or_else(|_| unreachable!("two results were requested"));
    let results = (values.snapshot(), vectors.snapshot());
    Ok((
        remembered("eigh", x, values, &results, eigh, |(_, vectors), g| gradient::eigenvalues(vectors, g)),
        remembered("eigh", x, vectors, &results, eigh, |(values, vectors), g| {
            gradient::eigenvectors(values, vectors, g)
        }),
    ))
}

/// Returns the eigenvalues alone, in less time if no gradient is needed.
pub fn eigvalsh(x: &Tensor) -> Result<Tensor> {
    if crate::grad_mode::is_enabled() && x.requires_grad() {
        return Ok(eigh(x)?.0);
    }
    let size = square("eigvalsh", x)?;
    let answers = each!(x, &[(&[size], x.dtype().part())], |matrix| {
        Ok(vec![Numbers::Real(Entry::eigenvalues(matrix).ok_or_else(|| without_end("eigvalsh"))?)])
    })?;
    Ok(only(answers))
}

/// Returns the singular values alone, in less time if no gradient is needed.
pub fn svdvals(x: &Tensor) -> Result<Tensor> {
    if crate::grad_mode::is_enabled() && x.requires_grad() {
        return Ok(svd(x, false)?.1);
    }
    matrix("svdvals", x)?;
    let (rows, columns) = sides(x);
    let answers = each!(x, &[(&[rows.min(columns)], x.dtype().part())], |matrix| {
        Ok(vec![Numbers::Real(Entry::singular_values(matrix).ok_or_else(|| without_end("svdvals"))?)])
    })?;
    Ok(only(answers))
}

/// Returns `u`, singular values in descending order, and the adjoint of `v`.
pub fn svd(x: &Tensor, full: bool) -> Result<(Tensor, Tensor, Tensor)> {
    matrix("svd", x)?;
    let (rows, columns) = sides(x);
    let few = rows.min(columns);
    let (left, right) = if full { (rows, columns) } else { (few, few) };
    let answers =
        [(&[rows, left][..], x.dtype()), (&[few], x.dtype().part()), (&[right, columns], x.dtype())];
    let answers = each!(x, &answers, |matrix| {
        let Svd { u, values, v } = Entry::svd(matrix, full).ok_or_else(|| without_end("svd"))?;
        Ok(vec![Numbers::Own(u.entries), Numbers::Real(values), Numbers::Own(v.entries)])
    })?;
    let [u, values, v] =
        <[Tensor; 3]>::try_from(answers).unwrap_or_else(|_| unreachable!("three results were requested"));
    // Vectors beyond the number of singular values have no gradient.
    let head = |u: &Tensor| gradient::first(u, -1, few);
    let top = move |v: &Tensor| gradient::first(v, -2, few);
    let results = gradient::Svd { u: head(&u.snapshot()), values: values.snapshot(), v: top(&v.snapshot()) };
    let again = |x: &Tensor| -> Result<gradient::Svd> {
        let (u, values, v) = svd(x, false)?;
        Ok(gradient::Svd { u, values, v })
    };
    Ok((
        remembered("svd", x, u, &results, again, move |it, g| it.of_u(&gradient::first(g, -1, few))),
        remembered("svd", x, values, &results, again, |it, g| it.of_values(g)),
        remembered("svd", x, v, &results, again, move |it, g| it.of_v(&top(g))),
    ))
}
