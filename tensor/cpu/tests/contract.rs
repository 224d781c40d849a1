//! Contractions against their definition: a chain of fused multiply-adds, in panels.

mod support;

use std::sync::Arc;

use support::{Bench, Dice, Writer, assert_near, offsets, ravel, unravel};
use tensor_core::device::Device;
use tensor_core::dtype::DType;
use tensor_core::layout::{Layout, Shape};
use tensor_core::ops::conv::{ConvOptions, conv};
use tensor_core::ops::create;
use tensor_core::program::{Binary, Program, Unary};
use tensor_core::step::{Accumulation, PANEL, Work};
use tensor_core::{Tensor, element};
use tensor_cpu::CpuDevice;

fn contract(axes: [usize; 4], epilogue: Program) -> Work {
    let [batch, rows, columns, depth] = axes;
    Work::Contract {
        batch,
        rows,
        columns,
        depth,
        accumulation: Accumulation::Ordered,
        padding: None,
        convolution: None,
        epilogue,
    }
}

/// The ordered sum of products, as specified in `step.rs`.
fn ordered(left: &[f32], right: &[f32]) -> f32 {
    let panel = |(left, right): (&[f32], &[f32])| {
        left.iter().zip(right).fold(0.0, |sum, (&a, &b)| f32::mul_add(a, b, sum))
    };
    left.chunks(PANEL).zip(right.chunks(PANEL)).map(panel).reduce(|all, one| all + one).unwrap_or(0.0)
}

/// Rows of depth for each batch and row, from row-major values.
fn lines(values: &[(f64, f64)], depth: usize) -> Vec<Vec<f32>> {
    values.chunks(depth.max(1)).map(|line| line.iter().map(|value| value.0 as f32).collect()).collect()
}

#[test]
fn single_precision_is_bit_equal_to_the_ordered_chain() {
    let bench = Bench::new();
    let mut dice = Dice::new(1);
    let sizes = [
        (1, 1, 1, 1),
        (1, 13, 33, 257),
        (3, 5, 7, 511),
        (2, 25, 65, 256),
        (1, 1, 100, 300),
        (1, 100, 1, 300),
        (1, 250, 40, 20),
        (1, 3, 1030, 9),
        (1, 61, 130, 600),
        (5, 12, 32, 64),
    ];
    for (batch, m, n, k) in sizes {
        for _ in 0..2 {
            let left = bench.random(&mut dice, DType::F32, &[batch, m, k]);
            let right = bench.random(&mut dice, DType::F32, &[batch, n, k]);
            let shape = [batch, m, n];
            let work = contract([1, 1, 1, 1], Program::identity(DType::F32));
            let own = bench.bytes(work, &[&left, &right], &[(DType::F32, &shape)]).remove(0);
            let (a, b) = (lines(&left.values, k), lines(&right.values, k));
            for (position, bytes) in own.chunks(4).enumerate() {
                let index = unravel(position, &shape);
                let truth = ordered(&a[index[0] * m + index[1]], &b[index[0] * n + index[2]]);
                let own = f32::from_ne_bytes(bytes.try_into().unwrap());
                assert_eq!(
                    own.to_bits(),
                    truth.to_bits(),
                    "{own} {truth} at {index:?} of {shape:?}, depth {k}"
                );
            }
        }
    }
}

/// `[n, out.., channel, kernel..]` windows of `[n, channel, in..]`.
fn windows(shape: [usize; 4], kernel: usize, stride: usize) -> Layout {
    let whole = Layout::contiguous(&shape);
    let [n, c, h, w] = shape;
    let out = |length: usize| (length - kernel) / stride + 1;
    let [sn, sc, sh, sw] = whole.strides[..] else { unreachable!() };
    let step = stride as isize;
    Layout {
        shape: Shape::from_slice(&[n, out(h), out(w), c, kernel, kernel]),
        strides: [sn, sh * step, sw * step, sc, sh, sw].into_iter().collect(),
        offset: 0,
    }
}

#[test]
fn windows_are_contracted_without_being_written_out() {
    let bench = Bench::new();
    let mut dice = Dice::new(2);
    for (shape, channels, kernel, stride) in
        [([2, 3, 9, 11], 5, 3, 1), ([1, 16, 12, 12], 40, 5, 2), ([3, 2, 7, 7], 1, 1, 3)]
    {
        let layout = windows(shape, kernel, stride);
        let size = shape.iter().product();
        let image = bench.place(DType::F32, layout.clone(), size, || (dice.real(), 0.0));
        let depth = shape[1] * kernel * kernel;
        let weight = bench.random(&mut dice, DType::F32, &[channels, shape[1], kernel, kernel]);
        let out = [layout.shape[0], layout.shape[1], layout.shape[2], channels];
        let work = contract([0, 3, 1, 3], Program::identity(DType::F32));
        let own = bench.run(work, &[&image, &weight], &[(DType::F32, &out)]).remove(0);
        let (a, b) = (lines(&image.values, depth), lines(&weight.values, depth));
        for (position, value) in own.iter().enumerate() {
            let truth = ordered(&a[position / channels], &b[position % channels]);
            assert_eq!((value.0 as f32).to_bits(), truth.to_bits());
        }
        // Operands swapped: channels first, which is how images are stored.
        let out = [channels, layout.shape[0], layout.shape[1], layout.shape[2]];
        let work = contract([0, 1, 3, 3], Program::identity(DType::F32));
        let turned = bench.run(work, &[&weight, &image], &[(DType::F32, &out)]).remove(0);
        for (position, value) in turned.iter().enumerate() {
            let per = turned.len() / channels;
            assert_eq!(*value, own[position % per * channels + position / per]);
        }
    }
}

