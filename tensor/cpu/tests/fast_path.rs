//! The fast path for single tensors: it gives the same results as the full plan and keeps the same tensors in memory.

use std::sync::Arc;

use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::elementwise::{add, binary, binary_scalar, mul, unary, where_};
use tensor_core::ops::shape::{broadcast_to, permute};
use tensor_core::program::{Binary, Unary};
use tensor_core::{Tensor, eval};
use tensor_cpu::CpuDevice;

fn device() -> Arc<dyn Device> {
    CpuDevice::new()
}

fn tensor(device: &Arc<dyn Device>, shape: &[usize], first: f32) -> Tensor {
    let count: usize = shape.iter().product();
    let bytes: Vec<u8> = (0..count).flat_map(|n| (first + n as f32 * 0.75).to_ne_bytes()).collect();
    Tensor::from_bytes(device, DType::F32, shape, &bytes).unwrap()
}

fn times(x: &Tensor, number: f64) -> Tensor {
    binary_scalar(Binary::Mul, x, Scalar::Float(number), false).unwrap()
}

/// Evaluates the same expression on both paths.
fn both(expression: impl Fn() -> Tensor) {
    let (short, long) = (expression(), expression());
    let other = add(&long, &long).unwrap();
    eval(std::slice::from_ref(&short)).unwrap();
    eval(&[long.clone(), other]).unwrap();
    assert!(short.is_realised());
    assert_eq!(short.to_bytes().unwrap(), long.to_bytes().unwrap());
}

#[test]
fn the_short_way_gives_what_the_long_one_gives() {
    let device = device();
    let (x, y) = (tensor(&device, &[3, 5], -2.0), tensor(&device, &[3, 5], 0.5));
    let row = tensor(&device, &[5], 1.0);
    both(|| add(&x, &y).unwrap());
    both(|| add(&x, &x).unwrap());
    both(|| times(&x, -0.0));
    both(|| times(&times(&add(&x, &row).unwrap(), 3.0), 0.5));
    both(|| {
        let shared = add(&x, &y).unwrap();
        mul(&shared, &unary(Unary::Tanh, &shared).unwrap()).unwrap()
    });
    both(|| where_(&binary(Binary::Gt, &x, &y).unwrap(), &x, &times(&y, 2.0)).unwrap());
    both(|| permute(&x, &[1, 0]).and_then(|turned| add(&turned, &turned)).unwrap());
    both(|| x.cast(DType::I32).unwrap());
    both(|| broadcast_to(&row, &[3, 5]).and_then(|wide| mul(&wide, &x)).unwrap());
    // Longer than the fast path allows.
    both(|| (0..50).fold(x.clone(), |sum, _| add(&sum, &y).unwrap()));
    // Depends on more than stored tensors.
    both(|| add(&tensor_core::ops::reduce::sum(&x, None, false).unwrap(), &y).unwrap());
}

#[test]
fn what_somebody_holds_or_waits_for_on_the_way_stays_in_memory() {
    let device = device();
    let (x, y) = (tensor(&device, &[4], 1.0), tensor(&device, &[4], 2.0));
    let held = unary(Unary::Exp, &add(&x, &y).unwrap()).unwrap();
    let end = unary(Unary::Log, &held).unwrap();
    eval(std::slice::from_ref(&end)).unwrap();
    assert!(held.is_realised());

    let (first, second) = {
        let shared = unary(Unary::Exp, &add(&x, &y).unwrap()).unwrap();
        (times(&shared, 2.0), times(&shared, 4.0))
    };
    eval(std::slice::from_ref(&first)).unwrap();
    let numbers = |tensor: &Tensor| -> Vec<f32> {
        tensor
            .to_bytes()
            .unwrap()
            .chunks(4)
            .map(|four| f32::from_ne_bytes(four.try_into().unwrap()))
            .collect()
    };
    let twice: Vec<f32> = numbers(&first).iter().map(|number| number * 2.0).collect();
    assert_eq!(numbers(&second), twice);
}

#[test]
fn what_no_type_has_is_refused_and_the_device_goes_on() {
    let device = device();
    let flags = Tensor::from_bytes(&device, DType::Bool, &[2], &[0, 1]).unwrap();
    assert!(unary(Unary::Neg, &flags).and_then(|bad| eval(&[bad])).is_err());
    let x = tensor(&device, &[4], 1.0);
    eval(&[add(&x, &x).unwrap()]).unwrap();
}
