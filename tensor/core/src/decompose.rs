//! Steps as sequences of simpler ones, for devices that have no kernel for the whole.

use smallvec::SmallVec;

use crate::dtype::{DType, Scalar};
use crate::error::DeviceError;
use crate::layout::Layout;
use crate::program::{Binary, Code, Instruction, Program, Unary};
use crate::step::{Accumulation, Operand, Padding, Reduction, Step, Work};

/// Allocates memory for a contiguous tensor between two steps.
pub type Temporary<'a> = dyn FnMut(&[usize], DType) -> Result<Operand, DeviceError> + 'a;

/// Whether a step consists of simpler ones.
pub fn is_composed(work: &Work) -> bool {
    matches!(
        work,
        Work::Attention { .. }
            | Work::AttentionGradient { .. }
            | Work::CrossEntropy { .. }
            | Work::Contract { padding: Some(_), .. }
    )
}

/// Returns the steps that an attention step, its gradient, a cross entropy or a contraction with padding consists of, in order. Those
/// of attention keep matrices of scores in memory, that of a padding its zeros.
pub fn decompose(step: &Step, temporary: &mut Temporary<'_>) -> Result<Vec<Step>, DeviceError> {
    match (&step.work, &step.inputs[..], &step.outputs[..]) {
        (&Work::Attention { causal, scale }, [q, k, v], [out, highest, share]) => {
            attention(Scores { causal, scale }, [q, k, v], [out, highest, share], temporary)
        }
        (
            &Work::AttentionGradient { causal, scale },
            [q, k, v, out, highest, share, g],
            [of_q, of_k, of_v],
        ) => {
            let kept = [out, highest, share];
            gradient(Scores { causal, scale }, [q, k, v], kept, g, [of_q, of_k, of_v], temporary)
        }
        (&Work::CrossEntropy { axis }, [logits, classes], [loss, kept]) => {
            cross_entropy(axis, [logits, classes], [loss, kept], temporary)
        }
        (Work::Contract { padding: Some(padding), .. }, [_, _, ..], _) => padded(padding, step, temporary),
        (work, ..) => Err(DeviceError::Unsupported(format!("{work:?} does not consist of simpler steps"))),
    }
}

fn attention(
    scores: Scores,
    [q, k, v]: [&Operand; 3],
    [out, highest, share]: [&Operand; 3],
    temporary: &mut Temporary<'_>,
) -> Result<Vec<Step>, DeviceError> {
    let shape = score_shape(q, k);
    let all = temporary(&shape, DType::F32)?;
    let weights = temporary(&shape, v.dtype)?;
    let reduce = |reduction, program, inputs: Vec<Operand>, mapped, epilogue, output: &Operand| {
        let work = Work::Reduce { program, reduction, axes: vec![3], mapped, epilogue };
        Step { work, inputs, outputs: vec![output.clone()] }
    };
    let power = |lines: &mut Lines| {
        let (score, high) = (lines.input(0, DType::F32), lines.input(1, DType::F32));
        let less = lines.push(Code::Binary(Binary::Sub, score, high), DType::F32);
        lines.push(Code::Unary(Unary::Exp, less), DType::F32)
    };
    let mut exponential = Lines::default();
    let exponential_of = power(&mut exponential);
    let mut inverse = Lines::default();
    let (one, sum) =
        (inverse.push(Code::Constant(Scalar::Float(1.0)), DType::F32), inverse.input(0, DType::F32));
    let inverse_of = inverse.push(Code::Binary(Binary::Div, one, sum), DType::F32);
    let mut weight = Lines::default();
    let (weight_of, factor) = (power(&mut weight), weight.input(2, DType::F32));
    let weight_of = weight.push(Code::Binary(Binary::Mul, weight_of, factor), DType::F32);
    let weight_of = weight.cast(weight_of, v.dtype);
    let identity = Program::identity(DType::F32);
    let [high, factor] = [highest, share].map(|operand| wide(operand, &shape));
    Ok(vec![
        contract([q, k], &[], &all, scores.program(|_, score| score)),
        reduce(Reduction::Max, identity.clone(), vec![all.clone()], 1, identity, highest),
        reduce(
            Reduction::Sum,
            exponential.end(exponential_of),
            vec![all.clone(), high.clone()],
            2,
            inverse.end(inverse_of),
            share,
        ),
        map(weight.end(weight_of), vec![all, high, factor], &weights),
        contract([&weights, &turned(v)], &[], out, as_it_is(out.dtype)),
    ])
}

