//! Which operations are fused into one launch, and that the results are right.

mod reference;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use reference::{Reference, decode};
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::elementwise::{add, binary_scalar, cast, maximum, mul, sub, unary};
use tensor_core::ops::{activation, create, loss, matmul, norm, reduce, shape, sort, window};
use tensor_core::program::{Binary, Unary};
use tensor_core::{Tensor, eval, explain};

struct Rig {
    device: Arc<dyn Device>,
    reference: Arc<Reference>,
}

fn rig() -> Rig {
    let reference = Arc::new(Reference::default());
    Rig { device: reference.clone(), reference }
}

impl Rig {
    fn tensor(&self, shape: &[usize], values: &[f64]) -> Tensor {
        let bytes: Vec<u8> = values.iter().flat_map(|&value| (value as f32).to_le_bytes()).collect();
        Tensor::from_bytes(&self.device, DType::F32, shape, &bytes).unwrap()
    }

    /// Distinct numbers.
    fn ramp(&self, shape: &[usize]) -> Tensor {
        let count = shape.iter().product::<usize>();
        self.tensor(shape, &(0..count).map(|n| ((n * 7 + 3) % 11) as f64 / 4.0 - 1.0).collect::<Vec<_>>())
    }

    fn launches(&self, run: impl FnOnce()) -> usize {
        let before = self.reference.launches.load(Ordering::Relaxed);
        run();
        self.reference.launches.load(Ordering::Relaxed) - before
    }
}

fn values(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(tensor.dtype().bytes()).map(|number| decode(number, tensor.dtype())).collect()
}

fn relu(x: &Tensor) -> Tensor {
    let zero = create::zeros(x.device(), x.dtype(), &[]).unwrap();
    maximum(x, &zero).unwrap()
}

#[test]
fn an_elementwise_chain_is_one_launch() {
    let rig = rig();
    let (a, b) = (rig.ramp(&[3, 4]), rig.ramp(&[4]));
    let y = relu(&add(&mul(&a, &b).unwrap(), &a).unwrap());
    let y = unary(Unary::Exp, &y).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 1);
    let (a, b) = (values(&a), values(&b));
    let expected: Vec<f64> =
        (0..12).map(|n| f64::from((a[n] * b[n % 4] + a[n]).max(0.0).exp() as f32)).collect();
    assert_eq!(values(&y), expected);
}

