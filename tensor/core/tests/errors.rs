//! Errors name the operation, the shapes and types, and the remedy.

mod reference;

use std::sync::Arc;

use reference::Reference;
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::TensorError;
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::{create, elementwise, index, join, loss, matmul, reduce, shape, softmax};
use tensor_core::program::Binary;
use tensor_core::{Result, Tensor};

fn zeros(device: &Arc<dyn Device>, dtype: DType, shape: &[usize]) -> Tensor {
    create::zeros(device, dtype, shape).unwrap()
}

#[test]
fn refusals_say_what_is_wrong() {
    let device: Arc<dyn Device> = Arc::new(Reference::default());
    let other: Arc<dyn Device> = Arc::new(Reference::default());
    let f = |shape: &[usize]| zeros(&device, DType::F32, shape);
    let i = |shape: &[usize]| zeros(&device, DType::I64, shape);
    let refused: Vec<(Result<Tensor>, &str)> = vec![
        (
            matmul::matmul(&f(&[32, 784]), &f(&[256, 10])),
            "matmul: the inner sizes differ: [32, 784] @ [256, 10]; the last of the left must equal the second last of the right",
        ),
        (
            elementwise::add(&f(&[2, 3]), &f(&[4])),
            "add: [2, 3] and [4] do not broadcast: 3 and 4 at dimension 1",
        ),
        (
            elementwise::add(&f(&[2]), &zeros(&other, DType::F32, &[2])),
            "add: the tensors are on different devices",
        ),
        (
            reduce::mean(&i(&[3]), None, false),
            "mean: the mean of int64 is not int64; cast to a floating point type first",
        ),
        (
            reduce::sum(&f(&[3]), Some(&[2]), false),
            "sum: dim 2 is out of range for 1 dimensions (from -1 to 0)",
        ),
        (reduce::max(&f(&[0]), None, false), "max: [0] has no elements"),
        (shape::reshape(&f(&[2, 3]), &[4, -1]), "reshape: [2, 3] has 6 elements, which do not fill [4, -1]"),
        (shape::select(&f(&[2, 3]), 0, 2), "select: index 2 is out of bounds for dimension 0 of [2, 3]"),
        (join::cat(&[&f(&[2, 3]), &f(&[3, 2])], 0), "cat: [2, 3] and [3, 2] differ in more than dimension 0"),
        (
            index::gather(&f(&[2, 3]), 0, &f(&[2, 3])),
            "gather: an index must have an integer type, not float32",
        ),
        (softmax::softmax(&i(&[3]), 0), "softmax: it needs a floating point type, not int64"),
        (
            conv(&f(&[1, 3, 8, 8]), &f(&[4, 2, 3, 3]), None, &ConvOptions::default()),
            "conv: an input of [1, 3, 8, 8]",
        ),
        (
            loss::cross_entropy(&f(&[4, 3]), &i(&[3]), &loss::ClassOptions::default()),
            "cross_entropy: an input of [4, 3] ([n, classes, ..]) needs targets of [4], not [3]",
        ),
        (
            elementwise::binary(Binary::Shl, &f(&[1]), &f(&[1])),
            "left_shift: float32 and float32: only integers can be shifted",
        ),
        (create::full(&device, DType::F64, &[1 << 40, 1 << 40], Scalar::Int(1)), "is too large to address"),
        (
            Tensor::from_bytes(&device, DType::F32, &[3], &[0; 8]),
            "tensor: [3] of float32 takes 12 bytes, 8 were given",
        ),
    ];
    for (result, expected) in refused {
        let error = result.expect_err(expected).to_string();
        assert!(error.contains(expected), "'{error}' instead of '{expected}'");
    }
}

#[test]
fn ways_back_that_do_not_exist_are_refused() {
    let device: Arc<dyn Device> = Arc::new(Reference::default());
    let x = shape::clone(&zeros(&device, DType::F32, &[3])).unwrap();
    assert!(matches!(x.backward(None, false), Err(TensorError::State { .. })));
    assert!(zeros(&device, DType::I64, &[3]).set_requires_grad(true).is_err());
    x.set_requires_grad(true).unwrap();
    let y = elementwise::mul(&x, &x).unwrap();
    let error = y.backward(None, false).unwrap_err().to_string();
    assert!(error.contains("needs a tensor with one element, not [3]; pass gradient="), "{error}");
    let sum = reduce::sum(&y, None, false).unwrap();
    sum.backward(None, true).unwrap();
    sum.backward(None, false).unwrap();
    let error = sum.backward(None, false).unwrap_err().to_string();
    assert!(error.contains("retain_graph=True"), "{error}");
    {
        let _quiet = tensor_core::grad_mode::Guard::new(false);
        assert!(!elementwise::mul(&x, &x).unwrap().requires_grad());
    }
    assert!(elementwise::mul(&x, &x).unwrap().requires_grad());
}
