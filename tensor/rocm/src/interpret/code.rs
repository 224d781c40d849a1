//! Programs as instructions of the interpreter, `pf::run_map` in `kernels/interpret.hip`.

use tensor_core::dtype::{DType, Kind, Scalar};
use tensor_core::error::DeviceError;
use tensor_core::program::{Binary, Code, Program, Unary};
use tensor_core::step::Operand;

use super::table::{Table, inverse};
use crate::axes::{Axes, Pattern};
use crate::source::{Writer, word_of};
use crate::symbolic;
use crate::work::{Plan, address};

/// Threads of a work-group.
const THREADS: usize = 64;
/// The values that fit into a work-group's memory, for every thread.
const SLOTS: usize = 64;
/// The most elements of a thread: they share the cost of reading an instruction.
const ROUNDS: usize = 8;
/// The most work-groups; beyond that each does several rounds.
const GROUPS: usize = 1 << 14;

/// Operations, as `pf::Operation` numbers them.
#[derive(Clone, Copy, Debug)]
enum Operation {
    Load,
    Constant,
    Index,
    Convert,
    Select,
    Within,
    Store,
}

/// An instruction whose values have no slots yet.
#[derive(Debug, Default)]
struct Draft {
    operation: u64,
    dtype: Option<DType>,
    /// The value that it computes; none if it stores one.
    to: Option<usize>,
    sources: Vec<usize>,
    /// What is in place of missing sources: the access pattern and the number of an operand.
    access: Option<(Pattern, usize)>,
    /// The place of a word, or another number.
    more: u64,
}

/// A program under translation.
#[derive(Default)]
struct Assembler {
    drafts: Vec<Draft>,
    values: usize,
}

/// Adds the launch that interprets a program over all elements. Unlike in other steps, outputs may have strides.
pub(super) fn map(
    plan: &mut Plan,
    program: &Program,
    inputs: &[Operand],
    outputs: &[Operand],
) -> Result<(), DeviceError> {
    let shape = &outputs[0].layout.shape;
    let operands: Vec<&Operand> = inputs.iter().chain(outputs).collect();
    let axes = Axes::new(shape, operands.iter().map(|operand| &operand.layout.strides[..]));
    let count = axes.elements();
    let wide = Writer::needs_wide((0..operands.len()).map(|operand| axes.reach(operand)).chain([count]));
    let mut table = Table::with(7);
    let strided: Vec<usize> =
        (0..operands.len()).filter(|&operand| axes.pattern(operand) == Pattern::Strided).collect();
    let walk = table.walk(&axes, &strided, wide);
    let access = |operand: usize| {
        let number = strided.iter().position(|&it| it == operand).unwrap_or(0);
        (axes.pattern(operand), number)
    };
    let mut it = Assembler::default();
    // The value that an instruction of the program computes.
    let mut values: Vec<usize> = Vec::with_capacity(program.instructions.len());
    for instruction in &program.instructions {
        let to = instruction.dtype;
        let dtype = |value: u16| program.instructions[usize::from(value)].dtype;
        let value = |value: u16| values[usize::from(value)];
        let made = match instruction.code {
            Code::Input(number) => {
                let number = usize::from(number);
                let input = inputs.get(number).ok_or_else(|| unsupported("an input that is missing"))?;
                let place = table.push_address(address(input)?);
                let loaded = it.load(input.dtype, access(number), place);
                it.converted(loaded, input.dtype, to)
            }
            Code::Constant(scalar) => it.constant(&mut table, to, scalar),
            Code::Index(axis) => {
                let axis = usize::from(axis);
                let inner: usize = shape[axis + 1..].iter().product::<usize>().max(1);
                let length = shape[axis].max(1);
                let place = table.push(inner as u64);
                for word in [inverse(inner), length as u64, inverse(length)] {
                    table.push(word);
                }
                let index = it.value(Draft { more: place as u64, ..draft(Operation::Index) });
                it.converted(index, DType::I64, to)
            }
            Code::Cast(from) => it.converted(value(from), dtype(from), to),
            Code::Unary(function, x) => it.unary(&mut table, function, value(x), dtype(x), to)?,
            Code::Binary(Binary::Within, x, y) => {
                let faults = table.push_address(symbolic::FAULTS) as u64;
                let sources = vec![value(x), value(y)];
                it.value(Draft { sources, more: faults, ..draft(Operation::Within) })
            }
            Code::Binary(function, x, y) => it.binary(function, [value(x), value(y)], dtype(x), to)?,
            Code::Select(condition, x, y) => {
                let sources = vec![value(condition), value(x), value(y)];
                it.value(Draft { sources, ..draft(Operation::Select) })
            }
        };
        values.push(made);
    }
    for (number, (output, &result)) in outputs.iter().zip(&program.results).enumerate() {
        let from = program.instructions[usize::from(result)].dtype;
        let result = it.converted(values[usize::from(result)], from, output.dtype);
        let place = table.push_address(address(output)?) as u64;
        let access = Some(access(inputs.len() + number));
        let sources = vec![result];
        let dtype = Some(output.dtype);
        it.drafts.push(Draft { sources, dtype, access, more: place, ..draft(Operation::Store) });
    }
    let (code, slots) = it.assembled()?;
    let first = table.place();
    for word in &code {
        table.push(*word);
    }
    let rounds = (SLOTS / slots.max(1)).clamp(1, ROUNDS).min(count.div_ceil(THREADS).max(1));
    let groups = count.div_ceil(THREADS * rounds).clamp(1, GROUPS);
    let header = [count, groups, rounds, first, first + code.len(), walk as usize, strided.len()];
    for (place, word) in header.into_iter().enumerate() {
        table.set(place, word as u64);
    }
    table.launch(plan, "pf_run_map", groups, THREADS as u32);
    Ok(())
}

