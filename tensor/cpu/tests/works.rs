//! Every other kind of work against reference loops, over random shapes and layouts.

mod support;

use support::{Bench, Dice, Sample, Writer, assert_near, decode, encode, ravel, unravel};
use tensor_core::device::Device;
use tensor_core::dtype::{DType, Kind, Scalar};
use tensor_core::layout::{Layout, Shape};
use tensor_core::program::{Binary, Code, Program, Unary};
use tensor_core::random::{normal_pair, philox, uniform_f32};
use tensor_core::step::{Distribution, Operand, Reduction, Step, Work};

const FLOATS: [DType; 4] = [DType::F16, DType::BF16, DType::F32, DType::F64];

#[test]
fn a_fused_chain_is_computed_for_every_layout_and_size() {
    let bench = Bench::new();
    let mut dice = Dice::new(1);
    for dtype in FLOATS {
        for round in 0..12 {
            let rank = dice.below(5);
            let shape = if round == 0 { vec![3, 5000] } else { dice.shape(rank, 9) };
            let inputs: Vec<Sample> = (0..3).map(|_| bench.random(&mut dice, dtype, &shape)).collect();
            let mut writer = Writer::default();
            let [a, b, c] = [0, 1, 2].map(|n| writer.input(n, dtype));
            let product = writer.binary(Binary::Mul, a, b, dtype);
            let sum = writer.binary(Binary::Add, product, c, dtype);
            let smooth = writer.unary(Unary::Tanh, sum, dtype);
            let half = writer.constant(0.5, dtype);
            let shifted = writer.binary(Binary::Sub, smooth, half, dtype);
            let large = writer.binary(Binary::Gt, sum, half, DType::Bool);
            let chosen = writer.push(Code::Select(large, shifted, c), dtype);
            let program = writer.done(&[chosen, large, sum, c]);
            let types = [(dtype, &shape[..]), (DType::Bool, &shape), (dtype, &shape), (dtype, &shape)];
            let own = bench.run(Work::Map(program), &[&inputs[0], &inputs[1], &inputs[2]], &types);
            for (position, &(a, _)) in inputs[0].values.iter().enumerate() {
                let rounded = |value: f64| decode(dtype, &encode(dtype, (value, 0.0))).0;
                let [b, c] = [1, 2].map(|n| inputs[n].values[position].0);
                let sum = rounded(rounded(a * b) + c);
                let large = sum > 0.5;
                let chosen = if large { rounded(sum.tanh()) - 0.5 } else { c };
                assert_eq!(own[1][position].0 == 1.0, large);
                assert_near(dtype, &[own[0][position]], &[(chosen, 0.0)], "chosen");
                assert_eq!(own[2][position].0, sum);
                assert_eq!(own[3][position].0, c);
            }
        }
    }
}

#[test]
fn indices_and_casts_reach_every_type() {
    let bench = Bench::new();
    let shape = [3, 4, 50];
    for dtype in DType::ALL {
        let mut writer = Writer::default();
        let row = writer.push(Code::Index(1), DType::I64);
        let column = writer.push(Code::Index(2), DType::I32);
        let column = writer.push(Code::Cast(column), DType::I64);
        let sum = writer.binary(Binary::Add, row, column, DType::I64);
        let cast = writer.push(Code::Cast(sum), dtype);
        let back = writer.push(Code::Cast(cast), DType::F64);
        let own =
            bench.run(Work::Map(writer.done(&[cast, back])), &[], &[(dtype, &shape), (DType::F64, &shape)]);
        for (position, (&cast, &back)) in own[0].iter().zip(&own[1]).enumerate() {
            let index = unravel(position, &shape);
            let sum = (index[1] + index[2]) as f64;
            let truth = if dtype == DType::Bool { f64::from(u8::from(sum != 0.0)) } else { sum };
            assert_eq!((cast.0, back.0), (truth, truth), "{dtype}");
        }
    }
}

