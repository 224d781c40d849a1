//! Templates of 32-bit comparisons.

use isa::Op;

use super::mask::Comparison::{self, *};
use super::mask::Order::*;
use super::template::Template;

macro_rules! compares {
    ($comparison:expr) => {
        |e| {
            const COMPARISON: Comparison = $comparison;
            let (a, b) = (e.reg(0), e.arg(1));
            let mask = e.compare(COMPARISON, a, b);
            e.set_mask(mask);
        }
    };
}

#[rustfmt::skip]
pub fn of(op: Op) -> Option<Template> {
    Some(match op {
        Op::v_cmp_lt_f32  => compares!(Float(0x11)),
        Op::v_cmp_eq_f32  => compares!(Float(0x00)),
        Op::v_cmp_le_f32  => compares!(Float(0x12)),
        Op::v_cmp_gt_f32  => compares!(Float(0x1e)),
        Op::v_cmp_lg_f32  => compares!(Float(0x0c)),
        Op::v_cmp_ge_f32  => compares!(Float(0x1d)),
        Op::v_cmp_o_f32   => compares!(Float(0x07)),
        Op::v_cmp_u_f32   => compares!(Float(0x03)),
        Op::v_cmp_nge_f32 => compares!(Float(0x19)),
        Op::v_cmp_nlg_f32 => compares!(Float(0x08)),
        Op::v_cmp_ngt_f32 => compares!(Float(0x1a)),
        Op::v_cmp_nle_f32 => compares!(Float(0x16)),
        Op::v_cmp_neq_f32 => compares!(Float(0x04)),
        Op::v_cmp_nlt_f32 => compares!(Float(0x15)),
        Op::v_cmp_lt_i32  => compares!(Signed(Less)),
        Op::v_cmp_eq_i32  => compares!(Signed(Equal)),
        Op::v_cmp_le_i32  => compares!(Signed(LessEqual)),
        Op::v_cmp_gt_i32  => compares!(Signed(Greater)),
        Op::v_cmp_ne_i32  => compares!(Signed(NotEqual)),
        Op::v_cmp_ge_i32  => compares!(Signed(GreaterEqual)),
        Op::v_cmp_lt_u32  => compares!(Unsigned(Less)),
        Op::v_cmp_eq_u32  => compares!(Unsigned(Equal)),
        Op::v_cmp_le_u32  => compares!(Unsigned(LessEqual)),
        Op::v_cmp_gt_u32  => compares!(Unsigned(Greater)),
        Op::v_cmp_ne_u32  => compares!(Unsigned(NotEqual)),
        Op::v_cmp_ge_u32  => compares!(Unsigned(GreaterEqual)),
        _ => return None,
    })
}