fn draft(operation: Operation) -> Draft {
    Draft { operation: operation as u64, ..Draft::default() }
}

fn unsupported(what: &str) -> DeviceError {
    DeviceError::Unsupported(format!("{what} cannot be interpreted"))
}

/// The kind of operands, `pf::Kind`, and the type that they are computed in.
fn computed(dtype: DType) -> (u64, DType) {
    match dtype.kind() {
        Kind::Float if dtype == DType::F64 => (2, DType::F64),
        Kind::Float => (1, DType::F32),
        Kind::Signed => (3, DType::I64),
        Kind::Unsigned | Kind::Bool => (4, DType::U64),
        Kind::Complex => (5, DType::C64),
    }
}

/// The distance between the kinds of unary and of binary functions.
const BINARY: u64 = 5;

impl Assembler {
    /// Adds an instruction that computes a value; returns the value.
    fn value(&mut self, draft: Draft) -> usize {
        self.values += 1;
        self.drafts.push(Draft { to: Some(self.values - 1), ..draft });
        self.values - 1
    }

    fn load(&mut self, dtype: DType, access: (Pattern, usize), place: usize) -> usize {
        let (dtype, access) = (Some(dtype), Some(access));
        self.value(Draft { dtype, access, more: place as u64, ..draft(Operation::Load) })
    }

    fn constant(&mut self, table: &mut Table, dtype: DType, scalar: Scalar) -> usize {
        let word = word_of(dtype, scalar);
        let word = match dtype {
            DType::U8 => word & 0xFF,
            DType::U16 => word & 0xFFFF,
            DType::U32 => word & 0xFFFF_FFFF,
            DType::I8 => word as i8 as u64,
            DType::I16 => word as i16 as u64,
            DType::I32 => word as i32 as u64,
            _ => word,
        };
        let place = table.push(word) as u64;
        self.value(Draft { more: place, ..draft(Operation::Constant) })
    }

    /// The value as one of another type. Halves are computed as floats and integers as 64 bits, so this also rounds and wraps.
    fn converted(&mut self, value: usize, from: DType, to: DType) -> usize {
        if from == to {
            return value;
        }
        let (sources, dtype) = (vec![value], Some(to));
        self.value(Draft { sources, dtype, more: from as u64, ..draft(Operation::Convert) })
    }