/// Checks binary functions of every type against plain arithmetic in wide types.
#[test]
fn arithmetic_of_every_type_is_that_of_its_kind() {
    let bench = Bench::new();
    let mut dice = Dice::new(2);
    let shape = [7, 41];
    for dtype in DType::ALL {
        let left = bench.random(&mut dice, dtype, &shape);
        let right = bench.random(&mut dice, dtype, &shape);
        for what in [
            Binary::Add,
            Binary::Sub,
            Binary::Mul,
            Binary::Div,
            Binary::FloorDiv,
            Binary::Rem,
            Binary::Max,
            Binary::Eq,
            Binary::Le,
        ] {
            let kind = dtype.kind();
            let lacks = match kind {
                Kind::Bool => matches!(what, Binary::Div | Binary::FloorDiv | Binary::Rem | Binary::Sub),
                Kind::Complex => matches!(what, Binary::FloorDiv | Binary::Rem | Binary::Max | Binary::Le),
                _ => false,
            };
            if lacks {
                continue;
            }
            let to = if what.compares() { DType::Bool } else { dtype };
            let mut writer = Writer::default();
            let (a, b) = (writer.input(0, dtype), writer.input(1, dtype));
            let value = writer.binary(what, a, b, to);
            let own =
                bench.run(Work::Map(writer.done(&[value])), &[&left, &right], &[(to, &shape)]).remove(0);
            let truth: Vec<(f64, f64)> =
                left.values.iter().zip(&right.values).map(|(&a, &b)| arithmetic(what, dtype, a, b)).collect();
            assert_near(to, &own, &truth, &format!("{what:?} of {dtype}"));
        }
    }
}

fn arithmetic(what: Binary, dtype: DType, a: (f64, f64), b: (f64, f64)) -> (f64, f64) {
    let whole = dtype.is_integer();
    let truth = |holds: bool| (f64::from(u8::from(holds)), 0.0);
    let real = |value: f64| {
        let bits = 8 * dtype.bytes() as i32;
        let range = 2_f64.powi(bits);
        match dtype.kind() {
            Kind::Unsigned => (value.rem_euclid(range), 0.0),
            Kind::Signed if bits < 64 => ((value + range / 2.0).rem_euclid(range) - range / 2.0, 0.0),
            Kind::Bool => truth(value != 0.0),
            _ => (value, 0.0),
        }
    };
    match what {
        Binary::Eq => truth(a == b),
        Binary::Le => truth(a.0 <= b.0),
        Binary::Add if dtype.is_complex() => (a.0 + b.0, a.1 + b.1),
        Binary::Sub if dtype.is_complex() => (a.0 - b.0, a.1 - b.1),
        Binary::Mul if dtype.is_complex() => (a.0 * b.0 - a.1 * b.1, a.0 * b.1 + a.1 * b.0),
        Binary::Div if dtype.is_complex() => {
            let size = b.0 * b.0 + b.1 * b.1;
            ((a.0 * b.0 + a.1 * b.1) / size, (a.1 * b.0 - a.0 * b.1) / size)
        }
        Binary::Add => real(a.0 + b.0),
        Binary::Sub => real(a.0 - b.0),
        Binary::Mul => real(a.0 * b.0),
        Binary::Max => real(a.0.max(b.0)),
        _ if whole && b.0 == 0.0 => (0.0, 0.0),
        Binary::Div if whole => real((a.0 / b.0).trunc()),
        Binary::Div => real(a.0 / b.0),
        Binary::FloorDiv => real((a.0 / b.0).floor()),
        Binary::Rem => real(a.0 - (a.0 / b.0).floor() * b.0),
        _ => unreachable!("not tested"),
    }
}

#[test]
fn functions_of_floats_agree_with_the_library() {
    let bench = Bench::new();
    let values: Vec<f64> = (0..2000).map(|n| (f64::from(n) - 1000.0) / 170.0).collect();
    type Function = fn(f64) -> f64;
    let functions: [(Unary, Function); 26] = [
        (Unary::Neg, |x| -x),
        (Unary::Abs, f64::abs),
        (Unary::Sqrt, f64::sqrt),
        (Unary::Rsqrt, |x| 1.0 / x.sqrt()),
        (Unary::Recip, |x| 1.0 / x),
        (Unary::Exp, f64::exp),
        (Unary::Exp2, f64::exp2),
        (Unary::Expm1, f64::exp_m1),
        (Unary::Log, f64::ln),
        (Unary::Log2, f64::log2),
        (Unary::Log10, f64::log10),
        (Unary::Log1p, f64::ln_1p),
        (Unary::Sin, f64::sin),
        (Unary::Cos, f64::cos),
        (Unary::Atan, f64::atan),
        (Unary::Asin, f64::asin),
        (Unary::Acos, f64::acos),
        (Unary::Sinh, f64::sinh),
        (Unary::Cosh, f64::cosh),
        (Unary::Tanh, f64::tanh),
        (Unary::Asinh, f64::asinh),
        (Unary::Sigmoid, |x| 1.0 / (1.0 + (-x).exp())),
        (Unary::Floor, f64::floor),
        (Unary::Ceil, f64::ceil),
        (Unary::Trunc, f64::trunc),
        (Unary::Round, f64::round_ties_even),
    ];
    for dtype in FLOATS {
        let input = bench.contiguous(dtype, &[2000], &values);
        for (what, function) in functions {
            let mut writer = Writer::default();
            let x = writer.input(0, dtype);
            let y = writer.unary(what, x, dtype);
            let own = bench.run(Work::Map(writer.done(&[y])), &[&input], &[(dtype, &[2000])]).remove(0);
            let truth: Vec<_> = input.values.iter().map(|x| (function(x.0), 0.0)).collect();
            assert_near(dtype, &own, &truth, &format!("{what:?}"));
        }
    }
    let huge = bench.contiguous(DType::F32, &[3], &[3e9, -1e30, f64::INFINITY]);
    let mut writer = Writer::default();
    let x = writer.input(0, DType::F32);
    let y = writer.unary(Unary::Sin, x, DType::F32);
    let own = bench.run(Work::Map(writer.done(&[y])), &[&huge], &[(DType::F32, &[3])]).remove(0);
    assert_near(DType::F32, &own, &huge.values.iter().map(|x| (x.0.sin(), 0.0)).collect::<Vec<_>>(), "sin");
}

