//! Trains a small network on both devices (convolution, pooling, a dense layer, cross-entropy, gradient descent) and compares the losses.

use std::sync::Arc;
use std::time::Instant;

use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::TensorError;
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::create::random;
use tensor_core::ops::elementwise::{binary_scalar, sub};
use tensor_core::ops::loss::{ClassOptions, cross_entropy};
use tensor_core::ops::matmul::linear;
use tensor_core::ops::pool::{PoolOptions, max_pool};
use tensor_core::ops::{activation::relu, shape::reshape};
use tensor_core::program::Binary;
use tensor_core::step::Distribution;
use tensor_core::{Result, Tensor};
use tensor_rocm::RocmDevice;

const STEPS: usize = 6;

pub fn check(rocm: &Arc<RocmDevice>, cpu: &Arc<dyn Device>) -> std::result::Result<(), String> {
    let device: Arc<dyn Device> = rocm.clone();
    let mut before = rocm.kernel_statistics();
    let found = train(&device, |step, time| {
        let now = rocm.kernel_statistics();
        println!(
            "step {step}: {} launches, {} kernels compiled, {time:.1} ms",
            now.launches - before.launches,
            now.compiled - before.compiled
        );
        before = now;
    })
    .map_err(whole)?;
    let expected = train(cpu, |_, _| ()).map_err(whole)?;
    println!("losses {found:?}, on the CPU {expected:?}");
    let near = found.iter().zip(&expected).all(|(x, y)| (x - y).abs() <= 1e-4 * y.abs());
    if !near {
        return Err(format!("losses {found:?}, expected {expected:?}"));
    }
    if found[STEPS - 1] >= found[0] { Err(format!("the loss does not decrease: {found:?}")) } else { Ok(()) }
}

/// The error with its cause.
fn whole(error: TensorError) -> String {
    let cause = std::error::Error::source(&error).map_or(String::new(), |cause| format!(": {cause}"));
    format!("{error}{cause}")
}

/// Trains the network and returns the loss of each step, read back after the step.
fn train(device: &Arc<dyn Device>, mut on_step: impl FnMut(usize, f64)) -> Result<Vec<f32>> {
    let f = DType::F32;
    let parameter = |shape: &[usize], seed: u64| -> Result<Tensor> {
        let it = binary_scalar(
            Binary::Mul,
            &random(device, f, shape, Distribution::Normal, seed, 0)?,
            Scalar::Float(0.2),
            false,
        )?
        .detach();
        it.set_requires_grad(true)?;
        Ok(it)
    };
    let parameters =
        [parameter(&[4, 1, 3, 3], 1)?, parameter(&[4], 2)?, parameter(&[10, 64], 3)?, parameter(&[10], 4)?];
    let images = random(device, f, &[16, 1, 8, 8], Distribution::Normal, 5, 0)?;
    let classes = random(device, DType::I64, &[16], Distribution::Integers { low: 0, high: 10 }, 6, 0)?;
    let mut losses = Vec::new();
    for step in 0..STEPS {
        let start = Instant::now();
        let options = ConvOptions { padding: vec![1, 1], ..ConvOptions::default() };
        let hidden = relu(&conv(&images, &parameters[0], Some(&parameters[1]), &options)?)?;
        let pooled = max_pool(&hidden, 2, &PoolOptions::new(&[2, 2]))?;
        let logits = linear(&reshape(&pooled, &[16, 64])?, &parameters[2], Some(&parameters[3]))?;
        let loss = cross_entropy(&logits, &classes, &ClassOptions::default())?;
        loss.backward(None, false)?;
        for parameter in &parameters {
            if let Some(gradient) = parameter.grad() {
                let change = binary_scalar(Binary::Mul, &gradient, Scalar::Float(0.5), false)?;
                parameter.share(&sub(&parameter.detach(), &change)?.detach())?;
                parameter.set_grad(None);
            }
        }
        tensor_core::eval(&parameters)?;
        let bytes = loss.to_bytes()?;
        losses.push(bytes.as_slice().try_into().map_or(f32::NAN, f32::from_le_bytes));
        on_step(step, start.elapsed().as_secs_f64() * 1e3);
    }
    Ok(losses)
}
