//! Batches of matrices: from a tensor to host memory, one by one through a function, and the results back.

use tensor_linalg::Matrix;

use crate::dtype::DType;
use crate::layout::Shape;
use crate::numbers::Number;
use crate::tensor::{Result, Tensor};

/// The shape of one result for each matrix, and its type.
pub(super) type Answer<'a> = (&'a [usize], DType);

/// One result for one matrix: numbers in row-major order.
pub(super) enum Numbers<E> {
    Own(Vec<E>),
    Real(Vec<f64>),
}

/// Calls a function with each matrix of a batch and stacks the results.
pub(super) fn stacked<E: Number>(
    x: &Tensor,
    answers: &[Answer<'_>],
    function: impl Fn(&Matrix<E>) -> Result<Vec<Numbers<E>>>,
) -> Result<Vec<Tensor>> {
    let mut bytes: Vec<Vec<u8>> = vec![Vec::new(); answers.len()];
    for matrix in matrices(x)? {
        for ((answer, numbers), into) in answers.iter().zip(function(&matrix)?).zip(&mut bytes) {
            match numbers {
                Numbers::Own(numbers) => E::write(&numbers, answer.1, into),
                Numbers::Real(numbers) => f64::write(&numbers, answer.1, into),
            }
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
pub(super) fn matrices<E: Number>(x: &Tensor) -> Result<impl Iterator<Item = Matrix<E>>> {
    let (rows, columns) = sides(x);
    let bytes = x.to_bytes()?;
    let dtype = x.dtype();
    let size = dtype.bytes() * rows * columns;
    let count: usize = x.shape()[..x.rank() - 2].iter().product();
    Ok((0..count).map(move |number| {
        let own = &bytes[number * size..(number + 1) * size];
        Matrix { rows, columns, entries: E::read(own, dtype) }
    }))
}

/// The lengths of the last two axes.
pub(super) fn sides(x: &Tensor) -> (usize, usize) {
    (x.shape()[x.rank() - 2], x.shape()[x.rank() - 1])
}