type Join = fn(f64, f64) -> f64;

/// The reduction of a sample over axes, by plain loops.
fn reduced(sample: &Sample, shape: &[usize], axes: &[usize], start: f64, join: Join) -> Vec<f64> {
    let kept: Vec<usize> =
        shape.iter().enumerate().map(|(axis, &n)| if axes.contains(&axis) { 1 } else { n }).collect();
    let mut all = vec![start; kept.iter().product()];
    for (position, value) in sample.values.iter().enumerate() {
        let mut index = unravel(position, shape);
        for &axis in axes {
            index[axis] = 0;
        }
        let at = ravel(&index, &kept);
        all[at] = join(all[at], value.0);
    }
    all
}

#[test]
fn reductions_agree_for_every_choice_of_axes() {
    let bench = Bench::new();
    let mut dice = Dice::new(3);
    let shapes: [&[usize]; 7] =
        [&[6], &[3, 4, 5], &[2, 3, 2, 4], &[5000], &[3, 1500], &[1500, 3], &[70, 1100]];
    for shape in shapes {
        for set in 0..1_usize << shape.len() {
            let axes: Vec<usize> = (0..shape.len()).filter(|axis| set >> axis & 1 == 1).collect();
            let kept: Vec<usize> =
                shape.iter().enumerate().map(|(axis, &n)| if axes.contains(&axis) { 1 } else { n }).collect();
            let kinds: [(Reduction, f64, Join); 3] = [
                (Reduction::Sum, 0.0, |a, b| a + b),
                (Reduction::Max, f64::NEG_INFINITY, f64::max),
                (Reduction::Min, f64::INFINITY, f64::min),
            ];
            for (reduction, start, join) in kinds {
                for dtype in [DType::F32, DType::I64] {
                    let input = bench.random(&mut dice, dtype, shape);
                    let more = bench.random(&mut dice, dtype, &kept);
                    // A square as the prologue, another input in the epilogue.
                    let mut writer = Writer::default();
                    let x = writer.input(0, dtype);
                    let square = writer.binary(Binary::Mul, x, x, dtype);
                    let program = writer.done(&[square]);
                    let mut writer = Writer::default();
                    let (sum, other) = (writer.input(0, dtype), writer.input(1, dtype));
                    let total = writer.binary(Binary::Sub, sum, other, dtype);
                    let epilogue = writer.done(&[total]);
                    let work = Work::Reduce { program, reduction, axes: axes.clone(), mapped: 1, epilogue };
                    let own = bench.run(work, &[&input, &more], &[(dtype, &kept)]).remove(0);
                    let mut squares = input.clone();
                    squares.values.iter_mut().for_each(|value| value.0 *= value.0);
                    let truth: Vec<(f64, f64)> = reduced(&squares, shape, &axes, start, join)
                        .into_iter()
                        .zip(&more.values)
                        .map(|(value, more)| (value - more.0, 0.0))
                        .collect();
                    assert_near(dtype, &own, &truth, &format!("{reduction:?} of {shape:?} over {axes:?}"));
                }
            }
        }
    }
}

