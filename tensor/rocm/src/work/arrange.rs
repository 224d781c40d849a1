//! Data movement: padding, concatenation, folding of windows, gather and scatter.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::layout::{Layout, Strides};
use tensor_core::program::Program;
use tensor_core::step::{Operand, Step};

use super::map;
use super::plan::{Plan, address};
use crate::axes::{Axes, magic};
use crate::expression::{cast, load, store};
use crate::source::{Writer, value_type, word_of};

const THREADS: u32 = 256;

/// Opens a loop over `count` indices, `i`; returns the number of work-groups.
fn each(writer: &mut Writer, count: usize) -> usize {
    let groups = count.div_ceil(THREADS as usize).clamp(1, 1 << 14);
    let (end, stride) = (writer.index(count as isize), writer.index((groups * THREADS as usize) as isize));
    writer.line(&format!(
        "for (I i = (I)pf::group() * {THREADS} + (I)pf::lane(); i < {end}; i += {stride}) {{"
    ));
    groups
}

/// Writes the coordinates of `index` in a shape: `{prefix}0`, and so on.
fn coordinates(writer: &mut Writer, shape: &[usize], index: &str, prefix: &str) {
    writer.line(&format!("I {prefix}r = {index};"));
    for axis in (0..shape.len()).rev() {
        if axis == 0 {
            writer.line(&format!("const I {prefix}0 = {prefix}r;"));
        } else {
            let (length, magic) = (writer.word(shape[axis] as u64), magic(shape[axis]));
            let magic = writer.word(magic);
            writer.line(&format!("const I {prefix}{axis} = pf::split({prefix}r, {length}, {magic});"));
        }
    }
}

/// The largest offset of an operand.
pub(crate) fn reach(operand: &Operand) -> usize {
    let it = &operand.layout;
    it.shape
        .iter()
        .zip(&it.strides)
        .map(|(length, stride)| length.saturating_sub(1) * stride.unsigned_abs())
        .sum()
}

/// An unsigned type of the same size, for pure copies.
fn moved(dtype: DType) -> DType {
    match dtype.bytes() {
        1 => DType::U8,
        2 => DType::U16,
        4 => DType::U32,
        _ => DType::U64,
    }
}

/// Encodes a number as its bytes in memory.
pub(crate) fn pattern(dtype: DType, value: Scalar) -> u64 {
    let word = word_of(dtype, value);
    match dtype {
        DType::F16 => u64::from(half::f16::from_f32(f32::from_bits(word as u32)).to_bits()),
        DType::BF16 => u64::from(half::bf16::from_f32(f32::from_bits(word as u32)).to_bits()),
        _ => word,
    }
}

/// The axes of a padding: length within, length, before, stride. Unpadded axes are merged with the next outer one.
pub(crate) fn padded(before: &[usize], from: &Layout, to: &Layout) -> Vec<[isize; 4]> {
    let mut axes: Vec<[isize; 4]> = Vec::new();
    for (axis, &first) in before.iter().enumerate() {
        let (inside, length) = (from.shape[axis] as isize, to.shape[axis] as isize);
        let (first, stride) = (first as isize, from.strides[axis]);
        match axes.last_mut() {
            Some(outer) if first == 0 && inside == length && outer[3] == stride * length => {
                *outer = [outer[0] * length, outer[1] * length, outer[2] * length, stride];
            }
            _ => axes.push([inside, length, first, stride]),
        }
    }
    axes
}

pub(super) fn pad(plan: &mut Plan, before: &[usize], value: Scalar, step: &Step) -> Result<(), DeviceError> {
    let (input, output) = (&step.inputs[0], &step.outputs[0]);
    let (from, to) = (&input.layout, &output.layout);
    let axes = padded(before, from, to);
    let mut writer = Writer::new(Writer::needs_wide([to.elements(), reach(input)]));
    let groups = each(&mut writer, to.elements());
    let lengths: Vec<usize> = axes.iter().map(|axis| axis[1] as usize).collect();
    coordinates(&mut writer, &lengths, "i", "c");
    let (mut inside, mut offset) = ("true".to_owned(), "(I)0".to_owned());
    for (axis, [within, _, first, stride]) in axes.into_iter().enumerate() {
        let [within, first, stride] = [within, first, stride].map(|number| writer.index(number));
        writer.line(&format!("const I p{axis} = c{axis} - {first};"));
        inside += &format!(" && p{axis} >= 0 && p{axis} < {within}");
        offset += &format!(" + p{axis} * {stride}");
    }
    let dtype = moved(output.dtype);
    let (source, target) = (writer.address(address(input)?), writer.address(address(output)?));
    let frame = writer.word(pattern(output.dtype, value));
    let value = value_type(dtype);
    let read = load(dtype, &source, &offset);
    writer.line(&store(dtype, &target, "i", &format!("{inside} ? {read} : ({value}){frame}")));
    writer.line("}");
    plan.launches.push(writer.launch("pad", groups, THREADS));
    Ok(())
}

