//! Linear algebra: determinants, inverses, factorisations, eigenvalues. Computed on the host in f64, whatever the device, so
//! these operations wait for their input. Solutions, inverses and determinants have gradients; the others return an error when a
//! gradient is requested.

mod factor;
mod jacobi;
mod matrix;

use num_complex::Complex64;

use crate::dtype::DType;
use crate::error::TensorError;
use crate::layout::Shape;
use crate::ops::axes::broadcast;
use crate::ops::create::eye;
use crate::ops::elementwise::{conjugate, mul, unary};
use crate::ops::matmul::matmul;
use crate::ops::shape::{broadcast_to, to_shape, transpose};
use crate::program::Unary;
use crate::tensor::{Result, Tensor, same_device};
use factor::Lu;
use matrix::{Entry, Matrix};

/// The shape of one result for each matrix, and its type.
type Answer<'a> = (&'a [usize], DType);

/// Calls a function with each matrix of a batch and stacks the results. `$matrix` is of f64 or of Complex64.
macro_rules! each {
    ($x:expr, $answers:expr, |$matrix:ident| $body:expr) => {
        if $x.dtype() == DType::C64 {
            stacked::<Complex64>($x, $answers, |$matrix| $body)
        } else {
            stacked::<f64>($x, $answers, |$matrix| $body)
        }
    };
}

fn stacked<E: Entry>(
    x: &Tensor,
    answers: &[Answer<'_>],
    function: impl Fn(&Matrix<E>) -> Result<Vec<Vec<E>>>,
) -> Result<Vec<Tensor>> {
    let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); answers.len()];
    for matrix in matrices(x)? {
        for ((answer, entries), into) in answers.iter().zip(function(&matrix)?).zip(&mut bytes) {
            entries.into_iter().for_each(|entry| entry.write(answer.1, into));
        }
    }
    let made = |((shape, dtype), bytes): (&Answer<'_>, &Vec<u8>)| {
        let mut whole = Shape::from(&x.shape()[..x.rank() - 2]);
        whole.extend_from_slice(shape);
        Tensor::from_bytes(x.device(), *dtype, &whole, bytes)
    };
    answers.iter().zip(&bytes).map(made).collect()
}

/// Returns the matrices of a batch, in host memory.
fn matrices<E: Entry>(x: &Tensor) -> Result<impl Iterator<Item = Matrix<E>>> {
    let (rows, columns) = sides(x);
    let bytes = x.to_bytes()?;
    let (dtype, size) = (x.dtype(), x.dtype().bytes() * rows * columns);
    let count = x.shape()[..x.rank() - 2].iter().product();
    Ok((0..count).map(move |number| {
        let own = &bytes[number * size..(number + 1) * size];
        let entries = own.chunks_exact(dtype.bytes()).map(|entry| E::read(entry, dtype)).collect();
        Matrix { rows, columns, entries }
    }))
}

fn sides(x: &Tensor) -> (usize, usize) {
    (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1])
}

