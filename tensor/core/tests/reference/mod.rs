//! The reference device: plain loops that implement step.rs, every number an f64. Slow, short, and independent of every other
//! device.

use std::any::Any;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::Mutex;
use tensor_core::decompose::{decompose, is_composed};
use tensor_core::device::{Buffer, Device, DeviceInfo, Memory};
use tensor_core::dtype::{DType, Scalar};
use tensor_core::element;
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::program::{Binary, Code, Program, Unary};
use tensor_core::random;
use tensor_core::step::{Distribution, Fused, Operand, Padding, Reduction, Step, Work};

#[derive(Debug, Default)]
pub struct Reference {
    pub launches: AtomicUsize,
    /// Plans gradients of convolutions as single steps, which it cannot run.
    pub plans_gradients: bool,
}

#[derive(Debug)]
struct Bytes(Mutex<Vec<u8>>);

impl Memory for Bytes {
    fn bytes(&self) -> usize {
        self.0.lock().len()
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

fn bytes(buffer: &Buffer) -> &Mutex<Vec<u8>> {
    &buffer.as_any().downcast_ref::<Bytes>().unwrap().0
}

impl Device for Reference {
    fn name(&self) -> &str {
        "reference"
    }
    fn info(&self) -> Result<DeviceInfo, DeviceError> {
        Ok(DeviceInfo::default())
    }
    fn allocate(&self, size: usize) -> Result<Buffer, DeviceError> {
        // Filled with NaN in every float type, so that reads of unwritten memory show.
        Ok(Arc::new(Bytes(Mutex::new(vec![0xFF; size]))))
    }
    fn upload(&self, to: &Buffer, offset: usize, from: &[u8]) -> Result<(), DeviceError> {
        bytes(to).lock()[offset..offset + from.len()].copy_from_slice(from);
        Ok(())
    }
    fn download(&self, from: &Buffer, offset: usize, into: &mut [u8]) -> Result<(), DeviceError> {
        into.copy_from_slice(&bytes(from).lock()[offset..offset + into.len()]);
        Ok(())
    }
    fn run(&self, steps: &[Step]) -> Result<(), DeviceError> {
        for step in steps {
            self.launches.fetch_add(1, Ordering::Relaxed);
            run(step);
        }
        Ok(())
    }
    fn synchronize(&self) -> Result<(), DeviceError> {
        Ok(())
    }
    fn supports(&self, work: &Work, dtypes: &[DType]) -> bool {
        if let Work::Fused(fused) = work {
            return self.plans_gradients && matches!(fused, Fused::ConvolutionGradient { .. });
        }
        let programs: &[&Program] = match work {
            Work::Map(program) => &[program],
            Work::Reduce { program, epilogue, .. } => &[program, epilogue],
            Work::Contract { epilogue, .. } => &[epilogue],
            _ => &[],
        };
        let inside =
            programs.iter().flat_map(|program| &program.instructions).map(|instruction| instruction.dtype);
        inside.chain(dtypes.iter().copied()).all(|dtype| !dtype.is_complex())
    }
    fn folds_padding(&self, _: &Padding, _: &Layout, _: DType) -> bool {
        true
    }
    fn epilogue_results(&self) -> usize {
        3
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

pub fn decode(bytes: &[u8], dtype: DType) -> f64 {
    element::decode(bytes, dtype).to_f64()
}

fn encode(value: f64, dtype: DType) -> Vec<u8> {
    let mut bytes = Vec::new();
    element::encode(Scalar::Float(value), dtype, &mut bytes);
    bytes
}

/// Rounds a value to this type.
fn rounded(value: f64, dtype: DType) -> f64 {
    decode(&encode(value, dtype), dtype)
}

fn position(layout: &Layout, index: &[usize]) -> usize {
    assert_eq!(index.len(), layout.rank());
    let distance: isize = index.iter().zip(&layout.strides).map(|(&i, &stride)| i as isize * stride).sum();
    layout.offset.checked_add_signed(distance).unwrap()
}

fn get(operand: &Operand, index: &[usize]) -> f64 {
    assert!(
        index.iter().zip(&operand.layout.shape).all(|(i, length)| i < length),
        "{index:?} of {operand:?}"
    );
    let size = operand.dtype.bytes();
    let at = position(&operand.layout, index) * size;
    decode(&bytes(&operand.buffer).lock()[at..at + size], operand.dtype)
}

fn set(operand: &Operand, index: &[usize], value: f64) {
    let at = position(&operand.layout, index) * operand.dtype.bytes();
    let encoded = encode(value, operand.dtype);
    bytes(&operand.buffer).lock()[at..at + encoded.len()].copy_from_slice(&encoded);
}

fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    let mut index = vec![0; shape.len()];
    if shape.contains(&0) {
        return;
    }
    loop {
        f(&index);
        let Some(axis) = (0..shape.len()).rev().find(|&axis| index[axis] + 1 < shape[axis]) else { return };
        index[axis] += 1;
        index[axis + 1..].fill(0);
    }
}

fn unary(function: Unary, x: f64) -> f64 {
    use Unary::*;
    match function {
        Neg => -x,
        Abs => x.abs(),
        Sign if x == 0.0 || x.is_nan() => x,
        Sign => x.signum(),
        Not => f64::from(u8::from(x == 0.0)),
        BitNot => !(x as i64) as f64,
        Sqrt => x.sqrt(),
        Rsqrt => 1.0 / x.sqrt(),
        Recip => 1.0 / x,
        Exp => x.exp(),
        Exp2 => x.exp2(),
        Expm1 => x.exp_m1(),
        Log => x.ln(),
        Log2 => x.log2(),
        Log10 => x.log10(),
        Log1p => x.ln_1p(),
        Sin => x.sin(),
        Cos => x.cos(),
        Tan => x.tan(),
        Asin => x.asin(),
        Acos => x.acos(),
        Atan => x.atan(),
        Sinh => x.sinh(),
        Cosh => x.cosh(),
        Tanh => x.tanh(),
        Asinh => x.asinh(),
        Acosh => x.acosh(),
        Atanh => x.atanh(),
        Erf => erf(x),
        Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Floor => x.floor(),
        Ceil => x.ceil(),
        Trunc => x.trunc(),
        Round => x.round_ties_even(),
        IsNan => f64::from(u8::from(x.is_nan())),
        IsInf => f64::from(u8::from(x.is_infinite())),
        Real | Conj => x,
        Imag => 0.0,
    }
}

/// The error function by its series, or by the continued fraction of its complement.
fn erf(x: f64) -> f64 {
    let a = x.abs();
    if a > 2.5 {
        let mut fraction = 0.0;
        for n in (1..=60).rev() {
            fraction = n as f64 / 2.0 / (a + fraction);
        }
        return x.signum() * (1.0 - (-a * a).exp() / ((a + fraction) * std::f64::consts::PI.sqrt()));
    }
    let (mut term, mut sum) = (x, x);
    for n in 1..80 {
        term *= -x * x / n as f64;
        sum += term / (2 * n + 1) as f64;
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn binary(function: Binary, a: f64, b: f64, integer: bool) -> f64 {
    use Binary::*;
    let truth = |value: bool| f64::from(u8::from(value));
    match function {
        Add => a + b,
        Sub => a - b,
        Mul => a * b,
        Div | FloorDiv if integer && b == 0.0 => 0.0,
        Div if integer => (a / b).trunc(),
        Div => a / b,
        FloorDiv => (a / b).floor(),
        Rem => a - (a / b).floor() * b,
        Pow => a.powf(b),
        Max if a.is_nan() || b.is_nan() => f64::NAN,
        Min if a.is_nan() || b.is_nan() => f64::NAN,
        Max => a.max(b),
        Min => a.min(b),
        Atan2 => a.atan2(b),
        Hypot => a.hypot(b),
        Copysign => a.copysign(b),
        Nextafter => panic!("nextafter depends on the type"),
        Logaddexp => a.max(b) + (-(a - b).abs()).exp().ln_1p(),
        And => (a as i64 & b as i64) as f64,
        Or => (a as i64 | b as i64) as f64,
        Xor => (a as i64 ^ b as i64) as f64,
        Shl => ((a as i64) << b as i64) as f64,
        Shr => (a as i64 >> b as i64) as f64,
        Eq => truth(a == b),
        Ne => truth(a != b),
        Lt => truth(a < b),
        Le => truth(a <= b),
        Gt => truth(a > b),
        Ge => truth(a >= b),
        Complex => panic!("complex numbers are not supported"),
        Within if (0..tensor_core::bounds::length(b as i64)).contains(&(a as i64)) => a,
        Within => -1.0,
    }
}

fn evaluate(program: &Program, index: &[usize], input: impl Fn(usize) -> f64) -> Vec<f64> {
    let mut values: Vec<f64> = Vec::new();
    for instruction in &program.instructions {
        let at = |value: u16| values[value as usize];
        let value = match instruction.code {
            Code::Input(number) => input(number as usize),
            Code::Constant(value) => value.to_f64(),
            Code::Index(axis) => index[axis as usize] as f64,
            Code::Cast(value) if instruction.dtype.is_integer() => at(value).trunc(),
            Code::Cast(value) => at(value),
            Code::Unary(function, value) => unary(function, at(value)),
            Code::Binary(function, a, b) => {
                let dtype = program.instructions[a as usize].dtype;
                assert_eq!(dtype, program.instructions[b as usize].dtype, "{program:?}");
                binary(function, at(a), at(b), !dtype.is_float())
            }
            Code::Select(which, yes, no) => at(if at(which) != 0.0 { yes } else { no }),
        };
        values.push(rounded(value, instruction.dtype));
    }
    assert!(values.len() <= tensor_core::program::MAX_INSTRUCTIONS);
    program.results.iter().map(|&result| values[result as usize]).collect()
}

fn run(step: &Step) {
    if is_composed(&step.work) {
        let steps = decompose(step, &mut |shape: &[usize], dtype: DType| {
            let layout = Layout::contiguous(shape);
            let bytes = vec![0xFF; layout.elements() * dtype.bytes()];
            Ok(Operand { buffer: Arc::new(Bytes(Mutex::new(bytes))), layout, dtype })
        });
        return steps.unwrap().iter().for_each(run);
    }
    let (inputs, outputs) = (&step.inputs, &step.outputs);
    let out = &outputs[0];
    let shape = &out.layout.shape;
    for output in outputs {
        let anywhere = matches!(step.work, Work::Write);
        assert!(anywhere || output.layout.is_contiguous() && output.layout.offset == 0, "{output:?}");
        for input in inputs {
            assert!(!Arc::ptr_eq(&input.buffer, &output.buffer), "an output overlaps an input: {step:?}");
        }
    }
    match &step.work {
        Work::Map(program) => each(shape, |index| {
            let values = evaluate(program, index, |number| get(&inputs[number], index));
            for (output, value) in outputs.iter().zip(values) {
                set(output, index, value);
            }
        }),
        Work::Reduce { program, reduction, axes, mapped, epilogue } => {
            let whole = inputs[0].layout.shape.clone();
            let lengths: Vec<usize> = axes.iter().map(|&axis| whole[axis]).collect();
            each(shape, |index| {
                let mut total: Option<f64> = None;
                each(&lengths, |inner| {
                    let mut at = index.to_vec();
                    axes.iter().zip(inner).for_each(|(&axis, &i)| at[axis] = i);
                    let value = evaluate(program, &at, |number| get(&inputs[number], &at))[0];
                    total = Some(match (total, reduction) {
                        (None, _) => value,
                        (Some(total), Reduction::Sum) => total + value,
                        (Some(total), Reduction::Product) => total * value,
                        (Some(total), Reduction::Max) => binary(Binary::Max, total, value, false),
                        (Some(total), Reduction::Min) => binary(Binary::Min, total, value, false),
                        (Some(total), Reduction::Any) => total.max(value),
                        (Some(total), Reduction::All) => total.min(value),
                    });
                });
                let neutral =
                    if matches!(reduction, Reduction::Product | Reduction::All) { 1.0 } else { 0.0 };
                let total = total.unwrap_or(neutral);
                let input = |n: usize| if n == 0 { total } else { get(&inputs[mapped + n - 1], index) };
                for (output, value) in outputs.iter().zip(evaluate(epilogue, index, input)) {
                    set(output, index, value);
                }
            });
        }
        Work::ArgReduce { largest, axis } => each(shape, |index| {
            let mut best = (f64::NAN, 0);
            for i in 0..inputs[0].layout.shape[*axis] {
                let mut at = index.to_vec();
                at[*axis] = i;
                let value = get(&inputs[0], &at);
                let better = if *largest { value > best.0 } else { value < best.0 };
                if i == 0 || (better && !best.0.is_nan()) || (value.is_nan() && !best.0.is_nan()) {
                    best = (value, i);
                }
            }
            set(out, index, best.1 as f64);
        }),
        Work::Contract { batch, rows, columns, depth, epilogue, .. } => {
            let lengths = inputs[0].layout.shape[batch + rows..].to_vec();
            assert_eq!(lengths.len(), *depth);
            each(shape, |index| {
                let (b, m) = (&index[..*batch], &index[*batch..batch + rows]);
                let n = &index[batch + rows..batch + rows + columns];
                let mut sum = 0.0;
                each(&lengths, |k| {
                    sum += get(&inputs[0], &[b, m, k].concat()) * get(&inputs[1], &[b, n, k].concat());
                });
                let input = |number: usize| if number == 0 { sum } else { get(&inputs[number + 1], index) };
                for (output, value) in outputs.iter().zip(evaluate(epilogue, index, input)) {
                    set(output, index, value);
                }
            });
        }
        Work::Softmax { axis, log } => each(shape, |index| {
            let along = |i: usize| {
                let mut at = index.to_vec();
                at[*axis] = i;
                get(&inputs[0], &at)
            };
            let largest = (0..shape[*axis]).map(along).fold(f64::NEG_INFINITY, f64::max);
            let sum: f64 = (0..shape[*axis]).map(|i| (along(i) - largest).exp()).sum();
            let x = along(index[*axis]) - largest;
            set(out, index, if *log { x - sum.ln() } else { x.exp() / sum });
        }),
        Work::Normalise { axes, epsilon } => {
            let kept = shape.len() - axes;
            each(&shape[..kept], |row| {
                let mut values = Vec::new();
                each(&shape[kept..], |inner| values.push(get(&inputs[0], &[row, inner].concat())));
                let mean = values.iter().sum::<f64>() / values.len() as f64;
                let variance = values.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / values.len() as f64;
                let scale = 1.0 / (variance + epsilon).sqrt();
                each(&shape[kept..], |inner| {
                    let at = [row, inner].concat();
                    let mut y = (get(&inputs[0], &at) - mean) * scale;
                    if let [_, weight, bias] = inputs.as_slice() {
                        y = y * get(weight, &at) + get(bias, &at);
                    }
                    set(out, &at, y);
                });
                if let [_, means, scales] = outputs.as_slice() {
                    let at = [row, &vec![0; *axes]].concat();
                    set(means, &at, mean);
                    set(scales, &at, scale);
                }
            });
        }
        Work::Write => each(shape, |index| set(out, index, get(&inputs[0], index))),
        Work::Pad { before, value } => each(shape, |index| {
            let at: Vec<usize> = index.iter().zip(before).map(|(&i, &b)| i.wrapping_sub(b)).collect();
            let inside = at.iter().zip(&inputs[0].layout.shape).all(|(i, length)| i < length);
            set(out, index, if inside { get(&inputs[0], &at) } else { value.to_f64() });
        }),
        Work::Concat { axis } => {
            let mut start = 0;
            for input in inputs {
                each(&input.layout.shape, |index| {
                    let mut at = index.to_vec();
                    at[*axis] += start;
                    set(out, &at, get(input, index));
                });
                start += input.layout.shape[*axis];
            }
        }
        Work::Fold { kernel, stride, dilation } => {
            let outer = shape.len() - kernel.len();
            let windows = inputs[0].layout.shape[outer..outer + kernel.len()].to_vec();
            let mut sums = std::collections::HashMap::new();
            each(&inputs[0].layout.shape, |index| {
                let mut at = index[..outer].to_vec();
                for n in 0..kernel.len() {
                    at.push(index[outer + n] * stride[n] + index[outer + windows.len() + n] * dilation[n]);
                }
                *sums.entry(at).or_insert(0.0) += get(&inputs[0], index);
            });
            each(shape, |index| set(out, index, sums.get(index).copied().unwrap_or(0.0)));
        }
        Work::Gather { axis } => each(shape, |index| {
            let mut at = index.to_vec();
            let chosen = get(&inputs[1], index);
            at[*axis] = chosen as usize;
            let inside = chosen >= 0.0 && at[*axis] < inputs[0].layout.shape[*axis];
            set(out, index, if inside { get(&inputs[0], &at) } else { 0.0 });
        }),
        Work::Scatter { axis, add } => {
            each(shape, |index| set(out, index, get(&inputs[0], index)));
            each(&inputs[1].layout.shape, |index| {
                let mut at = index.to_vec();
                let chosen = get(&inputs[1], index);
                at[*axis] = chosen as usize;
                if chosen >= 0.0 && at[*axis] < shape[*axis] {
                    let before = if *add { get(out, &at) } else { 0.0 };
                    set(out, &at, before + get(&inputs[2], index));
                }
            });
        }
        Work::Random { seed, offset, distribution } => {
            let mut number = 0;
            each(shape, |index| {
                set(out, index, draw(*seed, *offset, *distribution, out.dtype, number));
                number += 1;
            });
        }
        Work::Sort { axis, descending } => {
            let mut lines = shape.clone();
            lines[*axis] = 1;
            each(&lines, |index| {
                let at = |i: usize| {
                    let mut at = index.to_vec();
                    at[*axis] = i;
                    at
                };
                let mut line: Vec<(f64, usize)> =
                    (0..shape[*axis]).map(|i| (get(&inputs[0], &at(i)), i)).collect();
                line.sort_by(|a, b| {
                    let order = if *descending { b.0.partial_cmp(&a.0) } else { a.0.partial_cmp(&b.0) };
                    order.unwrap_or_else(|| a.0.is_nan().cmp(&b.0.is_nan()))
                });
                for (i, (value, from)) in line.into_iter().enumerate() {
                    set(out, &at(i), value);
                    set(&outputs[1], &at(i), from as f64);
                }
            });
        }
        Work::Fused(_) => unreachable!("`supports` refuses fused steps"),
        Work::Cumulative { axis, product } => each(shape, |index| {
            let mut at = index.to_vec();
            let along = (0..=index[*axis]).map(|i| {
                at[*axis] = i;
                get(&inputs[0], &at)
            });
            set(out, index, if *product { along.product() } else { along.sum() });
        }),
        Work::Attention { .. } | Work::AttentionGradient { .. } | Work::CrossEntropy { .. } => {
            unreachable!("it was replaced by simpler steps")
        }
    }
}

fn draw(seed: u64, offset: u64, distribution: Distribution, dtype: DType, number: u64) -> f64 {
    let per = random::per_block(dtype, distribution);
    let block = random::philox(seed, offset + number / per);
    let n = (number % per) as usize;
    match distribution {
        Distribution::Integers { low, high } => {
            random::integer(block[2 * n], block[2 * n + 1], low, high) as f64
        }
        Distribution::Uniform if per == 2 => random::uniform_f64(block[2 * n], block[2 * n + 1]),
        Distribution::Uniform => f64::from(random::uniform_f32(block[n])),
        Distribution::Normal => {
            let pair = if per == 2 {
                random::normal_pair_f64(block)
            } else {
                random::normal_pair(block[n / 2 * 2], block[n / 2 * 2 + 1])
            };
            if n.is_multiple_of(2) { pair.0 } else { pair.1 }
        }
    }
}
