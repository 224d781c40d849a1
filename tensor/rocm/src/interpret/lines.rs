//! Operations on lines: softmax, normalisation, argmax and argmin, cumulative sums.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::step::{Operand, Step};

use super::family::{family, mismatch, named, set_all, set_operand, set_walks};
use super::table::Table;
use super::{Class, class};
use crate::source::{Writer, word_of};
use crate::work::{Plan, address, merged, threads_of_line};

/// Starts the table of a kernel over lines; returns it with its work-groups and threads. `header` is the number of words after the
/// common ones.
fn lines(operands: &[&Operand], axes: &[usize], alone: bool, header: usize) -> (Table, usize, u32) {
    let [kept, line] = merged(operands, axes);
    let (count, length) = (kept.elements(), line.elements());
    let threads = threads_of_line(length, alone);
    let sizes = (0..operands.len()).map(|operand| kept.reach(operand) + line.reach(operand));
    let wide = Writer::needs_wide(sizes.chain([count * length.max(1)]));
    let groups = if threads == 1 { count.div_ceil(64) } else { count }.clamp(1, 1 << 22);
    let mut table = Table::with(6 + header);
    set_all(
        &mut table,
        0,
        [threads as usize, count, if threads == 1 { groups * 64 } else { groups }, length],
    );
    let numbers: Vec<usize> = (0..operands.len()).collect();
    set_walks(&mut table, 4, &[(&kept, &numbers), (&line, &numbers)], wide);
    (table, groups, if threads == 1 { 64 } else { threads })
}

pub(super) fn softmax(plan: &mut Plan, axis: usize, log: bool, step: &Step) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let name = float("softmax", input, output, family!("softmax"))?;
    let (mut table, groups, threads) = lines(&[input, output], &[axis], false, 5);
    table.set(6, u64::from(log));
    set_operand(&mut table, 7, input)?;
    set_operand(&mut table, 9, output)?;
    table.launch(plan, name, groups, threads);
    Ok(())
}

pub(super) fn normalise(plan: &mut Plan, axes: usize, epsilon: f64, step: &Step) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let name = float("normalise", input, output, family!("normalise"))?;
    let rank = input.layout.rank();
    let inner: Vec<usize> = (rank - axes..rank).collect();
    // The kernel has three operands; a missing one is never read.
    let operand = |number: usize| step.inputs.get(number).unwrap_or(input);
    let (mut table, groups, threads) = lines(&[input, operand(1), operand(2)], &inner, false, 13);
    table.set(6, step.inputs.len() as u64 - 1);
    let computed = if class(input.dtype) == Class::Double { DType::F64 } else { DType::F32 };
    table.set(7, word_of(computed, Scalar::Float(epsilon)));
    for number in 0..3 {
        set_operand(&mut table, 8 + 2 * number, operand(number))?;
    }
    set_operand(&mut table, 14, output)?;
    table.set(16, step.outputs.len() as u64 - 1);
    for (number, statistic) in step.outputs[1..].iter().enumerate() {
        table.set_address(17 + number, address(statistic)?);
    }
    table.launch(plan, name, groups, threads);
    Ok(())
}

pub(super) fn arg_reduce(
    plan: &mut Plan,
    largest: bool,
    axis: usize,
    step: &Step,
) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let name = named(family!("arg_reduce"), input.dtype)?;
    if output.dtype != DType::I64 {
        return Err(mismatch("arg_reduce", &[output.dtype]));
    }
    let (mut table, groups, threads) = lines(&[input], &[axis], false, 4);
    table.set(6, u64::from(largest));
    set_operand(&mut table, 7, input)?;
    table.set_address(9, address(output)?);
    table.launch(plan, name, groups, threads);
    Ok(())
}

pub(super) fn cumulative(
    plan: &mut Plan,
    axis: usize,
    product: bool,
    step: &Step,
) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let name = named(family!("cumulative", whole), output.dtype)?;
    let (mut table, groups, threads) = lines(&[input, output], &[axis], true, 5);
    table.set(6, u64::from(product));
    set_operand(&mut table, 7, input)?;
    set_operand(&mut table, 9, output)?;
    table.launch(plan, name, groups, threads);
    Ok(())
}

/// The kernel's name for lines of floats.
fn float(
    what: &'static str,
    input: &Operand,
    output: &Operand,
    names: [&'static str; 4],
) -> Result<&'static str, DeviceError> {
    let it = class(input.dtype);
    if it != class(output.dtype) || !matches!(it, Class::Float | Class::Double) {
        return Err(mismatch(what, &[input.dtype, output.dtype]));
    }
    named(names, input.dtype)
}