#[test]
fn sums_are_accurate_the_same_every_time_and_reduce_indices() {
    let bench = Bench::new();
    let count = 300_000;
    let input = bench.contiguous(DType::F32, &[count], &vec![0.1; count]);
    let sum = |sample: &Sample| {
        let work = Work::Reduce {
            program: Program::identity(DType::F32),
            reduction: Reduction::Sum,
            axes: vec![0],
            mapped: 1,
            epilogue: Program::identity(DType::F32),
        };
        bench.run(work, &[sample], &[(DType::F32, &[1])]).remove(0)[0].0
    };
    let truth = f64::from(0.1_f32) * count as f64;
    assert!((sum(&input) - truth).abs() < truth * 1e-6);
    let mut dice = Dice::new(9);
    let noise: Vec<f64> = (0..count).map(|_| dice.real()).collect();
    let noise = bench.contiguous(DType::F32, &[count], &noise);
    let first = sum(&noise);
    for _ in 0..20 {
        assert_eq!(sum(&noise).to_bits(), first.to_bits());
    }
    // The sum of indices along the second axis, for each position of the first and third.
    let shape = [4, 30, 5];
    let input = bench.contiguous(DType::I64, &shape, &[1.0; 600]);
    let mut writer = Writer::default();
    let (x, index) = (writer.input(0, DType::I64), writer.push(Code::Index(1), DType::I64));
    let product = writer.binary(Binary::Mul, x, index, DType::I64);
    let work = Work::Reduce {
        program: writer.done(&[product]),
        reduction: Reduction::Sum,
        axes: vec![1],
        mapped: 1,
        epilogue: Program::identity(DType::I64),
    };
    let own = bench.run(work, &[&input], &[(DType::I64, &[4, 1, 5])]).remove(0);
    assert_eq!(own, vec![(435.0, 0.0); 20]);
}

#[test]
fn empty_reductions_are_their_start_and_nan_is_extreme() {
    let bench = Bench::new();
    let reduce = |reduction, dtype| Work::Reduce {
        program: Program::identity(dtype),
        reduction,
        axes: vec![1],
        mapped: 1,
        epilogue: Program::identity(dtype),
    };
    let empty = bench.contiguous(DType::F32, &[2, 0], &[]);
    for (reduction, truth) in [(Reduction::Sum, 0.0), (Reduction::Product, 1.0)] {
        let own = bench.run(reduce(reduction, DType::F32), &[&empty], &[(DType::F32, &[2, 1])]).remove(0);
        assert_eq!(own, vec![(truth, 0.0); 2]);
    }
    let mut values = vec![1.0; 200];
    values[77] = f64::NAN;
    let input = bench.contiguous(DType::F32, &[2, 100], &values);
    for reduction in [Reduction::Max, Reduction::Min] {
        let own = bench.run(reduce(reduction, DType::F32), &[&input], &[(DType::F32, &[2, 1])]).remove(0);
        assert!(own[0].0.is_nan() && own[1].0 == 1.0);
    }
    let flags = bench.contiguous(DType::Bool, &[2, 2], &[0.0, 1.0, 0.0, 0.0]);
    for (reduction, truth) in [(Reduction::Any, [1.0, 0.0]), (Reduction::All, [0.0, 0.0])] {
        let own = bench.run(reduce(reduction, DType::Bool), &[&flags], &[(DType::Bool, &[2, 1])]).remove(0);
        assert_eq!([own[0].0, own[1].0], truth);
    }
}

/// The rows of a tensor along an axis: their elements' positions.
fn rows(shape: &[usize], axis: usize) -> Vec<Vec<usize>> {
    (0..shape.iter().product())
        .map(|position| unravel(position, shape))
        .filter(|index| index[axis] == 0)
        .map(|mut index| {
            (0..shape[axis])
                .map(|n| {
                    index[axis] = n;
                    ravel(&index, shape)
                })
                .collect()
        })
        .collect()
}

