//! SOPC: comparisons.

use isa::{Inst, Op};

use crate::Builder;
use crate::form::{Binary, Compare, Value};
use crate::translator::{Translated, Translator, unsupported};

/// Translates an instruction.
pub fn compare(t: &mut Translator, inst: &Inst) -> Translated<()> {
    if matches!(inst.op, Op::s_setvskip | Op::s_set_gpr_idx_on) {
        return unsupported(inst);
    }
    let x = t.source(&inst.src[0], inst.src_type(0))?;
    let y = t.source(&inst.src[1], inst.src_type(1))?;
    let Some(bit) = relation(&mut t.b(), inst.op, x, y) else { return unsupported(inst) };
    t.set_scc(bit);
    Ok(())
}

/// The result of a comparison, also of the forms with an immediate.
pub fn relation(b: &mut Builder<'_>, op: Op, x: Value, y: Value) -> Option<Value> {
    let (compare, swapped) = match op {
        Op::s_cmp_eq_i32 | Op::s_cmp_eq_u32 | Op::s_cmp_eq_u64 | Op::s_cmpk_eq_i32 | Op::s_cmpk_eq_u32 => {
            (Compare::Equal, false)
        }
        Op::s_cmp_lg_i32 | Op::s_cmp_lg_u32 | Op::s_cmp_lg_u64 | Op::s_cmpk_lg_i32 | Op::s_cmpk_lg_u32 => {
            (Compare::NotEqual, false)
        }
        Op::s_cmp_gt_i32 | Op::s_cmpk_gt_i32 => (Compare::LessSigned, true),
        Op::s_cmp_ge_i32 | Op::s_cmpk_ge_i32 => (Compare::LessEqualSigned, true),
        Op::s_cmp_lt_i32 | Op::s_cmpk_lt_i32 => (Compare::LessSigned, false),
        Op::s_cmp_le_i32 | Op::s_cmpk_le_i32 => (Compare::LessEqualSigned, false),
        Op::s_cmp_gt_u32 | Op::s_cmpk_gt_u32 => (Compare::LessUnsigned, true),
        Op::s_cmp_ge_u32 | Op::s_cmpk_ge_u32 => (Compare::LessEqualUnsigned, true),
        Op::s_cmp_lt_u32 | Op::s_cmpk_lt_u32 => (Compare::LessUnsigned, false),
        Op::s_cmp_le_u32 | Op::s_cmpk_le_u32 => (Compare::LessEqualUnsigned, false),
        Op::s_bitcmp0_b32 | Op::s_bitcmp0_b64 | Op::s_bitcmp1_b32 | Op::s_bitcmp1_b64 => {
            let shifted = b.binary(Binary::ShiftRight, x, y);
            let one = b.constant(b.function.kind(x), 1);
            let bit = b.and(shifted, one);
            let set = b.nonzero(bit);
            let wants_set = matches!(op, Op::s_bitcmp1_b32 | Op::s_bitcmp1_b64);
            return Some(if wants_set { set } else { b.not(set) });
        }
        _ => return None,
    };
    Some(if swapped { b.compare(compare, y, x) } else { b.compare(compare, x, y) })
}
