//! Gradients of factorisations: those of Cholesky, QR, eigenvalues and singular values.
//!
//! Each function maps the gradient of one result to that of the matrix; the gradients of several results add up. Eigenvectors and
//! singular vectors have gradients where the values differ, for functions that do not depend on the signs or phases of vectors.

use crate::dtype::Scalar;
use crate::layout::Shape;
use crate::ops::create::eye;
use crate::ops::elementwise::{add, cast, div, mul, scaled, sub};
use crate::ops::index::{tril, triu};
use crate::ops::matmul::matmul;
use crate::ops::shape::{broadcast_to, sliced, unsqueeze};
use crate::tensor::{Result, Tensor};

use super::{adjoint, solution};

/// `g` of the lower factor `l`.
pub(super) fn cholesky(l: &Tensor, g: &Tensor) -> Result<Tensor> {
    let lower = matmul(&adjoint(l)?, g)?;
    let both = add(&tril(&lower, 0)?, &adjoint(&tril(&lower, -1)?)?)?;
    // inv(l)^H @ both @ inv(l)
    let left = solution("cholesky", &adjoint(l)?, &both)?;
    scaled(&right_of_inverse("cholesky", &left, l)?, 0.5)
}

/// `b @ inv(a)`.
fn right_of_inverse(operation: &'static str, b: &Tensor, a: &Tensor) -> Result<Tensor> {
    adjoint(&solution(operation, &adjoint(a)?, &adjoint(b)?)?)
}

/// The results of a QR factorisation of a matrix.
#[derive(Clone)]
pub(super) struct Qr {
    pub matrix: Tensor,
    pub q: Tensor,
    pub r: Tensor,
}

impl Qr {
    /// `g` of `q`.
    pub fn of_q(&self, g: &Tensor) -> Result<Tensor> {
        let level = scaled(&matmul(&adjoint(&self.q)?, g)?, -1.0)?;
        let first = self.square(&level, Some(g))?;
        self.with_rest(first, None)
    }

    /// `g` of `r`.
    pub fn of_r(&self, g: &Tensor) -> Result<Tensor> {
        let few = self.q.shape()[self.q.rank() - 1];
        let columns = self.r.shape()[self.r.rank() - 1];
        let head = |x: &Tensor| sliced(x, x.rank() - 1, 0, few, 1);
        let tail = |x: &Tensor| sliced(x, x.rank() - 1, few, columns - few, 1);
        let level = matmul(&head(g), &adjoint(&head(&self.r))?)?;
        if columns == few {
            return self.square(&level, None);
        }
        // The columns beyond a square are q^H @ matrix.
        let of_q = matmul(&tail(&self.matrix), &adjoint(&tail(g))?)?;
        let level = sub(&level, &matmul(&adjoint(&self.q)?, &of_q)?)?;
        let first = self.square(&level, Some(&of_q))?;
        self.with_rest(first, Some(&matmul(&self.q, &tail(g))?))
    }

    /// The gradient of the first columns, of which the upper triangle is a square: `(of_q + q @ both) @ inv(r)^H`, where `both` is
    /// the upper triangle of `level` and its adjoint.
    fn square(&self, level: &Tensor, of_q: Option<&Tensor>) -> Result<Tensor> {
        let few = self.q.shape()[self.q.rank() - 1];
        let upper = triu(level, 0)?;
        let both = add(&upper, &adjoint(&triu(level, 1)?)?)?;
        let both = if level.dtype().is_complex() { with_real_diagonal(&both)? } else { both };
        let mut sum = matmul(&self.q, &both)?;
        if let Some(of_q) = of_q {
            sum = add(&sum, of_q)?;
        }
        let r = sliced(&self.r, self.r.rank() - 1, 0, few, 1);
        right_of_inverse("qr", &sum, &adjoint(&r)?)
    }

    /// Appends the gradient of the other columns.
    fn with_rest(&self, first: Tensor, rest: Option<&Tensor>) -> Result<Tensor> {
        let missing = self.matrix.shape()[self.matrix.rank() - 1] - first.shape()[first.rank() - 1];
        if missing == 0 {
            return Ok(first);
        }
        let mut shape = Shape::from(first.shape());
        shape[first.rank() - 1] = missing;
        let zeros = Tensor::constant(first.device(), Scalar::Int(0), &shape, first.dtype());
        crate::ops::join::cat(&[&first, rest.unwrap_or(&zeros)], -1)
    }
}

/// The matrix with the real parts of its diagonal.
fn with_real_diagonal(x: &Tensor) -> Result<Tensor> {
    scaled(&add(x, &adjoint(x)?)?, 0.5)
}