#[test]
fn work_along_an_axis_is_what_its_rows_say() {
    let bench = Bench::new();
    let mut dice = Dice::new(4);
    for shape in [&[5][..], &[4, 7], &[3, 4, 5], &[2, 1500]] {
        for axis in 0..shape.len() {
            for dtype in [DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32, DType::U8] {
                let input = bench.random(&mut dice, dtype, shape);
                let mut small = shape.to_vec();
                small[axis] = 1;
                let rows = rows(shape, axis);
                let at = |position: usize| input.values[position].0;
                for largest in [false, true] {
                    let work = Work::ArgReduce { largest, axis };
                    let own = bench.run(work, &[&input], &[(DType::I64, &small)]).remove(0);
                    for (row, (index, _)) in rows.iter().zip(own) {
                        let better = |a: f64, b: f64| if largest { a > b } else { a < b };
                        let truth = (1..row.len())
                            .fold(0, |best, n| if better(at(row[n]), at(row[best])) { n } else { best });
                        assert_eq!(index, truth as f64);
                    }
                    let work = Work::Sort { axis, descending: largest };
                    let own = bench.run(work, &[&input], &[(dtype, shape), (DType::I64, shape)]);
                    for row in &rows {
                        let mut order: Vec<usize> = (0..row.len()).collect();
                        order.sort_by(|&a, &b| {
                            let (a, b) = (at(row[a]), at(row[b]));
                            if largest { b.total_cmp(&a) } else { a.total_cmp(&b) }
                        });
                        for (&position, &index) in row.iter().zip(&order) {
                            assert_eq!(own[0][position].0, at(row[index]));
                            assert_eq!(own[1][position].0, index as f64);
                        }
                    }
                }
                let work = Work::Cumulative { axis, product: false };
                let own = bench.run(work, &[&input], &[(dtype, shape)]).remove(0);
                for row in &rows {
                    let mut sum = 0.0;
                    for &position in row {
                        sum += at(position);
                        let truth = if dtype == DType::U8 { f64::from(sum as u64 as u8) } else { sum };
                        assert_near(dtype, &[own[position]], &[(truth, 0.0)], "cumulative");
                    }
                }
                if !dtype.is_float() {
                    continue;
                }
                for log in [false, true] {
                    let own = bench.run(Work::Softmax { axis, log }, &[&input], &[(dtype, shape)]).remove(0);
                    for row in &rows {
                        let sum: f64 = row.iter().map(|&position| at(position).exp()).sum();
                        for &position in row {
                            let truth = if log { at(position) - sum.ln() } else { at(position).exp() / sum };
                            assert_near(dtype, &[own[position]], &[(truth, 0.0)], "softmax");
                        }
                    }
                }
            }
        }
    }
}

#[test]
fn nan_comes_first_for_arguments_and_last_in_order() {
    let bench = Bench::new();
    let input = bench.contiguous(DType::F32, &[5], &[2.0, f64::NAN, 3.0, f64::NAN, 1.0]);
    for largest in [false, true] {
        let own = bench.run(Work::ArgReduce { largest, axis: 0 }, &[&input], &[(DType::I64, &[1])]).remove(0);
        assert_eq!(own[0].0, 1.0);
    }
    for (descending, truth) in [(false, [4.0, 0.0, 2.0, 1.0, 3.0]), (true, [2.0, 0.0, 4.0, 1.0, 3.0])] {
        let outputs: [(DType, &[usize]); 2] = [(DType::F32, &[5]), (DType::I64, &[5])];
        let own = bench.run(Work::Sort { axis: 0, descending }, &[&input], &outputs);
        assert_eq!(own[1].iter().map(|value| value.0).collect::<Vec<_>>(), truth);
    }
}

#[test]
fn normalisation_has_the_moments_it_says() {
    let bench = Bench::new();
    let mut dice = Dice::new(5);
    for dtype in FLOATS {
        for (shape, axes) in [(&[6, 50][..], 1), (&[2, 3, 4, 5], 2), (&[3, 2000], 1), (&[7], 1)] {
            for affine in 0..3 {
                let input = bench.random(&mut dice, dtype, shape);
                let kept = shape.len() - axes;
                let length: usize = shape[kept..].iter().product();
                let more: Vec<Sample> = (0..affine)
                    .map(|_| {
                        let mut row = bench.random(&mut dice, dtype, &shape[kept..]);
                        let layout = &mut row.operand.layout;
                        layout.shape = Shape::from_slice(shape);
                        for _ in 0..kept {
                            layout.strides.insert(0, 0);
                        }
                        row
                    })
                    .collect();
                let wide = if dtype == DType::F64 { DType::F64 } else { DType::F32 };
                let mut small = shape.to_vec();
                small[kept..].fill(1);
                let inputs: Vec<&Sample> = std::iter::once(&input).chain(&more).collect();
                let own = bench.run(
                    Work::Normalise { axes, epsilon: 1e-3 },
                    &inputs,
                    &[(dtype, shape), (wide, &small), (wide, &small)],
                );
                for (number, row) in input.values.chunks(length).enumerate() {
                    let mean = row.iter().map(|x| x.0).sum::<f64>() / length as f64;
                    let variance = row.iter().map(|x| (x.0 - mean).powi(2)).sum::<f64>() / length as f64;
                    let factor = 1.0 / (variance + 1e-3).sqrt();
                    assert_near(wide, &[own[1][number]], &[(mean, 0.0)], "mean");
                    assert_near(wide, &[own[2][number]], &[(factor, 0.0)], "factor");
                    for (n, x) in row.iter().enumerate() {
                        let mut truth = (x.0 - mean) * factor;
                        truth *= more.first().map_or(1.0, |weight| weight.values[n].0);
                        truth += more.get(1).map_or(0.0, |bias| bias.values[n].0);
                        assert_near(dtype, &[own[0][number * length + n]], &[(truth, 0.0)], "normalised");
                    }
                }
            }
        }
    }
}

