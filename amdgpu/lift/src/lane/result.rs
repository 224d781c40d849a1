//! Words that a vector instruction writes: halves, bytes and SDWA places.

use isa::{DataType, Flags, Inst, Op};

use super::source::field;
use crate::form::{Binary, Kind, Value};
use crate::translator::{Translated, Translator};

/// Words of the destination from the operation's value.
pub fn words(t: &mut Translator, inst: &Inst, value: Value) -> Translated<Vec<Value>> {
    if t.function.kind(value) == Kind::Double {
        let mut b = t.b();
        return Ok(vec![b.low(value), b.high(value)]);
    }
    if t.function.kind(value) == Kind::Bit || inst.dst_width() > 1 {
        return Err(format!("the result of {} has an unexpected size", inst.op.name()));
    }
    let place = match inst.op {
        Op::v_cvt_sr_fp8_f32 | Op::v_cvt_sr_bf8_f32 => Some((8 * (inst.modifiers.op_sel >> 2 & 3), 8)),
        Op::v_fma_mixlo_f16 => Some((0, 16)),
        Op::v_fma_mixhi_f16 => Some((16, 16)),
        _ if preserves(inst) => Some((if inst.modifiers.op_sel >> 3 & 1 == 1 { 16 } else { 0 }, 16)),
        _ => None,
    };
    let value = match place {
        Some((offset, width)) => {
            let old = t.source(&inst.dst, DataType::B32)?;
            insert(t, old, value, offset, width)
        }
        None => value,
    };
    let Some(sdwa) = inst.sdwa else { return Ok(vec![value]) };
    let Some((offset, width)) = field(sdwa.dst_sel) else { return Ok(vec![value]) };
    let word = match sdwa.dst_unused {
        2 => {
            let old = t.source(&inst.dst, DataType::B32)?;
            insert(t, old, value, offset, width)
        }
        unused => {
            // Padded with zeros, or with copies of the sign above.
            let mut b = t.b();
            let field = b.extract(value, 0, width, unused == 1);
            let amount = b.word(offset.into());
            b.binary(Binary::ShiftLeft, field, amount)
        }
    };
    Ok(vec![word])
}

/// Whether a 16-bit result keeps the other half of its register: the operations that can select the half.
fn preserves(inst: &Inst) -> bool {
    let row = inst.encoding();
    let half = row.dst.element_bits() == 16 && row.dst.count() == 1;
    row.flags.has(Flags::OPSEL) && (half || matches!(inst.op, Op::v_cvt_pk_fp8_f32 | Op::v_cvt_pk_bf8_f32))
}

/// The old word with the low bits of the new one at a place.
fn insert(t: &mut Translator, old: Value, new: Value, offset: u8, width: u8) -> Value {
    let mut b = t.b();
    let field = (u32::MAX >> (32 - width)) << offset;
    let (kept, amount) = (b.word(!field), b.word(offset.into()));
    let old = b.and(old, kept);
    let new = b.extract(new, 0, width, false);
    let new = b.binary(Binary::ShiftLeft, new, amount);
    b.or(old, new)
}
