//! Operations on lines: softmax, normalisation, argmax and argmin, cumulative sums.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::step::{Operand, Step};

use super::plan::{Plan, address, merged};
use crate::axes::Axes;
use crate::expression::{cast, load, store};
use crate::source::{Writer, value_type};

/// The longest line that one thread handles.
const SHORT: usize = 16;

/// A kernel over lines: the kept axes, the axes of a line, and their operands.
struct Lines {
    writer: Writer,
    /// Offset of each operand's line; [`Lines::elements`] adds the offset of the element at `i`.
    bases: Vec<String>,
    line: Axes,
    length: String,
    threads: u32,
    groups: usize,
    operands: Vec<usize>,
}

impl Lines {
    /// Opens the loop over lines, `o`, of operands of one shape.
    fn open(operands: &[&Operand], axes: &[usize], alone: bool) -> Lines {
        let [kept, line] = merged(operands, axes);
        let (lines, length) = (kept.elements(), line.elements());
        let sizes = (0..operands.len()).map(|operand| kept.reach(operand) + line.reach(operand));
        let mut writer = Writer::new(Writer::needs_wide(sizes.chain([lines * length.max(1)])));
        let threads = threads_of_line(length, alone);
        let groups = if threads == 1 { lines.div_ceil(64) } else { lines }.clamp(1, 1 << 22);
        let count = writer.index(lines as isize);
        let stride = writer.index((if threads == 1 { groups * 64 } else { groups }) as isize);
        let first = if threads == 1 { "(I)pf::group() * 64 + (I)pf::lane()" } else { "(I)pf::group()" };
        writer.line(&format!("for (I o = {first}; o < {count}; o += {stride}) {{"));
        let length = writer.index(length as isize);
        writer.line(&format!("const I length = {length};"));
        let operands: Vec<usize> = (0..operands.len()).collect();
        let bases = writer.offsets(&kept, &operands, "o", "k");
        Lines { writer, bases, line, length: "length".to_owned(), threads, groups, operands }
    }

    /// Offsets of the elements at `i` of a line, inside a function of `i`.
    fn elements(&mut self) -> Vec<String> {
        let offsets = self.writer.offsets(&self.line, &self.operands, "i", "x");
        self.bases.iter().zip(offsets).map(|(base, offset)| format!("{base} + {offset}")).collect()
    }

    /// Writes the function `load`, which reads from one operand as a value of a type.
    fn load(&mut self, operand: &Operand, number: usize, dtype: DType) -> Result<(), DeviceError> {
        self.writer.line("const auto load = [&](I i) {");
        let offset = self.elements().swap_remove(number);
        let base = self.writer.address(address(operand)?);
        let value = cast(dtype, operand.dtype, &load(operand.dtype, &base, &offset));
        self.writer.line(&format!("return {value};\n}};"));
        Ok(())
    }

    fn close(mut self, plan: &mut Plan, family: &'static str) {
        self.writer.line("}");
        let threads = if self.threads == 1 { 64 } else { self.threads };
        plan.launches.push(self.writer.launch(family, self.groups, threads));
    }
}

/// The threads that handle one line; `alone` if its elements depend on each other.
pub(crate) fn threads_of_line(length: usize, alone: bool) -> u32 {
    if alone || length <= SHORT {
        1
    } else if length <= 256 {
        64
    } else {
        256
    }
}

/// The type of computation: halves are computed in f32.
fn computed(dtype: DType) -> DType {
    if dtype == DType::F64 { DType::F64 } else { DType::F32 }
}

pub(super) fn softmax(plan: &mut Plan, axis: usize, log: bool, step: &Step) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let dtype = computed(input.dtype);
    let mut lines = Lines::open(&[input, output], &[axis], false);
    lines.load(input, 0, dtype)?;
    let value = value_type(dtype);
    lines.writer.line(&format!("const auto store = [&](I i, {value} y) {{"));
    let offset = lines.elements().swap_remove(1);
    let base = lines.writer.address(address(output)?);
    lines.writer.line(&store(output.dtype, &base, &offset, &cast(output.dtype, dtype, "y")));
    lines.writer.line("};");
    let (threads, length) = (lines.threads, lines.length.clone());
    lines.writer.line(&format!("pf::softmax<{value}, {threads}, {log}>({length}, load, store);"));
    lines.close(plan, "softmax");
    Ok(())
}

