//! Steps without a run-time compiler: kernels that were built ahead and run any step of their kind.
//!
//! The programs of a step are separated from the rest: `pf_run_map` interprets them element by element, and one kernel for each
//! kind of work (`kernels/cores.hip`) computes what remains, with its operands in memory. Functions and the order of operations are
//! those of generated kernels, so the results have the same bits.

mod arrange;
mod code;
mod family;
mod lines;
mod reduce;
mod sort;
mod table;

use std::sync::Arc;

use tensor_core::dtype::{DType, Kind};
use tensor_core::error::DeviceError;
use tensor_core::layout::Layout;
use tensor_core::program::{Code, Program};
use tensor_core::step::{Operand, Step, Work};

use crate::ahead;
use crate::memory::Imaginary;
use crate::work::{Plan, Problem, Reduce, apart};

/// How steps are run without a compiler.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interpret {
    /// The target whose kernels were built ahead.
    pub target: &'static str,
    /// Whether steps are interpreted even if their own kernels were built ahead; for tests.
    pub always: bool,
}

/// Adds the launches of a step.
pub(crate) fn add(plan: &mut Plan, with: Interpret, step: &Step) -> Result<(), DeviceError> {
    if built_ahead(plan, with, step)? {
        return Ok(());
    }
    let (inputs, outputs) = (&step.inputs[..], &step.outputs[..]);
    match &step.work {
        Work::Map(program) => code::map(plan, program, inputs, outputs),
        Work::Reduce { program, reduction, axes, mapped, epilogue } => {
            let it = Reduce { program, reduction: *reduction, axes, mapped: *mapped, epilogue };
            let division = it.division(plan.target, step)?;
            let dtype = result_type(program);
            let source = match inputs {
                [first, ..] if *mapped == 1 && reads(program, first.dtype) => first.clone(),
                [first, ..] => {
                    let source = temporary(plan, &first.layout.shape, stored(dtype));
                    code::map(plan, program, &inputs[..*mapped], std::slice::from_ref(&source))?;
                    source
                }
                [] => return Err(DeviceError::Unsupported("a reduction without inputs".to_owned())),
            };
            finished(plan, epilogue, dtype, &inputs[*mapped..], outputs, |plan, output| {
                reduce::reduce(plan, it, division, &source, output)
            })
        }
        Work::Contract { padding: Some(_), .. } => apart(plan, step),
        Work::Contract { batch, rows, columns, depth, accumulation, epilogue, padding: None, .. } => {
            let sums = stored(inputs[0].dtype);
            let (left, right) = (alike(plan, &inputs[0], sums)?, alike(plan, &inputs[1], sums)?);
            let groups = [*batch, *rows, *columns, *depth];
            finished(plan, epilogue, sums, &inputs[2..], outputs, |plan, output| {
                let alone = Step {
                    work: Work::Contract {
                        batch: *batch,
                        rows: *rows,
                        columns: *columns,
                        depth: *depth,
                        accumulation: *accumulation,
                        padding: None,
                        convolution: None,
                        epilogue: Program::identity(sums),
                    },
                    inputs: vec![left.clone(), right.clone()],
                    outputs: vec![output.clone()],
                };
                if built_ahead(plan, with, &alone)? {
                    return Ok(());
                }
                reduce::contract(plan, &Problem::new(groups, epilogue, &alone))
            })
        }
        Work::ArgReduce { largest, axis } => lines::arg_reduce(plan, *largest, *axis, step),
        Work::Softmax { axis, log } => lines::softmax(plan, *axis, *log, step),
        Work::Normalise { axes, epsilon } => {
            let inputs = inputs.iter().map(|input| alike(plan, input, step.inputs[0].dtype));
            let inputs = inputs.collect::<Result<_, _>>()?;
            lines::normalise(plan, *axes, *epsilon, &Step { inputs, ..step.clone() })
        }
        Work::Cumulative { axis, product } => {
            let inputs = vec![alike(plan, &inputs[0], outputs[0].dtype)?];
            lines::cumulative(plan, *axis, *product, &Step { inputs, ..step.clone() })
        }
        Work::Attention { .. } | Work::AttentionGradient { .. } | Work::CrossEntropy { .. } => {
            apart(plan, step)
        }
        Work::Write => copied(plan, &inputs[0], &outputs[0]),
        Work::Pad { before, value } => arrange::pad(plan, before, *value, step),
        Work::Concat { axis } => {
            let mut target = outputs[0].clone();
            for input in inputs {
                let length = input.layout.shape[*axis];
                target.layout.shape = input.layout.shape.clone();
                if input.layout.elements() > 0 {
                    copied(plan, input, &target)?;
                }
                target.layout.offset += length * target.layout.strides[*axis].unsigned_abs();
            }
            Ok(())
        }
        Work::Fold { kernel, stride, dilation } => {
            let inputs = vec![exactly(plan, &inputs[0], outputs[0].dtype)?];
            arrange::fold(plan, kernel, stride, dilation, &Step { inputs, ..step.clone() })
        }
        Work::Gather { axis } => {
            let inputs = vec![inputs[0].clone(), exactly(plan, &inputs[1], DType::I64)?];
            arrange::gather(plan, *axis, &Step { inputs, ..step.clone() })
        }
        Work::Scatter { axis, add } => {
            let [start, indices, source] = inputs else {
                return Err(DeviceError::Unsupported("a scatter needs three inputs".to_owned()));
            };
            copied(plan, start, &outputs[0])?;
            let indices = exactly(plan, indices, DType::I64)?;
            let source = exactly(plan, source, outputs[0].dtype)?;
            arrange::scatter(plan, *axis, *add, [&indices, &source, &outputs[0]])
        }
        Work::Random { distribution, .. } => arrange::random(plan, *distribution, &outputs[0]),
        Work::Sort { axis, descending } => sort::sort(plan, *axis, *descending, step),
        Work::Fused(fused) => Err(DeviceError::Unsupported(fused.name().to_owned())),
    }
}

