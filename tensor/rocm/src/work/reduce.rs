//! Reductions with a program before and one after.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::{Reduction, Step};

use super::map::{Elements, coordinate};
use super::plan::{Plan, Target, address};
use crate::axes::Axes;
use crate::expression::{self, Surroundings, cast, load, store};
use crate::source::{Address, Writer, value_type};

/// Results of fewer elements are read by one thread.
const FEW: usize = 16;
/// Results of more elements are read by several work-groups, if results are few.
const MANY: usize = 1 << 15;

/// A reduction's parameters.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reduce<'a> {
    pub program: &'a Program,
    pub reduction: Reduction,
    pub axes: &'a [usize],
    pub mapped: usize,
    pub epilogue: &'a Program,
}

/// Which threads read the elements of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Division {
    Thread,
    Group(u32),
    /// This many work-groups, and another launch for their partial results.
    Groups(usize),
}

/// A program's inputs at a kept index and a reduced one.
struct Both<'a> {
    inputs: &'a [(String, String, DType)],
    shape: &'a [usize],
    axes: &'a [usize],
}

impl Both<'_> {
    fn lengths(&self, reduced: bool) -> Vec<usize> {
        let it = (0..self.shape.len()).filter(|axis| self.axes.contains(axis) == reduced);
        it.map(|axis| self.shape[axis]).collect()
    }
}

impl Surroundings for Both<'_> {
    fn input(&self, _: &mut Writer, number: u16, dtype: DType) -> String {
        let (base, offset, from) = &self.inputs[usize::from(number)];
        cast(dtype, *from, &load(*from, base, offset))
    }

    fn index(&self, writer: &mut Writer, axis: u8) -> String {
        let reduced = self.axes.contains(&usize::from(axis));
        let before = (0..usize::from(axis)).filter(|other| self.axes.contains(other) == reduced).count();
        coordinate(writer, &self.lengths(reduced), before, if reduced { "r" } else { "o" })
    }
}

/// The reduced value, and the other inputs of an epilogue.
pub(super) struct After<'a> {
    pub value: (&'a str, DType),
    pub others: Elements<'a>,
}

impl Surroundings for After<'_> {
    fn input(&self, writer: &mut Writer, number: u16, dtype: DType) -> String {
        match number {
            0 => cast(dtype, self.value.1, self.value.0),
            _ => self.others.input(writer, number - 1, dtype),
        }
    }

    fn index(&self, writer: &mut Writer, axis: u8) -> String {
        self.others.index(writer, axis)
    }
}

impl Reduce<'_> {
    /// Returns the shape of the mapped inputs.
    fn shape(&self, step: &Step) -> Result<Vec<usize>, DeviceError> {
        match step.inputs.first() {
            Some(input) if self.mapped > 0 => Ok(input.layout.shape.to_vec()),
            _ => Err(DeviceError::Unsupported("a reduction without inputs".to_owned())),
        }
    }

    /// Returns which threads read the elements of one result. It determines the order of additions.
    pub(crate) fn division(&self, target: Target, step: &Step) -> Result<Division, DeviceError> {
        let shape = self.shape(step)?;
        let outputs = step.outputs[0].layout.elements();
        let length: usize = self.axes.iter().map(|&axis| shape[axis]).product();
        let kept_inside = innermost_is_kept(step, *self, &shape);
        Ok(divide(target.compute_units, outputs, length, kept_inside))
    }
}