#[test]
fn images_of_any_size_are_convolved_to_the_bits_of_the_ordered_chain() {
    let bench = Bench::new();
    let mut dice = Dice::new(5);
    // Images, groups, channels of a group, rows and columns of an image, output channels of a group. Small images share tiles;
    // large ones are read with the gaps between their rows.
    let sizes = [
        [5, 1, 30, 4, 4, 7],
        [3, 2, 29, 5, 7, 13],
        [40, 1, 2, 6, 6, 250],
        [2, 1, 30, 20, 20, 13],
        [3, 2, 2, 16, 90, 25],
        [1, 1, 1, 14, 40, 241],
    ];
    for [n, groups, c, h, w, m] in sizes {
        let channels = windows([n, groups * c, h, w], 3, 1);
        let [_, oh, ow, ..] = channels.shape[..] else { unreachable!() };
        let [sn, sh, sw, sc, skh, skw] = channels.strides[..] else { unreachable!() };
        let layout = Layout {
            shape: Shape::from_slice(&[n, groups, oh, ow, c, 3, 3]),
            strides: [sn, sc * c as isize, sh, sw, sc, skh, skw].into_iter().collect(),
            offset: 0,
        };
        let image = bench.place(DType::F32, layout, n * groups * c * h * w, || (dice.real(), 0.0));
        let weight = bench.random(&mut dice, DType::F32, &[groups, m, c, 3, 3]);
        let mut every = weight.clone();
        every.operand.layout.shape.insert(0, n);
        every.operand.layout.strides.insert(0, 0);
        let shift = bench.random(&mut dice, DType::F32, &[n, groups, m, oh, ow]);
        let mut writer = Writer::default();
        let (sum, added) = (writer.input(0, DType::F32), writer.input(1, DType::F32));
        let sum = writer.binary(Binary::Add, sum, added, DType::F32);
        let out = [n, groups, m, oh, ow];
        let plain = contract([2, 1, 2, 3], Program::identity(DType::F32));
        let plain = bench.run(plain, &[&every, &image], &[(DType::F32, &out)]).remove(0);
        let shifted = contract([2, 1, 2, 3], writer.done(&[sum]));
        let shifted = bench.run(shifted, &[&every, &image, &shift], &[(DType::F32, &out)]).remove(0);
        let depth = c * 9;
        let (a, b) = (lines(&weight.values, depth), lines(&image.values, depth));
        for (position, value) in plain.iter().enumerate() {
            let [image, group, row, y, x] = unravel(position, &out)[..] else { unreachable!() };
            let truth = ordered(&a[group * m + row], &b[((image * groups + group) * oh + y) * ow + x]);
            let at = format!("{image} {group} {row} {y} {x} of {out:?}");
            assert_eq!((value.0 as f32).to_bits(), truth.to_bits(), "{at}");
            let truth = truth + shift.values[position].0 as f32;
            assert_eq!((shifted[position].0 as f32).to_bits(), truth.to_bits(), "{at}");
        }
    }
}

#[test]
fn every_type_is_contracted() {
    let bench = Bench::new();
    let mut dice = Dice::new(3);
    for dtype in DType::ALL {
        for shape in [[2, 3, 4, 5], [1, 17, 9, 300]] {
            let [batch, m, n, k] = shape;
            let left = bench.random(&mut dice, dtype, &[batch, m, k]);
            let right = bench.random(&mut dice, dtype, &[batch, n, k]);
            let out = [batch, m, n];
            let work = contract([1, 1, 1, 1], Program::identity(dtype));
            let own = bench.run(work, &[&left, &right], &[(dtype, &out)]).remove(0);
            let truth: Vec<(f64, f64)> = (0..batch * m * n)
                .map(|position| {
                    let index = unravel(position, &out);
                    let (mut real, mut imaginary) = (0.0, 0.0);
                    for depth in 0..k {
                        let a = left.values[ravel(&[index[0], index[1], depth], &[batch, m, k])];
                        let b = right.values[ravel(&[index[0], index[2], depth], &[batch, n, k])];
                        real += a.0 * b.0 - a.1 * b.1;
                        imaginary += a.0 * b.1 + a.1 * b.0;
                    }
                    (wrapped(dtype, real), imaginary)
                })
                .collect();
            assert_near(dtype, &own, &truth, &format!("{shape:?}"));
        }
    }
}

