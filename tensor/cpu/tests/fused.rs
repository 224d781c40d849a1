//! Steps that replace several others: each against its definition, and against the steps that it replaces.

use std::sync::Arc;

use tensor_core::Tensor;
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::TensorError;
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::elementwise::{binary_scalar, mul};
use tensor_core::ops::index::{gather, index_select, masked_select, scatter_add};
use tensor_core::ops::loss::{ClassOptions, LossReduction, cross_entropy, nll_loss};
use tensor_core::ops::pool::{PoolOptions, max_pool, max_pool_with_indices};
use tensor_core::ops::reduce::sum;
use tensor_core::ops::shape::{permute, reshape, slice};
use tensor_core::ops::softmax::log_softmax;
use tensor_core::ops::sort::{cumsum, sort, topk};
use tensor_core::ops::unique::groups;
use tensor_core::program::Binary;
use tensor_cpu::{CpuDevice, CpuOptions, Level};

fn cpu() -> Arc<dyn Device> {
    CpuDevice::new()
}

/// Numbers in [-4, 4), of which some are equal.
fn numbers(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 20) as f32 / 512.0 - 4.0
    };
    (0..count).map(next).collect()
}

fn tensor(device: &Arc<dyn Device>, shape: &[usize], values: &[f32]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::F32, shape, &bytes).unwrap()
}

fn whole(device: &Arc<dyn Device>, shape: &[usize], values: &[i64]) -> Tensor {
    let bytes: Vec<u8> = values.iter().flat_map(|value| value.to_le_bytes()).collect();
    Tensor::from_bytes(device, DType::I64, shape, &bytes).unwrap()
}

