//! Code generation: programs as lines of C++.

use tensor_core::dtype::DType;
use tensor_core::program::{Binary, Code, Program, Unary};

use crate::source::{Writer, element, value_type};
use crate::symbolic;

/// The context of a program: how its inputs and indices are written.
pub(crate) trait Surroundings {
    /// The nth input as a value of this type.
    fn input(&self, writer: &mut Writer, number: u16, dtype: DType) -> String;
    /// The current index along an axis.
    fn index(&self, writer: &mut Writer, axis: u8) -> String;
}

/// Writes a program. Returns the names and types of its results.
pub(crate) fn write(
    writer: &mut Writer,
    program: &Program,
    prefix: &str,
    surroundings: &dyn Surroundings,
) -> Vec<(String, DType)> {
    let name = |value: u16| format!("{prefix}{value}");
    let dtype = |value: u16| program.instructions[usize::from(value)].dtype;
    for (number, instruction) in program.instructions.iter().enumerate() {
        let to = instruction.dtype;
        let value = match instruction.code {
            Code::Input(input) => surroundings.input(writer, input, to),
            Code::Constant(scalar) => writer.constant(to, scalar),
            Code::Index(axis) => {
                let index = surroundings.index(writer, axis);
                rounded(to, &format!("pf::To<{}>::from((pf::i64)({index}))", value_type(to)))
            }
            Code::Cast(from) => cast(to, dtype(from), &name(from)),
            Code::Unary(function, x) => rounded(to, &unary(function, dtype(x), &name(x))),
            Code::Binary(Binary::Within, x, y) => {
                let faults = writer.address(symbolic::FAULTS);
                format!("pf::within({}, {}, {faults})", name(x), name(y))
            }
            Code::Binary(function, x, y) => rounded(to, &binary(function, dtype(x), &name(x), &name(y))),
            Code::Select(condition, x, y) => format!("{} ? {} : {}", name(condition), name(x), name(y)),
        };
        writer.line(&format!("const {} {prefix}{number} = {value};", value_type(to)));
    }
    program.results.iter().map(|&value| (name(value), dtype(value))).collect()
}

/// Whether a program can be written; most functions of complex numbers are missing.
pub(crate) fn can_write(program: &Program) -> bool {
    program.instructions.iter().all(|instruction| {
        if instruction.dtype == DType::C128 {
            return false;
        }
        let complex = |value: u16| program.instructions[usize::from(value)].dtype == DType::C64;
        match instruction.code {
            Code::Input(_) | Code::Constant(_) | Code::Index(_) | Code::Cast(_) | Code::Select(..) => true,
            Code::Unary(function, x) => {
                !complex(x)
                    || matches!(function, Unary::Neg | Unary::Real | Unary::Imag | Unary::Conj | Unary::Abs)
            }
            Code::Binary(function, x, _) => {
                use Binary::*;
                !complex(x) || matches!(function, Add | Sub | Mul | Div | Eq | Ne)
            }
        }
    })
}

/// Converts a value between types.
pub(crate) fn cast(to: DType, from: DType, value: &str) -> String {
    match (to, from) {
        _ if to == from => value.to_owned(),
        (DType::F16, DType::F64) => format!("pf::round_f16({value})"),
        _ => rounded(to, &format!("pf::To<{}>::from({value})", value_type(to))),
    }
}

/// Reads an element from memory.
pub(crate) fn load(dtype: DType, base: &str, offset: &str) -> String {
    format!("pf::get<{}>({base}, {offset})", element(dtype))
}

pub(crate) fn store(dtype: DType, base: &str, offset: &str, value: &str) -> String {
    format!("pf::put<{}>({base}, {offset}, {value});", element(dtype))
}

/// Halves are computed in f32 and rounded after each operation.
fn rounded(dtype: DType, value: &str) -> String {
    match dtype {
        DType::F16 => format!("pf::round_f16({value})"),
        DType::BF16 => format!("pf::round_bf16({value})"),
        _ => value.to_owned(),
    }
}

fn unary(function: Unary, dtype: DType, x: &str) -> String {
    use Unary::*;
    let complex = dtype == DType::C64;
    let name = match function {
        Neg if complex => return format!("-{x}"),
        Abs if complex => return format!("pf::hypot({x}.x, {x}.y)"),
        Real if complex => return format!("{x}.x"),
        Imag if complex => return format!("{x}.y"),
        Conj if complex => return format!("pf::c64{{{x}.x, -{x}.y}}"),
        Real | Conj => return x.to_owned(),
        Imag => return format!("({})0", value_type(dtype)),
        Neg => "neg",
        Abs => "abs",
        Sign => "sign",
        Not => "logical_not",
        BitNot => "bit_not",
        Sqrt => "sqrt",
        Rsqrt => "rsqrt",
        Recip => "recip",
        Exp => "exp",
        Exp2 => "exp2",
        Expm1 => "expm1",
        Log => "log",
        Log2 => "log2",
        Log10 => "log10",
        Log1p => "log1p",
        Sin => "sin",
        Cos => "cos",
        Tan => "tan",
        Asin => "asin",
        Acos => "acos",
        Atan => "atan",
        Sinh => "sinh",
        Cosh => "cosh",
        Tanh => "tanh",
        Asinh => "asinh",
        Acosh => "acosh",
        Atanh => "atanh",
        Erf => "erf",
        Sigmoid => "sigmoid",
        Floor => "floor",
        Ceil => "ceil",
        Trunc => "trunc",
        Round => "round",
        IsNan => "is_nan",
        IsInf => "is_inf",
    };
    format!("pf::{name}({x})")
}

fn binary(function: Binary, dtype: DType, x: &str, y: &str) -> String {
    use Binary::*;
    let complex = dtype == DType::C64;
    let name = match function {
        Add | Sub if complex => {
            return format!("{x} {} {y}", if function == Add { "+" } else { "-" });
        }
        Mul if complex => {
            return format!("pf::c64{{{x}.x * {y}.x - {x}.y * {y}.y, {x}.x * {y}.y + {x}.y * {y}.x}}");
        }
        Div if complex => return format!("pf::divided({x}, {y})"),
        Eq if complex => return format!("({x}.x == {y}.x && {x}.y == {y}.y)"),
        Ne if complex => return format!("({x}.x != {y}.x || {x}.y != {y}.y)"),
        Eq => return format!("({x} == {y})"),
        Ne => return format!("({x} != {y})"),
        Lt => return format!("({x} < {y})"),
        Le => return format!("({x} <= {y})"),
        Gt => return format!("({x} > {y})"),
        Ge => return format!("({x} >= {y})"),
        Complex => return format!("pf::c64{{(float){x}, (float){y}}}"),
        Within => unreachable!("`Within` is written with the fault buffer"),
        Add => "add",
        Sub => "sub",
        Mul => "mul",
        Div => "div",
        FloorDiv => "floor_div",
        Rem => "rem",
        Pow => "pow",
        Max => "max",
        Min => "min",
        Atan2 => "atan2",
        Hypot => "hypot",
        Copysign => "copysign",
        Nextafter => "nextafter",
        Logaddexp => "logaddexp",
        And => "bit_and",
        Or => "bit_or",
        Xor => "bit_xor",
        Shl => "shl",
        Shr => "shr",
    };
    format!("pf::{name}({x}, {y})")
}
