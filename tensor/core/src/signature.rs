//! Step signatures: cache keys for compiled kernels and recorded graphs. Two steps have equal signatures if they differ only in
//! memory addresses and random seeds.
//!
//! Scalars are compared by their bits, so zero and minus zero differ, and NaNs with different bits differ.

use crate::dtype::{DType, Scalar};
use crate::layout::Layout;
use crate::program::{Code, Program};
use crate::step::{Distribution, Fused, Step, Work};

impl Step {
    /// Returns the signature of the step.
    pub fn signature(&self) -> Vec<u64> {
        let operands = self.inputs.iter().chain(&self.outputs);
        signature(&self.work, self.inputs.len(), operands.map(|operand| (&operand.layout, operand.dtype)))
    }
}

/// The signature of a step without its memory; operands are inputs first.
pub(crate) fn signature<'a>(
    work: &Work,
    inputs: usize,
    operands: impl Iterator<Item = (&'a Layout, DType)>,
) -> Vec<u64> {
    let mut words = Words(Vec::with_capacity(64));
    words.work(work);
    words.0.push(inputs as u64);
    for (layout, dtype) in operands {
        words.0.push(dtype as u64);
        words.layout(layout);
    }
    words.0
}

struct Words(Vec<u64>);

impl Words {
    fn lengths(&mut self, lengths: &[usize]) {
        self.0.push(lengths.len() as u64);
        self.0.extend(lengths.iter().map(|&length| length as u64));
    }

    fn layout(&mut self, layout: &Layout) {
        self.0.push(layout.offset as u64);
        self.lengths(&layout.shape);
        self.0.extend(layout.strides.iter().map(|&stride| stride as u64));
    }

    fn scalar(&mut self, scalar: Scalar) {
        let words = match scalar {
            Scalar::Bool(value) => [0, u64::from(value)],
            Scalar::Int(value) => [1, value as u64],
            Scalar::UInt(value) => [2, value],
            Scalar::Float(value) => [3, value.to_bits()],
            Scalar::Complex(re, im) => {
                self.0.push(re.to_bits());
                [4, im.to_bits()]
            }
        };
        self.0.extend(words);
    }

    fn program(&mut self, program: &Program) {
        self.0.extend([program.instructions.len() as u64, program.results.len() as u64]);
        for instruction in &program.instructions {
            self.0.push(instruction.dtype as u64);
            // An opcode, up to three values of 16 bits, and the function number.
            let of = |[x, y, z]: [u16; 3]| u64::from(x) << 8 | u64::from(y) << 24 | u64::from(z) << 40;
            match instruction.code {
                Code::Input(number) => self.0.push(of([number, 0, 0])),
                Code::Constant(value) => {
                    self.0.push(1);
                    self.scalar(value);
                }
                Code::Index(axis) => self.0.push(2 | of([u16::from(axis), 0, 0])),
                Code::Cast(x) => self.0.push(3 | of([x, 0, 0])),
                Code::Unary(function, x) => self.0.push(4 | of([x, 0, 0]) | (function as u64) << 56),
                Code::Binary(function, x, y) => self.0.push(5 | of([x, y, 0]) | (function as u64) << 56),
                Code::Select(x, y, z) => self.0.push(6 | of([x, y, z])),
            }
        }
        self.0.extend(program.results.iter().map(|&value| u64::from(value)));
    }

    fn work(&mut self, work: &Work) {
        match work {
            Work::Map(program) => {
                self.0.push(0);
                self.program(program);
            }
            Work::Reduce { program, reduction, axes, mapped, epilogue } => {
                self.0.extend([1, *reduction as u64, *mapped as u64]);
                self.lengths(axes);
                self.program(program);
                self.program(epilogue);
            }
            Work::ArgReduce { largest, axis } => self.0.extend([2, u64::from(*largest), *axis as u64]),
            Work::Contract {
                batch,
                rows,
                columns,
                depth,
                accumulation,
                padding,
                convolution: _,
                epilogue,
            } => {
                self.0.extend([3, *accumulation as u64]);
                self.lengths(&[*batch, *rows, *columns, *depth]);
                self.0.push(u64::from(padding.is_some()));
                if let Some(padding) = padding {
                    self.layout(&padding.within);
                    self.lengths(&padding.before);
                    self.lengths(&padding.shape);
                }
                self.program(epilogue);
            }
            Work::Softmax { axis, log } => self.0.extend([4, *axis as u64, u64::from(*log)]),
            Work::Normalise { axes, epsilon } => self.0.extend([5, *axes as u64, epsilon.to_bits()]),
            Work::Pad { before, value } => {
                self.0.push(6);
                self.lengths(before);
                self.scalar(*value);
            }
            Work::Concat { axis } => self.0.extend([7, *axis as u64]),
            Work::Fold { kernel, stride, dilation } => {
                self.0.push(8);
                [kernel, stride, dilation].into_iter().for_each(|lengths| self.lengths(lengths));
            }
            Work::Gather { axis } => self.0.extend([9, *axis as u64]),
            Work::Scatter { axis, add } => self.0.extend([10, *axis as u64, u64::from(*add)]),
            Work::Random { seed: _, offset: _, distribution } => {
                self.0.push(11);
                match *distribution {
                    Distribution::Uniform => self.0.push(0),
                    Distribution::Normal => self.0.push(1),
                    Distribution::Integers { low, high } => self.0.extend([2, low as u64, high as u64]),
                }
            }
            Work::Sort { axis, descending } => {
                self.0.extend([12, *axis as u64, u64::from(*descending)]);
            }
            Work::Write => self.0.push(14),
            Work::CrossEntropy { axis } => self.0.extend([17, *axis as u64]),
            Work::Attention { causal, scale } => self.0.extend([15, u64::from(*causal), scale.to_bits()]),
            Work::AttentionGradient { causal, scale } => {
                self.0.extend([16, u64::from(*causal), scale.to_bits()]);
            }
            Work::Cumulative { axis, product } => self.0.extend([13, *axis as u64, u64::from(*product)]),
            Work::Fused(fused) => {
                self.0.push(15);
                self.fused(fused);
            }
        }
    }

