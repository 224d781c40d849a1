//! Data movement (padding, folding of windows, gather and scatter) and random numbers.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::random::per_block;
use tensor_core::step::{Distribution, Operand, Step};

use super::family::{THREADS, family, groups_for, mismatch, named, set_all, set_operand, set_walks};
use super::table::{Table, divisor, inverse};
use super::{Class, class, copied, temporary};
use crate::axes::Axes;
use crate::source::Writer;
use crate::symbolic;
use crate::work::{Plan, address, padded, pattern, reach, without};

/// The most windowed axes of a fold.
const FOLDED: usize = 3;

pub(super) fn pad(plan: &mut Plan, before: &[usize], value: Scalar, step: &Step) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let (groups, stride) = groups_for(output.layout.elements());
    let mut table = Table::with(7);
    table.set(0, output.layout.elements() as u64);
    table.set(1, stride);
    table.set(2, output.dtype.bytes() as u64);
    table.set_address(3, address(input)?);
    table.set_address(4, address(output)?);
    table.set(5, pattern(output.dtype, value));
    let axes = padded(before, &input.layout, &output.layout);
    table.set(6, axes.len() as u64);
    for [inside, length, first, stride] in axes {
        table.push(length as u64);
        table.push(inverse(length as usize));
        for number in [inside, first, stride] {
            table.push(number as u64);
        }
    }
    table.launch(plan, "pf_run_pad", groups, THREADS as u32);
    Ok(())
}

pub(super) fn gather(plan: &mut Plan, axis: usize, step: &Step) -> Result<(), DeviceError> {
    let (input, indices, output) = (&step.inputs[0], &step.inputs[1], &step.outputs[0]);
    let others = without(&input.layout.strides, axis);
    let axes = Axes::new(&indices.layout.shape, [&indices.layout.strides[..], &others[..]].into_iter());
    let wide = Writer::needs_wide([axes.elements(), axes.reach(0), reach(input)]);
    let (groups, stride) = groups_for(axes.elements());
    let mut table = Table::with(9);
    table.set(0, axes.elements() as u64);
    table.set(1, stride);
    table.set(2, output.dtype.bytes() as u64);
    for (place, operand) in [(3, input), (4, indices), (5, output)] {
        table.set_address(place, address(operand)?);
    }
    table.set(6, input.layout.shape[axis] as u64);
    table.set(7, input.layout.strides[axis] as u64);
    set_walks(&mut table, 8, &[(&axes, &[0, 1])], wide);
    table.launch(plan, "pf_run_gather", groups, THREADS as u32);
    Ok(())
}

/// Adds the launch that scatters into an output that has its first content already: indices, source and output.
pub(super) fn scatter(
    plan: &mut Plan,
    axis: usize,
    add: bool,
    operands: [&Operand; 3],
) -> Result<(), DeviceError> {
    let [indices, source, output] = operands;
    if indices.layout.elements() == 0 {
        return Ok(());
    }
    let name = named(family!("scatter", whole), output.dtype)?;
    let mut shape = indices.layout.shape.clone();
    shape[axis] = 1;
    let strides = operands.map(|operand| without(&operand.layout.strides, axis));
    let axes = Axes::new(&shape, strides.iter().map(|strides| &strides[..]));
    let wide = Writer::needs_wide([axes.elements(), reach(indices), reach(source), reach(output)]);
    let (groups, stride) = groups_for(axes.elements());
    let mut table = Table::with(13);
    table.set(0, axes.elements() as u64);
    table.set(1, stride);
    for (number, operand) in operands.into_iter().enumerate() {
        table.set_address(2 + number, address(operand)?);
        table.set(8 + number, operand.layout.strides[axis] as u64);
    }
    table.set(5, output.dtype as u64);
    table.set(6, u64::from(add));
    table.set(7, indices.layout.shape[axis] as u64);
    table.set(11, output.layout.shape[axis] as u64);
    set_walks(&mut table, 12, &[(&axes, &[0, 1, 2])], wide);
    table.launch(plan, name, groups, THREADS as u32);
    Ok(())
}

pub(super) fn fold(
    plan: &mut Plan,
    kernel: &[usize],
    stride: &[usize],
    dilation: &[usize],
    step: &Step,
) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let name = named(family!("fold", whole), output.dtype)?;
    let (count, elements) = (kernel.len(), output.layout.elements());
    if count > FOLDED {
        let why =
            format!("windows over {count} axes need a kernel compiler; without one, {FOLDED} are possible");
        return Err(DeviceError::Unsupported(why));
    }
    let leading = output.layout.rank() - count;
    let axes = Axes::new(&output.layout.shape[..leading], [&input.layout.strides[..leading]].into_iter());
    let (groups, step_over) = groups_for(elements);
    let wide = Writer::needs_wide([elements, reach(input)]);
    let mut table = Table::with(7 + 9 * FOLDED);
    table.set(0, elements as u64);
    table.set(1, step_over);
    set_operand(&mut table, 2, input)?;
    table.set_address(4, address(output)?);
    table.set(5, u64::from(wide));
    for number in 0..FOLDED {
        // Missing axes come first, with one window of one element.
        let axis = (number + count).checked_sub(FOLDED);
        let (length, kernel, stride, dilation, windows, strides) =
            axis.map_or((1, 1, 1, 1, 1, [0, 0]), |axis| {
                let (windows, kernels) = (leading + axis, leading + count + axis);
                let strides = [windows, kernels].map(|axis| input.layout.strides[axis]);
                let length = output.layout.shape[windows];
                (length, kernel[axis], stride[axis], dilation[axis], input.layout.shape[windows], strides)
            });
        let divisor = |length: usize| divisor(length, wide);
        let place = 7 + 9 * number;
        set_all(&mut table, place, [length, kernel, stride]);
        table.set(place + 3, divisor(length));
        table.set(place + 4, divisor(stride));
        set_all(&mut table, place + 5, [dilation, windows]);
        table.set(place + 7, strides[0] as u64);
        table.set(place + 8, strides[1] as u64);
    }
    set_walks(&mut table, 6, &[(&axes, &[0])], wide);
    table.launch(plan, name, groups, THREADS as u32);
    Ok(())
}

pub(super) fn random(
    plan: &mut Plan,
    distribution: Distribution,
    output: &Operand,
) -> Result<(), DeviceError> {
    let (kind, low, high) = match distribution {
        Distribution::Uniform => (0, 0, 0),
        Distribution::Normal => (1, 0, 0),
        Distribution::Integers { low, high } => (2, low, high),
    };
    let floats = matches!(class(output.dtype), Class::Float | Class::Double);
    if floats == (kind == 2) {
        // Integers as floats: converted afterwards.
        if kind == 2 {
            let integers = temporary(plan, &output.layout.shape, DType::I64);
            random(plan, distribution, &integers)?;
            return copied(plan, &integers, output);
        }
        return Err(mismatch("random", &[output.dtype]));
    }
    let count = output.layout.elements();
    let blocks = count.div_ceil(per_block(output.dtype, distribution) as usize);
    let (groups, stride) = groups_for(blocks);
    let mut table = Table::with(10);
    table.set(0, blocks as u64);
    table.set(1, stride);
    table.set(2, count as u64);
    table.set_address(3, symbolic::SEED);
    table.set_address(4, symbolic::OFFSET);
    set_operand(&mut table, 5, output)?;
    for (place, word) in [kind, low as u64, high as u64].into_iter().enumerate() {
        table.set(7 + place, word);
    }
    table.launch(plan, "pf_run_random", groups, THREADS as u32);
    Ok(())
}
