//! Float arithmetic, comparisons and approximated functions.

use lift::form::*;

use crate::generator::{Generator, Reason};

/// The suffix of a rounding direction.
pub(crate) fn direction(rounding: Rounding) -> &'static str {
    match rounding {
        Rounding::Nearest => "rn",
        Rounding::Up => "rp",
        Rounding::Down => "rm",
        Rounding::Zero => "rz",
    }
}

/// An operand of a float type: a register of its size, or a float immediate.
fn operand(g: &mut Generator<'_>, value: Value, half: usize, of: FloatType) -> String {
    match (g.function.constant(value), of) {
        (Some(bits), FloatType::F32) => format!("0f{:08X}", bits as u32),
        (Some(bits), FloatType::F64) => format!("0d{bits:016X}"),
        (_, FloatType::F16) => {
            let (word, register) = (g.in_register(value, half), g.half());
            g.line(format!("cvt.u16.u32 {register}, {word}"));
            register
        }
        (None, _) => g.operand(value, half),
    }
}

/// Writes one half of an operation.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction, half: usize) -> Result<(), Reason> {
    let result = g.result(instruction.results[0], half);
    match &instruction.operation {
        Operation::Float(float, of, rounding) => {
            arithmetic(g, instruction, half, *float, *of, *rounding, &result)
        }
        Operation::FloatCompare(compare, of) => {
            let a = operand(g, instruction.operands[0], half, *of);
            let b = operand(g, instruction.operands[1], half, *of);
            let name = match compare {
                FloatCompare::Less => "lt",
                FloatCompare::LessEqual => "le",
                FloatCompare::Equal => "eq",
                FloatCompare::NotEqual => "neu",
                FloatCompare::Ordered => "num",
                FloatCompare::Unordered => "nan",
            };
            g.line(format!("setp.{name}.{} {result}, {a}, {b}", name_of(*of)));
            Ok(())
        }
        Operation::Approximate(function, of) => approximate(g, instruction, half, *function, *of, &result),
        _ => Err("not a float operation".into()),
    }
}

fn name_of(of: FloatType) -> &'static str {
    match of {
        FloatType::F16 => "f16",
        FloatType::F32 => "f32",
        FloatType::F64 => "f64",
    }
}

fn arithmetic(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    half: usize,
    float: Float,
    of: FloatType,
    rounding: Rounding,
    result: &str,
) -> Result<(), Reason> {
    match float {
        Float::Negate | Float::Absolute => {
            sign(g, instruction, half, float, of, result);
            return Ok(());
        }
        Float::Flush => {
            flush(g, instruction, half, of, result);
            return Ok(());
        }
        Float::Quiet => {
            quiet(g, instruction, half, of, result);
            return Ok(());
        }
        _ => {}
    }
    if of == FloatType::F16 {
        return half_precision(g, instruction, half, float, rounding, result);
    }
    let operands: Vec<String> =
        instruction.operands.iter().map(|value| operand(g, *value, half, of)).collect();
    let (size, round) = (name_of(of), direction(rounding));
    let name = match float {
        Float::Add => format!("add.{round}.{size}"),
        Float::Multiply => format!("mul.{round}.{size}"),
        Float::MultiplyAdd => format!("fma.{round}.{size}"),
        Float::Minimum => format!("min.{size}"),
        Float::Maximum => format!("max.{size}"),
        Float::Integral => format!("cvt.{round}i.{size}.{size}"),
        Float::SquareRoot => format!("sqrt.{round}.{size}"),
        Float::Divide => format!("div.{round}.{size}"),
        Float::Negate | Float::Absolute | Float::Flush | Float::Quiet => {
            return Err("written above".into());
        }
    };
    g.line(format!("{name} {result}, {}", operands.join(", ")));
    Ok(())
}

/// Changes a sign. As a float operation if only arithmetic reads it: ptxas then folds it into the reader; else as bits, since the
/// float operation may change a NaN.
fn sign(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    half: usize,
    float: Float,
    of: FloatType,
    result: &str,
) {
    let arithmetic = |index: &u32| {
        matches!(
            g.function.instructions[*index as usize].operation,
            Operation::Float(Float::Add | Float::Multiply | Float::MultiplyAdd, to, _)
            | Operation::FloatCompare(_, to) if to == of
        )
    };
    let folds = of != FloatType::F16 && g.live.uses(instruction.results[0]).iter().all(arithmetic);
    if folds {
        let a = operand(g, instruction.operands[0], half, of);
        let name = if float == Float::Negate { "neg" } else { "abs" };
        g.line(format!("{name}.{} {result}, {a}", name_of(of)));
        return;
    }
    let a = g.operand(instruction.operands[0], half);
    match (float, of) {
        (Float::Negate, FloatType::F32) => g.line(format!("xor.b32 {result}, {a}, 0x80000000")),
        (Float::Negate, FloatType::F64) => g.line(format!("xor.b64 {result}, {a}, 0x8000000000000000")),
        (Float::Negate, FloatType::F16) => {
            let low = g.word();
            g.line(format!("and.b32 {low}, {a}, 0xffff"));
            g.line(format!("xor.b32 {result}, {low}, 0x8000"));
        }
        (_, FloatType::F32) => g.line(format!("and.b32 {result}, {a}, 0x7fffffff")),
        (_, FloatType::F64) => g.line(format!("and.b64 {result}, {a}, 0x7fffffffffffffff")),
        (_, FloatType::F16) => g.line(format!("and.b32 {result}, {a}, 0x7fff")),
    }
}