#[test]
fn matmul_bias_and_relu_are_one_launch() {
    let rig = rig();
    let (x, w, b) = (rig.ramp(&[3, 5]), rig.ramp(&[5, 2]), rig.ramp(&[2]));
    let y = relu(&add(&matmul::matmul(&x, &w).unwrap(), &b).unwrap());
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 1);
    let (x, w, b) = (values(&x), values(&w), values(&b));
    for row in 0..3 {
        for column in 0..2 {
            let sum: f64 = (0..5).map(|k| x[row * 5 + k] * w[k * 2 + column]).sum();
            let expected = (sum + b[column]).max(0.0);
            assert!((values(&y)[row * 2 + column] - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn what_is_held_before_an_epilogue_is_stored_by_the_same_launch() {
    let rig = rig();
    let (x, w, b) = (rig.ramp(&[3, 5]), rig.ramp(&[5, 2]), rig.ramp(&[2]));
    let product = matmul::matmul(&x, &w).unwrap();
    let sum = add(&product, &b).unwrap();
    let y = activation::gelu(&sum, false).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 1);
    assert!(product.is_realised() && sum.is_realised());
    let again = activation::gelu(&rig.tensor(&[3, 2], &values(&sum)), false).unwrap();
    let error = values(&y).iter().zip(values(&again)).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    assert!(error < 1e-6);
}

#[test]
fn convolution_batch_norm_and_relu_are_one_launch() {
    let rig = rig();
    let (x, w, b) = (rig.ramp(&[2, 2, 5, 5]), rig.ramp(&[4, 2, 3, 3]), rig.ramp(&[4]));
    let variance = add(&mul(&b, &b).unwrap(), &create::ones(&rig.device, DType::F32, &[4]).unwrap()).unwrap();
    eval(std::slice::from_ref(&variance)).unwrap();
    let running = norm::Running { mean: &b, variance: &variance };
    let mut y = conv(&x, &w, Some(&b), &ConvOptions::default()).unwrap();
    y = norm::batch_norm(&y, Some(running), Some(&b), Some(&b), false, 0.1, 1e-5).unwrap();
    y = activation::relu(&y).unwrap();
    let plan = explain(std::slice::from_ref(&y)).unwrap();
    assert_eq!(plan.launches.len(), 1, "{plan}");
    assert_eq!(plan.launches[0].kind, "contract");
    assert_eq!(plan.bytes_written(), 2 * 4 * 3 * 3 * 4);
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 1);
    assert!(explain(std::slice::from_ref(&y)).unwrap().launches.is_empty());
}

#[test]
fn a_padded_convolution_and_its_gradients_have_no_zeros_in_memory() {
    let rig = rig();
    for (stride, launches) in [(1, 4), (2, 15)] {
        let (x, w) = (rig.ramp(&[2, 2, 6, 6]), rig.ramp(&[4, 2, 3, 3]));
        for it in [&x, &w] {
            it.set_requires_grad(true).unwrap();
        }
        let options = ConvOptions { padding: vec![1], stride: vec![stride], ..ConvOptions::default() };
        let y = activation::relu(&conv(&x, &w, None, &options).unwrap()).unwrap();
        let plan = explain(std::slice::from_ref(&y)).unwrap();
        assert_eq!(plan.launches.len(), 1, "{plan}");
        assert!(plan.launches[0].name.starts_with("pad + contract"), "{plan}");
        assert_eq!(plan.bytes_read(), (2 * 2 * 36 + 4 * 2 * 9) * 4, "{plan}");
        y.backward(Some(&rig.ramp(y.shape())), false).unwrap();
        let plan = explain(&[y, x.grad().unwrap(), w.grad().unwrap()]).unwrap();
        assert!(plan.launches.iter().all(|launch| launch.kind != "pad"), "{plan}");
        assert_eq!(plan.launches.len(), launches, "{plan}");
    }
}

#[test]
fn gradients_that_are_too_large_for_a_library_are_contractions() {
    let device: Arc<dyn Device> = Arc::new(Reference { plans_gradients: true, ..Reference::default() });
    // Nothing is computed, so nothing takes memory.
    for (sides, is_one_step) in [([8, 8], true), ([1 << 16, 1 << 15], false)] {
        let made = |shape: &[usize]| {
            let made = create::zeros(&device, DType::F16, shape).unwrap();
            made.set_requires_grad(true).unwrap();
            made
        };
        let (x, w) = (made(&[1, 1, sides[0], sides[1]]), made(&[1, 1, 3, 3]));
        let y = conv(&x, &w, None, &ConvOptions::default()).unwrap();
        y.backward(Some(&create::ones(&device, DType::F16, y.shape()).unwrap()), false).unwrap();
        let plan = explain(&[x.grad().unwrap()]).unwrap();
        let found = plan.launches.iter().any(|launch| launch.kind == "convolution gradient");
        assert_eq!(found, is_one_step, "{plan}");
    }
}

#[test]
fn zeros_that_more_than_contractions_read_are_written_once() {
    let rig = rig();
    let (x, w) = (rig.ramp(&[1, 2, 5]), rig.ramp(&[3, 2, 3]));
    let padded = |value: Scalar| window::pad(&x, &[(0, 0), (0, 0), (1, 2)], value).unwrap();
    let convolved = |padded: &Tensor| conv(padded, &w, None, &ConvOptions::default()).unwrap();
    let launches = |tensors: &[Tensor]| explain(tensors).unwrap().launches.len();
    let alone = convolved(&padded(Scalar::Int(0)));
    assert_eq!(launches(std::slice::from_ref(&alone)), 1);
    let held = padded(Scalar::Float(0.0));
    let of_held = convolved(&held);
    assert_eq!(launches(std::slice::from_ref(&of_held)), 2, "a tensor references the padded copy");
    assert_eq!(launches(&[convolved(&padded(Scalar::Float(1.0)))]), 2, "they are not zeros");
    assert_eq!(launches(&[convolved(&padded(Scalar::Float(-0.0)))]), 2, "the sign of zeros matters");
    let both =
        [convolved(&padded(Scalar::Int(0))), reduce::sum(&padded(Scalar::Int(0)), None, false).unwrap()];
    assert_eq!(launches(&both), 3, "a sum reads them too");
    let expected = values(&of_held);
    assert_eq!(values(&alone), expected);
    assert_eq!(values(&both[0]), expected);
}

#[test]
fn a_loss_is_computed_with_the_step_that_it_began() {
    let rig = rig();
    let (x, w) = (rig.ramp(&[4, 3]), rig.ramp(&[2, 3]));
    w.set_requires_grad(true).unwrap();
    let hidden = activation::relu(&matmul::linear(&x, &w, None).unwrap()).unwrap();
    let target = rig.ramp(&[4, 2]);
    let loss = loss::mse_loss(&hidden, &target, loss::LossReduction::Mean).unwrap();
    loss.backward(None, false).unwrap();
    let step = binary_scalar(Binary::Mul, &w.grad().unwrap(), Scalar::Float(0.1), false).unwrap();
    without_gradients(|| w.assign(&sub(&w.detach(), &step).unwrap()).unwrap());
    eval(std::slice::from_ref(&w)).unwrap();
    assert!(loss.is_realised() && hidden.is_realised());
    assert_eq!(rig.launches(|| assert!(values(&loss)[0] > 0.0)), 0);
}

#[test]
fn a_mean_of_squares_is_one_launch() {
    let rig = rig();
    let (a, b) = (rig.ramp(&[3, 4]), rig.ramp(&[3, 1]));
    let difference = sub(&a, &b).unwrap();
    let loss = reduce::mean(&mul(&difference, &difference).unwrap(), None, false).unwrap();
    drop(difference);
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&loss)).unwrap()), 1);
    let (a, b) = (values(&a), values(&b));
    let expected = (0..12).map(|n| (a[n] - b[n / 4]).powi(2)).sum::<f64>() / 12.0;
    assert!((values(&loss)[0] - expected).abs() < 1e-6);
}