/// Wraps a sum as an integer type does.
fn wrapped(dtype: DType, value: f64) -> f64 {
    let whole = value as i64;
    match dtype {
        DType::Bool => f64::from(u8::from(value != 0.0)),
        DType::U8 => f64::from(whole as u8),
        DType::U16 => f64::from(whole as u16),
        DType::I8 => f64::from(whole as i8),
        DType::I16 => f64::from(whole as i16),
        _ => value,
    }
}

#[test]
fn epilogues_see_sums_and_further_inputs() {
    let bench = Bench::new();
    let mut dice = Dice::new(4);
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::F64] {
        for (m, n, k) in [(5, 7, 3), (30, 1100, 270), (300, 10, 20)] {
            let left = bench.random(&mut dice, dtype, &[m, k]);
            let right = bench.random(&mut dice, dtype, &[n, k]);
            let bias = bench.random(&mut dice, dtype, &[1, n]);
            let mut spread = bias.clone();
            spread.operand.layout.shape[0] = m;
            spread.operand.layout.strides[0] = 0;
            let mut writer = Writer::default();
            let sum = writer.input(0, dtype);
            let added = writer.input(1, dtype);
            let sum = writer.binary(Binary::Add, sum, added, dtype);
            let zero = writer.constant(0.0, dtype);
            let positive = writer.binary(Binary::Max, sum, zero, dtype);
            let work = contract([0, 1, 1, 1], writer.done(&[positive]));
            let own = bench.run(work, &[&left, &right, &spread], &[(dtype, &[m, n])]).remove(0);
            let truth: Vec<(f64, f64)> = (0..m * n)
                .map(|position| {
                    let (row, column) = (position / n, position % n);
                    let sum: f64 =
                        (0..k).map(|d| left.values[row * k + d].0 * right.values[column * k + d].0).sum();
                    ((sum + bias.values[column].0).max(0.0), 0.0)
                })
                .collect();
            assert_near(dtype, &own, &truth, &format!("{m} {n} {k}"));
        }
    }
}

#[test]
fn small_integers_may_be_summed_in_wider_ones() {
    let bench = Bench::new();
    let left = bench.contiguous(DType::I8, &[1, 3], &[100.0, 100.0, -3.0]);
    let right = bench.contiguous(DType::I8, &[1, 3], &[100.0, 100.0, 1.0]);
    for (dtype, truth) in [(DType::I32, 19997.0), (DType::I64, 19997.0), (DType::I8, 29.0)] {
        let work = contract([0, 1, 1, 1], Program::identity(dtype));
        let own = bench.run(work, &[&left, &right], &[(dtype, &[1, 1])]).remove(0);
        assert_eq!(own, [(truth, 0.0)], "{dtype}");
    }
}

#[test]
fn empty_sums_are_zero_and_empty_outputs_are_nothing() {
    let bench = Bench::new();
    let mut writer = Writer::default();
    let sum = writer.input(0, DType::F32);
    let one = writer.unary(Unary::Exp, sum, DType::F32);
    let epilogue = writer.done(&[one]);
    for (epilogue, truth) in [(Program::identity(DType::F32), 0.0), (epilogue, 1.0)] {
        let left = bench.contiguous(DType::F32, &[2, 0], &[]);
        let right = bench.contiguous(DType::F32, &[3, 0], &[]);
        let work = contract([0, 1, 1, 1], epilogue.clone());
        let own = bench.run(work, &[&left, &right], &[(DType::F32, &[2, 3])]).remove(0);
        assert_eq!(own, vec![(truth, 0.0); 6]);
        let left = bench.contiguous(DType::F32, &[0, 4], &[]);
        let right = bench.contiguous(DType::F32, &[3, 4], &[1.0; 12]);
        let work = contract([0, 1, 1, 1], epilogue);
        assert!(bench.run(work, &[&left, &right], &[(DType::F32, &[0, 3])]).remove(0).is_empty());
    }
    assert!(offsets(&Layout::contiguous(&[0, 4])).is_empty());
}

#[test]
fn gradients_of_half_convolutions_need_no_step_of_their_own() {
    let device: Arc<dyn Device> = CpuDevice::new();
    let halves = |shape: &[usize]| {
        let made = create::ones(&device, DType::F16, shape).unwrap();
        made.set_requires_grad(true).unwrap();
        made
    };
    let (x, weight) = (halves(&[1, 2, 4, 4]), halves(&[3, 2, 3, 3]));
    let y = conv(&x, &weight, None, &ConvOptions { padding: vec![1], ..ConvOptions::default() }).unwrap();
    y.backward(Some(&create::ones(&device, DType::F16, y.shape()).unwrap()), false).unwrap();
    // Each element is in as many windows of three filters as it has neighbours and itself.
    let found: Vec<f64> = decode_all(&x.grad().unwrap());
    let expected: Vec<f64> =
        (0..32).map(|n| [2.0, 3.0, 3.0, 2.0][n / 4 % 4] * [2.0, 3.0, 3.0, 2.0][n % 4] * 3.0).collect();
    assert_eq!(found, expected);
}

fn decode_all(tensor: &Tensor) -> Vec<f64> {
    let bytes = tensor.to_bytes().unwrap();
    bytes.chunks_exact(2).map(|half| element::decode(half, DType::F16).to_f64()).collect()
}