fn floats(x: &Tensor) -> Vec<f32> {
    x.to_bytes().unwrap().chunks(4).map(|bytes| f32::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn integers(x: &Tensor) -> Vec<i64> {
    x.to_bytes().unwrap().chunks(8).map(|bytes| i64::from_le_bytes(bytes.try_into().unwrap())).collect()
}

fn assert_close(found: &[f32], wanted: &[f32]) {
    assert_eq!(found.len(), wanted.len());
    for (found, wanted) in found.iter().zip(wanted) {
        assert!((found - wanted).abs() <= 1e-5 + 1e-4 * wanted.abs(), "{found} instead of {wanted}");
    }
}

#[test]
fn topk_is_the_head_of_a_sort() {
    let device = cpu();
    let x = tensor(&device, &[7, 300, 3], &numbers(6300, 1));
    for (dim, k) in [(1, 5), (1, 300), (0, 3), (2, 1), (1, 0)] {
        for largest in [false, true] {
            let (values, places) = topk(&x, k, dim, largest).unwrap();
            let (all, order) = sort(&x, dim, largest).unwrap();
            let head = |x: &Tensor| slice(x, dim, 0, k as isize, 1).unwrap();
            assert_eq!(floats(&values), floats(&head(&all)));
            assert_eq!(integers(&places), integers(&head(&order)));
        }
    }
    x.set_requires_grad(true).unwrap();
    let (values, places) = topk(&x, 2, 1, true).unwrap();
    sum(&values, None, false).unwrap().backward(None, false).unwrap();
    let ones = floats(&x.grad().unwrap());
    assert_eq!(ones.iter().sum::<f32>(), 42.0);
    let first = integers(&places)[0] as usize;
    assert_eq!(ones[first * 3], 1.0);
}

/// The maximum of each window and its position, by definition.
fn pooled(x: &[f32], [h, w]: [usize; 2], kernel: usize, stride: usize, padding: usize) -> Vec<(f32, i64)> {
    let count = |length: usize| (length + 2 * padding - kernel) / stride + 1;
    let mut found = Vec::new();
    for plane in x.chunks(h * w) {
        for (row, column) in (0..count(h)).flat_map(|row| (0..count(w)).map(move |column| (row, column))) {
            let mut best = (f32::NEG_INFINITY, -1);
            for (down, across) in (0..kernel).flat_map(|down| (0..kernel).map(move |across| (down, across))) {
                let (Some(y), Some(x)) = (
                    (row * stride + down).checked_sub(padding),
                    (column * stride + across).checked_sub(padding),
                ) else {
                    continue;
                };
                if y < h && x < w {
                    let value = plane[y * w + x];
                    if best.1 < 0 || value > best.0 || value.is_nan() && !best.0.is_nan() {
                        best = (value, (y * w + x) as i64);
                    }
                }
            }
            found.push(best);
        }
    }
    found
}

#[test]
fn maxima_of_windows_are_the_first_of_equals() {
    let device = cpu();
    for (h, w, kernel, stride, padding) in
        [(9, 40, 3, 2, 1), (8, 33, 2, 2, 0), (5, 5, 3, 1, 1), (7, 20, 3, 3, 0)]
    {
        let mut values: Vec<f32> = numbers(2 * h * w, 3).iter().map(|value| value.round()).collect();
        values[h * w / 2] = f32::NAN;
        values[h * w..h * w + 3].fill(f32::NEG_INFINITY);
        let x = tensor(&device, &[2, h, w], &values);
        x.set_requires_grad(true).unwrap();
        let options =
            PoolOptions { stride: vec![stride], padding: vec![padding], ..PoolOptions::new(&[kernel]) };
        let (y, places) = max_pool_with_indices(&x, 2, &options).unwrap();
        let wanted = pooled(&values, [h, w], kernel, stride, padding);
        assert_eq!(
            floats(&y).iter().map(|value| value.to_bits()).collect::<Vec<_>>(),
            wanted.iter().map(|one| one.0.to_bits()).collect::<Vec<_>>()
        );
        assert_eq!(integers(&places), wanted.iter().map(|one| one.1).collect::<Vec<_>>());
        let alone = max_pool(&x, 2, &options).unwrap();
        alone.backward(Some(&y.detach().filled(1.0)), false).unwrap();
        let mut counts = vec![0.0; 2 * h * w];
        let per_plane = wanted.len() / 2;
        wanted.iter().enumerate().for_each(|(n, one)| counts[n / per_plane * h * w + one.1 as usize] += 1.0);
        assert_eq!(floats(&x.grad().unwrap()), counts);
    }
}

trait Filled {
    fn filled(&self, value: f64) -> Tensor;
}

impl Filled for Tensor {
    fn filled(&self, value: f64) -> Tensor {
        tensor_core::ops::create::full(self.device(), self.dtype(), self.shape(), Scalar::Float(value))
            .unwrap()
    }
}

#[test]
fn cross_entropy_is_that_of_its_parts() {
    let device = cpu();
    let weights = tensor(&device, &[11], &numbers(11, 9).iter().map(|value| value.abs()).collect::<Vec<_>>());
    for shape in [vec![6, 11], vec![2, 11, 3]] {
        let samples = shape.iter().product::<usize>() / 11;
        let mut classes: Vec<i64> = (0..samples as i64).map(|n| n * 7 % 11).collect();
        classes[1] = -100;
        let mut own = shape.clone();
        own.remove(1);
        let target = whole(&device, &own, &classes);
        for weight in [None, Some(&weights)] {
            for reduction in [LossReduction::None, LossReduction::Sum, LossReduction::Mean] {
                let options = ClassOptions { weight, reduction, ..ClassOptions::default() };
                let answers = [true, false].map(|fused| {
                    let x = tensor(&device, &shape, &numbers(samples * 11, 5));
                    x.set_requires_grad(true).unwrap();
                    let loss = match fused {
                        true => cross_entropy(&x, &target, &options).unwrap(),
                        false => nll_loss(&log_softmax(&x, 1).unwrap(), &target, &options).unwrap(),
                    };
                    let all = sum(&mul(&loss, &loss).unwrap(), None, false).unwrap();
                    all.backward(None, false).unwrap();
                    (floats(&loss), floats(&x.grad().unwrap()))
                });
                assert_close(&answers[0].0, &answers[1].0);
                assert_close(&answers[0].1, &answers[1].1);
            }
        }
    }
    // The steps that it consists of add the maximum to the logarithm, which loses all digits of the loss here.
    let large = tensor(&device, &[1, 2], &[1e8, 1e8]);
    let loss = cross_entropy(&large, &whole(&device, &[1], &[1]), &ClassOptions::default()).unwrap();
    assert_close(&floats(&loss), &[std::f32::consts::LN_2]);
    let bad = whole(&device, &[2], &[3, 11]);
    let loss = cross_entropy(&tensor(&device, &[2, 11], &numbers(22, 1)), &bad, &ClassOptions::default());
    assert!(matches!(loss.unwrap().to_bytes(), Err(TensorError::Device { .. })));
}

#[test]
fn bad_indices_are_reported_and_negative_ones_count_from_the_end() {
    let device = cpu();
    let x = tensor(&device, &[3, 4], &numbers(12, 1));
    let all = floats(&x);
    let chosen = index_select(&x, 0, &whole(&device, &[3], &[-1, 0, 2])).unwrap();
    assert_eq!(floats(&chosen), [&all[8..], &all[..4], &all[8..]].concat());
    assert!(index_select(&x, 0, &whole(&device, &[1], &[3])).unwrap().to_bytes().is_err());
    assert!(gather(&x, 1, &whole(&device, &[3, 1], &[0, -1, 0])).unwrap().to_bytes().is_err());
    let sums = scatter_add(
        &x,
        1,
        &whole(&device, &[3, 2], &[1, 1, 0, 3, 2, 2]),
        &tensor(&device, &[3, 2], &[1.0; 6]),
    );
    let mut wanted = all.clone();
    [1, 1, 4, 7, 10, 10].iter().for_each(|&at: &usize| wanted[at] += 1.0);
    assert_eq!(floats(&sums.unwrap()), wanted);
    let bad =
        scatter_add(&x, 0, &whole(&device, &[1, 4], &[0, 1, 2, 3]), &tensor(&device, &[1, 4], &[1.0; 4]));
    assert!(bad.unwrap().to_bytes().is_err());
    // The device still works.
    assert_eq!(floats(&x), all);
}

#[test]
fn a_mask_selects_in_row_major_order() {
    let device = cpu();
    let x = permute(&tensor(&device, &[50, 60], &numbers(3000, 2)), &[1, 0]).unwrap();
    x.set_requires_grad(false).unwrap();
    let mask = binary_scalar(Binary::Gt, &x, Scalar::Float(1.0), false).unwrap();
    let all = floats(&x);
    let wanted: Vec<f32> = all.iter().copied().filter(|&value| value > 1.0).collect();
    assert_eq!(floats(&masked_select(&x, &mask).unwrap()), wanted);
    let leaf = tensor(&device, &[3000], &all);
    leaf.set_requires_grad(true).unwrap();
    let chosen = masked_select(&leaf, &reshape(&mask, &[-1]).unwrap()).unwrap();
    sum(&chosen, None, false).unwrap().backward(None, false).unwrap();
    let ones: Vec<f32> = all.iter().map(|&value| f32::from(u8::from(value > 1.0))).collect();
    assert_eq!(floats(&leaf.grad().unwrap()), ones);
}

#[test]
fn distinct_numbers_are_grouped_by_their_sorted_order() {
    let device = cpu();
    let found = groups(&tensor(&device, &[6], &[2.0, -0.0, f32::NAN, 0.0, 2.0, f32::NAN]), None).unwrap();
    assert_eq!(integers(&found.first), [1, 0, 2, 5]);
    assert_eq!(integers(&found.inverse), [1, 0, 2, 0, 1, 3]);
    assert_eq!(integers(&found.counts), [2, 2, 1, 1]);
}

#[test]
fn columns_are_accumulated_like_rows() {
    let device = cpu();
    let x = tensor(&device, &[37, 1100], &numbers(37 * 1100, 4));
    let turned = permute(&x, &[1, 0]).unwrap();
    let by_rows = permute(&cumsum(&turned, 1).unwrap(), &[1, 0]).unwrap();
    assert_eq!(floats(&cumsum(&x, 0).unwrap()), floats(&by_rows));
}

#[test]
fn convolutions_and_their_gradients_are_the_same_at_every_level_and_number_of_threads() {
    for (groups, channels, kernel, stride) in
        [(6, 6, 3, 1), (6, 12, 3, 2), (1, 5, 5, 2), (2, 40, 3, 1), (1, 3, 1, 3)]
    {
        let mut answers: Vec<Vec<u32>> = Vec::new();
        for level in Level::all() {
            for threads in [1, 3] {
                let options = CpuOptions { threads: Some(threads), level: Some(level) };
                let device: Arc<dyn Device> = CpuDevice::with(&options);
                let x = tensor(&device, &[2, 6, 19, 23], &numbers(2 * 6 * 19 * 23, 6));
                let size = channels * 6 / groups * kernel * kernel;
                let w = tensor(&device, &[channels, 6 / groups, kernel, kernel], &numbers(size, 7));
                x.set_requires_grad(true).unwrap();
                w.set_requires_grad(true).unwrap();
                let options =
                    ConvOptions { stride: vec![stride], padding: vec![1], groups, ..ConvOptions::default() };
                let y = conv(&x, &w, None, &options).unwrap();
                y.backward(Some(&y.detach()), false).unwrap();
                let all = [&y.detach(), &x.grad().unwrap(), &w.grad().unwrap()].map(floats).concat();
                answers.push(all.iter().map(|value| value.to_bits()).collect());
            }
        }
        assert!(answers.windows(2).all(|pair| pair[0] == pair[1]), "{groups} groups, kernel {kernel}");
    }
}