#[test]
fn what_is_held_is_stored_with_what_comes_of_it() {
    let rig = rig();
    let a = rig.ramp(&[6]);
    let half = binary_scalar(Binary::Mul, &a, Scalar::Float(0.5), false).unwrap();
    let y = unary(Unary::Neg, &half).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 1);
    assert!(half.is_realised());
    assert_eq!(values(&half), values(&a).iter().map(|x| x / 2.0).collect::<Vec<_>>());
}

#[test]
fn what_gradients_remember_takes_no_launch_if_it_is_cheap() {
    let rig = rig();
    let x = rig.ramp(&[4, 3]);
    x.set_requires_grad(true).unwrap();
    let target =
        create::arange(&rig.device, DType::I64, Scalar::Int(0), Scalar::Int(4), Scalar::Int(1)).unwrap();
    let target = binary_scalar(Binary::Rem, &target, Scalar::Int(3), false).unwrap();
    eval(std::slice::from_ref(&target)).unwrap();
    let loss = loss::cross_entropy(&x, &target, &loss::ClassOptions::default()).unwrap();
    // Launches: the checked classes, the loss of each sample, the sum, the divisor.
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&loss)).unwrap()), 4);
    loss.backward(None, false).unwrap();
    let gradient = values(&x.grad().unwrap());
    for (row, class) in [0, 1, 2, 0].into_iter().enumerate() {
        let exps: Vec<f64> = values(&x)[row * 3..][..3].iter().map(|x| x.exp()).collect();
        for column in 0..3 {
            let expected =
                (exps[column] / exps.iter().sum::<f64>() - f64::from(u8::from(column == class))) / 4.0;
            assert!((gradient[row * 3 + column] - expected).abs() < 1e-6);
        }
    }
}