pub(super) fn plan(plan: &mut Plan, it: Reduce<'_>, step: &Step) -> Result<(), DeviceError> {
    let shape = it.shape(step)?;
    let outputs = step.outputs[0].layout.elements();
    let division = it.division(plan.target, step)?;
    let Division::Groups(pieces) = division else {
        let launch = launch(it, step, &shape, division, None)?;
        plan.launches.push(launch);
        return Ok(());
    };
    // Each work-group writes a partial result; a second launch reduces those.
    let dtype = result_type(it.program);
    let partial = storage(dtype);
    let workspace = plan.workspace(outputs * pieces * partial.bytes());
    plan.launches.push(launch(it, step, &shape, division, Some(workspace))?);
    let mut writer = Writer::new(Writer::needs_wide([outputs * pieces]));
    let count = writer.index(outputs as isize);
    let pieces_word = writer.index(pieces as isize);
    let base = writer.address(workspace);
    let stride = writer.index(outputs.clamp(1, 1 << 22) as isize);
    writer.line(&format!("for (I o = (I)pf::group(); o < {count}; o += {stride}) {{"));
    writer.line(&format!(
        "const auto all = pf::by_group<pf::{:?}, {}, 64>((I)0, {pieces_word}, [&](I r) {{ return {}; }});",
        it.reduction,
        value_type(dtype),
        cast(dtype, partial, &load(partial, &base, &format!("o * {pieces_word} + r")))
    ));
    finish(&mut writer, it, step, dtype, "pf::lane() == 0")?;
    writer.line("}");
    plan.launches.push(writer.launch("reduce_rest", outputs, 64));
    Ok(())
}

