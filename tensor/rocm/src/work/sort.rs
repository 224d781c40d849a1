//! Sorting: a bitonic network over pairs of key and position, in shared memory for short lines, in a workspace for long ones.
//! Positions make it stable.

use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::step::Step;

use super::plan::{Plan, address};
use crate::axes::Axes;
use crate::expression::{load, store};
use crate::source::{Address, Writer};

/// The longest line that is sorted in shared memory; longer ones would limit a compute unit to one work-group.
pub(crate) const SORTED_IN_SHARED: usize = 1024;
const THREADS: u32 = 256;

pub(super) fn plan(plan: &mut Plan, axis: usize, descending: bool, step: &Step) -> Result<(), DeviceError> {
    let input = &step.inputs[0];
    let shape = &input.layout.shape;
    let outside: Vec<usize> = (0..shape.len()).filter(|&other| other != axis).collect();
    let lengths: Vec<usize> = outside.iter().map(|&axis| shape[axis]).collect();
    let operands = [input, &step.outputs[0]];
    let strides: Vec<Vec<isize>> =
        operands.iter().map(|it| outside.iter().map(|&axis| it.layout.strides[axis]).collect()).collect();
    let lines = Axes::new(&lengths, strides.iter().map(Vec::as_slice));
    let length = shape.get(axis).copied().unwrap_or(1);
    if length > u32::MAX as usize / 2 {
        return Err(DeviceError::Unsupported(format!("sorting a line of {length} elements")));
    }
    let sort = Sort { step, axis, descending, lines: &lines, length };
    if length <= SORTED_IN_SHARED { sort.short(plan) } else { sort.long(plan) }
}

struct Sort<'a> {
    step: &'a Step,
    axis: usize,
    descending: bool,
    lines: &'a Axes,
    length: usize,
}