/// Returns an error unless `x` is a batch of matrices of a supported type.
fn matrix(operation: &'static str, x: &Tensor) -> Result<()> {
    if x.rank() < 2 {
        return Err(TensorError::shape(
            operation,
            format!("{:?} is neither a matrix nor a batch of matrices", x.shape()),
        ));
    }
    if !matches!(x.dtype(), DType::F32 | DType::F64 | DType::C64) {
        return Err(TensorError::type_of(
            operation,
            format!("it needs matrices of float32, float64 or complex64, not {}; cast first", x.dtype()),
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

fn real(dtype: DType) -> DType {
    if dtype == DType::C64 { DType::F32 } else { dtype }
}

/// Records a rule that reports that the operation has no gradient.
fn without_gradient(operation: &'static str, x: &Tensor, answers: Vec<Tensor>) -> Vec<Tensor> {
    let refuse = |answer: Tensor| {
        answer.record(operation, &[x], |_| {
            Box::new(move |_| {
                Err(TensorError::state(operation, "it has no gradient; call detach() on its input first"))
            })
        })
    };
    answers.into_iter().map(refuse).collect()
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
    fn solved<E: Entry>(operation: &'static str, a: &Tensor, b: &Tensor) -> Result<Tensor> {
        let mut bytes = Vec::new();
        for (left, right) in matrices::<E>(a)?.zip(matrices::<E>(b)?) {
            let x = Lu::new(&left).solve(&right).ok_or_else(|| singular_matrix(operation))?;
            x.entries.into_iter().for_each(|entry| entry.write(a.dtype(), &mut bytes));
        }
        Tensor::from_bytes(a.device(), a.dtype(), b.shape(), &bytes)
    }
    let x = if a.dtype() == DType::C64 {
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
    let answer = only(each!(x, &[(&[], x.dtype())], |matrix| {
        let lu = Lu::new(matrix);
        Ok(vec![vec![lu.diagonal().fold(lu.sign(), |product, entry| product * entry)]])
    })?);
    Ok(answer.record("det", &[x], |answer| {
        let x = x.saved();
        Box::new(move |g| Ok(vec![Some(times_inverse(&mul(g, &conjugate(&answer)?)?, &x)?)]))
    }))
}

/// Returns the sign of the determinant and the logarithm of its absolute value.
pub fn slogdet(x: &Tensor) -> Result<(Tensor, Tensor)> {
    square("slogdet", x)?;
    let answers = each!(x, &[(&[], x.dtype()), (&[], real(x.dtype()))], |matrix| {
        let lu = Lu::new(matrix);
        let sign = lu.diagonal().fold(lu.sign(), |sign, entry| sign * entry.direction());
        let size: f64 = lu.diagonal().map(|entry| entry.size().ln()).sum();
        let zero = size == f64::NEG_INFINITY;
        Ok(vec![vec![if zero { Entry::of(0.0) } else { sign }], vec![Entry::of(size)]])
    })?;
    let [sign, size] =
        <[Tensor; 2]>::try_from(answers).unwrap_or_else(|_| unreachable!("two results were requested"));
    let size = size.record("slogdet", &[x], |_| {
        let x = x.saved();
        Box::new(move |g| Ok(vec![Some(times_inverse(&g.cast(x.dtype())?, &x)?)]))
    });
    Ok((sign, size))
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
        let lower = factor::cholesky(matrix)
            .ok_or_else(|| TensorError::state("cholesky", "the matrix is not positive definite"))?;
        Ok(vec![lower.entries])
    })?;
    Ok(only(without_gradient("cholesky", x, answers)))
}

/// Returns orthonormal columns and an upper triangle; `complete` makes the first square.
pub fn qr(x: &Tensor, complete: bool) -> Result<(Tensor, Tensor)> {
    matrix("qr", x)?;
    let (rows, columns) = sides(x);
    let width = if complete { rows } else { rows.min(columns) };
    let answers = each!(x, &[(&[rows, width], x.dtype()), (&[width, columns], x.dtype())], |matrix| {
        let (q, mut r) = factor::qr(matrix);
        r.entries.truncate(width * columns);
        Ok(vec![q.of_columns(&(0..width).collect::<Vec<_>>()).entries, r.entries])
    })?;
    let [q, r] = <[Tensor; 2]>::try_from(without_gradient("qr", x, answers))
        .unwrap_or_else(|_| unreachable!("two results were requested"));
    Ok((q, r))
}

/// Returns the eigenvalues of Hermitian matrices in ascending order, and eigenvectors. Only the lower triangle is read.
pub fn eigh(x: &Tensor) -> Result<(Tensor, Tensor)> {
    let size = square("eigh", x)?;
    let answers = each!(x, &[(&[size], real(x.dtype())), (&[size, size], x.dtype())], |matrix| {
        let (values, vectors) = jacobi::eigen(matrix);
        Ok(vec![values.into_iter().map(Entry::of).collect(), vectors.entries])
    })?;
    let [values, vectors] = <[Tensor; 2]>::try_from(without_gradient("eigh", x, answers))
        .unwrap_or_else(|_| unreachable!("two results were requested"));
    Ok((values, vectors))
}

/// Returns `u`, singular values in descending order, and the adjoint of `v`.
pub fn svd(x: &Tensor, full: bool) -> Result<(Tensor, Tensor, Tensor)> {
    matrix("svd", x)?;
    let (rows, columns) = sides(x);
    let few = rows.min(columns);
    let (left, right) = if full { (rows, columns) } else { (few, few) };
    let answers = [(&[rows, left][..], x.dtype()), (&[few], real(x.dtype())), (&[right, columns], x.dtype())];
    let answers = each!(x, &answers, |matrix| {
        let (u, values, v) = jacobi::singular(matrix, full);
        Ok(vec![u.entries, values.into_iter().map(Entry::of).collect(), v.entries])
    })?;
    let [u, values, v] = <[Tensor; 3]>::try_from(without_gradient("svd", x, answers))
        .unwrap_or_else(|_| unreachable!("three results were requested"));
    Ok((u, values, v))
}