fn gradient(
    scores: Scores,
    [q, k, v]: [&Operand; 3],
    [out, highest, share]: [&Operand; 3],
    g: &Operand,
    [of_q, of_k, of_v]: [&Operand; 3],
    temporary: &mut Temporary<'_>,
) -> Result<Vec<Step>, DeviceError> {
    let shape = score_shape(q, k);
    let weights = temporary(&shape, q.dtype)?;
    let changes = temporary(&shape, q.dtype)?;
    let delta = temporary(&highest.layout.shape, DType::F32)?;
    let weight = scores.program(|lines, score| {
        let (high, factor) = (lines.input(1, DType::F32), lines.input(2, DType::F32));
        let less = lines.push(Code::Binary(Binary::Sub, score, high), DType::F32);
        let power = lines.push(Code::Unary(Unary::Exp, less), DType::F32);
        let weight = lines.push(Code::Binary(Binary::Mul, power, factor), DType::F32);
        lines.cast(weight, q.dtype)
    });
    let mut product = Lines::default();
    let factors = [(0, out), (1, g)].map(|(number, operand)| {
        let value = product.input(number, operand.dtype);
        product.cast(value, DType::F32)
    });
    let both = product.push(Code::Binary(Binary::Mul, factors[0], factors[1]), DType::F32);
    let mut change = Lines::default();
    let (sum, less, weight_of) =
        (change.input(0, DType::F32), change.input(1, DType::F32), change.input(2, q.dtype));
    let weight_of = change.cast(weight_of, DType::F32);
    let sum = change.push(Code::Binary(Binary::Sub, sum, less), DType::F32);
    let sum = change.push(Code::Binary(Binary::Mul, sum, weight_of), DType::F32);
    let factor = change.push(Code::Constant(Scalar::Float(scores.scale)), DType::F32);
    let sum = change.push(Code::Binary(Binary::Mul, sum, factor), DType::F32);
    let sum = change.cast(sum, q.dtype);
    let reduce = Work::Reduce {
        program: product.end(both),
        reduction: Reduction::Sum,
        axes: vec![3],
        mapped: 2,
        epilogue: Program::identity(DType::F32),
    };
    Ok(vec![
        contract([q, k], &[wide(highest, &shape), wide(share, &shape)], &weights, weight),
        Step { work: reduce, inputs: vec![out.clone(), g.clone()], outputs: vec![delta.clone()] },
        contract([&turned(&weights), &turned(g)], &[], of_v, as_it_is(of_v.dtype)),
        contract([g, v], &[wide(&delta, &shape), weights], &changes, change.end(sum)),
        contract([&changes, &turned(k)], &[], of_q, as_it_is(of_q.dtype)),
        contract([&turned(&changes), &turned(q)], &[], of_k, as_it_is(of_k.dtype)),
    ])
}

fn cross_entropy(
    axis: usize,
    [logits, classes]: [&Operand; 2],
    [loss, kept]: [&Operand; 2],
    temporary: &mut Temporary<'_>,
) -> Result<Vec<Step>, DeviceError> {
    let dtype = kept.dtype;
    let wide = |operand: &Operand| {
        let mut layout = operand.layout.clone();
        (layout.shape[axis], layout.strides[axis]) = (logits.layout.shape[axis], 0);
        Operand { layout, ..operand.clone() }
    };
    let reduce = |reduction, program, inputs: Vec<Operand>, mapped, epilogue, output: &Operand| {
        let work = Work::Reduce { program, reduction, axes: vec![axis], mapped, epilogue };
        Step { work, inputs, outputs: vec![output.clone()] }
    };
    let logit = |lines: &mut Lines| {
        let logit = lines.input(0, logits.dtype);
        lines.cast(logit, dtype)
    };
    let high = temporary(&kept.layout.shape, dtype)?;
    let mut largest = Lines::default();
    let value = logit(&mut largest);
    let mut exponential = Lines::default();
    let (value_of, most) = (logit(&mut exponential), exponential.input(1, dtype));
    let less = exponential.push(Code::Binary(Binary::Sub, value_of, most), dtype);
    let power = exponential.push(Code::Unary(Unary::Exp, less), dtype);
    let mut logarithm = Lines::default();
    let (sum, most) = (logarithm.input(0, dtype), logarithm.input(1, dtype));
    let sum = logarithm.push(Code::Unary(Unary::Log, sum), dtype);
    let sum = logarithm.push(Code::Binary(Binary::Add, sum, most), dtype);
    let mut chosen = Lines::default();
    let (value_at, logarithm_at, class) =
        (logit(&mut chosen), chosen.input(1, dtype), chosen.input(2, DType::I64));
    let less = chosen.push(Code::Binary(Binary::Sub, logarithm_at, value_at), dtype);
    let number = chosen.push(Code::Index(axis as u8), DType::I64);
    let same = chosen.push(Code::Binary(Binary::Eq, number, class), DType::Bool);
    let zero = chosen.push(Code::Constant(Scalar::Float(0.0)), dtype);
    let picked = chosen.push(Code::Select(same, less, zero), dtype);
    let mut checked = Lines::default();
    let (sum_of, class) = (checked.input(0, dtype), checked.input(1, DType::I64));
    let bad = checked.push(Code::Constant(Scalar::Int(-1)), DType::I64);
    let is_bad = checked.push(Code::Binary(Binary::Eq, class, bad), DType::Bool);
    let not = checked.push(Code::Constant(Scalar::Float(f64::NAN)), dtype);
    let result = checked.push(Code::Select(is_bad, not, sum_of), dtype);
    let identity = Program::identity(dtype);
    Ok(vec![
        reduce(Reduction::Max, largest.end(value), vec![logits.clone()], 1, identity, &high),
        reduce(
            Reduction::Sum,
            exponential.end(power),
            vec![logits.clone(), wide(&high), high.clone()],
            2,
            logarithm.end(sum),
            kept,
        ),
        reduce(
            Reduction::Sum,
            chosen.end(picked),
            vec![logits.clone(), wide(kept), wide(classes), classes.clone()],
            3,
            checked.end(result),
            loss,
        ),
    ])
}

