//! Steps that a device does not support run on the host, transparently.

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reference::Reference;
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::elementwise::{add, binary_scalar, mul, unary};
use tensor_core::program::{Binary, Unary};
use tensor_core::{Tensor, set_host_device};
use tensor_cpu::CpuDevice;

fn floats(bytes: &[u8]) -> Vec<f32> {
    bytes.chunks_exact(4).map(|chunk| f32::from_le_bytes(chunk.try_into().unwrap())).collect()
}

#[test]
fn complex_numbers_go_to_the_host_and_come_back() {
    set_host_device(CpuDevice::new());
    let reference = Arc::new(Reference::default());
    let device: Arc<dyn Device> = reference.clone();
    let bytes: Vec<u8> = [1.0_f32, 2.0, -3.0, 0.5].iter().flat_map(|x| x.to_le_bytes()).collect();
    let x = Tensor::from_bytes(&device, DType::F32, &[2, 2], &bytes).unwrap();
    // (2x + ix)(2x + ix) = 3x^2 + 4x^2 i.
    let doubled = binary_scalar(Binary::Mul, &x, Scalar::Float(2.0), false).unwrap();
    let number = tensor_core::ops::elementwise::binary(Binary::Complex, &doubled, &x).unwrap();
    let square = mul(&number, &number).unwrap();
    drop(number);
    let real = unary(Unary::Real, &square).unwrap();
    let imaginary = unary(Unary::Imag, &square).unwrap();
    drop(square);
    let sum = add(&real, &imaginary).unwrap();
    let expected: Vec<f32> = [1.0_f32, 2.0, -3.0, 0.5].iter().map(|x| 7.0 * x * x).collect();
    assert_eq!(floats(&sum.to_bytes().unwrap()), expected);
    // Supported steps still run on the device.
    let before = reference.launches.load(Ordering::Relaxed);
    let more = binary_scalar(Binary::Add, &sum, Scalar::Float(1.0), false).unwrap();
    assert_eq!(floats(&more.to_bytes().unwrap())[0], 8.0);
    assert_eq!(reference.launches.load(Ordering::Relaxed), before + 1);
}
