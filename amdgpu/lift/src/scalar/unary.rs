//! SOP1: one source, and the `saveexec` family.

use isa::{Inst, Op};

use super::Both;
use crate::form::{Binary, Unary, Value};
use crate::register::EXEC;
use crate::translator::{Translated, Translator, unsupported};

/// Translates an instruction.
pub fn one_source(t: &mut Translator, inst: &Inst) -> Translated<()> {
    if let Some(combination) = Combination::of(inst.op) {
        return write_exec(t, inst, combination);
    }
    match inst.op {
        Op::s_getpc_b64 => {
            let next = t.base.wrapping_add(t.address + u64::from(inst.size));
            let next = t.b().double(next);
            return t.set_number(&inst.dst, next);
        }
        Op::s_mov_b64 => {
            let value = t.both(inst, 0)?;
            return t.set_both(&inst.dst, value);
        }
        Op::s_not_b64 => {
            let Both { number, mask } = t.both(inst, 0)?;
            let value = Both { number: t.b().not(number), mask: t.b().not(mask) };
            t.set_both(&inst.dst, value)?;
            t.set_scc_both(inst, value);
            return Ok(());
        }
        Op::s_cmov_b64 => {
            let (new, scc) = (t.both(inst, 0)?, t.scc());
            let old = Both {
                number: t.source(&inst.dst, inst.dst_type())?,
                mask: t.source_mask(&inst.dst, inst.dst_type())?,
            };
            let value = Both {
                number: t.b().select(scc, new.number, old.number),
                mask: t.b().select(scc, new.mask, old.mask),
            };
            return t.set_both(&inst.dst, value);
        }
        _ => {}
    }
    let a = t.source(&inst.src[0], inst.src_type(0))?;
    let old = match inst.op {
        Op::s_cmov_b32 | Op::s_bitset0_b32 | Op::s_bitset1_b32 | Op::s_bitset0_b64 | Op::s_bitset1_b64 => {
            t.source(&inst.dst, inst.dst_type())?
        }
        _ => a,
    };
    let scc = t.scc();
    let mut b = t.b();
    let mut sets_scc = false;
    let value = match inst.op {
        Op::s_mov_b32 => a,
        Op::s_cmov_b32 => b.select(scc, a, old),
        Op::s_not_b32 => {
            sets_scc = true;
            b.not(a)
        }
        Op::s_brev_b32 | Op::s_brev_b64 => b.unary(Unary::ReverseBits, a),
        Op::s_bcnt0_i32_b32 | Op::s_bcnt0_i32_b64 => {
            sets_scc = true;
            let inverted = b.not(a);
            b.unary(Unary::Popcount, inverted)
        }
        Op::s_bcnt1_i32_b32 | Op::s_bcnt1_i32_b64 => {
            sets_scc = true;
            b.unary(Unary::Popcount, a)
        }
        Op::s_ff0_i32_b32 | Op::s_ff0_i32_b64 => {
            let inverted = b.not(a);
            found(&mut b, Unary::TrailingZeros, inverted)
        }
        Op::s_ff1_i32_b32 | Op::s_ff1_i32_b64 => found(&mut b, Unary::TrailingZeros, a),
        Op::s_flbit_i32_b32 | Op::s_flbit_i32_b64 => found(&mut b, Unary::LeadingZeros, a),
        Op::s_flbit_i32 | Op::s_flbit_i32_i64 => {
            let amount = b.word(if inst.op == Op::s_flbit_i32 { 31 } else { 63 });
            let sign = b.binary(Binary::ShiftRightSigned, a, amount);
            let differs = b.binary(Binary::Xor, a, sign);
            found(&mut b, Unary::LeadingZeros, differs)
        }
        Op::s_sext_i32_i8 => b.extract(a, 0, 8, true),
        Op::s_sext_i32_i16 => b.extract(a, 0, 16, true),
        Op::s_abs_i32 => {
            sets_scc = true;
            let zero = b.word(0);
            let negative = b.binary(Binary::Subtract, zero, a);
            b.binary(Binary::MaximumSigned, a, negative)
        }
        Op::s_bitset0_b32 | Op::s_bitset0_b64 | Op::s_bitset1_b32 | Op::s_bitset1_b64 => {
            let one = b.constant(b.function.kind(old), 1);
            let bit = b.binary(Binary::ShiftLeft, one, a);
            if matches!(inst.op, Op::s_bitset1_b32 | Op::s_bitset1_b64) {
                b.or(old, bit)
            } else {
                let kept = b.not(bit);
                b.and(old, kept)
            }
        }
        Op::s_wqm_b32 | Op::s_wqm_b64 => {
            sets_scc = true;
            whole_quads(&mut b, a)
        }
        _ => return unsupported(inst),
    };
    t.set_number(&inst.dst, value)?;
    if sets_scc {
        t.set_scc_nonzero(value);
    }
    Ok(())
}

