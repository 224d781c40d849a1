//! Test cases for contractions: matrix products, and operations that reduce to them.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::program::{Binary, Code, Program};
use tensor_core::step::{Accumulation, Work};

use crate::judge::Case;
use crate::operand::{Content, real, whole};
use crate::programs::instruction;

fn plain(groups: [usize; 4], accumulation: Accumulation, epilogue: Program) -> Work {
    let [batch, rows, columns, depth] = groups;
    Work::Contract { batch, rows, columns, depth, accumulation, padding: None, convolution: None, epilogue }
}

/// Program that rounds the sum to a narrower type.
pub fn rounding(sum: DType, to: DType) -> Program {
    if sum == to {
        return Program::identity(to);
    }
    Program {
        instructions: vec![instruction(Code::Input(0), sum), instruction(Code::Cast(0), to)],
        results: vec![1],
    }
}

/// max(sum + bias, 0).
pub fn bias_and_relu() -> Program {
    let f = DType::F32;
    Program {
        instructions: vec![
            instruction(Code::Input(0), f),
            instruction(Code::Input(1), f),
            instruction(Code::Binary(Binary::Add, 0, 1), f),
            instruction(Code::Constant(Scalar::Float(0.0)), f),
            instruction(Code::Binary(Binary::Max, 2, 3), f),
        ],
        results: vec![4],
    }
}

/// Matrices [m, k] and [n, k], each transposed in memory if `turned`.
fn matrices(dtype: DType, m: usize, n: usize, k: usize, turned: [bool; 2]) -> Vec<Content> {
    let make = |rows: usize, turned: bool| {
        let numbers =
            |shape: &[usize]| if dtype.is_float() { real(dtype, shape) } else { whole(dtype, shape, 9) };
        if turned {
            numbers(&[k, rows]).with_view(&[rows, k], &[1, rows as isize], 0)
        } else {
            numbers(&[rows, k])
        }
    };
    vec![make(m, turned[0]), make(n, turned[1])]
}

pub fn all() -> Vec<Case> {
    let f = DType::F32;
    let mut cases = Vec::new();
    for (m, n, k, turned) in [
        (5, 7, 3, [false, false]),
        (33, 18, 300, [false, true]),
        (16, 16, 257, [true, true]),
        (20, 10, 1100, [true, false]),
        (1, 1, 1, [false, false]),
    ] {
        let name = format!("{m} by {n}, {k} deep, turned {turned:?}");
        let work = plain([0, 1, 1, 1], Accumulation::Ordered, Program::identity(f));
        cases.push(Case::exact(&name, work, matrices(f, m, n, k, turned), &[(f, &[m, n])]));
    }
    for (dtype, sum) in [
        (DType::F16, f),
        (DType::BF16, f),
        (DType::F64, DType::F64),
        (DType::I32, DType::I32),
        (DType::U8, DType::U8),
        (DType::I64, DType::I64),
    ] {
        let work = plain([0, 1, 1, 1], Accumulation::Ordered, rounding(sum, dtype));
        let name = format!("a product of {dtype}");
        cases.push(Case::exact(
            &name,
            work,
            matrices(dtype, 19, 21, 270, [false, true]),
            &[(dtype, &[19, 21])],
        ));
    }
    // Small batches of large matrices use larger tiles.
    let work = plain([0, 1, 1, 1], Accumulation::Ordered, Program::identity(f));
    cases.push(Case::exact(
        "larger tiles",
        work,
        matrices(f, 700, 640, 5, [false, true]),
        &[(f, &[700, 640])],
    ));
    let bias = real(f, &[18]).with_view(&[33, 18], &[0, 1], 0);
    let mut inputs = matrices(f, 33, 18, 70, [false, true]);
    inputs.push(bias);
    let work = plain([0, 1, 1, 1], Accumulation::Ordered, bias_and_relu());
    cases.push(Case::exact("bias and relu", work, inputs, &[(f, &[33, 18])]));
    let mut inputs = matrices(f, 10, 12, 2000, [false, true]);
    inputs.push(real(f, &[12]).with_view(&[10, 12], &[0, 1], 0));
    let work = plain([0, 1, 1, 1], Accumulation::Ordered, bias_and_relu());
    cases.push(Case::exact("bias and relu after panels", work, inputs, &[(f, &[10, 12])]));
    // Batches of [2, 3]; the right operand is broadcast along the first batch axis.
    let left = real(f, &[2, 3, 6, 20]);
    let right = real(f, &[3, 5, 20]).with_view(&[2, 3, 5, 20], &[0, 100, 20, 1], 0);
    let work = plain([2, 1, 1, 1], Accumulation::Ordered, Program::identity(f));
    cases.push(Case::exact("batches", work, vec![left, right], &[(f, &[2, 3, 6, 5])]));
    // A convolution of two [3, 8, 8] images with 4 filters of [3, 3, 3] and stride 2: strided windows of the images, without a copy.
    let filters = real(f, &[4, 3, 3, 3]);
    let windows = real(f, &[2, 3, 8, 8]).with_view(&[2, 3, 3, 3, 3, 3], &[192, 16, 2, 64, 8, 1], 0);
    let work = plain([0, 1, 3, 3], Accumulation::Ordered, Program::identity(f));
    cases.push(Case::exact("a convolution", work, vec![filters, windows], &[(f, &[4, 2, 3, 3])]));
    for (dtype, tolerance) in [(f, 1e-5), (DType::F16, 2e-3), (DType::BF16, 2e-2)] {
        let work = plain([0, 1, 1, 1], Accumulation::Fast, rounding(f, dtype));
        let name = format!("a fast product of {dtype}");
        let inputs = matrices(dtype, 70, 66, 53, [false, true]);
        cases.push(Case::near(&name, tolerance * 8.0, work, inputs, &[(dtype, &[70, 66])]));
    }
    cases
}