/// `g` of the eigenvalues of Hermitian matrices with these eigenvectors.
pub(super) fn eigenvalues(vectors: &Tensor, g: &Tensor) -> Result<Tensor> {
    let g = unsqueeze(&cast(g, vectors.dtype())?, -2)?;
    matmul(&mul(vectors, &g)?, &adjoint(vectors)?)
}

/// `g` of the eigenvectors.
pub(super) fn eigenvectors(values: &Tensor, vectors: &Tensor, g: &Tensor) -> Result<Tensor> {
    let inner = matmul(&adjoint(vectors)?, g)?;
    let skew = scaled(&sub(&inner, &adjoint(&inner)?)?, 0.5)?;
    let inner = div(&skew, &cast(&differences(values)?, skew.dtype())?)?;
    matmul(&matmul(vectors, &off_diagonal(&inner)?)?, &adjoint(vectors)?)
}

/// `values[j] - values[i]`, and one on the diagonal.
fn differences(values: &Tensor) -> Result<Tensor> {
    let apart = sub(&unsqueeze(values, -2)?, &unsqueeze(values, -1)?)?;
    add(&apart, &unit(&apart)?)
}

/// The unit matrix in the shape and type of square matrices.
fn unit(like: &Tensor) -> Result<Tensor> {
    let size = like.shape()[like.rank() - 1];
    broadcast_to(&eye(like.device(), like.dtype(), size, size)?, like.shape())
}

fn off_diagonal(x: &Tensor) -> Result<Tensor> {
    sub(x, &mul(x, &unit(x)?)?)
}

/// The results of a reduced singular value decomposition.
#[derive(Clone)]
pub(super) struct Svd {
    pub u: Tensor,
    pub values: Tensor,
    /// The adjoint of the right singular vectors.
    pub v: Tensor,
}

impl Svd {
    /// `g` of `u`.
    pub fn of_u(&self, g: &Tensor) -> Result<Tensor> {
        let (values, dtype) = (cast(&self.values, g.dtype())?, g.dtype());
        let inner = matmul(&adjoint(&self.u)?, g)?;
        let skew = sub(&inner, &adjoint(&inner)?)?;
        let apart = cast(&differences(&mul(&self.values, &self.values)?)?, dtype)?;
        let mut core = mul(&off_diagonal(&div(&skew, &apart)?)?, &unsqueeze(&values, -2)?)?;
        if dtype.is_complex() {
            // The phases of both vectors of a pair change together.
            let diagonal = mul(&skew, &unit(&skew)?)?;
            core = add(&core, &div(&scaled(&diagonal, 0.5)?, &unsqueeze(&values, -2)?)?)?;
        }
        let mut left = matmul(&self.u, &core)?;
        let (rows, few) = (self.u.shape()[self.u.rank() - 2], self.u.shape()[self.u.rank() - 1]);
        if rows > few {
            let outside = div(g, &unsqueeze(&values, -2)?)?;
            let inside = matmul(&self.u, &matmul(&adjoint(&self.u)?, &outside)?)?;
            left = add(&left, &sub(&outside, &inside)?)?;
        }
        matmul(&left, &self.v)
    }

    /// `g` of the singular values.
    pub fn of_values(&self, g: &Tensor) -> Result<Tensor> {
        let g = unsqueeze(&cast(g, self.u.dtype())?, -2)?;
        matmul(&mul(&self.u, &g)?, &self.v)
    }

    /// `g` of `v`.
    pub fn of_v(&self, g: &Tensor) -> Result<Tensor> {
        let values = cast(&self.values, g.dtype())?;
        let inner = matmul(&self.v, &adjoint(g)?)?;
        let skew = sub(&inner, &adjoint(&inner)?)?;
        let apart = cast(&differences(&mul(&self.values, &self.values)?)?, g.dtype())?;
        let core = mul(&unsqueeze(&values, -1)?, &off_diagonal(&div(&skew, &apart)?)?)?;
        let mut right = matmul(&core, &self.v)?;
        let (few, columns) = (self.v.shape()[self.v.rank() - 2], self.v.shape()[self.v.rank() - 1]);
        if columns > few {
            let outside = div(g, &unsqueeze(&values, -1)?)?;
            let inside = matmul(&matmul(&outside, &adjoint(&self.v)?)?, &self.v)?;
            right = add(&right, &sub(&outside, &inside)?)?;
        }
        matmul(&self.u, &right)
    }
}

/// The first `count` rows or columns of matrices: `axis` is -2 or -1.
pub(super) fn first(x: &Tensor, axis: isize, count: usize) -> Tensor {
    sliced(x, (x.rank() as isize + axis) as usize, 0, count, 1)
}