/// Copies the elements of one operand to another of the same shape.
pub(super) fn copy(plan: &mut Plan, from: &Operand, to: &Operand) -> Result<(), DeviceError> {
    let axes = Axes::new(&from.layout.shape, [&from.layout.strides[..], &to.layout.strides[..]].into_iter());
    let count = axes.elements();
    if count == 0 {
        return Ok(());
    }
    let mut writer = Writer::new(Writer::needs_wide([count, axes.reach(0), axes.reach(1)]));
    let groups = each(&mut writer, count);
    let offsets = writer.offsets(&axes, &[0, 1], "i", "x");
    let dtype = moved(from.dtype);
    let (source, target) = (writer.address(address(from)?), writer.address(address(to)?));
    writer.line(&store(dtype, &target, &offsets[1], &load(dtype, &source, &offsets[0])));
    writer.line("}");
    plan.launches.push(writer.launch("copy", groups, THREADS));
    Ok(())
}

pub(super) fn concat(plan: &mut Plan, axis: usize, step: &Step) -> Result<(), DeviceError> {
    let mut target = step.outputs[0].clone();
    for input in &step.inputs {
        let length = input.layout.shape[axis];
        target.layout.shape = input.layout.shape.clone();
        copy(plan, input, &target)?;
        target.layout.offset += length * target.layout.strides[axis].unsigned_abs();
    }
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
    let (count, rank) = (kernel.len(), output.layout.rank());
    let leading = rank - count;
    let sums = match output.dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    };
    let mut writer = Writer::new(Writer::needs_wide([output.layout.elements(), reach(input)]));
    let groups = each(&mut writer, output.layout.elements());
    coordinates(&mut writer, &output.layout.shape, "i", "c");
    let mut offset = "(I)0".to_owned();
    for axis in 0..leading {
        let stride = writer.index(input.layout.strides[axis]);
        offset += &format!(" + c{axis} * {stride}");
    }
    writer.line(&format!("const I base = {offset};"));
    let value = value_type(sums);
    writer.line(&format!("{value} sum = 0;"));
    let mut offset = "base".to_owned();
    for axis in 0..count {
        let (windows, kernels) = (leading + axis, leading + count + axis);
        let numbers = [
            kernel[axis] as isize,
            stride[axis] as isize,
            dilation[axis] as isize,
            input.layout.shape[windows] as isize,
            input.layout.strides[windows],
            input.layout.strides[kernels],
        ];
        let [kernel, stride, dilation, length, window_stride, kernel_stride] =
            numbers.map(|number| writer.index(number));
        writer.line(&format!("for (I k{axis} = 0; k{axis} < {kernel}; k{axis}++) {{"));
        writer.line(&format!("const I t{axis} = c{} - k{axis} * {dilation};", leading + axis));
        writer.line(&format!("if (t{axis} < 0) break;"));
        writer.line(&format!("const I w{axis} = t{axis} / {stride};"));
        writer.line(&format!("if (w{axis} * {stride} != t{axis} || w{axis} >= {length}) continue;"));
        offset += &format!(" + w{axis} * {window_stride} + k{axis} * {kernel_stride}");
    }
    let base = writer.address(address(input)?);
    let read = cast(sums, input.dtype, &load(input.dtype, &base, &offset));
    writer.line(&format!("sum = ({value})(sum + {read});"));
    writer.line(&"}".repeat(count));
    let base = writer.address(address(output)?);
    writer.line(&store(output.dtype, &base, "i", &cast(output.dtype, sums, "sum")));
    writer.line("}");
    plan.launches.push(writer.launch("fold", groups, THREADS));
    Ok(())
}

