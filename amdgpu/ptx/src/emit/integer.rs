//! Integers, bits and comparisons.

use lift::form::*;

use crate::generator::{Generator, Reason};

/// Writes one half of an operation.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction, half: usize) -> Result<(), Reason> {
    let result = g.result(instruction.results[0], half);
    let kind = g.function.kind(instruction.operands[0]);
    let operands: Vec<String> = instruction.operands.iter().map(|value| g.operand(*value, half)).collect();
    let a = operands[0].as_str();
    let b = operands.get(1).map_or("", String::as_str);
    let c = operands.get(2).map_or("", String::as_str);
    match &instruction.operation {
        Operation::Unary(unary) => self::unary(g, *unary, kind, &result, a),
        Operation::Binary(binary) => {
            let amount = g.function.constant(instruction.operands[1]);
            return self::binary(g, *binary, kind, &result, a, b, amount);
        }
        Operation::Compare(compare) => return self::compare(g, *compare, kind, &result, a, b),
        Operation::Select => match g.function.kind(instruction.results[0]) {
            Kind::Bit => select_bit(g, instruction, &result, [a, b, c]),
            Kind::Word => g.line(format!("selp.b32 {result}, {b}, {c}, {a}")),
            Kind::Double => g.line(format!("selp.b64 {result}, {b}, {c}, {a}")),
        },
        Operation::Pack => {
            let low = g.in_register(instruction.operands[0], half);
            let high = g.in_register(instruction.operands[1], half);
            g.line(format!("mov.b64 {result}, {{{low}, {high}}}"));
        }
        Operation::Low => g.line(format!("cvt.u32.u64 {result}, {a}")),
        Operation::High => {
            let (double, unused) = (g.in_register(instruction.operands[0], half), g.word());
            g.line(format!("mov.b64 {{{unused}, {result}}}, {double}"));
        }
        Operation::Extract { signed, offset, width } => match (signed, offset, width) {
            (false, 0, width) if *width < 32 => {
                g.line(format!("and.b32 {result}, {a}, {}", (1u32 << width) - 1));
            }
            (_, offset, width) if offset + width == 32 => {
                let sign = if *signed { "s32" } else { "u32" };
                g.line(format!("shr.{sign} {result}, {a}, {offset}"));
            }
            _ => {
                let sign = if *signed { "s32" } else { "u32" };
                g.line(format!("bfe.{sign} {result}, {a}, {offset}, {width}"));
            }
        },
        Operation::MultiplyWide { signed } => {
            let sign = if *signed { "s32" } else { "u32" };
            g.line(format!("mul.wide.{sign} {result}, {a}, {b}"));
        }
        Operation::FunnelShift => g.line(format!("shf.r.wrap.b32 {result}, {b}, {a}, {c}")),
        Operation::Bytes(bytes) => {
            if bytes.iter().any(|byte| *byte > 7) {
                return Err("a byte number above 7".into());
            }
            let selector = bytes.iter().rev().fold(0u32, |all, byte| all << 4 | u32::from(*byte));
            g.line(format!("prmt.b32 {result}, {a}, {b}, {selector:#x}"));
        }
        Operation::Dot4 { signed_a, signed_b } => {
            let sign = |signed: bool| if signed { "s32" } else { "u32" };
            g.line(format!("dp4a.{}.{} {result}, {a}, {b}, {c}", sign(*signed_a), sign(*signed_b)));
        }
        _ => return Err("not an integer operation".into()),
    }
    Ok(())
}

fn unary(g: &mut Generator<'_>, unary: Unary, kind: Kind, result: &str, a: &str) {
    let size = match kind {
        Kind::Bit => "pred",
        Kind::Word => "b32",
        Kind::Double => "b64",
    };
    match unary {
        Unary::Not => g.line(format!("not.{size} {result}, {a}")),
        Unary::Popcount => g.line(format!("popc.{size} {result}, {a}")),
        Unary::LeadingZeros => g.line(format!("clz.{size} {result}, {a}")),
        Unary::TrailingZeros => {
            let reversed = if kind == Kind::Double { g.double() } else { g.word() };
            g.line(format!("brev.{size} {reversed}, {a}"));
            g.line(format!("clz.{size} {result}, {reversed}"));
        }
        Unary::ReverseBits => g.line(format!("brev.{size} {result}, {a}")),
    }
}

