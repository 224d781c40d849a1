//! VOPC: vector comparisons. The result mask has the comparison result for active lanes and zero for inactive lanes.

#![expect(clippy::neg_cmp_op_on_partial_ord, reason = "`nlt` is not `ge`: it is true for NaNs")]

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::exec::lane::body::{WRITES_EXEC, assemble};
use crate::exec::lane::hot;
use crate::exec::lane::op::{Bit, F16, F16Bits, Operation, lane_op};
use crate::{Level, Uop};

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let operation = operation(inst.op, c.level).ok_or(Unsupported::Instruction(inst.op.name()))?;
    let mut uop = assemble(c, inst, index, operation)?;
    if inst.op.writes_exec() {
        uop.flags |= WRITES_EXEC;
    }
    Ok(uop)
}

macro_rules! compare {
    ($level:expr, $ty:ty, |$a:ident, $b:ident| $body:expr) => {
        lane_op!($level, |$a: $ty, $b: $ty| -> Bit { ($body).into() })
    };
}

/// Returns true if neither value is a NaN.
#[inline(always)]
fn ordered<T: PartialOrd>(a: T, b: T) -> bool {
    a.partial_cmp(&b).is_some()
}

/// Returns true if a float belongs to one of the classes in `wanted`, a mask of ten bits.
///
/// `magnitude` is the float's bits without the sign, `infinity` the bits of infinity, `quiet` the quiet-NaN bit, `normal` the
/// bits of the smallest normal number.
#[inline(always)]
fn class(negative: bool, magnitude: u64, infinity: u64, quiet: u64, normal: u64, wanted: u32) -> Bit {
    let signed = |positive: u32, negated: u32| if negative { 1 << negated } else { 1_u32 << positive };
    let class = if magnitude > infinity {
        if magnitude & quiet == 0 { 1 << 0 } else { 1 << 1 }
    } else if magnitude == infinity {
        signed(9, 2)
    } else if magnitude >= normal {
        signed(8, 3)
    } else if magnitude > 0 {
        signed(7, 4)
    } else {
        signed(6, 5)
    };
    (wanted & class != 0).into()
}