#[test]
fn a_write_changes_its_places_and_nothing_else() {
    let bench = Bench::new();
    let mut dice = Dice::new(7);
    for dtype in DType::ALL {
        for (shape, strides, offset) in [
            (vec![5], vec![3], 1),
            (vec![4, 3], vec![1, 4], 2),
            (vec![2, 3, 2], vec![-10, 3, 1], 12),
            (vec![3000], vec![5], 4),
            (vec![70, 300], vec![301, 1], 0),
        ] {
            let layout = Layout { shape: shape[..].into(), strides: strides[..].into(), offset };
            let room = 22_000;
            let (input, old) =
                (bench.random(&mut dice, dtype, &shape), bench.random(&mut dice, dtype, &[room]));
            let mut expected = old.values.clone();
            for (position, &value) in input.values.iter().enumerate() {
                let index = unravel(position, &shape);
                let place: isize = index.iter().zip(&strides).map(|(&n, &stride)| n as isize * stride).sum();
                expected[(offset as isize + place) as usize] = value;
            }
            let mut bytes = old.values.iter().flat_map(|&value| encode(dtype, value)).collect::<Vec<_>>();
            let buffer = bench.device.allocate(bytes.len()).unwrap();
            bench.device.upload(&buffer, 0, &bytes).unwrap();
            let output = Operand { buffer: buffer.clone(), layout, dtype };
            let step = Step { work: Work::Write, inputs: vec![input.operand.clone()], outputs: vec![output] };
            bench.device.run(&[step]).unwrap();
            bench.device.download(&buffer, 0, &mut bytes).unwrap();
            let found: Vec<_> = bytes.chunks_exact(dtype.bytes()).map(|it| decode(dtype, it)).collect();
            assert!(found == expected, "{dtype} {shape:?}");
        }
    }
}

#[test]
fn frames_of_zeros_fit_around_many_rows_and_around_nothing() {
    let bench = Bench::new();
    let mut dice = Dice::new(16);
    for (shape, before, out) in [
        (vec![70, 65, 31], vec![0, 1, 1], vec![70, 67, 33]),
        (vec![3, 40_000], vec![1, 0], vec![5, 40_001]),
        (vec![50_000], vec![2], vec![50_005]),
        (vec![2, 1000], vec![0, 20_000], vec![2, 40_000]),
        (vec![20_000], vec![16_384], vec![60_000]),
        (vec![2, 0, 3], vec![0, 2, 1], vec![2, 3, 4]),
        (vec![0, 5], vec![0, 1], vec![0, 7]),
        (vec![4, 0], vec![0, 0], vec![4, 0]),
        (vec![], vec![], vec![]),
    ] {
        let input = bench.random(&mut dice, DType::F32, &shape);
        let work = Work::Pad { before: before.iter().copied().collect(), value: Scalar::Int(0) };
        let own = bench.run(work, &[&input], &[(DType::F32, &out)]).remove(0);
        assert_eq!(own.len(), out.iter().product::<usize>());
        let mut inner = 0;
        for (position, value) in own.iter().enumerate() {
            let index = unravel(position, &out);
            let is_inside = (0..shape.len()).all(|axis| index[axis].wrapping_sub(before[axis]) < shape[axis]);
            let truth = if is_inside { input.values[inner] } else { (0.0, 0.0) };
            inner += usize::from(is_inside);
            assert_eq!(*value, truth, "{index:?} of {out:?}");
        }
    }
}

