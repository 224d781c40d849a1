//! The operations that have native code: lookup of their templates.

use isa::{Inst, Op};

use super::template::Template;
use super::{comparison, float, integer, qword};
use crate::exec::lane::op::{Kind, Shape};
use crate::wave::sreg;
use crate::{SrcKind, Uop};

/// Returns true if this form of an operation has a template.
pub fn accepts(inst: &Inst, uop: &Uop) -> bool {
    let modifiers = &inst.modifiers;
    if of(inst.op).is_none() || inst.dpp.is_some() || inst.sdwa.is_some() {
        return false;
    }
    if modifiers.clamp || modifiers.omod != 0 {
        return false;
    }
    let shape = Shape::unpack(uop.flags);
    let packed = shape.dst == Kind::PkF32;
    let moves = inst.op == Op::v_pk_mov_b32;
    if modifiers.op_sel != 0 && !packed && !moves {
        return false;
    }
    // Templates do not support modifiers on f16 sources, nor the other 16-bit kinds.
    let halves = (0..3).any(|n| {
        shape.src[n] == Kind::F16 && (modifiers.neg | modifiers.abs) >> n & 1 == 1
            || matches!(shape.src[n], Kind::B16 | Kind::Pk16 | Kind::PkF16 | Kind::Mix)
    });
    let constant = |n: usize| uop.src[n].kind == SrcKind::Constant;
    let fixed = match inst.op {
        Op::v_bfe_u32 | Op::v_bfe_i32 => constant(1) && constant(2),
        Op::v_alignbit_b32 | Op::v_alignbyte_b32 | Op::v_perm_b32 => constant(2),
        _ => true,
    };
    fixed && !halves && !(shape.mask_out && usize::from(uop.sdst) + 2 > sreg::EXEC)
}

/// The template of an operation.
pub fn of(op: Op) -> Option<Template> {
    float::of(op).or_else(|| integer::of(op)).or_else(|| comparison::of(op)).or_else(|| qword::of(op))
}