    fn fused(&mut self, fused: &Fused) {
        match fused {
            Fused::TopK { axis, descending } => self.0.extend([0, *axis as u64, u64::from(*descending)]),
            Fused::MaxPool { kernel, stride, padding, dilation } => {
                self.0.push(1);
                [kernel, stride, padding, dilation].into_iter().for_each(|lengths| self.lengths(lengths));
            }
            Fused::ConvolutionGradient { stride, padding, dilation, groups } => {
                self.0.extend([2, *groups as u64]);
                [stride, padding, dilation].into_iter().for_each(|lengths| self.lengths(lengths));
            }
            Fused::CrossEntropyGradient { axis } => self.0.extend([3, *axis as u64]),
            Fused::Gather { axis, wraps, bound } => {
                self.0.extend([4, *axis as u64, u64::from(*wraps), *bound as u64]);
            }
            Fused::Scatter { axis, add, bound } => {
                let (checks, bound) = (u64::from(bound.is_some()), bound.unwrap_or_default());
                self.0.extend([5, *axis as u64, u64::from(*add), checks, bound as u64]);
            }
            Fused::Compress => self.0.push(6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::program::{Binary, Instruction, Unary};

    fn map(codes: &[Code]) -> Work {
        let instructions = codes.iter().map(|&code| Instruction { code, dtype: DType::F32 }).collect();
        Work::Map(Program { instructions, results: vec![codes.len() as u16 - 1] })
    }

    fn of(work: &Work, shapes: &[&[usize]]) -> Vec<u64> {
        let layouts: Vec<Layout> = shapes.iter().map(|shape| Layout::contiguous(shape)).collect();
        signature(work, shapes.len() - 1, layouts.iter().map(|layout| (layout, DType::F32)))
    }

    #[test]
    fn steps_that_compute_something_else_have_other_signatures() {
        let constant = |value: f64| {
            map(&[Code::Input(0), Code::Constant(Scalar::Float(value)), Code::Binary(Binary::Add, 0, 1)])
        };
        let works = [
            constant(1.0),
            constant(2.0),
            constant(0.0),
            constant(-0.0),
            map(&[Code::Input(0), Code::Constant(Scalar::Int(1)), Code::Binary(Binary::Add, 0, 1)]),
            map(&[Code::Input(0), Code::Constant(Scalar::Float(1.0)), Code::Binary(Binary::Add, 1, 0)]),
            map(&[Code::Input(0), Code::Constant(Scalar::Float(1.0)), Code::Binary(Binary::Sub, 0, 1)]),
            map(&[Code::Input(0), Code::Unary(Unary::Exp, 0)]),
            map(&[Code::Input(0), Code::Cast(0)]),
            map(&[Code::Input(1), Code::Cast(0)]),
            Work::Random { seed: 1, offset: 3, distribution: Distribution::Normal },
            Work::Random { seed: 1, offset: 3, distribution: Distribution::Integers { low: 0, high: 1 } },
            Work::Pad { before: [1, 0].into_iter().collect(), value: Scalar::Float(0.0) },
            Work::Pad { before: [0, 1].into_iter().collect(), value: Scalar::Float(0.0) },
            Work::Pad { before: [0, 1].into_iter().collect(), value: Scalar::Float(1.0) },
            Work::Gather { axis: 0 },
            Work::Attention { causal: false, scale: 0.5 },
            Work::CrossEntropy { axis: 0 },
            Work::CrossEntropy { axis: 1 },
            Work::Attention { causal: true, scale: 0.5 },
            Work::Attention { causal: true, scale: 0.25 },
            Work::AttentionGradient { causal: true, scale: 0.5 },
            Work::Scatter { axis: 0, add: false },
            Work::Scatter { axis: 0, add: true },
            Work::Softmax { axis: 0, log: false },
            Work::Normalise { axes: 1, epsilon: 1e-5 },
            Work::Normalise { axes: 1, epsilon: 1e-6 },
        ];
        let mut known = std::collections::HashSet::new();
        for work in &works {
            for shapes in [&[&[2, 3][..], &[2, 3]][..], &[&[3, 2], &[3, 2]], &[&[2, 3], &[2, 3], &[2, 3]]] {
                assert!(known.insert(of(work, shapes)), "{work:?} of {shapes:?}");
                assert_eq!(of(work, shapes), of(&work.clone(), shapes));
            }
        }
    }

    #[test]
    fn seeds_are_not_part_of_a_signature() {
        let random = |seed, offset| Work::Random { seed, offset, distribution: Distribution::Uniform };
        assert_eq!(of(&random(1, 2), &[&[5]]), of(&random(3, 4), &[&[5]]));
    }
}