impl Sort<'_> {
    fn writer(&self) -> Writer {
        let elements = self.lines.elements() * self.length.next_power_of_two();
        let stride = |number: usize| self.stride(number).unsigned_abs() * self.length;
        Writer::new(Writer::needs_wide([
            elements,
            self.lines.reach(0) + stride(0),
            self.lines.reach(1) + stride(1),
        ]))
    }

    /// The stride of the input or the outputs along the axis.
    fn stride(&self, number: usize) -> isize {
        let operand = if number == 0 { &self.step.inputs[0] } else { &self.step.outputs[0] };
        operand.layout.strides.get(self.axis).copied().unwrap_or(1)
    }

    /// The key of element `i`, and the statement that stores the element from `place` at `i`; `offsets` are those of the line.
    fn ends(&self, writer: &mut Writer, offsets: &[String]) -> Result<(String, String), DeviceError> {
        let (input, dtype) = (&self.step.inputs[0], self.step.inputs[0].dtype);
        let [from, to] = [0, 1].map(|number| {
            let stride = self.stride(number);
            writer.index(stride)
        });
        let base = writer.address(address(input)?);
        let value = load(dtype, &base, &format!("{} + (I)i * {from}", offsets[0]));
        let key = format!("pf::Key<{}>::of({value})", self.descending);
        let at = format!("{} + (I)i * {to}", offsets[1]);
        let mut puts = String::new();
        for (number, output) in self.step.outputs.iter().enumerate() {
            let target = writer.address(address(output)?);
            let value = if number == 0 {
                load(dtype, &base, &format!("{} + (I)place * {from}", offsets[0]))
            } else {
                "(pf::i64)place".to_owned()
            };
            puts += &store(output.dtype, &target, &at, &value);
        }
        Ok((key, puts))
    }

    fn short(&self, plan: &mut Plan) -> Result<(), DeviceError> {
        let mut writer = self.writer();
        let lines = self.lines.elements();
        let groups = lines.clamp(1, 1 << 22);
        let [count, stride, length] =
            [lines, groups, self.length].map(|number| writer.index(number as isize));
        writer.line(&format!("for (I o = (I)pf::group(); o < {count}; o += {stride}) {{"));
        let offsets = writer.offsets(self.lines, &[0, 1], "o", "k");
        let (key, puts) = self.ends(&mut writer, &offsets)?;
        let (size, threads) = if self.length <= 64 { (64, 64) } else { (SORTED_IN_SHARED, THREADS) };
        writer.line(&format!(
            "pf::sort_line<{size}, {threads}>((pf::u32){length}, [&](pf::u32 i) {{ return {key}; }}, [&](pf::u32 i, pf::u32 place) {{ {puts} }});\n}}"
        ));
        plan.launches.push(writer.launch("sort", groups, threads));
        Ok(())
    }

    fn long(&self, plan: &mut Plan) -> Result<(), DeviceError> {
        let (lines, size) = (self.lines.elements(), self.length.next_power_of_two());
        let keys = plan.workspace(lines * size * 8);
        let places = plan.workspace(lines * size * 4);
        self.pass(plan, lines * size, [keys, places], |writer, keys, places| {
            let size_word = writer.word(size as u64);
            let length = writer.index(self.length as isize);
            writer.line(&format!("const I o = n / (I){size_word}, i = n % (I){size_word};"));
            let offsets = writer.offsets(self.lines, &[0, 1], "o", "k");
            let (key, _) = self.ends(writer, &offsets)?;
            writer.line(&store(DType::U64, keys, "n", &format!("i < {length} ? {key} : ~0ul")));
            writer.line(&store(DType::U32, places, "n", "(pf::u32)i"));
            Ok(())
        })?;
        let mut part = 2;
        while part <= size {
            let mut far = part / 2;
            while far > 0 {
                self.pass(plan, lines * size / 2, [keys, places], |writer, keys, places| {
                    let [part, far] = [part, far].map(|number| writer.index(number as isize));
                    let size = writer.index(size as isize);
                    writer.line(&format!("const I i = n / {far} * {far} * 2 + n % {far}, j = i + {far};"));
                    for name in ["i", "j"] {
                        writer.line(&format!("const pf::u64 key_{name} = {};", load(DType::U64, keys, name)));
                        writer.line(&format!(
                            "const pf::u32 place_{name} = {};",
                            load(DType::U32, places, name)
                        ));
                    }
                    writer.line(&format!(
                        "if (pf::behind(key_i, place_i, key_j, place_j) == (((i % {size}) & {part}) == 0)) {{"
                    ));
                    for (to, from) in [("i", "j"), ("j", "i")] {
                        writer.line(&store(DType::U64, keys, to, &format!("key_{from}")));
                        writer.line(&store(DType::U32, places, to, &format!("place_{from}")));
                    }
                    writer.line("}");
                    Ok(())
                })?;
                far /= 2;
            }
            part *= 2;
        }
        self.pass(plan, lines * self.length, [keys, places], |writer, _, places| {
            let length = writer.index(self.length as isize);
            let size = writer.index(size as isize);
            writer.line(&format!("const I o = n / {length}, i = n % {length};"));
            writer.line(&format!(
                "const pf::u32 place = {};",
                load(DType::U32, places, &format!("o * {size} + i"))
            ));
            let offsets = writer.offsets(self.lines, &[0, 1], "o", "k");
            let (_, puts) = self.ends(writer, &offsets)?;
            writer.line(&puts);
            Ok(())
        })
    }

    /// One launch over `count` indices, `n`, with access to the workspaces.
    fn pass(
        &self,
        plan: &mut Plan,
        count: usize,
        workspaces: [Address; 2],
        write: impl Fn(&mut Writer, &str, &str) -> Result<(), DeviceError>,
    ) -> Result<(), DeviceError> {
        let mut writer = self.writer();
        let groups = count.div_ceil(THREADS as usize).clamp(1, 1 << 14);
        let [end, stride] = [count, groups * THREADS as usize].map(|number| writer.index(number as isize));
        let [keys, places] = workspaces.map(|address| writer.address(address));
        writer.line(&format!(
            "for (I n = (I)pf::group() * {THREADS} + (I)pf::lane(); n < {end}; n += {stride}) {{"
        ));
        write(&mut writer, &keys, &places)?;
        writer.line("}");
        plan.launches.push(writer.launch("sort_pass", groups, THREADS));
        Ok(())
    }
}
