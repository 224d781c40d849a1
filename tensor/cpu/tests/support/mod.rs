//! Tensors of random numbers in random layouts, and reference loops to check the device against.
#![allow(dead_code, reason = "each test binary uses a part")]

use std::sync::Arc;

use tensor_core::device::Device;
use tensor_core::dtype::{DType, Scalar};
use tensor_core::element;
use tensor_core::layout::{Layout, Shape, Strides};
use tensor_core::program::{Binary, Code, Instruction, Program, Unary, Value};
use tensor_core::random::philox;
use tensor_core::step::{Operand, Step, Work};
use tensor_cpu::CpuDevice;

/// A random number generator for tests.
pub struct Dice {
    seed: u64,
    at: u64,
}

impl Dice {
    pub fn new(seed: u64) -> Dice {
        Dice { seed, at: 0 }
    }

    pub fn word(&mut self) -> u32 {
        self.at += 1;
        philox(self.seed, self.at)[0]
    }

    /// A random integer below a limit.
    pub fn below(&mut self, limit: usize) -> usize {
        self.word() as usize % limit
    }

    /// A random number in [-1, 1).
    pub fn real(&mut self) -> f64 {
        f64::from(self.word()) / 2_147_483_648.0 - 1.0
    }

    pub fn shape(&mut self, rank: usize, most: usize) -> Vec<usize> {
        (0..rank).map(|_| 1 + self.below(most)).collect()
    }
}

/// A tensor on the device, and its elements as real and imaginary parts in row-major order.
#[derive(Clone, Debug)]
pub struct Sample {
    pub operand: Operand,
    pub values: Vec<(f64, f64)>,
}

/// Encodes one element.
pub fn encode(dtype: DType, (real, imaginary): (f64, f64)) -> Vec<u8> {
    let value = match dtype {
        DType::C64 | DType::C128 => Scalar::Complex(real, imaginary),
        _ => Scalar::Float(real),
    };
    let mut bytes = Vec::new();
    element::encode(value, dtype, &mut bytes);
    bytes
}

pub fn decode(dtype: DType, bytes: &[u8]) -> (f64, f64) {
    match element::decode(bytes, dtype) {
        Scalar::Complex(real, imaginary) => (real, imaginary),
        value => (value.to_f64(), 0.0),
    }
}

pub struct Bench {
    pub device: Arc<CpuDevice>,
}

impl Bench {
    pub fn new() -> Bench {
        Bench { device: CpuDevice::new() }
    }

    /// Creates a tensor from encoded elements in a layout; gaps are filled too.
    pub fn place(
        &self,
        dtype: DType,
        layout: Layout,
        elements: usize,
        mut value: impl FnMut() -> (f64, f64),
    ) -> Sample {
        let bytes: Vec<u8> = (0..elements).flat_map(|_| encode(dtype, value())).collect();
        let buffer = self.device.allocate(bytes.len()).unwrap();
        self.device.upload(&buffer, 0, &bytes).unwrap();
        let size = dtype.bytes();
        let values = offsets(&layout)
            .into_iter()
            .map(|at| decode(dtype, &bytes[at * size..(at + 1) * size]))
            .collect();
        Sample { operand: Operand { buffer, layout, dtype }, values }
    }

    pub fn contiguous(&self, dtype: DType, shape: &[usize], values: &[f64]) -> Sample {
        let mut values = values.iter();
        let layout = Layout::contiguous(shape);
        let count = layout.elements();
        self.place(dtype, layout, count, || (*values.next().unwrap(), 0.0))
    }

    /// Random numbers that the type holds exactly, in a random layout: permuted, stretched, flipped, repeated.
    pub fn random(&self, dice: &mut Dice, dtype: DType, shape: &[usize]) -> Sample {
        let layout = random_layout(dice, shape);
        let reach = offsets(&layout).into_iter().max().map_or(0, |last| last + 1);
        self.place(dtype, layout, reach + 3, || number(dice, dtype))
    }

    /// Runs one step and returns the elements of its outputs.
    pub fn run(&self, work: Work, inputs: &[&Sample], outputs: &[(DType, &[usize])]) -> Vec<Vec<(f64, f64)>> {
        self.bytes(work, inputs, outputs)
            .iter()
            .zip(outputs)
            .map(|(bytes, (dtype, _))| bytes.chunks(dtype.bytes()).map(|one| decode(*dtype, one)).collect())
            .collect()
    }

    pub fn bytes(&self, work: Work, inputs: &[&Sample], outputs: &[(DType, &[usize])]) -> Vec<Vec<u8>> {
        let step = Step {
            work,
            inputs: inputs.iter().map(|sample| sample.operand.clone()).collect(),
            outputs: outputs.iter().map(|(dtype, shape)| self.empty(*dtype, shape)).collect(),
        };
        let operands = step.outputs.clone();
        self.device.run(&[step]).unwrap();
        operands
            .iter()
            .map(|operand| {
                let mut bytes = vec![0; operand.layout.elements() * operand.dtype.bytes()];
                self.device.download(&operand.buffer, 0, &mut bytes).unwrap();
                bytes
            })
            .collect()
    }

