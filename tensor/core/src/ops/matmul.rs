//! Matrix products, and general contractions over shared axes.

use std::sync::atomic::{AtomicU8, Ordering};

use crate::dtype::DType;
use crate::error::TensorError;
use crate::layout::Shape;
use crate::node::Op;
use crate::ops::axes::{Axes, broadcast};
use crate::ops::elementwise::{add, cast, conjugate};
use crate::ops::shape::{broadcast_to, permuted, to_shape};
use crate::step::{Accumulation, Convolution};
use crate::tensor::{Result, Tensor, same_device};

/// The order of additions in products.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum Precision {
    /// Half types in the fastest order of the device, which may use matrix instructions. All others in one fixed order, with the
    /// same bits on every device.
    #[default]
    Mixed,
    /// All types in the fixed order.
    Ordered,
    /// All types in the fastest order.
    Fast,
}

static PRECISION: AtomicU8 = AtomicU8::new(Precision::Mixed as u8);

/// Sets the order of additions of the products that are recorded from now on.
pub fn set_precision(precision: Precision) {
    PRECISION.store(precision as u8, Ordering::Relaxed);
}

/// The order of additions of products.
pub fn precision() -> Precision {
    let now = PRECISION.load(Ordering::Relaxed);
    [Precision::Ordered, Precision::Fast].into_iter().find(|it| *it as u8 == now).unwrap_or_default()
}

impl Precision {
    /// How products of a type are added.
    pub(crate) fn accumulation(self, dtype: DType) -> Accumulation {
        let half = matches!(dtype, DType::F16 | DType::BF16);
        match self {
            Precision::Mixed if half => Accumulation::Fast,
            Precision::Mixed | Precision::Ordered => Accumulation::Ordered,
            Precision::Fast => Accumulation::Fast,
        }
    }
}

/// Matrix product by PyTorch's rules: vectors, matrices, and batches of matrices that broadcast.
pub fn matmul(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    same_device("matmul", a, b)?;
    if a.rank() == 0 || b.rank() == 0 {
        return Err(TensorError::shape(
            "matmul",
            format!(
                "both sides need dimensions: {:?} @ {:?}; multiply by a number with *",
                a.shape(),
                b.shape()
            ),
        ));
    }
    let (a, b) = promoted("matmul", a, b)?;
    let inner = |x: &Tensor, back: usize| x.shape()[x.rank() - back.min(x.rank())];
    if inner(&a, 1) != inner(&b, 2) {
        return Err(TensorError::shape(
            "matmul",
            format!(
                "the inner sizes differ: {:?} @ {:?}; the last of the left must equal the second last of the right",
                a.shape(),
                b.shape()
            ),
        ));
    }
    if b.rank() == 1 {
        return contract(&a, &b, Counts { batch: 0, rows: a.rank() - 1, columns: 0, depth: 1 });
    }
    let mut order: Axes = (0..b.rank()).collect();
    order.swap(b.rank() - 1, b.rank() - 2);
    let right = permuted(&b, &order);
    if b.rank() == 2 {
        return contract(&a, &right, Counts { batch: 0, rows: a.rank() - 1, columns: 1, depth: 1 });
    }
    let rows = usize::from(a.rank() > 1);
    let batch = broadcast("matmul", &a.shape()[..a.rank() - 1 - rows], &b.shape()[..b.rank() - 2])?;
    let with = |x: &Tensor, own: usize| {
        let mut shape = batch.clone();
        shape.extend_from_slice(&x.shape()[x.rank() - own..]);
        broadcast_to(x, &shape)
    };
    let counts = Counts { batch: batch.len(), rows, columns: 1, depth: 1 };
    contract(&with(&a, rows + 1)?, &with(&right, 2)?, counts)
}

/// Batched matrix product: `[b, m, k] @ [b, k, n]`.
pub fn bmm(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    if a.rank() != 3 || b.rank() != 3 || a.shape()[0] != b.shape()[0] {
        return Err(TensorError::shape(
            "bmm",
            format!(
                "both sides must be [batch, rows, columns] with one batch: {:?} @ {:?}",
                a.shape(),
                b.shape()
            ),
        ));
    }
    matmul(a, b)
}

