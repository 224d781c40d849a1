//! What is known of values while the function is being built.

use crate::form::*;

/// Definitions that are looked through, so that the work for one question is bounded.
const DEPTH: u32 = 8;

/// Number of low bits of an integer that are known to be zero.
pub fn trailing_zeros(function: &Function, value: Value) -> u32 {
    zeros(function, value, DEPTH)
}

fn zeros(function: &Function, value: Value, depth: u32) -> u32 {
    let size = if function.kind(value) == Kind::Double { 64 } else { 32 };
    let definition = function.definition(value);
    if depth == 0 {
        return 0;
    }
    let operand = |at: usize| zeros(function, definition.operands[at], depth - 1);
    match definition.operation {
        Operation::Constant(bits) => bits.trailing_zeros().min(size),
        Operation::Input(Input::KernargPointer) => 4,
        Operation::Binary(Binary::Add | Binary::Subtract | Binary::Or | Binary::Xor) => {
            operand(0).min(operand(1))
        }
        Operation::Binary(Binary::And) => operand(0).max(operand(1)),
        Operation::Binary(Binary::Multiply) => (operand(0) + operand(1)).min(size),
        Operation::Binary(Binary::ShiftLeft) => match function.constant(definition.operands[1]) {
            Some(amount) => (operand(0) + (amount as u32 & (size - 1))).min(size),
            None => operand(0),
        },
        Operation::Pack => match operand(0) {
            32 => 32 + operand(1),
            low => low,
        },
        Operation::Low => operand(0).min(32),
        Operation::High => operand(0).saturating_sub(32),
        Operation::Select => operand(1).min(operand(2)),
        _ => 0,
    }
}

/// Bits of an integer that are known to be zero.
pub fn known_zeros(function: &Function, value: Value) -> u64 {
    clear(function, value, DEPTH)
}

fn clear(function: &Function, value: Value, depth: u32) -> u64 {
    let definition = function.definition(value);
    let above = if function.kind(value) == Kind::Double { 0 } else { !0xffff_ffff };
    if depth == 0 {
        return above;
    }
    let operand = |at: usize| clear(function, definition.operands[at], depth - 1);
    above
        | match definition.operation {
            Operation::Constant(bits) => !bits,
            Operation::Binary(Binary::And) => operand(0) | operand(1),
            Operation::Binary(Binary::Or | Binary::Xor) => operand(0) & operand(1),
            Operation::Extract { signed: false, offset, width } => {
                operand(0) >> offset | u64::MAX.checked_shl(width.into()).unwrap_or(0)
            }
            Operation::Pack => operand(0) & 0xffff_ffff | operand(1) << 32,
            Operation::Low => operand(0),
            Operation::High => operand(0) >> 32,
            Operation::Select => operand(1) & operand(2),
            _ => 0,
        }
}
