//! 16-bit integer operations, single or packed. Results are zero-extended.

use isa::Op;

use super::integer::{add_signed, add_unsigned, median};
use super::lane::Lane;
use crate::Value;

/// The result of an operation with 16-bit integers.
pub fn lift(l: &Lane<'_, '_>) -> Option<Value> {
    let [a, b, c] = l.s;
    Some(match l.op {
        Op::v_mad_u32_u16 => add_unsigned(l, l.mul(l.unsigned(a), l.unsigned(b)), c),
        Op::v_mad_i32_i16 => add_signed(l, l.mul(l.signed(a), l.signed(b)), c),
        Op::v_cvt_pk_u16_u32 => {
            let clamped = |value: Value| l.minimum(value, l.word(0xffff), false);
            l.pair(clamped(a), clamped(b))
        }
        Op::v_cvt_pk_i16_i32 => l.pair(l.clamped(a, -0x8000, 0x7fff), l.clamped(b, -0x8000, 0x7fff)),
        Op::v_sat_pk_u8_i16 => {
            let (low, high) = (l.signed(a), l.extract_signed(a, 16, 16));
            l.or(l.clamped(low, 0, 255), l.up(l.clamped(high, 0, 255), 8))
        }
        op => {
            if let Some(operation) = single(op) {
                return l.unsigned(half(l, operation, l.s)).into();
            }
            let operation = packed(op)?;
            let high = l.s.map(|source| l.extract(source, 16, 16));
            l.pair(half(l, operation, l.s), half(l, operation, high))
        }
    })
}

/// An operation on 16-bit integers.
#[derive(Clone, Copy)]
enum Short {
    AddUnsigned,
    AddSigned,
    SubtractUnsigned,
    SubtractReversed,
    SubtractSigned,
    Multiply,
    MultiplyAddUnsigned,
    MultiplyAddSigned,
    ShiftLeft,
    ShiftRight,
    ShiftRightSigned,
    Minimum(bool),
    Maximum(bool),
    Minimum3(bool),
    Maximum3(bool),
    Median(bool),
}

fn single(op: Op) -> Option<Short> {
    Some(match op {
        Op::v_add_u16 => Short::AddUnsigned,
        Op::v_add_i16 => Short::AddSigned,
        Op::v_sub_u16 => Short::SubtractUnsigned,
        Op::v_subrev_u16 => Short::SubtractReversed,
        Op::v_sub_i16 => Short::SubtractSigned,
        Op::v_mul_lo_u16 => Short::Multiply,
        Op::v_mad_u16 | Op::v_mad_legacy_u16 => Short::MultiplyAddUnsigned,
        Op::v_mad_i16 | Op::v_mad_legacy_i16 => Short::MultiplyAddSigned,
        Op::v_lshlrev_b16 => Short::ShiftLeft,
        Op::v_lshrrev_b16 => Short::ShiftRight,
        Op::v_ashrrev_i16 => Short::ShiftRightSigned,
        Op::v_min_u16 => Short::Minimum(false),
        Op::v_min_i16 => Short::Minimum(true),
        Op::v_max_u16 => Short::Maximum(false),
        Op::v_max_i16 => Short::Maximum(true),
        Op::v_min3_u16 => Short::Minimum3(false),
        Op::v_min3_i16 => Short::Minimum3(true),
        Op::v_max3_u16 => Short::Maximum3(false),
        Op::v_max3_i16 => Short::Maximum3(true),
        Op::v_med3_u16 => Short::Median(false),
        Op::v_med3_i16 => Short::Median(true),
        _ => return None,
    })
}

fn packed(op: Op) -> Option<Short> {
    Some(match op {
        Op::v_pk_add_u16 => Short::AddUnsigned,
        Op::v_pk_add_i16 => Short::AddSigned,
        Op::v_pk_sub_u16 => Short::SubtractUnsigned,
        Op::v_pk_sub_i16 => Short::SubtractSigned,
        Op::v_pk_mul_lo_u16 => Short::Multiply,
        Op::v_pk_mad_u16 => Short::MultiplyAddUnsigned,
        Op::v_pk_mad_i16 => Short::MultiplyAddSigned,
        Op::v_pk_lshlrev_b16 => Short::ShiftLeft,
        Op::v_pk_lshrrev_b16 => Short::ShiftRight,
        Op::v_pk_ashrrev_i16 => Short::ShiftRightSigned,
        Op::v_pk_min_u16 => Short::Minimum(false),
        Op::v_pk_min_i16 => Short::Minimum(true),
        Op::v_pk_max_u16 => Short::Maximum(false),
        Op::v_pk_max_i16 => Short::Maximum(true),
        _ => return None,
    })
}

/// The result for the low halves; the high half of the result does not matter.
fn half(l: &Lane<'_, '_>, operation: Short, sources: [Value; 3]) -> Value {
    let [a, b, c] = sources;
    let u = |value: Value| l.unsigned(value);
    let s = |value: Value| l.signed(value);
    let unsigned = |value: Value| l.minimum(value, l.word(0xffff), false);
    let signed = |value: Value| l.clamped(value, -0x8000, 0x7fff);
    let extended = |value: Value, sign: bool| if sign { s(value) } else { u(value) };
    match operation {
        Short::AddUnsigned if l.saturates => unsigned(l.add(u(a), u(b))),
        Short::AddSigned if l.saturates => signed(l.add(s(a), s(b))),
        Short::AddUnsigned | Short::AddSigned => l.add(a, b),
        Short::SubtractUnsigned if l.saturates => l.maximum(l.sub(u(a), u(b)), l.word(0), true),
        Short::SubtractReversed if l.saturates => l.maximum(l.sub(u(b), u(a)), l.word(0), true),
        Short::SubtractSigned if l.saturates => signed(l.sub(s(a), s(b))),
        Short::SubtractUnsigned | Short::SubtractSigned => l.sub(a, b),
        Short::SubtractReversed => l.sub(b, a),
        Short::Multiply => l.mul(a, b),
        Short::MultiplyAddUnsigned if l.saturates => unsigned(l.add(l.mul(u(a), u(b)), u(c))),
        Short::MultiplyAddSigned if l.saturates => signed(l.add(l.mul(s(a), s(b)), s(c))),
        Short::MultiplyAddUnsigned | Short::MultiplyAddSigned => l.add(l.mul(a, b), c),
        Short::ShiftLeft => l.shl(b, l.mask(a, 15)),
        Short::ShiftRight => l.shr(u(b), l.mask(a, 15)),
        Short::ShiftRightSigned => l.sar(s(b), l.mask(a, 15)),
        Short::Minimum(sign) => l.minimum(extended(a, sign), extended(b, sign), sign),
        Short::Maximum(sign) => l.maximum(extended(a, sign), extended(b, sign), sign),
        Short::Minimum3(sign) => {
            l.minimum(l.minimum(extended(a, sign), extended(b, sign), sign), extended(c, sign), sign)
        }
        Short::Maximum3(sign) => {
            l.maximum(l.maximum(extended(a, sign), extended(b, sign), sign), extended(c, sign), sign)
        }
        Short::Median(sign) => median(l, extended(a, sign), extended(b, sign), extended(c, sign), sign),
    }
}
