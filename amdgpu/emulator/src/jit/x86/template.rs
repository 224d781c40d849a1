//! Lowering templates: the native code of each operation on a slice of lanes.
//!
//! A template computes the same bits as the micro-op (a NaN may have a different payload). Its intermediate values are immutable,
//! and it names the results after all sources were read. Forms without a template are executed as micro-ops. Templates are in one
//! file per kind of value; shared parts are here.

use isa::{Inst, Op};

use super::emit::Emit;
use super::{comparison, float, integer, qword};
use crate::exec::lane::op::{Kind, Shape};
use crate::wave::sreg;
use crate::{SrcKind, Uop};

pub type Template = fn(&mut Emit<'_>);

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

macro_rules! commuting {
    ($vector:expr) => {
        |e| {
            let (a, b) = e.commuting();
            let new = e.op($vector, a, b);
            e.set(new);
        }
    };
}

macro_rules! ordered {
    ($vector:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op($vector, a, b);
            e.set(new);
        }
    };
}

macro_rules! reversed {
    ($vector:expr) => {
        |e| {
            let (b, a) = (e.reg(1), e.arg(0));
            let new = e.op($vector, b, a);
            e.set(new);
        }
    };
}

macro_rules! unary {
    ($vector:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary($vector, a);
            e.set(new);
        }
    };
    ($vector:expr, $immediate:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary_imm($vector, a, $immediate);
            e.set(new);
        }
    };
}

pub(super) use {commuting, ordered, reversed, unary};