#[test]
fn what_a_later_tensor_is_made_of_is_not_computed_again() {
    let rig = rig();
    let (x, w) = (rig.ramp(&[3, 3]), rig.ramp(&[3, 3]));
    let logits = matmul::matmul(&x, &w).unwrap();
    let best = sort::argmax(&shape::transpose(&logits, 0, 1).unwrap(), Some(1), false).unwrap();
    let loss = reduce::sum(&unary(Unary::Exp, &logits).unwrap(), None, false).unwrap();
    drop(logits);
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&loss)).unwrap()), 2);
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&best)).unwrap()), 1);
}

#[test]
fn a_node_of_two_users_is_computed_once() {
    let rig = rig();
    let (x, w) = (rig.ramp(&[3, 3]), rig.ramp(&[3, 3]));
    let product = matmul::matmul(&x, &w).unwrap();
    let rows = reduce::sum(&product, Some(&[1]), true).unwrap();
    let y = sub(&product, &rows).unwrap();
    drop((product, rows));
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&y)).unwrap()), 3);
}

#[test]
fn constants_and_ranges_take_no_launch_of_their_own() {
    let rig = rig();
    let range =
        create::arange(&rig.device, DType::I64, Scalar::Int(9), Scalar::Int(0), Scalar::Int(-2)).unwrap();
    assert_eq!(values(&range), [9.0, 7.0, 5.0, 3.0, 1.0]);
    let eye = create::eye(&rig.device, DType::F32, 3, 3).unwrap();
    let total = reduce::sum(&cast(&range, DType::F32).unwrap(), None, false).unwrap();
    assert_eq!(values(&total), [25.0]);
    let sum = add(&eye, &rig.ramp(&[3, 3])).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&sum)).unwrap()), 1);
    let fresh = tensor_core::ops::iota::iota(&rig.device, &[4, 3], 0).unwrap();
    assert_eq!(values(&reduce::sum(&fresh, None, false).unwrap()), [18.0]);
}

#[test]
fn views_never_launch() {
    let rig = rig();
    let a = rig.ramp(&[4, 6]);
    let turned = shape::transpose(&a, 0, 1).unwrap();
    let part = shape::slice(&turned, 0, 5, -6, -2).unwrap();
    let wide = shape::expand(&shape::unsqueeze(&part, 0).unwrap(), &[2, -1, -1]).unwrap();
    assert_eq!(rig.launches(|| eval(std::slice::from_ref(&wide)).unwrap()), 0);
    assert_eq!(wide.shape(), [2, 3, 4]);
    let a = values(&a);
    let expected: Vec<f64> = (0..24).map(|n| a[n % 4 * 6 + 5 - 2 * (n / 4 % 3)]).collect();
    assert_eq!(values(&wide), expected);
}

#[test]
fn half_numbers_are_added_in_single_precision() {
    let rig = rig();
    let ones = shape::clone(&create::ones(&rig.device, DType::F16, &[4096]).unwrap()).unwrap();
    eval(std::slice::from_ref(&ones)).unwrap();
    assert_eq!(values(&reduce::sum(&ones, None, false).unwrap()), [4096.0]);
    let row = shape::reshape(&ones, &[1, 4096]).unwrap();
    let product = matmul::matmul(&row, &shape::transpose(&row, 0, 1).unwrap()).unwrap();
    assert_eq!((values(&product), product.dtype()), (vec![4096.0], DType::F16));
}

#[test]
fn a_long_chain_is_cut_and_falls_without_recursion() {
    let rig = rig();
    let mut x = rig.ramp(&[2]);
    for _ in 0..20_000 {
        x = binary_scalar(Binary::Add, &x, Scalar::Float(1.0), false).unwrap();
    }
    let dropped = binary_scalar(Binary::Add, &x, Scalar::Float(1.0), false).unwrap();
    drop(dropped);
    let first = values(&rig.ramp(&[2]))[0];
    assert_eq!(values(&x)[0], first + 20_000.0);
}

/// Runs an optimizer's part of a step.
fn without_gradients(act: impl FnOnce()) {
    let _mode = tensor_core::grad_mode::Guard::new(false);
    act();
}