pub(super) fn cross_entropy(plan: &mut Plan, axis: usize, step: &Step) -> Result<(), DeviceError> {
    let (logits, classes) = (&step.inputs[0], &step.inputs[1]);
    let dtype = computed(logits.dtype);
    let mut lines = Lines::open(&[logits, classes], &[axis], false);
    lines.load(logits, 0, dtype)?;
    let value = value_type(dtype);
    let base = lines.writer.address(address(classes)?);
    let label = cast(DType::I64, classes.dtype, &load(classes.dtype, &base, &lines.bases[1]));
    lines.writer.line(&format!("const auto keep = [&]({value} loss, {value} kept) {{"));
    for (output, name) in step.outputs.iter().zip(["loss", "kept"]) {
        let base = lines.writer.address(address(output)?);
        lines.writer.line(&store(output.dtype, &base, "o", &cast(output.dtype, dtype, name)));
    }
    lines.writer.line("};");
    let threads = lines.threads;
    lines.writer.line(&format!("pf::cross_entropy<{value}, {threads}>(length, {label}, load, keep);"));
    lines.close(plan, "cross_entropy");
    Ok(())
}

pub(super) fn normalise(plan: &mut Plan, axes: usize, epsilon: f64, step: &Step) -> Result<(), DeviceError> {
    let input = &step.inputs[0];
    let dtype = computed(input.dtype);
    let rank = input.layout.rank();
    let inner: Vec<usize> = (rank - axes..rank).collect();
    let operands: Vec<&Operand> = step.inputs.iter().collect();
    let mut lines = Lines::open(&operands, &inner, false);
    lines.load(input, 0, dtype)?;
    let value = value_type(dtype);
    lines.writer.line(&format!("const auto store = [&](I i, {value} y) {{"));
    let offsets = lines.elements();
    let mut result = "y".to_owned();
    for (number, sign) in [(1, "*"), (2, "+")] {
        let Some(operand) = step.inputs.get(number) else { continue };
        let base = lines.writer.address(address(operand)?);
        let factor = cast(dtype, operand.dtype, &load(operand.dtype, &base, &offsets[number]));
        result = format!("({result} {sign} {factor})");
    }
    let output = &step.outputs[0];
    let base = lines.writer.address(address(output)?);
    let put = store(output.dtype, &base, "o * length + i", &cast(output.dtype, dtype, &result));
    lines.writer.line(&format!("{put}\n}};"));
    lines.writer.line(&format!("const auto keep = [&]({value} mean, {value} inverse) {{"));
    for (output, name) in step.outputs[1..].iter().zip(["mean", "inverse"]) {
        let base = lines.writer.address(address(output)?);
        lines.writer.line(&store(output.dtype, &base, "o", &cast(output.dtype, dtype, name)));
    }
    lines.writer.line("};");
    let epsilon = lines.writer.constant(dtype, Scalar::Float(epsilon));
    let threads = lines.threads;
    lines.writer.line(&format!("pf::normalise<{value}, {threads}>(length, {epsilon}, load, store, keep);"));
    lines.close(plan, "normalise");
    Ok(())
}

pub(super) fn arg_reduce(
    plan: &mut Plan,
    largest: bool,
    axis: usize,
    step: &Step,
) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let mut lines = Lines::open(&[input], &[axis], false);
    lines.load(input, 0, input.dtype)?;
    let (threads, value) = (lines.threads, value_type(input.dtype));
    lines.writer.line(&format!("const I at = pf::arg_reduce<{value}, {threads}, {largest}>(length, load);"));
    let base = lines.writer.address(address(output)?);
    let put = store(output.dtype, &base, "o", &cast(output.dtype, DType::I64, "(pf::i64)at"));
    lines.writer.line(&format!("if (pf::place<{threads}>() == 0) {put}"));
    lines.close(plan, "arg_reduce");
    Ok(())
}

pub(super) fn cumulative(
    plan: &mut Plan,
    axis: usize,
    product: bool,
    step: &Step,
) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    // Halves too: the running sum is kept in f32.
    let dtype = match output.dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    };
    let mut lines = Lines::open(&[input, output], &[axis], true);
    lines.load(input, 0, dtype)?;
    let value = value_type(dtype);
    lines.writer.line(&format!("{value} all = ({value}){};", u8::from(product)));
    lines.writer.line("for (I i = 0; i < length; i++) {");
    let sign = if product { "*" } else { "+" };
    lines.writer.line(&format!("all = ({value})(all {sign} load(i));"));
    let offset = lines.elements().swap_remove(1);
    let base = lines.writer.address(address(output)?);
    lines.writer.line(&store(output.dtype, &base, &offset, &cast(output.dtype, dtype, "all")));
    lines.writer.line("}");
    lines.close(plan, "cumulative");
    Ok(())
}