    fn unary(
        &mut self,
        table: &mut Table,
        function: Unary,
        x: usize,
        dtype: DType,
        to: DType,
    ) -> Result<usize, DeviceError> {
        use Unary::*;
        let (kind, natural) = computed(dtype);
        let whole = matches!(natural, DType::I64 | DType::U64);
        let (function, result) = match function {
            Real | Conj if natural != DType::C64 => return Ok(self.converted(x, dtype, to)),
            Floor | Ceil | Trunc | Round if whole => return Ok(self.converted(x, dtype, to)),
            IsNan | IsInf if whole => return Ok(self.constant(table, to, Scalar::Bool(false))),
            Imag if natural != DType::C64 => return Ok(self.constant(table, to, Scalar::Bool(false))),
            BitNot if dtype == DType::Bool => (Not, DType::Bool),
            Not | IsNan | IsInf => (function, DType::Bool),
            Abs | Real | Imag if natural == DType::C64 => (function, DType::F32),
            Neg | Conj => (function, natural),
            _ if natural == DType::C64 => {
                return Err(unsupported(&format!("{function:?} of complex numbers")));
            }
            Abs | Sign => (function, natural),
            BitNot if whole => (function, natural),
            _ if whole || function == BitNot => {
                return Err(unsupported(&format!("{function:?} of {}", dtype.name())));
            }
            _ => (function, natural),
        };
        let operation = kind << 6 | function as u64;
        let made = self.value(Draft { operation, sources: vec![x], ..Draft::default() });
        Ok(self.converted(made, result, to))
    }

    fn binary(
        &mut self,
        function: Binary,
        sources: [usize; 2],
        dtype: DType,
        to: DType,
    ) -> Result<usize, DeviceError> {
        use Binary::*;
        let (kind, natural) = computed(dtype);
        let whole = matches!(natural, DType::I64 | DType::U64);
        let fits = match function {
            Add | Sub | Mul | Div | Eq | Ne => true,
            FloorDiv | Rem | Pow | Max | Min | Lt | Le | Gt | Ge => natural != DType::C64,
            And | Or | Xor | Shl | Shr => whole,
            Atan2 | Hypot | Copysign | Nextafter | Logaddexp | Complex => {
                matches!(natural, DType::F32 | DType::F64)
            }
            Within => false,
        };
        if !fits {
            return Err(unsupported(&format!("{function:?} of {}", dtype.name())));
        }
        let result = match function {
            _ if function.compares() => DType::Bool,
            Complex => DType::C64,
            _ => natural,
        };
        let operation = (kind + BINARY) << 6 | function as u64;
        let more = dtype.bytes() as u64 * 8;
        let made = self.value(Draft { operation, sources: sources.to_vec(), more, ..Draft::default() });
        Ok(self.converted(made, result, to))
    }