/// A denormal number becomes a zero of its sign.
fn flush(g: &mut Generator<'_>, instruction: &Instruction, half: usize, of: FloatType, result: &str) {
    let a = g.operand(instruction.operands[0], half);
    let denormal = g.predicate();
    match of {
        FloatType::F16 => {
            let (low, exponent, zero) = (g.word(), g.word(), g.word());
            g.line(format!("and.b32 {low}, {a}, 0xffff"));
            g.line(format!("and.b32 {exponent}, {a}, 0x7c00"));
            g.line(format!("and.b32 {zero}, {a}, 0x8000"));
            g.line(format!("setp.eq.u32 {denormal}, {exponent}, 0"));
            g.line(format!("selp.b32 {result}, {zero}, {low}, {denormal}"));
        }
        FloatType::F32 => {
            let (exponent, zero) = (g.word(), g.word());
            g.line(format!("and.b32 {exponent}, {a}, 0x7f800000"));
            g.line(format!("and.b32 {zero}, {a}, 0x80000000"));
            g.line(format!("setp.eq.u32 {denormal}, {exponent}, 0"));
            g.line(format!("selp.b32 {result}, {zero}, {a}, {denormal}"));
        }
        FloatType::F64 => {
            let (exponent, zero) = (g.double(), g.double());
            g.line(format!("and.b64 {exponent}, {a}, 0x7ff0000000000000"));
            g.line(format!("and.b64 {zero}, {a}, 0x8000000000000000"));
            g.line(format!("setp.eq.u64 {denormal}, {exponent}, 0"));
            g.line(format!("selp.b64 {result}, {zero}, {a}, {denormal}"));
        }
    }
}

/// Sets the quiet bit of a NaN.
fn quiet(g: &mut Generator<'_>, instruction: &Instruction, half: usize, of: FloatType, result: &str) {
    let a = g.operand(instruction.operands[0], half);
    let nan = g.predicate();
    match of {
        FloatType::F16 => {
            let (low, magnitude, quiet) = (g.word(), g.word(), g.word());
            g.line(format!("and.b32 {low}, {a}, 0xffff"));
            g.line(format!("and.b32 {magnitude}, {a}, 0x7fff"));
            g.line(format!("or.b32 {quiet}, {low}, 0x200"));
            g.line(format!("setp.gt.u32 {nan}, {magnitude}, 0x7c00"));
            g.line(format!("selp.b32 {result}, {quiet}, {low}, {nan}"));
        }
        FloatType::F32 => {
            let quiet = g.word();
            let float = operand(g, instruction.operands[0], half, of);
            g.line(format!("setp.nan.f32 {nan}, {float}, {float}"));
            g.line(format!("or.b32 {quiet}, {a}, 0x400000"));
            g.line(format!("selp.b32 {result}, {quiet}, {a}, {nan}"));
        }
        FloatType::F64 => {
            let quiet = g.double();
            let float = operand(g, instruction.operands[0], half, of);
            g.line(format!("setp.nan.f64 {nan}, {float}, {float}"));
            g.line(format!("or.b64 {quiet}, {a}, 0x8000000000000"));
            g.line(format!("selp.b64 {result}, {quiet}, {a}, {nan}"));
        }
    }
}

/// Half precision: native instructions where they round as wanted, else a wider type.
///
/// Rounding twice in one direction is rounding once. Rounding to nearest twice is right for quotients and square roots, since
/// the wider type has more than twice the digits plus two.
fn half_precision(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    half: usize,
    float: Float,
    rounding: Rounding,
    result: &str,
) -> Result<(), Reason> {
    let operands: Vec<String> =
        instruction.operands.iter().map(|value| operand(g, *value, half, FloatType::F16)).collect();
    let list = operands.join(", ");
    let out = g.half();
    let round = direction(rounding);
    match float {
        Float::Minimum => g.line(format!("min.f16 {out}, {list}")),
        Float::Maximum => g.line(format!("max.f16 {out}, {list}")),
        Float::Add if rounding == Rounding::Nearest => g.line(format!("add.rn.f16 {out}, {list}")),
        Float::Multiply if rounding == Rounding::Nearest => g.line(format!("mul.rn.f16 {out}, {list}")),
        Float::MultiplyAdd if rounding == Rounding::Nearest => g.line(format!("fma.rn.f16 {out}, {list}")),
        Float::Integral | Float::SquareRoot | Float::Divide => {
            let wide: Vec<String> = operands
                .iter()
                .map(|narrow| {
                    let wide = g.word();
                    g.line(format!("cvt.f32.f16 {wide}, {narrow}"));
                    wide
                })
                .collect();
            let name = match float {
                Float::Integral => format!("cvt.{round}i.f32.f32"),
                Float::SquareRoot => format!("sqrt.{round}.f32"),
                _ => format!("div.{round}.f32"),
            };
            let value = g.word();
            g.line(format!("{name} {value}, {}", wide.join(", ")));
            g.line(format!("cvt.{round}.f16.f32 {out}, {value}"));
        }
        Float::Add | Float::Multiply | Float::MultiplyAdd => {
            let wide: Vec<String> = operands
                .iter()
                .map(|narrow| {
                    let wide = g.double();
                    g.line(format!("cvt.f64.f16 {wide}, {narrow}"));
                    wide
                })
                .collect();
            let name = match float {
                Float::Add => "add",
                Float::Multiply => "mul",
                _ => "fma",
            };
            let value = g.double();
            g.line(format!("{name}.{round}.f64 {value}, {}", wide.join(", ")));
            g.line(format!("cvt.{round}.f16.f64 {out}, {value}"));
        }
        Float::Negate | Float::Absolute | Float::Flush | Float::Quiet => {
            return Err("written elsewhere".into());
        }
    }
    g.line(format!("cvt.u32.u16 {result}, {out}"));
    Ok(())
}