#[test]
fn frames_and_joins_put_elements_where_they_belong() {
    let bench = Bench::new();
    let mut dice = Dice::new(6);
    for dtype in DType::ALL {
        for rank in 1..4 {
            let shape = dice.shape(rank, 6);
            let input = bench.random(&mut dice, dtype, &shape);
            let before: Shape = (0..rank).map(|_| dice.below(3)).collect();
            let out: Vec<usize> = (0..rank).map(|axis| before[axis] + shape[axis] + dice.below(3)).collect();
            for around in [0, 1] {
                let work = Work::Pad { before: before.clone(), value: Scalar::Int(around) };
                let own = bench.run(work, &[&input], &[(dtype, &out)]).remove(0);
                for (position, value) in own.iter().enumerate() {
                    let index = unravel(position, &out);
                    let inside: Option<Vec<usize>> = (0..rank)
                        .map(|axis| index[axis].checked_sub(before[axis]).filter(|&n| n < shape[axis]))
                        .collect();
                    let truth =
                        inside.map_or((around as f64, 0.0), |index| input.values[ravel(&index, &shape)]);
                    assert_eq!(*value, truth, "{dtype} {shape:?} in {out:?}");
                }
            }
            let axis = dice.below(rank);
            let parts: Vec<(Vec<usize>, Sample)> = (0..3)
                .map(|_| {
                    let mut shape = shape.clone();
                    shape[axis] = dice.below(4);
                    let part = bench.random(&mut dice, dtype, &shape);
                    (shape, part)
                })
                .collect();
            let mut out = shape.clone();
            out[axis] = parts.iter().map(|(shape, _)| shape[axis]).sum();
            let inputs: Vec<&Sample> = parts.iter().map(|(_, part)| part).collect();
            let own = bench.run(Work::Concat { axis }, &inputs, &[(dtype, &out)]).remove(0);
            for (position, value) in own.iter().enumerate() {
                let mut index = unravel(position, &out);
                let mut number = 0;
                while index[axis] >= parts[number].0[axis] {
                    index[axis] -= parts[number].0[axis];
                    number += 1;
                }
                assert_eq!(*value, parts[number].1.values[ravel(&index, &parts[number].0)]);
            }
        }
    }
}

#[test]
fn indices_gather_and_scatter() {
    let bench = Bench::new();
    let mut dice = Dice::new(7);
    for dtype in DType::ALL {
        for axis in 0..3 {
            let shape = [4, 5, 6];
            let mut wanted = [3, 4, 5];
            wanted[axis] = 9;
            let input = bench.random(&mut dice, dtype, &shape);
            let count = wanted.iter().product::<usize>();
            // Some indices are out of bounds on either side.
            let indices: Vec<f64> = (0..count).map(|_| dice.below(shape[axis] + 2) as f64 - 1.0).collect();
            let indices = bench.contiguous(DType::I64, &wanted, &indices);
            let work = Work::Gather { axis };
            let own = bench.run(work, &[&input, &indices], &[(dtype, &wanted)]).remove(0);
            let target = |position: usize| {
                let mut index = unravel(position, &wanted);
                let along = indices.values[position].0;
                (along >= 0.0 && along < shape[axis] as f64).then(|| {
                    index[axis] = along as usize;
                    ravel(&index, &shape)
                })
            };
            for (position, value) in own.iter().enumerate() {
                assert_eq!(*value, target(position).map_or((0.0, 0.0), |at| input.values[at]));
            }
            let values = bench.random(&mut dice, dtype, &wanted);
            for add in [true, false] {
                let work = Work::Scatter { axis, add };
                let own = bench.run(work, &[&input, &indices, &values], &[(dtype, &shape)]).remove(0);
                let mut truth = input.values.clone();
                for position in 0..count {
                    let Some(at) = target(position) else { continue };
                    truth[at] = match add {
                        true => {
                            (truth[at].0 + values.values[position].0, truth[at].1 + values.values[position].1)
                        }
                        false => values.values[position],
                    };
                }
                if add {
                    for value in &mut truth {
                        value.0 = arithmetic(Binary::Add, dtype, *value, (0.0, 0.0)).0;
                    }
                }
                assert_near(dtype, &own, &truth, "scatter");
            }
        }
    }
}

