//! Launches of the kernels in `kernels/cores.hip`: everything but programs.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::random::per_block;
use tensor_core::step::{Distribution, Operand, Step};

use super::table::{Table, inverse};
use super::{Class, class, copied, stored, temporary};
use crate::axes::Axes;
use crate::source::{Address, Writer, word_of};
use crate::symbolic;
use crate::work::{
    Division, Plan, Problem, Reduce, SORTED_IN_SHARED, address, merged, padded, pattern, reach,
    threads_of_line, without,
};

/// Threads of kernels with one element per thread.
const THREADS: usize = 256;
/// The tile size of contractions.
const TILE: usize = 32;
/// The most windowed axes of a fold, `pf::FOLDED`.
const FOLDED: usize = 3;

/// The names of a family's kernels; `whole` is the one for integers.
macro_rules! family {
    ($name:literal) => {
        family!($name, "_signed", "_unsigned")
    };
    ($name:literal, whole) => {
        family!($name, "_unsigned", "_unsigned")
    };
    ($name:literal, $signed:literal, $unsigned:literal) => {
        [
            concat!("pf_run_", $name, "_float"),
            concat!("pf_run_", $name, "_double"),
            concat!("pf_run_", $name, $signed),
            concat!("pf_run_", $name, $unsigned),
        ]
    };
}

/// One launch of a reduction: `pieces` parts of every result, each by `threads` threads.
#[derive(Clone, Copy)]
struct Pass {
    reduction: u64,
    pieces: usize,
    threads: u32,
}

pub(super) fn reduce(
    plan: &mut Plan,
    it: Reduce<'_>,
    division: Division,
    source: &Operand,
    output: &Operand,
) -> Result<(), DeviceError> {
    let reduction = it.reduction as u64;
    let (pieces, threads) = match division {
        Division::Thread => (1, 1),
        Division::Group(threads) => (1, threads),
        Division::Groups(pieces) => (pieces, 256),
    };
    let pass = Pass { reduction, pieces, threads };
    if pieces == 1 {
        return pass.launch(plan, it.axes, source, output);
    }
    // Each work-group writes a partial result; a second launch reduces those.
    let partial = temporary(plan, &[output.layout.elements(), pieces], stored(source.dtype));
    pass.launch(plan, it.axes, source, &partial)?;
    Pass { reduction, pieces: 1, threads: 64 }.launch(plan, &[1], &partial, output)
}

impl Pass {
    fn launch(
        self,
        plan: &mut Plan,
        axes: &[usize],
        from: &Operand,
        to: &Operand,
    ) -> Result<(), DeviceError> {
        let Pass { reduction, pieces, threads } = self;
        let name = named(family!("reduce"), from.dtype)?;
        let [kept, reduced] = merged(&[from], axes);
        let (results, length) = (kept.elements(), reduced.elements());
        let wide = Writer::needs_wide([kept.reach(0) + reduced.reach(0), results, length, results * 256]);
        let groups = if threads == 1 { results.div_ceil(256) } else { results * pieces }.clamp(1, 1 << 22);
        let mut table = Table::with(14);
        let size = length.div_ceil(pieces);
        table.set(0, reduction);
        set_all(&mut table, 1, [threads as usize, results, length, pieces, size, groups]);
        set_operand(&mut table, 7, from)?;
        set_operand(&mut table, 9, to)?;
        set_walks(&mut table, 11, &[(&kept, &[0]), (&reduced, &[0])], wide);
        table.set(13, inverse(pieces));
        table.launch(plan, name, groups, if threads == 1 { 256 } else { threads });
        Ok(())
    }
}

pub(super) fn contract(plan: &mut Plan, it: &Problem<'_>) -> Result<(), DeviceError> {
    let (left, right, output) = (&it.step.inputs[0], &it.step.inputs[1], &it.step.outputs[0]);
    let name = named(family!("contract", whole), left.dtype)?;
    let (rows, columns) = (it.rows.elements(), it.columns.elements());
    let (across, down) = (columns.div_ceil(TILE), rows.div_ceil(TILE));
    let tiles = it.batch.elements() * across * down;
    let groups = tiles.clamp(1, 1 << 22);
    let mut table = Table::with(19);
    set_all(&mut table, 0, [tiles, groups, rows, columns, it.depth.elements(), across, down]);
    for (place, operand) in [(7, left), (9, right), (11, output)] {
        set_operand(&mut table, place, operand)?;
    }
    let walks: [(&Axes, &[usize]); 4] =
        [(&it.batch, &[0, 1]), (&it.rows, &[0]), (&it.columns, &[0]), (&it.depth, &[0, 1])];
    set_walks(&mut table, 13, &walks, it.wide);
    table.set(17, inverse(across));
    table.set(18, inverse(down));
    table.launch(plan, name, groups, 256);
    Ok(())
}

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
    let mut table = Table::with(7 + 10 * count);
    table.set(0, elements as u64);
    table.set(1, step_over);
    set_operand(&mut table, 2, input)?;
    table.set_address(4, address(output)?);
    table.set(5, count as u64);
    for axis in 0..count {
        let (windows, kernels) = (leading + axis, leading + count + axis);
        let divisors = [output.layout.shape[windows], kernel[axis], stride[axis]];
        set_all(&mut table, 7 + 10 * axis, divisors);
        for (number, divisor) in divisors.into_iter().enumerate() {
            table.set(10 + 10 * axis + number, inverse(divisor));
        }
        set_all(&mut table, 13 + 10 * axis, [dilation[axis], input.layout.shape[windows]]);
        table.set(15 + 10 * axis, input.layout.strides[windows] as u64);
        table.set(16 + 10 * axis, input.layout.strides[kernels] as u64);
    }
    set_walks(&mut table, 6, &[(&axes, &[0])], Writer::needs_wide([elements, reach(input)]));
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