    pub fn empty(&self, dtype: DType, shape: &[usize]) -> Operand {
        let layout = Layout::contiguous(shape);
        let buffer = self.device.allocate(layout.elements() * dtype.bytes()).unwrap();
        Operand { buffer, layout, dtype }
    }
}

/// A number that every type of the kind holds exactly, mostly.
pub fn number(dice: &mut Dice, dtype: DType) -> (f64, f64) {
    use tensor_core::dtype::Kind;
    match dtype.kind() {
        Kind::Bool => (f64::from(dice.word() & 1), 0.0),
        Kind::Unsigned => (dice.below(100) as f64, 0.0),
        Kind::Signed => (dice.below(200) as f64 - 100.0, 0.0),
        Kind::Float => (dice.real(), 0.0),
        Kind::Complex => (dice.real(), dice.real()),
    }
}

pub fn random_layout(dice: &mut Dice, shape: &[usize]) -> Layout {
    if dice.below(4) == 0 {
        return Layout::contiguous(shape);
    }
    let mut order: Vec<usize> = (0..shape.len()).collect();
    if dice.below(2) == 0 {
        for n in (1..order.len()).rev() {
            order.swap(n, dice.below(n + 1));
        }
    }
    let (mut strides, mut step) = (Strides::from_elem(0, shape.len()), 1_isize);
    let mut offset = 0;
    for &axis in order.iter().rev() {
        match dice.below(6) {
            0 => {}
            1 => {
                strides[axis] = -step;
                offset += (shape[axis] as isize - 1).max(0) * step;
                step *= shape[axis].max(1) as isize;
            }
            2 => {
                strides[axis] = step * 2;
                step *= 2 * shape[axis].max(1) as isize;
            }
            _ => {
                strides[axis] = step;
                step *= shape[axis].max(1) as isize;
            }
        }
    }
    Layout { shape: Shape::from_slice(shape), strides, offset: offset as usize }
}

/// Returns every element's offset, in row-major order.
pub fn offsets(layout: &Layout) -> Vec<usize> {
    (0..layout.elements())
        .map(|position| {
            let index = unravel(position, &layout.shape);
            let offset: isize =
                index.iter().zip(&layout.strides).map(|(&i, &stride)| i as isize * stride).sum();
            (layout.offset as isize + offset) as usize
        })
        .collect()
}

pub fn unravel(mut position: usize, shape: &[usize]) -> Vec<usize> {
    let mut index = vec![0; shape.len()];
    for axis in (0..shape.len()).rev() {
        index[axis] = position % shape[axis];
        position /= shape[axis];
    }
    index
}

pub fn ravel(index: &[usize], shape: &[usize]) -> usize {
    index.iter().zip(shape).fold(0, |position, (&i, &length)| position * length + i)
}

/// Builds programs instruction by instruction.
#[derive(Default)]
pub struct Writer(pub Program);

impl Writer {
    pub fn push(&mut self, code: Code, dtype: DType) -> Value {
        self.0.instructions.push(Instruction { code, dtype });
        (self.0.instructions.len() - 1) as Value
    }

    pub fn input(&mut self, number: u16, dtype: DType) -> Value {
        self.push(Code::Input(number), dtype)
    }

    pub fn constant(&mut self, value: f64, dtype: DType) -> Value {
        self.push(Code::Constant(Scalar::Float(value)), dtype)
    }

    pub fn unary(&mut self, what: Unary, value: Value, dtype: DType) -> Value {
        self.push(Code::Unary(what, value), dtype)
    }

    pub fn binary(&mut self, what: Binary, left: Value, right: Value, dtype: DType) -> Value {
        self.push(Code::Binary(what, left, right), dtype)
    }

    pub fn done(mut self, results: &[Value]) -> Program {
        self.0.results = results.to_vec();
        self.0
    }
}

/// Whether two numbers are equal within the precision of a type, with some tolerance for sums.
pub fn near(dtype: DType, one: (f64, f64), other: (f64, f64)) -> bool {
    let tolerance = match dtype {
        DType::F16 => 2e-3,
        DType::BF16 => 1.6e-2,
        DType::F32 | DType::C64 => 3e-5,
        DType::F64 | DType::C128 => 1e-12,
        _ => 0.0,
    };
    let close = |a: f64, b: f64| {
        a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= tolerance * (1.0 + a.abs().max(b.abs()))
    };
    close(one.0, other.0) && close(one.1, other.1)
}

#[track_caller]
pub fn assert_near(dtype: DType, own: &[(f64, f64)], truth: &[(f64, f64)], what: &str) {
    assert_eq!(own.len(), truth.len(), "{what}");
    for (n, (&one, &other)) in own.iter().zip(truth).enumerate() {
        assert!(near(dtype, one, other), "{what}: {dtype} element {n} is {one:?}, not {other:?}");
    }
}
