//! The lowering table: what native code stands for which operation, on sixteen lanes.
//!
//! A template gives the bits the micro-op gives (a NaN may have another payload). It computes with values that are written once, and
//! names the results when all sources were read. Forms that no template knows stay with micro-ops. Templates are in a file for each
//! kind of value; what they share is here.

use iced_x86::Code::*;
use iced_x86::Instruction;
use isa::{Inst, Op};

use super::assembler::{Arg, k, zmm};
use super::emit::{ACTIVE, Emit};
use super::{comparison, float, integer, qword};
use crate::exec::lane_op::{Kind, Shape};
use crate::wave::sreg;
use crate::{SrcKind, Uop};

pub type Template = fn(&mut Emit<'_>);

/// Whether this form of an operation has a template.
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
    // A half takes no modifiers here.
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
    ($code:expr) => {
        |e| {
            let (a, b) = e.commuting();
            let new = e.op($code, a, b);
            e.set(new);
        }
    };
}

macro_rules! ordered {
    ($code:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op($code, a, b);
            e.set(new);
        }
    };
    ($code:expr, $immediate:expr) => {
        |e| {
            let (a, b) = (e.reg(0), e.arg(1));
            let new = e.op_imm($code, a, b, $immediate);
            e.set(new);
        }
    };
}

macro_rules! reversed {
    ($code:expr) => {
        |e| {
            let (b, a) = (e.reg(1), e.arg(0));
            let new = e.op($code, b, a);
            e.set(new);
        }
    };
}

macro_rules! unary {
    ($code:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary($code, a);
            e.set(new);
        }
    };
    ($code:expr, $immediate:expr) => {
        |e| {
            let a = e.arg(0);
            let new = e.unary_imm($code, a, $immediate);
            e.set(new);
        }
    };
}

pub(super) use {commuting, ordered, reversed, unary};

/// `vrange`: the smaller or larger, with the sign of the result.
pub const RANGE_MIN: u32 = 0b0100;
pub const RANGE_MAX: u32 = 0b0101;

/// `b` where the mask is set, else `a`.
pub fn select(e: &mut Emit<'_>, mask: u8, a: u8, b: Arg) -> u8 {
    let new = e.fresh();
    let blend = match b {
        Arg::Zmm(b) => Instruction::with3(EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32, zmm(new), zmm(a), zmm(b)),
        Arg::Memory(b) => Instruction::with3(EVEX_Vpblendmd_zmm_k1z_zmm_zmmm512b32, zmm(new), zmm(a), b),
    };
    e.asm.push_masked(mask, false, blend);
    new
}

/// `code mask, register`: the top bits of lanes as a mask, among the active ones.
pub fn top_bits(e: &mut Emit<'_>, register: u8) -> u8 {
    let all = e.fresh_mask();
    e.asm.push(Instruction::with2(EVEX_Vpmovd2m_kr_zmm, k(all), zmm(register)));
    e.mask_op(VEX_Kandw_kr_kr_kr, all, ACTIVE)
}
