//! Conversions between number types.

use lift::form::*;

use super::float::direction;
use crate::generator::{Generator, Reason};

/// Writes one half of a conversion.
pub(crate) fn emit(g: &mut Generator<'_>, instruction: &Instruction, half: usize) -> Result<(), Reason> {
    let Operation::Convert { from, to, rounding } = instruction.operation else {
        return Err("not a conversion".into());
    };
    let result = g.result(instruction.results[0], half);
    let a = g.in_register(instruction.operands[0], half);
    use NumberType::{Bf8, Bf16, F8, F16, F32, F64, I16, I32, U16, U32};
    match (from, to) {
        (F8 | Bf8, F32) => widen_small(g, from, &a, &result),
        (F32, F8 | Bf8) => narrow_small(g, to, rounding, &a, &result)?,
        (Bf16, F32) => g.line(format!("shl.b32 {result}, {a}, 16")),
        (F32, Bf16) => narrow_brain(g, rounding, &a, &result),
        (F8 | Bf8 | Bf16, _) | (_, F8 | Bf8 | Bf16) => {
            return Err("a conversion between these types".into());
        }
        _ => {
            let source = source(g, from, &a);
            let (target, wide) = match to {
                U16 | I16 | F16 => (g.half(), None),
                _ => (result.clone(), Some(())),
            };
            let (integer_from, integer_to) = (is_integer(from), is_integer(to));
            let mode = match (integer_from, integer_to) {
                (true, true) => return Err("a conversion between integers".into()),
                (true, false) if to == F64 => ".rn".to_owned(),
                (true, false) => format!(".{}", direction(rounding)),
                (false, true) => format!(".{}i", direction(rounding)),
                (false, false) if width(to) > width(from) => String::new(),
                (false, false) if width(to) == width(from) => {
                    return Err("a conversion of a type to itself".into());
                }
                (false, false) => format!(".{}", direction(rounding)),
            };
            g.line(format!("cvt{mode}.{}.{} {target}, {source}", name(to), name(from)));
            if wide.is_none() {
                let extend = if to == I16 { "cvt.s32.s16" } else { "cvt.u32.u16" };
                g.line(format!("{extend} {result}, {target}"));
            }
            if from == F64 && matches!(to, I32 | U32 | I16 | U16) {
                // PTX gives 0 for a NaN only if the source is narrower.
                let nan = g.predicate();
                g.line(format!("setp.nan.f64 {nan}, {source}, {source}"));
                g.line(format!("selp.b32 {result}, 0, {result}, {nan}"));
            }
        }
    }
    Ok(())
}

fn is_integer(of: NumberType) -> bool {
    matches!(of, NumberType::U16 | NumberType::I16 | NumberType::U32 | NumberType::I32)
}

fn width(of: NumberType) -> u32 {
    match of {
        NumberType::F8 | NumberType::Bf8 => 8,
        NumberType::U16 | NumberType::I16 | NumberType::F16 | NumberType::Bf16 => 16,
        NumberType::U32 | NumberType::I32 | NumberType::F32 => 32,
        NumberType::F64 => 64,
    }
}

fn name(of: NumberType) -> &'static str {
    match of {
        NumberType::U16 => "u16",
        NumberType::I16 => "s16",
        NumberType::U32 => "u32",
        NumberType::I32 => "s32",
        NumberType::F16 => "f16",
        NumberType::F32 => "f32",
        NumberType::F64 => "f64",
        NumberType::Bf16 => "bf16",
        NumberType::F8 | NumberType::Bf8 => "b8",
    }
}

/// The source in a register of its size.
fn source(g: &mut Generator<'_>, from: NumberType, a: &str) -> String {
    if width(from) != 16 {
        return a.to_owned();
    }
    let narrow = g.half();
    g.line(format!("cvt.u16.u32 {narrow}, {a}"));
    narrow
}