/// Adds the launches of a step's own kernels if all of them were built ahead; they are faster.
fn built_ahead(plan: &mut Plan, with: Interpret, step: &Step) -> Result<bool, DeviceError> {
    if with.always {
        return Ok(false);
    }
    let before = (plan.launches.len(), plan.workspaces.len());
    plan.compile(step)?;
    let found = plan.launches[before.0..]
        .iter()
        .all(|launch| ahead::find(with.target, &launch.kernel.name()).is_some());
    if !found {
        plan.launches.truncate(before.0);
        plan.workspaces.truncate(before.1);
    }
    Ok(found)
}

/// Computes `core` into memory and the epilogue from there; directly into the output if the epilogue changes nothing.
fn finished(
    plan: &mut Plan,
    epilogue: &Program,
    dtype: DType,
    others: &[Operand],
    outputs: &[Operand],
    core: impl FnOnce(&mut Plan, &Operand) -> Result<(), DeviceError>,
) -> Result<(), DeviceError> {
    let [output, ..] = outputs else { return Ok(()) };
    if outputs.len() == 1 && writes(epilogue, dtype, output.dtype) {
        return core(plan, output);
    }
    let result = temporary(plan, &output.layout.shape, stored(dtype));
    core(plan, &result)?;
    let inputs: Vec<Operand> = [result].iter().chain(others).cloned().collect();
    code::map(plan, epilogue, &inputs, outputs)
}

/// Whether a program only returns its first input, of this type, in a type that has the same value.
fn reads(program: &Program, dtype: DType) -> bool {
    let result = result_type(program);
    let widens = matches!(dtype, DType::F16 | DType::BF16) && result == DType::F32;
    only_input(program, dtype) && (result == dtype || widens)
}

/// Whether a program only returns its first input, of this type, in a type to which storing it converts.
fn writes(program: &Program, dtype: DType, to: DType) -> bool {
    only_input(program, dtype) && result_type(program) == to && class(to) == class(dtype)
}

/// Whether a program is its first input, of this type, or a conversion of it.
fn only_input(program: &Program, dtype: DType) -> bool {
    let codes: Vec<Code> = program.instructions.iter().map(|instruction| instruction.code).collect();
    matches!(codes[..], [Code::Input(0)] | [Code::Input(0), Code::Cast(0)])
        && program.instructions[0].dtype == dtype
        && matches!(program.results[..], [result] if usize::from(result) + 1 == codes.len())
}

fn result_type(program: &Program) -> DType {
    program.instructions[usize::from(program.results[0])].dtype
}

/// The type in which results of a type are kept in memory between launches: without rounding.
fn stored(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Types that one kernel computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Class {
    Float,
    Double,
    Signed,
    Unsigned,
    Complex,
}

fn class(dtype: DType) -> Class {
    match dtype.kind() {
        Kind::Float if dtype == DType::F64 => Class::Double,
        Kind::Float => Class::Float,
        Kind::Signed => Class::Signed,
        Kind::Unsigned | Kind::Bool => Class::Unsigned,
        Kind::Complex => Class::Complex,
    }
}

/// Reserves memory for a contiguous tensor between two launches.
fn temporary(plan: &mut Plan, shape: &[usize], dtype: DType) -> Operand {
    let layout = Layout::contiguous(shape);
    let place = plan.workspace(layout.elements().max(1) * dtype.bytes());
    Operand { buffer: Arc::new(Imaginary(place.0)), layout, dtype }
}

/// The operand, converted if the kernel for a type cannot read its own.
fn alike(plan: &mut Plan, operand: &Operand, dtype: DType) -> Result<Operand, DeviceError> {
    if class(operand.dtype) == class(dtype) { Ok(operand.clone()) } else { exactly(plan, operand, dtype) }
}

/// The operand, converted if it has another type.
fn exactly(plan: &mut Plan, operand: &Operand, dtype: DType) -> Result<Operand, DeviceError> {
    if operand.dtype == dtype {
        return Ok(operand.clone());
    }
    let converted = temporary(plan, &operand.layout.shape, dtype);
    copied(plan, operand, &converted)?;
    Ok(converted)
}

/// Copies the elements of one operand to another of the same shape, and converts them.
fn copied(plan: &mut Plan, from: &Operand, to: &Operand) -> Result<(), DeviceError> {
    let identity = Program::identity(from.dtype);
    code::map(plan, &identity, std::slice::from_ref(from), std::slice::from_ref(to))
}