/// Strides of an operand with that of one axis set to zero.
pub(crate) fn without(strides: &[isize], axis: usize) -> Strides {
    let mut strides: Strides = strides.into();
    strides[axis] = 0;
    strides
}

pub(super) fn gather(plan: &mut Plan, axis: usize, step: &Step) -> Result<(), DeviceError> {
    let (input, indices, output) = (&step.inputs[0], &step.inputs[1], &step.outputs[0]);
    let others = without(&input.layout.strides, axis);
    let axes = Axes::new(&indices.layout.shape, [&indices.layout.strides[..], &others[..]].into_iter());
    let mut writer = Writer::new(Writer::needs_wide([axes.elements(), axes.reach(0), reach(input)]));
    let groups = each(&mut writer, axes.elements());
    let offsets = writer.offsets(&axes, &[0, 1], "i", "x");
    let dtype = moved(output.dtype);
    let bases = [address(input)?, address(indices)?, address(output)?].map(|address| writer.address(address));
    let length = writer.word(input.layout.shape[axis] as u64);
    let stride = writer.word(input.layout.strides[axis] as u64);
    writer.line(&format!(
        "const pf::i64 at = {};",
        cast(DType::I64, indices.dtype, &load(indices.dtype, &bases[1], &offsets[0]))
    ));
    let read = load(dtype, &bases[0], &format!("(pf::i64){} + at * (pf::i64){stride}", offsets[1]));
    let value = format!("(pf::u64)at < {length} ? {read} : ({})0", value_type(dtype));
    writer.line(&store(dtype, &bases[2], "i", &value));
    writer.line("}");
    plan.launches.push(writer.launch("gather", groups, THREADS));
    Ok(())
}

pub(super) fn scatter(plan: &mut Plan, axis: usize, add: bool, step: &Step) -> Result<(), DeviceError> {
    let [start, indices, source] = &step.inputs[..] else {
        return Err(DeviceError::Unsupported("a scatter needs three inputs".to_owned()));
    };
    let output = &step.outputs[0];
    map::plan(plan, &Program::identity(start.dtype), std::slice::from_ref(start), &step.outputs)?;
    let mut lines = indices.layout.shape.clone();
    lines[axis] = 1;
    let strides = [indices, source, output].map(|operand| without(&operand.layout.strides, axis));
    let axes = Axes::new(&lines, strides.iter().map(|strides| &strides[..]));
    if indices.layout.elements() == 0 {
        return Ok(());
    }
    // One thread handles a whole line, so that values for the same position arrive in order.
    let mut writer =
        Writer::new(Writer::needs_wide([axes.elements(), reach(indices), reach(source), reach(output)]));
    let groups = each(&mut writer, axes.elements());
    let offsets = writer.offsets(&axes, &[0, 1, 2], "i", "x");
    let bases =
        [address(indices)?, address(source)?, address(output)?].map(|address| writer.address(address));
    let count = writer.index(indices.layout.shape[axis] as isize);
    let numbers = [indices, source, output].map(|operand| writer.index(operand.layout.strides[axis]));
    let length = writer.word(output.layout.shape[axis] as u64);
    writer.line(&format!("for (I j = 0; j < {count}; j++) {{"));
    let index = load(indices.dtype, &bases[0], &format!("{} + j * {}", offsets[0], numbers[0]));
    writer.line(&format!("const pf::i64 at = {};", cast(DType::I64, indices.dtype, &index)));
    writer.line(&format!("if ((pf::u64)at >= {length}) continue;"));
    let value = load(source.dtype, &bases[1], &format!("{} + j * {}", offsets[1], numbers[1]));
    let value = cast(output.dtype, source.dtype, &value);
    writer.line(&format!("const I to = {} + (I)at * {};", offsets[2], numbers[2]));
    let value = if add {
        let there = load(output.dtype, &bases[2], "to");
        format!("({})({there} + {value})", value_type(output.dtype))
    } else {
        value
    };
    writer.line(&store(output.dtype, &bases[2], "to", &value));
    writer.line("}\n}");
    plan.launches.push(writer.launch("scatter", groups, THREADS));
    Ok(())
}
