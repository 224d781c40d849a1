//! Lowering of steps to launches.

mod arrange;
mod attention;
mod contract;
mod folded;
mod lines;
mod map;
mod plan;
mod random;
mod reduce;
mod sort;

pub(crate) use arrange::{padded, pattern, reach, without};
pub(crate) use contract::{Problem, tuning_key};
pub(crate) use folded::Folded;
pub(crate) use lines::threads_of_line;
pub(crate) use plan::{Plan, Target, address, apart, merged};
pub(crate) use reduce::{Division, Reduce};
pub(crate) use sort::SORTED_IN_SHARED;
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::{Step, Work};

use crate::expression;
use crate::interpret;

impl Plan {
    /// Adds the launches of a step.
    pub(crate) fn add(&mut self, step: &Step) -> Result<(), DeviceError> {
        if step.outputs.iter().all(|output| output.layout.elements() == 0) {
            return Ok(());
        }
        match self.target.interpret {
            Some(interpret) => interpret::add(self, interpret, step),
            None => self.compile(step),
        }
    }

    /// Adds the launches of a step with kernels of its own.
    pub(crate) fn compile(&mut self, step: &Step) -> Result<(), DeviceError> {
        match &step.work {
            Work::Map(program) => map::plan(self, program, &step.inputs, &step.outputs),
            Work::Reduce { program, reduction, axes, mapped, epilogue } => reduce::plan(
                self,
                reduce::Reduce { program, reduction: *reduction, axes, mapped: *mapped, epilogue },
                step,
            ),
            Work::Contract { batch, rows, columns, depth, accumulation, epilogue, .. } => {
                let groups = [*batch, *rows, *columns, *depth];
                contract::plan(self, groups, *accumulation, epilogue, step)
            }
            Work::ArgReduce { largest, axis } => lines::arg_reduce(self, *largest, *axis, step),
            Work::Softmax { axis, log } => lines::softmax(self, *axis, *log, step),
            Work::CrossEntropy { axis } => lines::cross_entropy(self, *axis, step),
            Work::Normalise { axes, epsilon } => lines::normalise(self, *axes, *epsilon, step),
            Work::Cumulative { axis, product } => lines::cumulative(self, *axis, *product, step),
            Work::Attention { .. } | Work::AttentionGradient { .. } => attention::plan(self, step),
            Work::Write => arrange::copy(self, &step.inputs[0], &step.outputs[0]),
            Work::Pad { before, value } => arrange::pad(self, before, *value, step),
            Work::Concat { axis } => arrange::concat(self, *axis, step),
            Work::Fold { kernel, stride, dilation } => arrange::fold(self, kernel, stride, dilation, step),
            Work::Gather { axis } => arrange::gather(self, *axis, step),
            Work::Scatter { axis, add } => arrange::scatter(self, *axis, *add, step),
            Work::Random { distribution, .. } => random::plan(self, *distribution, step),
            Work::Sort { axis, descending } => sort::plan(self, *axis, *descending, step),
            Work::Fused(fused) => Err(DeviceError::Unsupported(fused.name().to_owned())),
        }
    }
}

/// Whether contractions of a type can be planned.
pub(crate) fn contracts(dtype: DType) -> bool {
    dtype != DType::Bool && !dtype.is_complex()
}

/// Whether such a step can be planned.
pub(crate) fn supports(work: &Work, dtypes: &[DType]) -> bool {
    let complex = dtypes.contains(&DType::C64);
    // Words hold eight bytes, so numbers of 16 are computed on the host.
    let wide = dtypes.contains(&DType::C128);
    let programs: &[&Program] = match work {
        Work::Map(program) => &[program],
        Work::Reduce { program, epilogue, .. } => &[program, epilogue],
        Work::Contract { epilogue, .. } => &[epilogue],
        Work::Fused(_) => return false,
        Work::Attention { .. } | Work::AttentionGradient { .. } => return attention::supports(dtypes),
        Work::Write | Work::Pad { .. } | Work::Concat { .. } | Work::Gather { .. } => return !wide,
        _ => return !complex && !wide,
    };
    let within = match work {
        Work::Map(_) => true,
        // Reductions of complex numbers are not implemented.
        Work::Reduce { program, .. } => {
            program.results.iter().all(|&value| program.instructions[usize::from(value)].dtype != DType::C64)
        }
        _ => !complex && !dtypes.iter().take(2).any(|&dtype| dtype == DType::Bool),
    };
    within && !wide && programs.iter().all(|program| expression::can_write(program))
}
