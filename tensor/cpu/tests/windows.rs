//! Contractions that read or transpose their right operand in place, against the ordered chain: gradients of the kernels of
//! convolutions, also of depthwise ones, and small products.

mod support;

use support::{Bench, Dice, Sample, Writer, unravel};
use tensor_core::dtype::DType;
use tensor_core::layout::{Layout, Shape};
use tensor_core::program::{Binary, Program};
use tensor_core::step::{Accumulation, PANEL, Work};
use tensor_cpu::{CpuDevice, CpuOptions};

/// Devices with one thread and with several.
fn benches() -> [Bench; 2] {
    [1, 3].map(|threads| Bench {
        device: CpuDevice::with(&CpuOptions { threads: Some(threads), ..CpuOptions::default() }),
    })
}

/// The ordered sum of products of two rows, as specified in `step.rs`.
fn ordered(left: &[(f64, f64)], right: &[(f64, f64)]) -> f32 {
    let chain = |left: &[(f64, f64)], right: &[(f64, f64)]| {
        left.iter().zip(right).fold(0.0, |sum, (a, b)| f32::mul_add(a.0 as f32, b.0 as f32, sum))
    };
    let chains = left.chunks(PANEL).zip(right.chunks(PANEL)).map(|(left, right)| chain(left, right));
    chains.reduce(|all, one| all + one).unwrap_or(0.0)
}

/// Compares a contraction with its definition, alone and with a tensor that is added to it. `axes` are the counts of axes of each
/// sort.
fn check(bench: &Bench, dice: &mut Dice, axes: [usize; 4], left: &Sample, right: &Sample, what: &str) {
    let [batch, rows, columns, depth] = axes;
    let shapes = (&left.operand.layout.shape, &right.operand.layout.shape);
    let mut out = shapes.0[..batch + rows].to_vec();
    out.extend_from_slice(&shapes.1[batch..batch + columns]);
    let k: usize = shapes.1[batch + columns..].iter().product();
    let n: usize = shapes.1[batch..batch + columns].iter().product();
    let m: usize = shapes.0[batch..batch + rows].iter().product();
    let work = |epilogue| Work::Contract {
        batch,
        rows,
        columns,
        depth,
        accumulation: Accumulation::Ordered,
        padding: None,
        convolution: None,
        epilogue,
    };
    let shift = bench.random(dice, DType::F32, &out);
    let mut writer = Writer::default();
    let (sum, added) = (writer.input(0, DType::F32), writer.input(1, DType::F32));
    let sum = writer.binary(Binary::Add, sum, added, DType::F32);
    let plain = work(Program::identity(DType::F32));
    let plain = bench.run(plain, &[left, right], &[(DType::F32, &out)]).remove(0);
    let shifted =
        bench.run(work(writer.done(&[sum])), &[left, right, &shift], &[(DType::F32, &out)]).remove(0);
    assert_eq!(plain.len(), out.iter().product::<usize>(), "{what}");
    for (position, (plain, shifted)) in plain.iter().zip(&shifted).enumerate() {
        let (row, column) = (position / n, position / n / m * n + position % n);
        let truth =
            ordered(&left.values[row * k..(row + 1) * k], &right.values[column * k..(column + 1) * k]);
        let at = format!("{what} at {:?} of {out:?}", unravel(position, &out));
        assert_eq!((plain.0 as f32).to_bits(), truth.to_bits(), "{at}");
        let truth = truth + shift.values[position].0 as f32;
        assert_eq!((shifted.0 as f32).to_bits(), truth.to_bits(), "{at}, with a shift");
    }
}

/// The gradient of a convolution's kernel: `[groups, out, n, positions..]` with `[groups, channels, kernel.., n, positions..]`.
struct Gradient {
    images: usize,
    groups: usize,
    channels: usize,
    rows: usize,
    height: usize,
    width: usize,
    kernel: usize,
    stride: usize,
}

