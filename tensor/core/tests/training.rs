//! Whole training steps: that they learn, and how many launches they take.

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reference::{Reference, decode};
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::elementwise::{add, binary_scalar, div, mul, sub, unary};
use tensor_core::ops::loss::{ClassOptions, cross_entropy};
use tensor_core::ops::pool::{PoolOptions, max_pool};
use tensor_core::ops::{activation, create, matmul, norm, shape};
use tensor_core::program::{Binary, Unary};
use tensor_core::step::Distribution;
use tensor_core::{Tensor, eval};

fn value(tensor: &Tensor) -> f64 {
    decode(&tensor.to_bytes().unwrap(), tensor.dtype())
}

fn parameter(device: &Arc<dyn Device>, shape: &[usize], seed: u64) -> Tensor {
    let fan: usize = shape[1..].iter().product();
    let random = create::random(device, DType::F32, shape, Distribution::Normal, seed, 0).unwrap();
    let scale = Scalar::Float(1.0 / (fan.max(1) as f64).sqrt());
    let tensor = shape::clone(&binary_scalar(Binary::Mul, &random, scale, false).unwrap()).unwrap();
    eval(std::slice::from_ref(&tensor)).unwrap();
    tensor.set_requires_grad(true).unwrap();
    tensor
}

fn classes(device: &Arc<dyn Device>, values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::I64, &[values.len()], &bytes).unwrap()
}

fn scaled(x: &Tensor, factor: f64) -> Tensor {
    binary_scalar(Binary::Mul, x, Scalar::Float(factor), false).unwrap()
}

/// One Adam step for every parameter, evaluated together.
fn adam(parameters: &[Tensor], state: &mut Vec<(Tensor, Tensor)>, step: i32) {
    let (first, second, rate) = (0.9_f64, 0.999_f64, 0.02);
    let mut changed = Vec::new();
    for (n, parameter) in parameters.iter().enumerate() {
        let g = parameter.grad().unwrap();
        if state.len() == n {
            let zeros = create::zeros(parameter.device(), DType::F32, parameter.shape()).unwrap();
            state.push((zeros.clone(), zeros));
        }
        let (m, v) = &state[n];
        let m = add(&scaled(m, first), &scaled(&g, 1.0 - first)).unwrap();
        let v = add(&scaled(v, second), &scaled(&mul(&g, &g).unwrap(), 1.0 - second)).unwrap();
        let rate = rate * (1.0 - second.powi(step)).sqrt() / (1.0 - first.powi(step));
        let root =
            binary_scalar(Binary::Add, &unary(Unary::Sqrt, &v).unwrap(), Scalar::Float(1e-8), false).unwrap();
        let change = scaled(&div(&m, &root).unwrap(), rate);
        without_gradients(|| parameter.assign(&sub(&parameter.detach(), &change).unwrap()).unwrap());
        parameter.set_grad(None);
        changed.extend([parameter.clone(), m.clone(), v.clone()]);
        state[n] = (m, v);
    }
    eval(&changed).unwrap();
}

#[test]
fn a_perceptron_learns_with_few_launches_and_one_download_a_step() {
    let reference = Arc::new(Reference::default());
    let device: Arc<dyn Device> = reference.clone();
    let parameters: Vec<Tensor> = [&[8, 4][..], &[8], &[3, 8], &[3]]
        .iter()
        .zip(1..)
        .map(|(shape, seed)| parameter(&device, shape, seed))
        .collect();
    let x = create::random(&device, DType::F32, &[12, 4], Distribution::Normal, 9, 0).unwrap();
    let target = classes(&device, &[0, 1, 2, 0, 1, 2, 0, 1, 2, 0, 1, 2]);
    eval(std::slice::from_ref(&x)).unwrap();
    let mut state = Vec::new();
    let mut losses = Vec::new();
    let mut launches = 0;
    for step in 1..=30 {
        let before = reference.launches.load(Ordering::Relaxed);
        let loss = {
            let hidden = matmul::linear(&x, &parameters[0], Some(&parameters[1])).unwrap();
            let hidden = activation::relu(&hidden).unwrap();
            let logits = matmul::linear(&hidden, &parameters[2], Some(&parameters[3])).unwrap();
            cross_entropy(&logits, &target, &ClassOptions::default()).unwrap()
        };
        loss.backward(None, false).unwrap();
        adam(&parameters, &mut state, step);
        assert!(loss.is_realised());
        launches = reference.launches.load(Ordering::Relaxed) - before;
        losses.push(value(&loss));
    }
    assert_eq!(launches, 14);
    assert!(losses[29] < losses[0] / 2.0, "{losses:?}");
}

#[test]
fn a_convolutional_network_learns() {
    let reference = Arc::new(Reference::default());
    let device: Arc<dyn Device> = reference.clone();
    let shapes: [&[usize]; 6] = [&[3, 1, 3, 3], &[3], &[3], &[3], &[3, 12], &[3]];
    let parameters: Vec<Tensor> =
        shapes.iter().zip(1..).map(|(shape, seed)| parameter(&device, shape, seed)).collect();
    let x = create::random(&device, DType::F32, &[6, 1, 6, 6], Distribution::Normal, 9, 0).unwrap();
    let target = classes(&device, &[0, 1, 2, 0, 1, 2]);
    let zeros = create::zeros(&device, DType::F32, &[3]).unwrap();
    let (mean, variance) = (shape::clone(&zeros).unwrap(), shape::clone(&zeros).unwrap());
    eval(std::slice::from_ref(&x)).unwrap();
    let mut state = Vec::new();
    let mut losses = Vec::new();
    let mut launches = 0;
    for step in 1..=12 {
        let before = reference.launches.load(Ordering::Relaxed);
        let loss = {
            let options = ConvOptions { padding: vec![1], stride: vec![1], ..ConvOptions::default() };
            let y = conv(&x, &parameters[0], Some(&parameters[1]), &options).unwrap();
            let running = norm::Running { mean: &mean, variance: &variance };
            let y = norm::batch_norm(
                &y,
                Some(running),
                Some(&parameters[2]),
                Some(&parameters[3]),
                true,
                0.1,
                1e-5,
            );
            let y = activation::relu(&y.unwrap()).unwrap();
            let y = max_pool(&y, 2, &PoolOptions::new(&[3])).unwrap();
            let y = shape::flatten(&y, 1, -1).unwrap();
            let logits = matmul::linear(&y, &parameters[4], Some(&parameters[5])).unwrap();
            cross_entropy(&logits, &target, &ClassOptions::default()).unwrap()
        };
        loss.backward(None, false).unwrap();
        adam(&parameters, &mut state, step);
        launches = reference.launches.load(Ordering::Relaxed) - before;
        losses.push(value(&loss));
    }
    assert_eq!(launches, 31);
    assert!(losses[11] < losses[0] * 0.7, "{losses:?}");
    assert!(value(&shape::select(&variance, 0, 0).unwrap()) > 0.0);
}

/// Runs an optimizer's part of a step.
fn without_gradients(act: impl FnOnce()) {
    let _mode = tensor_core::grad_mode::Guard::new(false);
    act();
}