/// Position of a bit; all ones if there is none.
fn found(b: &mut crate::Builder<'_>, count: Unary, a: Value) -> Value {
    let position = b.unary(count, a);
    let (any, none) = (b.nonzero(a), b.word(u32::MAX));
    b.select(any, position, none)
}

/// Four bits for each four of which one is set.
fn whole_quads(b: &mut crate::Builder<'_>, a: Value) -> Value {
    let kind = b.function.kind(a);
    let mut any = a;
    for amount in [1, 2] {
        let amount = b.word(amount);
        let shifted = b.binary(Binary::ShiftRight, any, amount);
        any = b.or(any, shifted);
    }
    let firsts = b.constant(kind, 0x1111_1111_1111_1111);
    let firsts = b.and(any, firsts);
    let factor = b.constant(kind, 15);
    b.binary(Binary::Multiply, firsts, factor)
}

/// How `saveexec` and `wrexec` combine the source with EXEC.
#[derive(Clone, Copy)]
struct Combination {
    op: Binary,
    invert_source: bool,
    invert_exec: bool,
    invert_result: bool,
    /// The destination gets the new EXEC, not the old one.
    writes_new: bool,
}

impl Combination {
    fn of(op: Op) -> Option<Combination> {
        let make = |op, invert_source, invert_exec, invert_result| {
            Some(Combination { op, invert_source, invert_exec, invert_result, writes_new: false })
        };
        match op {
            Op::s_and_saveexec_b64 => make(Binary::And, false, false, false),
            Op::s_or_saveexec_b64 => make(Binary::Or, false, false, false),
            Op::s_xor_saveexec_b64 => make(Binary::Xor, false, false, false),
            Op::s_andn2_saveexec_b64 => make(Binary::And, false, true, false),
            Op::s_orn2_saveexec_b64 => make(Binary::Or, false, true, false),
            Op::s_nand_saveexec_b64 => make(Binary::And, false, false, true),
            Op::s_nor_saveexec_b64 => make(Binary::Or, false, false, true),
            Op::s_xnor_saveexec_b64 => make(Binary::Xor, false, false, true),
            Op::s_andn1_saveexec_b64 => make(Binary::And, true, false, false),
            Op::s_orn1_saveexec_b64 => make(Binary::Or, true, false, false),
            Op::s_andn1_wrexec_b64 => {
                make(Binary::And, true, false, false).map(|it| Combination { writes_new: true, ..it })
            }
            Op::s_andn2_wrexec_b64 => {
                make(Binary::And, false, true, false).map(|it| Combination { writes_new: true, ..it })
            }
            _ => None,
        }
    }
}

fn write_exec(t: &mut Translator, inst: &Inst, how: Combination) -> Translated<()> {
    let source = t.source_mask(&inst.src[0], inst.src_type(0))?;
    let exec = t.exec();
    let mut b = t.b();
    let x = if how.invert_source { b.not(source) } else { source };
    let y = if how.invert_exec { b.not(exec) } else { exec };
    let combined = b.binary(how.op, x, y);
    let new = if how.invert_result { b.not(combined) } else { combined };
    // The hardware writes the destination after EXEC, as the emulator does.
    t.set_mask_register(EXEC, new);
    t.set_mask(&inst.dst, if how.writes_new { new } else { exec })?;
    let any = t.b().any_lane(new);
    t.set_scc(any);
    Ok(())
}