/// Functions that hardware approximates. The last bits differ from those of AMD's hardware and of the software GPU.
fn approximate(
    g: &mut Generator<'_>,
    instruction: &Instruction,
    half: usize,
    function: Approximate,
    of: FloatType,
    result: &str,
) -> Result<(), Reason> {
    let a = operand(g, instruction.operands[0], half, of);
    if of == FloatType::F64 {
        let name = match function {
            Approximate::Reciprocal => "rcp.rn.f64",
            Approximate::ReciprocalSquareRoot => "rsqrt.approx.f64",
            Approximate::SquareRoot => "sqrt.rn.f64",
            _ => return Err("no such function of doubles".into()),
        };
        g.line(format!("{name} {result}, {a}"));
        return Ok(());
    }
    let (x, y) = if of == FloatType::F16 {
        let (x, y) = (g.word(), g.word());
        g.line(format!("cvt.f32.f16 {x}, {a}"));
        (x, y)
    } else {
        (a, result.to_owned())
    };
    // The variant that flushes subnormal numbers does not scale its argument.
    let flush = if of == FloatType::F32 && is_scaled(g, instruction.operands[0]) { ".ftz" } else { "" };
    match function {
        Approximate::Reciprocal => g.line(format!("rcp.approx.f32 {y}, {x}")),
        Approximate::ReciprocalSquareRoot => g.line(format!("rsqrt.approx{flush}.f32 {y}, {x}")),
        Approximate::SquareRoot => g.line(format!("sqrt.approx{flush}.f32 {y}, {x}")),
        Approximate::Exponential => g.line(format!("ex2.approx.f32 {y}, {x}")),
        Approximate::Logarithm => g.line(format!("lg2.approx.f32 {y}, {x}")),
        Approximate::Sine | Approximate::Cosine => {
            // The argument counts turns: its distance from a whole number is exact.
            let (whole, turn, angle) = (g.word(), g.word(), g.word());
            g.line(format!("cvt.rni.f32.f32 {whole}, {x}"));
            g.line(format!("sub.rn.f32 {turn}, {x}, {whole}"));
            g.line(format!("mul.rn.f32 {angle}, {turn}, 0f40C90FDB"));
            let name = if function == Approximate::Sine { "sin" } else { "cos" };
            g.line(format!("{name}.approx.f32 {y}, {angle}"));
        }
    }
    if of == FloatType::F16 {
        let narrow = g.half();
        g.line(format!("cvt.rn.f16.f32 {narrow}, {y}"));
        g.line(format!("cvt.u32.u16 {result}, {narrow}"));
    }
    Ok(())
}

/// Whether an f32 cannot be subnormal because it was scaled: `x * (x < T ? S : 1)` with a normal T and a large S.
fn is_scaled(g: &Generator<'_>, value: Value) -> bool {
    let function = g.function;
    let product = function.definition(value);
    if !matches!(product.operation, Operation::Float(Float::Multiply, FloatType::F32, _)) {
        return false;
    }
    let constant = |value: Value| function.constant(value).map(|bits| f32::from_bits(bits as u32));
    let scales = |x: Value, factor: Value| {
        let select = function.definition(factor);
        let [condition, large, one] = select.operands[..] else { return false };
        let less = function.definition(condition);
        select.operation == Operation::Select
            && less.operation == Operation::FloatCompare(FloatCompare::Less, FloatType::F32)
            && less.operands[0] == x
            && constant(less.operands[1]).is_some_and(f32::is_normal)
            && constant(less.operands[1]).is_some_and(|limit| limit > 0.0)
            && constant(large).is_some_and(|large| large >= 16_777_216.0)
            && constant(one) == Some(1.0)
    };
    let [x, y] = [product.operands[0], product.operands[1]];
    scales(x, y) || scales(y, x)
}