/// The storage type of partial results between two launches.
fn storage(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

fn result_type(program: &Program) -> DType {
    program.instructions[usize::from(program.results[0])].dtype
}

fn innermost_is_kept(step: &Step, it: Reduce<'_>, shape: &[usize]) -> bool {
    let last = (0..shape.len())
        .rev()
        .find(|&axis| shape[axis] != 1 && step.inputs[0].layout.strides[axis].abs() == 1);
    last.is_some_and(|axis| !it.axes.contains(&axis))
}

fn divide(compute_units: usize, outputs: usize, length: usize, kept_inside: bool) -> Division {
    if length <= FEW || (kept_inside && outputs >= compute_units * 64) {
        Division::Thread
    } else if length >= 2 * MANY && outputs < compute_units {
        Division::Groups(length.div_ceil(MANY).min(256))
    } else {
        Division::Group(if length <= 256 { 64 } else { 256 })
    }
}

fn launch(
    it: Reduce<'_>,
    step: &Step,
    shape: &[usize],
    division: Division,
    workspace: Option<Address>,
) -> Result<crate::source::Launch, DeviceError> {
    let mapped = &step.inputs[..it.mapped];
    let of = |reduced: bool| {
        let chosen: Vec<usize> = (0..shape.len()).filter(|axis| it.axes.contains(axis) == reduced).collect();
        let lengths: Vec<usize> = chosen.iter().map(|&axis| shape[axis]).collect();
        let strides: Vec<Vec<isize>> = mapped
            .iter()
            .map(|input| chosen.iter().map(|&axis| input.layout.strides[axis]).collect())
            .collect();
        Axes::new(&lengths, strides.iter().map(Vec::as_slice))
    };
    let (kept, reduced) = (of(false), of(true));
    let (outputs, length) = (kept.elements(), reduced.elements());
    let sizes = (0..mapped.len()).map(|input| kept.reach(input) + reduced.reach(input));
    let mut writer = Writer::new(Writer::needs_wide(sizes.chain([outputs, length, outputs * 256])));
    let dtype = result_type(it.program);
    let (threads, groups) = match division {
        Division::Thread => (256, outputs.div_ceil(256)),
        Division::Group(threads) => (threads, outputs),
        Division::Groups(pieces) => (256, outputs * pieces),
    };
    let groups = groups.clamp(1, 1 << 22);
    let count = writer.index(outputs as isize);
    let end = writer.index(length as isize);
    let pieces = if let Division::Groups(pieces) = division { pieces } else { 1 };
    let (pieces, per_piece) = (writer.index(pieces as isize), writer.index(length.div_ceil(pieces) as isize));
    let stride = writer.index(groups as isize);
    match division {
        Division::Thread => writer.line(&format!(
            "for (I o = (I)pf::group() * 256 + (I)pf::lane(); o < {count}; o += {stride} * 256) {{"
        )),
        _ => writer.line(&format!("for (I g = (I)pf::group(); g < {count} * {pieces}; g += {stride}) {{")),
    }
    match division {
        Division::Thread => {}
        Division::Group(_) => writer.line("const I o = g;"),
        Division::Groups(_) => writer.line(&format!("const I o = g / {pieces}, piece = g % {pieces};")),
    }
    let operands: Vec<usize> = (0..mapped.len()).collect();
    let bases = writer.offsets(&kept, &operands, "o", "k");
    writer.line("const auto load = [&](I r) {");
    let offsets = writer.offsets(&reduced, &operands, "r", "x");
    let mut elements = Vec::new();
    for ((input, base), offset) in mapped.iter().zip(bases).zip(offsets) {
        elements.push((writer.address(address(input)?), format!("{base} + {offset}"), input.dtype));
    }
    let both = Both { inputs: &elements, shape, axes: it.axes };
    let results = expression::write(&mut writer, it.program, "v", &both);
    writer.line(&format!("return {};\n}};", results[0].0));
    let (reduction, value) = (format!("pf::{:?}", it.reduction), value_type(dtype));
    match division {
        Division::Thread => {
            writer.line(&format!("const {value} all = pf::by_thread<{reduction}, {value}>({end}, load);"));
            finish(&mut writer, it, step, dtype, "true")?;
        }
        Division::Group(threads) => {
            writer.line(&format!(
                "const {value} all = pf::by_group<{reduction}, {value}, {threads}>((I)0, {end}, load);"
            ));
            finish(&mut writer, it, step, dtype, "pf::lane() == 0")?;
        }
        Division::Groups(_) => {
            writer.line(&format!("const I from = piece * {per_piece}, to = {end} - from < {per_piece} ? {end} : from + {per_piece};"));
            writer.line(&format!(
                "const {value} all = pf::by_group<{reduction}, {value}, 256>(from, to, load);"
            ));
            let base = writer.address(workspace.unwrap_or_default());
            let partial = storage(dtype);
            let put = store(partial, &base, "g", &cast(partial, dtype, "all"));
            writer.line(&format!("if (pf::lane() == 0) {put}"));
        }
    }
    writer.line("}");
    Ok(writer.launch("reduce", groups, threads))
}

/// Writes the epilogue, for the thread that has the result in `all` and its index in `o`.
fn finish(
    writer: &mut Writer,
    it: Reduce<'_>,
    step: &Step,
    dtype: DType,
    who: &str,
) -> Result<(), DeviceError> {
    let output = &step.outputs[0];
    let others = &step.inputs[it.mapped..];
    let shape = &output.layout.shape;
    let axes = Axes::new(shape, others.iter().map(|input| &input.layout.strides[..]));
    writer.line(&format!("if ({who}) {{"));
    let operands: Vec<usize> = (0..others.len()).collect();
    let offsets = writer.offsets(&axes, &operands, "o", "e");
    let mut elements = Vec::new();
    for (input, offset) in others.iter().zip(offsets) {
        elements.push((writer.address(address(input)?), offset, input.dtype));
    }
    let after = After { value: ("all", dtype), others: Elements { inputs: &elements, index: "o", shape } };
    let results = expression::write(writer, it.epilogue, "w", &after);
    for (output, (value, from)) in step.outputs.iter().zip(&results) {
        let base = writer.address(address(output)?);
        writer.line(&store(output.dtype, &base, "o", &cast(output.dtype, *from, value)));
    }
    writer.line("}");
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_results_of_many_elements_are_divided_between_groups() {
        assert_eq!(divide(304, 1, 10_000_000, false), Division::Groups(256));
        assert_eq!(divide(304, 1, 100, false), Division::Group(64));
        assert_eq!(divide(304, 1 << 20, 3, false), Division::Thread);
        assert_eq!(divide(304, 1 << 20, 100, true), Division::Thread);
        assert_eq!(result_type(&Program::identity(DType::F32)), DType::F32);
    }
}