/// The body of a comparison, shared by all its encodings.
#[rustfmt::skip]
pub fn operation(op: Op, level: Level) -> Option<Operation> {
    Some(match op {
        Op::v_cmp_lt_f32 | Op::v_cmpx_lt_f32         => compare!(level, f32, |a, b| a < b),
        Op::v_cmp_eq_f32 | Op::v_cmpx_eq_f32         => compare!(level, f32, |a, b| a == b),
        Op::v_cmp_le_f32 | Op::v_cmpx_le_f32         => compare!(level, f32, |a, b| a <= b),
        Op::v_cmp_gt_f32 | Op::v_cmpx_gt_f32         => compare!(level, f32, |a, b| a > b),
        Op::v_cmp_lg_f32 | Op::v_cmpx_lg_f32         => compare!(level, f32, |a, b| ordered(a, b) && a != b),
        Op::v_cmp_ge_f32 | Op::v_cmpx_ge_f32         => compare!(level, f32, |a, b| a >= b),
        Op::v_cmp_o_f32 | Op::v_cmpx_o_f32           => compare!(level, f32, |a, b| ordered(a, b)),
        Op::v_cmp_u_f32 | Op::v_cmpx_u_f32           => compare!(level, f32, |a, b| !ordered(a, b)),
        Op::v_cmp_nge_f32 | Op::v_cmpx_nge_f32       => compare!(level, f32, |a, b| !(a >= b)),
        Op::v_cmp_nlg_f32 | Op::v_cmpx_nlg_f32       => compare!(level, f32, |a, b| !ordered(a, b) || a == b),
        Op::v_cmp_ngt_f32 | Op::v_cmpx_ngt_f32       => compare!(level, f32, |a, b| !(a > b)),
        Op::v_cmp_nle_f32 | Op::v_cmpx_nle_f32       => compare!(level, f32, |a, b| !(a <= b)),
        Op::v_cmp_neq_f32 | Op::v_cmpx_neq_f32       => compare!(level, f32, |a, b| a != b),
        Op::v_cmp_nlt_f32 | Op::v_cmpx_nlt_f32       => compare!(level, f32, |a, b| !(a < b)),

        Op::v_cmp_lt_f64 | Op::v_cmpx_lt_f64         => compare!(level, f64, |a, b| a < b),
        Op::v_cmp_eq_f64 | Op::v_cmpx_eq_f64         => compare!(level, f64, |a, b| a == b),
        Op::v_cmp_le_f64 | Op::v_cmpx_le_f64         => compare!(level, f64, |a, b| a <= b),
        Op::v_cmp_gt_f64 | Op::v_cmpx_gt_f64         => compare!(level, f64, |a, b| a > b),
        Op::v_cmp_lg_f64 | Op::v_cmpx_lg_f64         => compare!(level, f64, |a, b| ordered(a, b) && a != b),
        Op::v_cmp_ge_f64 | Op::v_cmpx_ge_f64         => compare!(level, f64, |a, b| a >= b),
        Op::v_cmp_o_f64 | Op::v_cmpx_o_f64           => compare!(level, f64, |a, b| ordered(a, b)),
        Op::v_cmp_u_f64 | Op::v_cmpx_u_f64           => compare!(level, f64, |a, b| !ordered(a, b)),
        Op::v_cmp_nge_f64 | Op::v_cmpx_nge_f64       => compare!(level, f64, |a, b| !(a >= b)),
        Op::v_cmp_nlg_f64 | Op::v_cmpx_nlg_f64       => compare!(level, f64, |a, b| !ordered(a, b) || a == b),
        Op::v_cmp_ngt_f64 | Op::v_cmpx_ngt_f64       => compare!(level, f64, |a, b| !(a > b)),
        Op::v_cmp_nle_f64 | Op::v_cmpx_nle_f64       => compare!(level, f64, |a, b| !(a <= b)),
        Op::v_cmp_neq_f64 | Op::v_cmpx_neq_f64       => compare!(level, f64, |a, b| a != b),
        Op::v_cmp_nlt_f64 | Op::v_cmpx_nlt_f64       => compare!(level, f64, |a, b| !(a < b)),

        Op::v_cmp_lt_f16 | Op::v_cmpx_lt_f16         => compare!(level, F16, |a, b| a < b),
        Op::v_cmp_eq_f16 | Op::v_cmpx_eq_f16         => compare!(level, F16, |a, b| a == b),
        Op::v_cmp_le_f16 | Op::v_cmpx_le_f16         => compare!(level, F16, |a, b| a <= b),
        Op::v_cmp_gt_f16 | Op::v_cmpx_gt_f16         => compare!(level, F16, |a, b| a > b),
        Op::v_cmp_lg_f16 | Op::v_cmpx_lg_f16         => compare!(level, F16, |a, b| ordered(a, b) && a != b),
        Op::v_cmp_ge_f16 | Op::v_cmpx_ge_f16         => compare!(level, F16, |a, b| a >= b),
        Op::v_cmp_o_f16 | Op::v_cmpx_o_f16           => compare!(level, F16, |a, b| ordered(a, b)),
        Op::v_cmp_u_f16 | Op::v_cmpx_u_f16           => compare!(level, F16, |a, b| !ordered(a, b)),
        Op::v_cmp_nge_f16 | Op::v_cmpx_nge_f16       => compare!(level, F16, |a, b| !(a >= b)),
        Op::v_cmp_nlg_f16 | Op::v_cmpx_nlg_f16       => compare!(level, F16, |a, b| !ordered(a, b) || a == b),
        Op::v_cmp_ngt_f16 | Op::v_cmpx_ngt_f16       => compare!(level, F16, |a, b| !(a > b)),
        Op::v_cmp_nle_f16 | Op::v_cmpx_nle_f16       => compare!(level, F16, |a, b| !(a <= b)),
        Op::v_cmp_neq_f16 | Op::v_cmpx_neq_f16       => compare!(level, F16, |a, b| a != b),
        Op::v_cmp_nlt_f16 | Op::v_cmpx_nlt_f16       => compare!(level, F16, |a, b| !(a < b)),

        Op::v_cmp_lt_i32 | Op::v_cmpx_lt_i32         => compare!(level, i32, |a, b| a < b).hot(hot::less_i32(level)),
        Op::v_cmp_eq_i32 | Op::v_cmpx_eq_i32         => compare!(level, i32, |a, b| a == b).hot(hot::equal(level)),
        Op::v_cmp_le_i32 | Op::v_cmpx_le_i32         => compare!(level, i32, |a, b| a <= b).hot(hot::not_more_i32(level)),
        Op::v_cmp_gt_i32 | Op::v_cmpx_gt_i32         => compare!(level, i32, |a, b| a > b).hot(hot::more_i32(level)),
        Op::v_cmp_ne_i32 | Op::v_cmpx_ne_i32         => compare!(level, i32, |a, b| a != b).hot(hot::not_equal(level)),
        Op::v_cmp_ge_i32 | Op::v_cmpx_ge_i32         => compare!(level, i32, |a, b| a >= b).hot(hot::not_less_i32(level)),

        Op::v_cmp_lt_u32 | Op::v_cmpx_lt_u32         => compare!(level, u32, |a, b| a < b).hot(hot::less_u32(level)),
        Op::v_cmp_eq_u32 | Op::v_cmpx_eq_u32         => compare!(level, u32, |a, b| a == b).hot(hot::equal(level)),
        Op::v_cmp_le_u32 | Op::v_cmpx_le_u32         => compare!(level, u32, |a, b| a <= b).hot(hot::not_more_u32(level)),
        Op::v_cmp_gt_u32 | Op::v_cmpx_gt_u32         => compare!(level, u32, |a, b| a > b).hot(hot::more_u32(level)),
        Op::v_cmp_ne_u32 | Op::v_cmpx_ne_u32         => compare!(level, u32, |a, b| a != b).hot(hot::not_equal(level)),
        Op::v_cmp_ge_u32 | Op::v_cmpx_ge_u32         => compare!(level, u32, |a, b| a >= b).hot(hot::not_less_u32(level)),

        Op::v_cmp_lt_i64 | Op::v_cmpx_lt_i64         => compare!(level, i64, |a, b| a < b),
        Op::v_cmp_eq_i64 | Op::v_cmpx_eq_i64         => compare!(level, i64, |a, b| a == b),
        Op::v_cmp_le_i64 | Op::v_cmpx_le_i64         => compare!(level, i64, |a, b| a <= b),
        Op::v_cmp_gt_i64 | Op::v_cmpx_gt_i64         => compare!(level, i64, |a, b| a > b),
        Op::v_cmp_ne_i64 | Op::v_cmpx_ne_i64         => compare!(level, i64, |a, b| a != b),
        Op::v_cmp_ge_i64 | Op::v_cmpx_ge_i64         => compare!(level, i64, |a, b| a >= b),

        Op::v_cmp_lt_u64 | Op::v_cmpx_lt_u64         => compare!(level, u64, |a, b| a < b),
        Op::v_cmp_eq_u64 | Op::v_cmpx_eq_u64         => compare!(level, u64, |a, b| a == b),
        Op::v_cmp_le_u64 | Op::v_cmpx_le_u64         => compare!(level, u64, |a, b| a <= b),
        Op::v_cmp_gt_u64 | Op::v_cmpx_gt_u64         => compare!(level, u64, |a, b| a > b),
        Op::v_cmp_ne_u64 | Op::v_cmpx_ne_u64         => compare!(level, u64, |a, b| a != b),
        Op::v_cmp_ge_u64 | Op::v_cmpx_ge_u64         => compare!(level, u64, |a, b| a >= b),

        Op::v_cmp_lt_i16 | Op::v_cmpx_lt_i16         => compare!(level, i16, |a, b| a < b),
        Op::v_cmp_eq_i16 | Op::v_cmpx_eq_i16         => compare!(level, i16, |a, b| a == b),
        Op::v_cmp_le_i16 | Op::v_cmpx_le_i16         => compare!(level, i16, |a, b| a <= b),
        Op::v_cmp_gt_i16 | Op::v_cmpx_gt_i16         => compare!(level, i16, |a, b| a > b),
        Op::v_cmp_ne_i16 | Op::v_cmpx_ne_i16         => compare!(level, i16, |a, b| a != b),
        Op::v_cmp_ge_i16 | Op::v_cmpx_ge_i16         => compare!(level, i16, |a, b| a >= b),

        Op::v_cmp_lt_u16 | Op::v_cmpx_lt_u16         => compare!(level, u16, |a, b| a < b),
        Op::v_cmp_eq_u16 | Op::v_cmpx_eq_u16         => compare!(level, u16, |a, b| a == b),
        Op::v_cmp_le_u16 | Op::v_cmpx_le_u16         => compare!(level, u16, |a, b| a <= b),
        Op::v_cmp_gt_u16 | Op::v_cmpx_gt_u16         => compare!(level, u16, |a, b| a > b),
        Op::v_cmp_ne_u16 | Op::v_cmpx_ne_u16         => compare!(level, u16, |a, b| a != b),
        Op::v_cmp_ge_u16 | Op::v_cmpx_ge_u16         => compare!(level, u16, |a, b| a >= b),
        Op::v_cmp_class_f32 | Op::v_cmpx_class_f32 => lane_op!(level, |a: f32, b: u32| -> Bit {
            let bits = u64::from(a.to_bits());
            class(bits >> 31 != 0, bits & 0x7fff_ffff, 0x7f80_0000, 0x40_0000, 0x80_0000, b)
        }).bitwise(),
        Op::v_cmp_class_f64 | Op::v_cmpx_class_f64 => lane_op!(level, |a: f64, b: u32| -> Bit {
            let bits = a.to_bits();
            class(bits >> 63 != 0, bits & !(1 << 63), 0x7ff << 52, 1 << 51, 1 << 52, b)
        }).bitwise(),
        Op::v_cmp_class_f16 | Op::v_cmpx_class_f16 => lane_op!(level, |a: F16Bits, b: u32| -> Bit {
            let bits = u64::from(a.0);
            class(bits >> 15 != 0, bits & 0x7fff, 0x7c00, 0x200, 0x400, b)
        }).bitwise(),

        Op::v_cmp_f_f16 | Op::v_cmpx_f_f16
        | Op::v_cmp_f_f32 | Op::v_cmpx_f_f32
        | Op::v_cmp_f_f64 | Op::v_cmpx_f_f64
        | Op::v_cmp_f_i16 | Op::v_cmpx_f_i16
        | Op::v_cmp_f_u16 | Op::v_cmpx_f_u16
        | Op::v_cmp_f_i32 | Op::v_cmpx_f_i32
        | Op::v_cmp_f_u32 | Op::v_cmpx_f_u32
        | Op::v_cmp_f_i64 | Op::v_cmpx_f_i64
        | Op::v_cmp_f_u64 | Op::v_cmpx_f_u64 => lane_op!(level, |_a: u32| -> Bit { Bit(0) }),

        Op::v_cmp_tru_f16 | Op::v_cmpx_tru_f16
        | Op::v_cmp_tru_f32 | Op::v_cmpx_tru_f32
        | Op::v_cmp_tru_f64 | Op::v_cmpx_tru_f64
        | Op::v_cmp_t_i16 | Op::v_cmpx_t_i16
        | Op::v_cmp_t_u16 | Op::v_cmpx_t_u16
        | Op::v_cmp_t_i32 | Op::v_cmpx_t_i32
        | Op::v_cmp_t_u32 | Op::v_cmpx_t_u32
        | Op::v_cmp_t_i64 | Op::v_cmpx_t_i64
        | Op::v_cmp_t_u64 | Op::v_cmpx_t_u64 => lane_op!(level, |_a: u32| -> Bit { Bit(!0) }),
        _ => return None,
    })
}
