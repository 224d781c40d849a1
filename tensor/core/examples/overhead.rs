//! Measures the host-side cost of the graph, without a device: nanoseconds to create a node, microseconds to plan a training
//! step.
//! `cargo run --release -p tensor-core --example overhead`

use std::any::Any;
use std::sync::Arc;
use std::time::Instant;

use tensor_core::device::{Buffer, Device, DeviceInfo, Memory};
use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::ops::elementwise::{add, binary_scalar, sub};
use tensor_core::ops::loss::{ClassOptions, cross_entropy};
use tensor_core::ops::{activation, matmul};
use tensor_core::program::Binary;
use tensor_core::step::{Step, Work};
use tensor_core::{Tensor, eval};

/// A device that executes nothing and returns at once.
#[derive(Debug)]
struct Idle;

#[derive(Debug)]
struct Nothing(usize);

impl Memory for Nothing {
    fn bytes(&self) -> usize {
        self.0
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl Device for Idle {
    fn name(&self) -> &str {
        "idle"
    }
    fn info(&self) -> Result<DeviceInfo, DeviceError> {
        Ok(DeviceInfo::default())
    }
    fn allocate(&self, bytes: usize) -> Result<Buffer, DeviceError> {
        Ok(Arc::new(Nothing(bytes)))
    }
    fn upload(&self, _: &Buffer, _: usize, _: &[u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn download(&self, _: &Buffer, _: usize, _: &mut [u8]) -> Result<(), DeviceError> {
        Ok(())
    }
    fn run(&self, steps: &[Step]) -> Result<(), DeviceError> {
        std::hint::black_box(steps);
        Ok(())
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn supports(&self, _: &Work, _: &[DType]) -> bool {
        true
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn tensor(device: &Arc<dyn Device>, shape: &[usize]) -> Tensor {
    let count: usize = shape.iter().product();
    Tensor::from_bytes(device, DType::F32, shape, &vec![0; count * 4]).unwrap()
}

/// Returns the shortest of several rounds, in seconds.
fn best(rounds: usize, mut round: impl FnMut()) -> f64 {
    let timed = |_| {
        let start = Instant::now();
        round();
        start.elapsed().as_secs_f64()
    };
    (0..rounds).map(timed).fold(f64::INFINITY, f64::min)
}

fn main() {
    let device: Arc<dyn Device> = Arc::new(Idle);
    let (a, b) = (tensor(&device, &[32, 32]), tensor(&device, &[32, 32]));
    let count = 1000;
    let seconds = best(50, || {
        for _ in 0..count {
            std::hint::black_box(add(&a, &b).unwrap());
        }
    });
    println!("add of two tensors of one shape: {:.0} ns", seconds / f64::from(count) * 1e9);
    a.set_requires_grad(true).unwrap();
    let seconds = best(50, || {
        for _ in 0..count {
            std::hint::black_box(add(&a, &b).unwrap());
        }
    });
    println!("with a gradient: {:.0} ns", seconds / f64::from(count) * 1e9);

    let widths = [784, 256, 128, 10];
    let parameters: Vec<Tensor> = widths
        .windows(2)
        .flat_map(|pair| [tensor(&device, &[pair[1], pair[0]]), tensor(&device, &[pair[1]])])
        .collect();
    parameters.iter().for_each(|parameter| parameter.set_requires_grad(true).unwrap());
    let x = tensor(&device, &[32, 784]);
    let target = Tensor::from_bytes(&device, DType::I64, &[32], &[0; 256]).unwrap();
    let (mut built, mut evaluated) = (f64::INFINITY, f64::INFINITY);
    for _ in 0..200 {
        let start = Instant::now();
        let loss = {
            let mut y = x.clone();
            for (layer, pair) in parameters.chunks(2).enumerate() {
                y = matmul::linear(&y, &pair[0], Some(&pair[1])).unwrap();
                if layer < 2 {
                    y = activation::relu(&y).unwrap();
                }
            }
            cross_entropy(&y, &target, &ClassOptions::default()).unwrap()
        };
        loss.backward(None, false).unwrap();
        for parameter in &parameters {
            let step =
                binary_scalar(Binary::Mul, &parameter.grad().unwrap(), Scalar::Float(0.1), false).unwrap();
            without_gradients(|| parameter.assign(&sub(&parameter.detach(), &step).unwrap()).unwrap());
            parameter.set_grad(None);
        }
        built = built.min(start.elapsed().as_secs_f64());
        let start = Instant::now();
        eval(&parameters).unwrap();
        evaluated = evaluated.min(start.elapsed().as_secs_f64());
    }
    println!(
        "one training step of a three-layer perceptron: {:.0} us to build, {:.0} us to evaluate",
        built * 1e6,
        evaluated * 1e6
    );
}

/// Runs an optimizer's part of a step.
fn without_gradients(act: impl FnOnce()) {
    let _mode = tensor_core::grad_mode::Guard::new(false);
    act();
}