/// `x @ weight.T + bias`, with a weight of `[out, in]`.
pub fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    same_device("linear", x, weight)?;
    if weight.rank() != 2 || x.rank() == 0 || x.shape()[x.rank() - 1] != weight.shape()[1] {
        return Err(TensorError::shape(
            "linear",
            format!(
                "the last size of the input {:?} must be the second of the weight {:?} ([out, in])",
                x.shape(),
                weight.shape()
            ),
        ));
    }
    let (x, weight) = promoted("linear", x, weight)?;
    let product = contract(&x, &weight, Counts { batch: 0, rows: x.rank() - 1, columns: 1, depth: 1 })?;
    match bias {
        Some(bias) => add(&product, bias),
        None => Ok(product),
    }
}

/// The number of axes of each sort in a contraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Counts {
    /// Axes of both operands and of the result.
    pub batch: usize,
    /// Axes of the first operand and of the result.
    pub rows: usize,
    /// Axes of the second operand and of the result.
    pub columns: usize,
    /// Axes of both operands that are summed over.
    pub depth: usize,
}

/// `out[b.., m.., n..] = sum over k.. of left[b.., m.., k..] * right[b.., n.., k..]`, of one type.
pub fn contract(left: &Tensor, right: &Tensor, counts: Counts) -> Result<Tensor> {
    contract_as(left, right, counts, None)
}

/// Like [`contract`], of operands that are those of a convolution.
pub(crate) fn contract_as(
    left: &Tensor,
    right: &Tensor,
    counts: Counts,
    convolution: Option<Convolution>,
) -> Result<Tensor> {
    let Counts { batch, rows, columns, depth } = counts;
    let agree = left.rank() == batch + rows + depth
        && right.rank() == batch + columns + depth
        && left.shape()[..batch] == right.shape()[..batch]
        && left.shape()[batch + rows..] == right.shape()[batch + columns..];
    if !agree {
        return Err(TensorError::shape(
            "contract",
            format!(
                "{:?} and {:?} do not agree in batch and depth for {counts:?}",
                left.shape(),
                right.shape()
            ),
        ));
    }
    let (left, right) = promoted("contract", left, right)?;
    let mut shape = Shape::from(&left.shape()[..batch + rows]);
    shape.extend_from_slice(&right.shape()[batch..batch + columns]);
    let accumulation = precision().accumulation(left.dtype());
    let convolution = convolution.map(Box::new);
    let op = Op::Contract { batch, rows, columns, depth, accumulation, convolution };
    let product = Tensor::make(op, &[&left, &right], shape, left.dtype());
    Ok(product.record("contract", &[&left, &right], |_| {
        let (left, right) = (left.saved(), right.saved());
        Box::new(move |g| {
            let of_left = {
                // [b, m, n] with [b, k, n].
                let right = conjugate(&permuted(&right, &swapped(batch, columns, depth)))?;
                contract(g, &right, Counts { batch, rows, columns: depth, depth: columns })?
            };
            let of_right = {
                // [b, n, m] with [b, k, m].
                let g = permuted(g, &swapped(batch, rows, columns));
                let left = conjugate(&permuted(&left, &swapped(batch, rows, depth)))?;
                contract(&g, &left, Counts { batch, rows: columns, columns: depth, depth: rows })?
            };
            Ok(vec![Some(of_left), Some(of_right)])
        })
    }))
}

/// Returns the axis order that swaps two runs of axes after the batch.
fn swapped(batch: usize, first: usize, second: usize) -> Axes {
    (0..batch).chain(batch + first..batch + first + second).chain(batch..batch + first).collect()
}

fn promoted(operation: &'static str, a: &Tensor, b: &Tensor) -> Result<(Tensor, Tensor)> {
    same_device(operation, a, b)?;
    let dtype = a.dtype().promote(b.dtype());
    if dtype == DType::Bool {
        return Err(TensorError::type_of(
            operation,
            "matrix products of bools are not defined; cast to a number type first",
        ));
    }
    Ok((cast(a, dtype)?, cast(b, dtype)?))
}

/// The outer product of two vectors.
pub fn outer(a: &Tensor, b: &Tensor) -> Result<Tensor> {
    let column = to_shape(a, &[a.elements(), 1])?;
    crate::ops::elementwise::mul(&column, &to_shape(b, &[b.elements()])?)
}