fn binary(
    g: &mut Generator<'_>,
    binary: Binary,
    kind: Kind,
    result: &str,
    a: &str,
    b: &str,
    amount: Option<u64>,
) -> Result<(), Reason> {
    let bits = if kind == Kind::Double { 64 } else { 32 };
    let name = match (binary, kind) {
        (Binary::And, Kind::Bit) => "and.pred".into(),
        (Binary::Or, Kind::Bit) => "or.pred".into(),
        (Binary::Xor, Kind::Bit) => "xor.pred".into(),
        (_, Kind::Bit) => return Err("arithmetic of bits".into()),
        (Binary::And, _) => format!("and.b{bits}"),
        (Binary::Or, _) => format!("or.b{bits}"),
        (Binary::Xor, _) => format!("xor.b{bits}"),
        (Binary::Add, _) => format!("add.u{bits}"),
        (Binary::Subtract, _) => format!("sub.u{bits}"),
        (Binary::Multiply, _) => format!("mul.lo.u{bits}"),
        (Binary::MultiplyHighUnsigned, _) => format!("mul.hi.u{bits}"),
        (Binary::MultiplyHighSigned, _) => format!("mul.hi.s{bits}"),
        (Binary::MinimumUnsigned, _) => format!("min.u{bits}"),
        (Binary::MaximumUnsigned, _) => format!("max.u{bits}"),
        (Binary::MinimumSigned, _) => format!("min.s{bits}"),
        (Binary::MaximumSigned, _) => format!("max.s{bits}"),
        (Binary::ShiftLeft | Binary::ShiftRight | Binary::ShiftRightSigned, _) => {
            // PTX clamps the amount, the form takes it modulo the size.
            let amount = match amount {
                Some(amount) => format!("{}", amount & (bits - 1)),
                None if bits == 32 && binary == Binary::ShiftLeft => {
                    g.line(format!("shf.l.wrap.b32 {result}, 0, {a}, {b}"));
                    return Ok(());
                }
                None if bits == 32 && binary == Binary::ShiftRight => {
                    g.line(format!("shf.r.wrap.b32 {result}, {a}, 0, {b}"));
                    return Ok(());
                }
                None => {
                    let masked = g.word();
                    g.line(format!("and.b32 {masked}, {b}, {}", bits - 1));
                    masked
                }
            };
            let name = match binary {
                Binary::ShiftLeft => format!("shl.b{bits}"),
                Binary::ShiftRight => format!("shr.u{bits}"),
                _ => format!("shr.s{bits}"),
            };
            g.line(format!("{name} {result}, {a}, {amount}"));
            return Ok(());
        }
    };
    g.line(format!("{name} {result}, {a}, {b}"));
    Ok(())
}

fn compare(
    g: &mut Generator<'_>,
    compare: Compare,
    kind: Kind,
    result: &str,
    a: &str,
    b: &str,
) -> Result<(), Reason> {
    let (name, sign) = match compare {
        Compare::Equal => ("eq", 'u'),
        Compare::NotEqual => ("ne", 'u'),
        Compare::LessUnsigned => ("lt", 'u'),
        Compare::LessEqualUnsigned => ("le", 'u'),
        Compare::LessSigned => ("lt", 's'),
        Compare::LessEqualSigned => ("le", 's'),
    };
    match (kind, compare) {
        (Kind::Bit, Compare::NotEqual) => g.line(format!("xor.pred {result}, {a}, {b}")),
        (Kind::Bit, Compare::Equal) => {
            let differ = g.predicate();
            g.line(format!("xor.pred {differ}, {a}, {b}"));
            g.line(format!("not.pred {result}, {differ}"));
        }
        (Kind::Bit, _) => return Err("an order of bits".into()),
        (Kind::Word, _) => g.line(format!("setp.{name}.{sign}32 {result}, {a}, {b}")),
        (Kind::Double, _) => g.line(format!("setp.{name}.{sign}64 {result}, {a}, {b}")),
    }
    Ok(())
}

/// A choice between predicates, for which PTX has no instruction.
fn select_bit(g: &mut Generator<'_>, instruction: &Instruction, result: &str, [condition, x, y]: [&str; 3]) {
    let constant = |at: usize| g.function.constant(instruction.operands[at]).map(|bits| bits & 1);
    match (constant(1), constant(2)) {
        (Some(1), Some(0)) => g.line(format!("mov.pred {result}, {condition}")),
        (Some(0), Some(1)) => g.line(format!("not.pred {result}, {condition}")),
        (Some(1), None) => g.line(format!("or.pred {result}, {condition}, {y}")),
        (None, Some(0)) => g.line(format!("and.pred {result}, {condition}, {x}")),
        _ => {
            let (not, left, right) = (g.predicate(), g.predicate(), g.predicate());
            g.line(format!("not.pred {not}, {condition}"));
            g.line(format!("and.pred {left}, {condition}, {x}"));
            g.line(format!("and.pred {right}, {not}, {y}"));
            g.line(format!("or.pred {result}, {left}, {right}"));
        }
    }
}