/// f32 to bfloat16.
fn narrow_brain(g: &mut Generator<'_>, rounding: Rounding, a: &str, result: &str) {
    if matches!(rounding, Rounding::Nearest | Rounding::Zero) {
        let narrow = g.half();
        g.line(format!("cvt.{}.bf16.f32 {narrow}, {a}", direction(rounding)));
        g.line(format!("cvt.u32.u16 {result}, {narrow}"));
        return;
    }
    // Towards an infinity: the cut bits round the magnitude up where the sign points that way. Infinities have no cut bits; a
    // NaN gets the quiet bit so that it stays one.
    let (sign, cut, magnitude, top, rounded, quiet) =
        (g.word(), g.word(), g.word(), g.word(), g.word(), g.word());
    let (away, inexact, up, nan) = (g.predicate(), g.predicate(), g.predicate(), g.predicate());
    g.line(format!("shr.u32 {sign}, {a}, 31"));
    g.line(format!("and.b32 {cut}, {a}, 0xffff"));
    g.line(format!("and.b32 {magnitude}, {a}, 0x7fffffff"));
    g.line(format!("shr.u32 {top}, {a}, 16"));
    g.line(format!("setp.eq.u32 {away}, {sign}, {}", i32::from(rounding == Rounding::Down)));
    g.line(format!("setp.ne.u32 {inexact}, {cut}, 0"));
    g.line(format!("and.pred {up}, {away}, {inexact}"));
    g.line(format!("setp.gt.u32 {nan}, {magnitude}, 0x7f800000"));
    g.line(format!("add.u32 {rounded}, {top}, 1"));
    g.line(format!("selp.b32 {rounded}, {rounded}, {top}, {up}"));
    g.line(format!("or.b32 {quiet}, {top}, 0x40"));
    g.line(format!("selp.b32 {result}, {quiet}, {rounded}, {nan}"));
}

/// An 8-bit float to f32: its magnitude is a small f32's once the exponents agree, denormals included.
pub(crate) fn widen_small(g: &mut Generator<'_>, from: NumberType, a: &str, result: &str) {
    // Fraction bits 3 and bias 8, or 2 and 16: the factor is 2^(127 - bias).
    let (shift, factor) = if from == NumberType::F8 { (20, "0f7B000000") } else { (21, "0f77000000") };
    let (byte, magnitude, sign, wide) = (g.word(), g.word(), g.word(), g.word());
    let nan = g.predicate();
    g.line(format!("and.b32 {byte}, {a}, 0xff"));
    g.line(format!("and.b32 {magnitude}, {a}, 0x7f"));
    g.line(format!("shl.b32 {magnitude}, {magnitude}, {shift}"));
    g.line(format!("mul.rn.f32 {wide}, {magnitude}, {factor}"));
    g.line(format!("and.b32 {sign}, {a}, 0x80"));
    g.line(format!("shl.b32 {sign}, {sign}, 24"));
    g.line(format!("or.b32 {wide}, {wide}, {sign}"));
    g.line(format!("setp.eq.u32 {nan}, {byte}, 0x80"));
    g.line(format!("selp.b32 {result}, 0x7fc00000, {wide}, {nan}"));
}

/// f32 to an 8-bit float.
fn narrow_small(
    g: &mut Generator<'_>,
    to: NumberType,
    rounding: Rounding,
    a: &str,
    result: &str,
) -> Result<(), Reason> {
    if rounding != Rounding::Nearest {
        return Err("a conversion to an 8-bit float in a given direction".into());
    }
    let (fraction, bias) = if to == NumberType::F8 { (3u32, 8u32) } else { (2, 16) };
    let cut = 23 - fraction;
    let align = (127 + cut + 1 - bias) << 23;
    let (magnitude, sum, low, rebased, odd, high) =
        (g.word(), g.word(), g.word(), g.word(), g.word(), g.word());
    let (code, sign, all) = (g.word(), g.word(), g.word());
    let (is_low, zero, large) = (g.predicate(), g.predicate(), g.predicate());
    g.line(format!("and.b32 {magnitude}, {a}, 0x7fffffff"));
    // Adding a power of two aligns the last bit of the result with the last bit of the sum.
    g.line(format!("add.rn.f32 {sum}, {magnitude}, 0f{align:08X}"));
    g.line(format!("sub.u32 {low}, {sum}, {align:#x}"));
    g.line(format!("sub.u32 {rebased}, {magnitude}, {:#x}", (127 - bias) << 23));
    g.line(format!("bfe.u32 {odd}, {rebased}, {cut}, 1"));
    g.line(format!("add.u32 {high}, {rebased}, {:#x}", (1u32 << (cut - 1)) - 1));
    g.line(format!("add.u32 {high}, {high}, {odd}"));
    g.line(format!("shr.u32 {high}, {high}, {cut}"));
    g.line(format!("setp.lt.u32 {is_low}, {magnitude}, {:#x}", (128 - bias) << 23));
    g.line(format!("selp.b32 {code}, {low}, {high}, {is_low}"));
    g.line(format!("shr.u32 {sign}, {a}, 24"));
    g.line(format!("and.b32 {sign}, {sign}, 0x80"));
    g.line(format!("or.b32 {all}, {code}, {sign}"));
    g.line(format!("setp.eq.u32 {zero}, {code}, 0"));
    g.line(format!("setp.ge.u32 {large}, {code}, 0x80"));
    g.line(format!("selp.b32 {all}, 0, {all}, {zero}"));
    // What is too large becomes the NaN.
    g.line(format!("selp.b32 {result}, 0x80, {all}, {large}"));
    Ok(())
}