#[test]
fn folding_is_the_inverse_of_taking_windows() {
    let bench = Bench::new();
    let mut dice = Dice::new(8);
    for dtype in [DType::F32, DType::F16, DType::I32, DType::F64] {
        for (kernel, stride, dilation) in
            [([3, 2], [1, 1], [1, 1]), ([2, 3], [2, 3], [1, 2]), ([1, 4], [3, 1], [2, 1])]
        {
            let windows = [4, 3];
            let out: Vec<usize> =
                [2].into_iter()
                    .chain((0..2).map(|axis| {
                        (windows[axis] - 1) * stride[axis] + (kernel[axis] - 1) * dilation[axis] + 2
                    }))
                    .collect();
            let shape = [2, windows[0], windows[1], kernel[0], kernel[1]];
            let input = bench.random(&mut dice, dtype, &shape);
            let to_shape = |numbers: [usize; 2]| Shape::from_slice(&numbers);
            let work = Work::Fold {
                kernel: to_shape(kernel),
                stride: to_shape(stride),
                dilation: to_shape(dilation),
            };
            let own = bench.run(work, &[&input], &[(dtype, &out)]).remove(0);
            let mut truth = vec![(0.0, 0.0); own.len()];
            for (position, value) in input.values.iter().enumerate() {
                let index = unravel(position, &shape);
                let at = [
                    index[0],
                    index[1] * stride[0] + index[3] * dilation[0],
                    index[2] * stride[1] + index[4] * dilation[1],
                ];
                truth[ravel(&at, &out)].0 += value.0;
            }
            assert_near(dtype, &own, &truth, "fold");
        }
    }
}

#[test]
fn random_numbers_are_those_of_the_generator() {
    let bench = Bench::new();
    let random = |distribution| Work::Random { seed: 5, offset: 11, distribution };
    let own = bench.run(random(Distribution::Uniform), &[], &[(DType::F32, &[3, 3])]).remove(0);
    for (n, value) in own.iter().enumerate() {
        assert_eq!(value.0, f64::from(uniform_f32(philox(5, 11 + n as u64 / 4)[n % 4])));
    }
    let half = bench.run(random(Distribution::Uniform), &[], &[(DType::F16, &[20_000])]).remove(0);
    let single = bench.run(random(Distribution::Uniform), &[], &[(DType::F32, &[20_000])]).remove(0);
    for (half, single) in half.iter().zip(&single) {
        assert!(half.0 <= single.0 && half.0 < 1.0 && single.0 - half.0 <= single.0 / 1024.0);
    }
    let own = bench.run(random(Distribution::Normal), &[], &[(DType::F32, &[5])]).remove(0);
    let [a, b, c, d] = philox(5, 11);
    let (first, second) = (normal_pair(a, b), normal_pair(c, d));
    let truth = [first.0, first.1, second.0, second.1].map(|value| f64::from(value as f32));
    assert_eq!(own[..4].iter().map(|value| value.0).collect::<Vec<_>>(), truth);
    let integers = Distribution::Integers { low: -3, high: 4 };
    let own = bench.run(random(integers), &[], &[(DType::I32, &[1000])]).remove(0);
    assert!((-3..4).all(|n| own.iter().any(|value| value.0 == f64::from(n))));
    assert!(own.iter().all(|value| (-3.0..4.0).contains(&value.0)));
}

#[test]
fn what_makes_no_sense_is_refused() {
    let bench = Bench::new();
    let sample = bench.contiguous(DType::F32, &[4], &[1.0; 4]);
    let run = |work, inputs: Vec<Operand>, output: Operand| {
        bench.device.run(&[Step { work, inputs, outputs: vec![output] }])
    };
    let identity = || Work::Map(Program::identity(DType::F32));
    let fine = sample.operand.clone();
    assert!(run(identity(), vec![fine.clone()], bench.empty(DType::F32, &[4])).is_ok());
    assert!(run(identity(), vec![fine.clone()], bench.empty(DType::F32, &[5])).is_err());
    assert!(run(identity(), vec![fine.clone()], fine.clone()).is_err());
    assert!(run(identity(), vec![], bench.empty(DType::F32, &[4])).is_err());
    for layout in [
        Layout { offset: 1, ..Layout::contiguous(&[4]) },
        Layout { strides: [2].into_iter().collect(), ..Layout::contiguous(&[4]) },
        Layout { strides: [-1].into_iter().collect(), ..Layout::contiguous(&[4]) },
    ] {
        let beyond = Operand { layout, ..fine.clone() };
        assert!(run(identity(), vec![beyond], bench.empty(DType::F32, &[4])).is_err());
    }
    let mut writer = Writer::default();
    let x = writer.input(0, DType::F32);
    let y = writer.binary(Binary::And, x, x, DType::F32);
    let bits = Work::Map(writer.done(&[y]));
    assert!(!bench.device.supports(&bits, &[DType::F32]));
    assert!(run(bits, vec![fine.clone()], bench.empty(DType::F32, &[4])).is_err());
    assert!(bench.device.upload(&fine.buffer, 13, &[0; 4]).is_err());
    assert!(bench.device.download(&fine.buffer, usize::MAX, &mut [0; 4]).is_err());
    // The device still works after errors.
    assert!(run(identity(), vec![fine], bench.empty(DType::F32, &[4])).is_ok());
}