impl Gradient {
    fn check(&self, bench: &Bench, dice: &mut Dice) {
        let &Gradient { images, groups, channels, rows, height, width, kernel, stride } = self;
        let out = |length: usize| (length - kernel) / stride + 1;
        let (down, across) = (out(height), out(width));
        let whole = Layout::contiguous(&[images, groups, channels, height, width]);
        let [sn, sg, sc, sh, sw] = whole.strides[..] else { unreachable!() };
        let step = stride as isize;
        let layout = Layout {
            shape: Shape::from_slice(&[groups, channels, kernel, kernel, images, down, across]),
            strides: [sg, sc, sh, sw, sn, sh * step, sw * step].into_iter().collect(),
            offset: 0,
        };
        let image = bench.place(DType::F32, layout, whole.elements(), || (dice.real(), 0.0));
        let whole = Layout::contiguous(&[images, groups, rows, down, across]);
        let [sn, sg, sr, sh, sw] = whole.strides[..] else { unreachable!() };
        let layout = Layout {
            shape: Shape::from_slice(&[groups, rows, images, down, across]),
            strides: [sg, sr, sn, sh, sw].into_iter().collect(),
            offset: 0,
        };
        let gradient = bench.place(DType::F32, layout, whole.elements(), || (dice.real(), 0.0));
        let what = format!(
            "{images} images, {groups} groups, {channels} to {rows} channels, {height} x {width}, kernel {kernel}, stride {stride}"
        );
        check(bench, dice, [1, 1, 3, 3], &gradient, &image, &what);
    }
}

#[test]
fn gradients_of_kernels_are_the_ordered_chain() {
    let mut dice = Dice::new(21);
    // Channels and rows that fill no vector and no tile, panels that end inside an image, more rows than are packed at a time.
    for [images, groups, channels, rows, height, width, kernel, stride] in [
        [2, 1, 16, 6, 9, 11, 3, 1],
        [2, 1, 37, 13, 15, 14, 5, 2],
        [3, 2, 70, 45, 16, 18, 3, 1],
        [1, 1, 17, 300, 30, 31, 3, 1],
        [40, 1, 33, 7, 4, 5, 2, 1],
        [2, 1, 32, 5, 8, 64, 3, 2],
        [5, 1, 20, 12, 1, 200, 1, 1],
    ] {
        let gradient = Gradient { images, groups, channels, rows, height, width, kernel, stride };
        benches().iter().for_each(|bench| gradient.check(bench, &mut dice));
    }
}

#[test]
fn gradients_of_depthwise_kernels_are_the_ordered_chain() {
    let mut dice = Dice::new(22);
    for [images, groups, channels, rows, height, width, kernel, stride] in [
        [2, 16, 1, 1, 9, 11, 3, 1],
        [3, 37, 1, 1, 13, 10, 3, 1],
        [2, 65, 1, 2, 15, 17, 5, 2],
        [1, 33, 2, 4, 20, 31, 3, 1],
        [9, 20, 1, 3, 8, 10, 2, 1],
        [4, 15, 1, 1, 12, 12, 3, 1],
        [1, 18, 1, 1, 40, 40, 7, 3],
    ] {
        let gradient = Gradient { images, groups, channels, rows, height, width, kernel, stride };
        benches().iter().for_each(|bench| gradient.check(bench, &mut dice));
    }
}

#[test]
fn small_products_with_adjacent_columns_are_the_ordered_chain() {
    let mut dice = Dice::new(23);
    // The last number is the distance between rows of the right matrix, beyond its columns.
    for [batch, m, n, k, gap] in [
        [3, 5, 1, 1, 0],
        [2, 13, 33, 70, 0],
        [4, 64, 64, 64, 0],
        [2, 70, 16, 511, 2],
        [1, 239, 17, 300, 5],
        [2, 241, 48, 20, 1],
        [3, 12, 100, 31, 0],
        [2, 6, 31, 7, 40],
        [0, 6, 8, 7, 0],
        [2, 0, 8, 7, 0],
        [2, 6, 0, 7, 0],
        [2, 6, 8, 0, 0],
    ] {
        for bench in &benches() {
            let left = bench.random(&mut dice, DType::F32, &[batch, m, k]);
            let pitch = n + gap;
            let layout = Layout {
                shape: Shape::from_slice(&[batch, n, k]),
                strides: [(k * pitch) as isize, 1, pitch as isize].into_iter().collect(),
                offset: 3,
            };
            let right = bench.place(DType::F32, layout, batch * k * pitch + 3, || (dice.real(), 0.0));
            let what = format!("{batch} products of {m} x {n}, depth {k}, gap {gap}");
            check(bench, &mut dice, [1, 1, 1, 1], &left, &right, &what);
        }
    }
}