/// The padding, and the contraction of its result.
fn padded(padding: &Padding, step: &Step, temporary: &mut Temporary<'_>) -> Result<Vec<Step>, DeviceError> {
    let mut contraction = step.clone();
    if let Work::Contract { padding, .. } = &mut contraction.work {
        *padding = None;
    }
    let right = &mut contraction.inputs[1];
    let within = Operand { layout: padding.within.clone(), ..right.clone() };
    let all = temporary(&padding.shape, right.dtype)?;
    right.buffer = all.buffer.clone();
    right.layout.offset += all.layout.offset;
    let work = Work::Pad { before: padding.before.clone(), value: Scalar::Int(0) };
    Ok(vec![Step { work, inputs: vec![within], outputs: vec![all] }, contraction])
}

/// How a product of a query and a key becomes a score.
#[derive(Clone, Copy)]
struct Scores {
    causal: bool,
    scale: f64,
}

impl Scores {
    /// The epilogue of the products: what `rest` makes of a score.
    fn program(self, rest: impl FnOnce(&mut Lines, u16) -> u16) -> Program {
        let mut lines = Lines::default();
        let product = lines.input(0, DType::F32);
        let factor = lines.push(Code::Constant(Scalar::Float(self.scale)), DType::F32);
        let mut score = lines.push(Code::Binary(Binary::Mul, product, factor), DType::F32);
        if self.causal {
            let query = lines.push(Code::Index(2), DType::I64);
            let key = lines.push(Code::Index(3), DType::I64);
            let seen = lines.push(Code::Binary(Binary::Le, key, query), DType::Bool);
            let hidden = lines.push(Code::Constant(Scalar::Float(f64::NEG_INFINITY)), DType::F32);
            score = lines.push(Code::Select(seen, score, hidden), DType::F32);
        }
        let result = rest(&mut lines, score);
        lines.end(result)
    }
}

/// A program that is being written.
#[derive(Default)]
struct Lines(Vec<Instruction>);

impl Lines {
    fn push(&mut self, code: Code, dtype: DType) -> u16 {
        self.0.push(Instruction { code, dtype });
        (self.0.len() - 1) as u16
    }

    fn input(&mut self, number: u16, dtype: DType) -> u16 {
        self.push(Code::Input(number), dtype)
    }

    fn cast(&mut self, value: u16, dtype: DType) -> u16 {
        if self.0[usize::from(value)].dtype == dtype { value } else { self.push(Code::Cast(value), dtype) }
    }

    fn end(self, result: u16) -> Program {
        Program { instructions: self.0, results: vec![result] }
    }
}

/// The sums of a product in a type.
fn as_it_is(dtype: DType) -> Program {
    let mut lines = Lines::default();
    let sum = lines.input(0, DType::F32);
    let sum = lines.cast(sum, dtype);
    lines.end(sum)
}

fn score_shape(q: &Operand, k: &Operand) -> [usize; 4] {
    let [batch, heads, queries] = [0, 1, 2].map(|axis| q.layout.shape[axis]);
    [batch, heads, queries, k.layout.shape[2]]
}

/// An operand with one number for each row, repeated along the keys of `shape`.
fn wide(operand: &Operand, shape: &[usize; 4]) -> Operand {
    let mut layout = operand.layout.clone();
    (layout.shape[3], layout.strides[3]) = (shape[3], 0);
    Operand { layout, ..operand.clone() }
}

/// The operand with its last two axes swapped.
fn turned(operand: &Operand) -> Operand {
    let mut layout: Layout = operand.layout.clone();
    layout.shape.swap(2, 3);
    layout.strides.swap(2, 3);
    Operand { layout, ..operand.clone() }
}

fn map(program: Program, inputs: Vec<Operand>, output: &Operand) -> Step {
    Step { work: Work::Map(program), inputs, outputs: vec![output.clone()] }
}

/// `out[.., i, j] = epilogue(sum over k of left[.., i, k] * right[.., j, k], others[.., i, j])`.
fn contract(sides: [&Operand; 2], others: &[Operand], output: &Operand, epilogue: Program) -> Step {
    let accumulation = Accumulation::Fast;
    let work = Work::Contract {
        batch: 2,
        rows: 1,
        columns: 1,
        depth: 1,
        accumulation,
        padding: None,
        convolution: None,
        epilogue,
    };
    let inputs: SmallVec<[Operand; 4]> = sides.into_iter().chain(others).cloned().collect();
    Step { work, inputs: inputs.into_vec(), outputs: vec![output.clone()] }
}
