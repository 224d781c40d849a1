//! Elementwise programs: one index for all operands.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::program::Program;
use tensor_core::step::Operand;

use super::plan::{Plan, address};
use crate::axes::{Axes, magic};
use crate::expression::{self, Surroundings, cast, load, store};
use crate::source::Writer;

const THREADS: u32 = 256;
/// The most work-groups; beyond that each does several rounds.
const GROUPS: usize = 1 << 14;

/// The inputs of a program at one index.
pub(super) struct Elements<'a> {
    /// Base and offset of each.
    pub inputs: &'a [(String, String, DType)],
    /// The index over all axes, and their lengths.
    pub index: &'a str,
    pub shape: &'a [usize],
}

impl Surroundings for Elements<'_> {
    fn input(&self, _: &mut Writer, number: u16, dtype: DType) -> String {
        let (base, offset, from) = &self.inputs[usize::from(number)];
        cast(dtype, *from, &load(*from, base, offset))
    }

    fn index(&self, writer: &mut Writer, axis: u8) -> String {
        coordinate(writer, self.shape, usize::from(axis), self.index)
    }
}

/// Writes the index along one axis of a shape, from the linear index.
pub(super) fn coordinate(writer: &mut Writer, shape: &[usize], axis: usize, index: &str) -> String {
    let inner: usize = shape[axis + 1..].iter().product::<usize>().max(1);
    let words =
        [inner, shape[axis].max(1)].map(|length| (writer.word(length as u64), writer.word(magic(length))));
    let [(inner, inner_magic), (length, length_magic)] = words;
    format!(
        "[&] {{ I q = {index}; pf::split(q, {inner}, {inner_magic}); return pf::split(q, {length}, {length_magic}); }}()"
    )
}

pub(super) fn plan(
    plan: &mut Plan,
    program: &Program,
    inputs: &[Operand],
    outputs: &[Operand],
) -> Result<(), DeviceError> {
    let shape = &outputs[0].layout.shape;
    let axes = Axes::new(shape, inputs.iter().map(|input| &input.layout.strides[..]));
    let count = axes.elements();
    let wide = Writer::needs_wide((0..inputs.len()).map(|input| axes.reach(input)).chain([count]));
    let mut writer = Writer::new(wide);
    let end = writer.index(count as isize);
    let groups = count.div_ceil(THREADS as usize).min(GROUPS);
    let step = writer.index((groups * THREADS as usize) as isize);
    writer
        .line(&format!("for (I i = (I)pf::group() * {THREADS} + (I)pf::lane(); i < {end}; i += {step}) {{"));
    let operands: Vec<usize> = (0..inputs.len()).collect();
    let offsets = writer.offsets(&axes, &operands, "i", "x");
    let mut elements = Vec::with_capacity(inputs.len());
    for (input, offset) in inputs.iter().zip(offsets) {
        elements.push((writer.address(address(input)?), offset, input.dtype));
    }
    let surroundings = Elements { inputs: &elements, index: "i", shape };
    let results = expression::write(&mut writer, program, "v", &surroundings);
    for (output, (value, dtype)) in outputs.iter().zip(results) {
        let base = writer.address(address(output)?);
        writer.line(&store(output.dtype, &base, "i", &cast(output.dtype, dtype, &value)));
    }
    writer.line("}");
    plan.launches.push(writer.launch("map", groups, THREADS));
    Ok(())
}