/// A sort of all lines along an axis.
struct Sort<'a> {
    step: &'a Step,
    axis: usize,
    descending: bool,
    lines: Axes,
    length: usize,
}

/// What the passes over long lines share: the padded length, keys and places.
struct Workspaces {
    size: usize,
    keys: Address,
    places: Address,
}

pub(super) fn sort(plan: &mut Plan, axis: usize, descending: bool, step: &Step) -> Result<(), DeviceError> {
    let (input, values) = (&step.inputs[0], &step.outputs[0]);
    if input.dtype != values.dtype || class(input.dtype) == Class::Complex {
        return Err(mismatch("sort", &[input.dtype, values.dtype]));
    }
    let [lines, _] = merged(&[input, values], &[axis]);
    let length = input.layout.shape.get(axis).copied().unwrap_or(1);
    if length > u32::MAX as usize / 2 {
        return Err(DeviceError::Unsupported(format!("sorting a line of {length} elements")));
    }
    let it = Sort { step, axis, descending, lines, length };
    let count = it.lines.elements();
    if length <= SORTED_IN_SHARED {
        let groups = count.clamp(1, 1 << 22);
        let (name, threads) = if length <= 64 { ("pf_run_sort_64", 64) } else { ("pf_run_sort_1024", 256) };
        it.table(groups as u64, None)?.launch(plan, name, groups, threads);
        return Ok(());
    }
    let size = length.next_power_of_two();
    let (keys, places) = (plan.workspace(count * size * 8), plan.workspace(count * size * 4));
    let shared = Workspaces { size, keys, places };
    let mut pass = |name: &'static str, elements: usize, sizes: [usize; 2]| {
        let (groups, stride) = groups_for(elements);
        let mut table = it.table(stride, Some(&shared))?;
        set_all(&mut table, 17, sizes);
        table.launch(plan, name, groups, THREADS as u32);
        Ok::<_, DeviceError>(())
    };
    pass("pf_run_sort_begin", count * size, [0, 0])?;
    let mut part = 2;
    while part <= size {
        let mut far = part / 2;
        while far > 0 {
            pass("pf_run_sort_pass", count * size / 2, [part, far])?;
            far /= 2;
        }
        part *= 2;
    }
    pass("pf_run_sort_end", count * length, [0, 0])
}

impl Sort<'_> {
    fn table(&self, stride: u64, shared: Option<&Workspaces>) -> Result<Table, DeviceError> {
        let (input, outputs) = (&self.step.inputs[0], &self.step.outputs[..]);
        let along = |operand: &Operand| operand.layout.strides.get(self.axis).copied().unwrap_or(1);
        let mut table = Table::with(19);
        table.set(0, input.dtype as u64);
        table.set(1, u64::from(self.descending));
        table.set_address(2, address(input)?);
        table.set(3, along(input) as u64);
        table.set(4, outputs.len() as u64);
        for (number, output) in outputs.iter().enumerate() {
            table.set_address(5 + number, address(output)?);
        }
        table.set(7, along(&outputs[0]) as u64);
        table.set(8, self.lines.elements() as u64);
        table.set(9, stride);
        table.set(10, self.length as u64);
        let padded = self.length.next_power_of_two();
        let far = |number: usize, operand: &Operand| {
            self.lines.reach(number) + along(operand).unsigned_abs() * self.length
        };
        let sizes = [self.lines.elements() * padded, far(0, input), far(1, &outputs[0])];
        set_walks(&mut table, 11, &[(&self.lines, &[0, 1])], Writer::needs_wide(sizes));
        table.set(12, inverse(self.length));
        if let Some(Workspaces { size, keys, places }) = shared {
            table.set(13, *size as u64);
            table.set(14, inverse(*size));
            table.set_address(15, *keys);
            table.set_address(16, *places);
        }
        Ok(table)
    }
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

/// The kernel for a type, of those for floats, doubles, and signed and unsigned integers.
fn named(names: [&'static str; 4], dtype: DType) -> Result<&'static str, DeviceError> {
    match class(dtype) {
        Class::Float => Ok(names[0]),
        Class::Double => Ok(names[1]),
        Class::Signed => Ok(names[2]),
        Class::Unsigned => Ok(names[3]),
        Class::Complex => Err(mismatch("a step", &[dtype])),
    }
}

/// The error of a step with types that its kernel cannot handle; the graph does not make such steps.
fn mismatch(what: &str, dtypes: &[DType]) -> DeviceError {
    let names: Vec<&str> = dtypes.iter().map(|dtype| dtype.name()).collect();
    DeviceError::Unsupported(format!("{what} of {} needs a kernel compiler", names.join(" to ")))
}

/// Work-groups for this many elements, and the stride over elements.
fn groups_for(count: usize) -> (usize, u64) {
    let groups = count.div_ceil(THREADS).clamp(1, 1 << 14);
    (groups, (groups * THREADS) as u64)
}

fn set_all<const N: usize>(table: &mut Table, place: usize, numbers: [usize; N]) {
    for (number, word) in numbers.into_iter().enumerate() {
        table.set(place + number, word as u64);
    }
}

/// Sets type and address of an operand.
fn set_operand(table: &mut Table, place: usize, operand: &Operand) -> Result<(), DeviceError> {
    table.set(place, operand.dtype as u64);
    table.set_address(place + 1, address(operand)?);
    Ok(())
}

/// Appends walks, and sets where they are.
fn set_walks(table: &mut Table, place: usize, walks: &[(&Axes, &[usize])], wide: bool) {
    for (number, (axes, operands)) in walks.iter().enumerate() {
        let walk = table.walk(axes, operands, wide);
        table.set(place + number, walk);
    }
}