    /// Gives values slots, each until its last use; returns the instructions and the number of slots.
    fn assembled(&self) -> Result<(Vec<u64>, usize), DeviceError> {
        let mut last = vec![0; self.values];
        for (number, draft) in self.drafts.iter().enumerate() {
            for &value in draft.sources.iter().chain(&draft.to) {
                last[value] = number;
            }
        }
        let mut slots = vec![0_u64; self.values];
        let (mut free, mut most): (Vec<u64>, u64) = (Vec::new(), 0);
        let mut code = Vec::with_capacity(self.drafts.len());
        for (number, draft) in self.drafts.iter().enumerate() {
            let from: Vec<u64> = draft.sources.iter().map(|&value| slots[value]).collect();
            // A source's slot may be reused at once: an instruction reads an element's sources before it writes.
            let mut ended: Vec<usize> = draft.sources.clone();
            ended.sort_unstable();
            ended.dedup();
            free.extend(ended.iter().filter(|&&value| last[value] == number).map(|&value| slots[value]));
            let mut to = 0;
            if let Some(value) = draft.to {
                to = free.pop().unwrap_or_else(|| {
                    most += 1;
                    most - 1
                });
                slots[value] = to;
                if last[value] == number {
                    free.push(to);
                }
            }
            let [x, y, z] = [0, 1, 2].map(|source| from.get(source).copied());
            let (a, b, c) = match draft.access {
                None => (to, x.unwrap_or(0), y.unwrap_or(0)),
                Some((pattern, operand)) if draft.to.is_some() => (to, pattern as u64, operand as u64),
                Some((pattern, operand)) => (pattern as u64, x.unwrap_or(0), operand as u64),
            };
            let more = z.unwrap_or(draft.more);
            if more > 0xFFFF {
                return Err(DeviceError::Unsupported("the step has too many operands".to_owned()));
            }
            let dtype = draft.dtype.map_or(0, |dtype| dtype as u64);
            code.push(draft.operation | dtype << 16 | a << 24 | b << 32 | c << 40 | more << 48);
        }
        if most as usize > SLOTS {
            return Err(DeviceError::Unsupported("the step has too many intermediate values".to_owned()));
        }
        Ok((code, most as usize))
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tensor_core::layout::Layout;
    use tensor_core::program::Instruction;

    use super::*;
    use crate::memory::Imaginary;
    use crate::work::Target;

    const TARGET: Target = Target { compute_units: 4, matrix_cores: false, tile: None, interpret: None };

    fn operand(address: u64, dtype: DType) -> Operand {
        Operand { buffer: Arc::new(Imaginary(address)), layout: Layout::contiguous(&[99]), dtype }
    }

    fn planned(program: &Program, inputs: &[Operand], output: DType) -> Plan {
        let mut plan = Plan::new(TARGET);
        map(&mut plan, program, inputs, &[operand(1 << 50, output)]).unwrap();
        plan
    }

    /// The names of an enumeration in the kernels' source.
    fn listed(prefix: &str) -> Vec<String> {
        let text = include_str!("../../kernels/interpret.hip");
        let text = text.split(&format!("enum {prefix} {{")).nth(1).unwrap().split("};").next().unwrap();
        let prefix = format!("{}_", prefix.to_uppercase());
        text.split(',').filter_map(|name| name.trim().strip_prefix(&prefix)).map(str::to_owned).collect()
    }

    #[test]
    fn kernels_number_functions_as_programs_do() {
        let (unary, binary) = (listed("Unary"), listed("Binary"));
        assert_eq!((unary.len(), binary.len()), (Unary::Conj as usize + 1, Binary::Within as usize + 1));
        for function in
            [Unary::Neg, Unary::BitNot, Unary::Exp, Unary::Tan, Unary::Erf, Unary::Round, Unary::Conj]
        {
            assert_eq!(unary[function as usize], format!("{function:?}"));
        }
        for function in [Binary::Add, Binary::Pow, Binary::Logaddexp, Binary::Shr, Binary::Ge, Binary::Within]
        {
            assert_eq!(binary[function as usize], format!("{function:?}"));
        }
    }

    #[test]
    fn a_value_that_is_not_needed_again_gives_its_slot_to_the_next() {
        let mut it = Assembler::default();
        let mut value = it.load(DType::F32, (Pattern::Linear, 0), 9);
        for _ in 0..50 {
            value = it.value(Draft { operation: 1 << 6, sources: vec![value], ..Draft::default() });
        }
        let (code, slots) = it.assembled().unwrap();
        assert_eq!((code.len(), slots), (51, 1));
    }

    #[test]
    fn a_table_with_too_many_words_is_written_to_memory_first() {
        let short = planned(&Program::identity(DType::F32), &[operand(1 << 48, DType::F32)], DType::F32);
        assert_eq!((short.launches.len(), short.workspaces.len()), (1, 0));
        assert_eq!(short.launches[0].words.len(), 96);
        let constants = (0..60).map(|number| Code::Constant(Scalar::Int(number)));
        let instructions = constants.map(|code| Instruction { code, dtype: DType::I64 }).collect();
        let long = planned(&Program { instructions, results: vec![59] }, &[], DType::I64);
        assert_eq!((long.launches.len(), long.workspaces.len()), (3, 1));
        let names: Vec<&str> = long.launches.iter().map(|launch| &*launch.kernel.text).collect();
        assert_eq!(names, ["pf_run_fill", "pf_run_fill", "pf_run_map"]);
        let table = crate::symbolic::workspace(0).0;
        assert_eq!(long.launches[1].words[2], table + 93 * 8);
        assert_eq!((long.launches[2].words[0], &*long.launches[2].addresses), (table, &[0][..]));
    }
}
