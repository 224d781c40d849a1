//! VOP2: vector operations with two sources, the second a vector register.

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::exec::lane::body::{assemble, saturates};
use crate::exec::lane::hot;
use crate::exec::lane::op::{Bit, F16, F16Pair, Operation, lane_op};
use crate::exec::math::float::{dot2_f32_f16, fma_f16, ldexp_f32, mad_f16, mad_f32, max_f32, min_f32};
use crate::exec::math::integer::{
    dot2_i32_i16, dot4_i32_i8, dot8_i32_i4, saturate_i32, saturating_dot2_i32_i16, sign_extend_24,
};
use crate::{Level, Uop};

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let operation = operation(inst.op, c.level, saturates(inst));
    assemble(c, inst, index, operation.ok_or(Unsupported::Instruction(inst.op.name()))?)
}

/// Sum and carry-out.
#[inline(always)]
fn add_carry(a: u32, b: u32, carry: Bit) -> (u32, Bit) {
    // A set lane is !0; its low bit is the carry.
    let (sum, over) = a.overflowing_add(b);
    let (sum, over_carry) = sum.overflowing_add(carry.0 & 1);
    (sum, (over | over_carry).into())
}

/// Difference and borrow-out.
#[inline(always)]
fn sub_borrow(a: u32, b: u32, borrow: Bit) -> (u32, Bit) {
    let (difference, under) = a.overflowing_sub(b);
    let (difference, under_borrow) = difference.overflowing_sub(borrow.0 & 1);
    (difference, (under | under_borrow).into())
}

/// Like [`add_carry`], but the sum saturates.
#[inline(always)]
fn saturating_add_carry(a: u32, b: u32, carry: Bit) -> (u32, Bit) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry.0 & 1);
    (sum.min(u64::from(u32::MAX)) as u32, (sum >> 32 != 0).into())
}

/// Like [`sub_borrow`], but the difference saturates.
#[inline(always)]
fn saturating_sub_borrow(a: u32, b: u32, borrow: Bit) -> (u32, Bit) {
    let taken = u64::from(b) + u64::from(borrow.0 & 1);
    (u64::from(a).saturating_sub(taken) as u32, (taken > u64::from(a)).into())
}

/// The body of a VOP2 operation, shared by all its encodings. With `saturates`, that of the clamped form of an integer operation.
pub fn operation(op: Op, level: Level, saturates: bool) -> Option<Operation> {
    Some(match op {
        Op::v_cndmask_b32 => lane_op!(level, |a: u32, b: u32, m: Bit| -> u32 { b & m.0 | a & !m.0 })
            .as_f32()
            .hot(hot::select(level)),

        Op::v_add_f32 => lane_op!(level, |a: f32, b: f32| -> f32 { a + b }).hot(hot::add_f32(level)),
        Op::v_sub_f32 => lane_op!(level, |a: f32, b: f32| -> f32 { a - b }).hot(hot::sub_f32(level)),
        Op::v_subrev_f32 => lane_op!(level, |a: f32, b: f32| -> f32 { b - a }),
        Op::v_mul_f32 => lane_op!(level, |a: f32, b: f32| -> f32 { a * b }).hot(hot::mul_f32(level)),
        Op::v_mul_legacy_f32 => {
            lane_op!(level, |a: f32, b: f32| -> f32 { if a == 0.0 || b == 0.0 { 0.0 } else { a * b } })
        }
        Op::v_min_f32 => lane_op!(level, mode m, |a: f32, b: f32| -> f32 { min_f32(a, b, m.ieee) }),
        Op::v_max_f32 => lane_op!(level, mode m, |a: f32, b: f32| -> f32 { max_f32(a, b, m.ieee) }),
        Op::v_fmac_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) })
            .accumulating()
            .hot(hot::fma_f32(level)),
        Op::v_fmac_f64 => lane_op!(level, |a: f64, b: f64, c: f64| -> f64 { a.mul_add(b, c) }).accumulating(),
        Op::v_fmamk_f32 | Op::v_fmaak_f32 => {
            lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) }).hot(hot::fma_f32(level))
        }
        Op::v_mac_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { mad_f32(a, b, c) }).accumulating(),
        Op::v_madmk_f32 | Op::v_madak_f32 => {
            lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { mad_f32(a, b, c) })
        }

        Op::v_add_f16 => lane_op!(level, |a: F16, b: F16| -> F16 { F16(a.0 + b.0) }),
        Op::v_sub_f16 => lane_op!(level, |a: F16, b: F16| -> F16 { F16(a.0 - b.0) }),
        Op::v_subrev_f16 => lane_op!(level, |a: F16, b: F16| -> F16 { F16(b.0 - a.0) }),
        Op::v_mul_f16 => lane_op!(level, |a: F16, b: F16| -> F16 { F16(a.0 * b.0) }),
        Op::v_min_f16 => lane_op!(level, mode m, |a: F16, b: F16| -> F16 { F16(min_f32(a.0, b.0, m.ieee)) }),
        Op::v_max_f16 => lane_op!(level, mode m, |a: F16, b: F16| -> F16 { F16(max_f32(a.0, b.0, m.ieee)) }),
        Op::v_ldexp_f16 => lane_op!(level, |a: F16, b: i16| -> F16 { F16(ldexp_f16(a.0, b)) }),
        Op::v_mac_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(mad_f16(a.0, b.0, c.0)) }).accumulating()
        }
        Op::v_madmk_f16 | Op::v_madak_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(mad_f16(a.0, b.0, c.0)) })
        }
        Op::v_pk_fmac_f16 => {
            lane_op!(level, packed |a: F16, b: F16, c: F16| -> F16 { F16(fma_f16(a.0, b.0, c.0)) })
                .accumulating()
        }

        Op::v_mul_i32_i24 if saturates => lane_op!(level, |a: u32, b: u32| -> i32 {
            saturate_i32(i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b)))
        }),
        Op::v_mul_i32_i24 => {
            lane_op!(level, |a: u32, b: u32| -> i32 { sign_extend_24(a).wrapping_mul(sign_extend_24(b)) })
        }
        Op::v_mul_hi_i32_i24 => lane_op!(level, |a: u32, b: u32| -> i32 {
            ((i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b))) >> 32) as i32
        }),
        Op::v_mul_u32_u24 if saturates => lane_op!(level, |a: u32, b: u32| -> u32 {
            (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)).min(u64::from(u32::MAX)) as u32
        }),
        Op::v_mul_u32_u24 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff) })
        }
        Op::v_mul_hi_u32_u24 => lane_op!(level, |a: u32, b: u32| -> u32 {
            ((u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)) >> 32) as u32
        }),
        Op::v_min_i32 => lane_op!(level, |a: i32, b: i32| -> i32 { a.min(b) }),
        Op::v_max_i32 => lane_op!(level, |a: i32, b: i32| -> i32 { a.max(b) }),
        Op::v_min_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.min(b) }),
        Op::v_max_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.max(b) }),
        Op::v_lshrrev_b32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { b >> (a & 31) }).hot(hot::shift_right(level))
        }
        Op::v_ashrrev_i32 => {
            lane_op!(level, |a: u32, b: i32| -> i32 { b >> (a & 31) }).hot(hot::shift_right_signed(level))
        }
        Op::v_lshlrev_b32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { b << (a & 31) }).hot(hot::shift_left(level))
        }
        Op::v_and_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { a & b }).hot(hot::and_b32(level)),
        Op::v_or_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { a | b }).hot(hot::or_b32(level)),
        Op::v_xor_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { a ^ b }).hot(hot::xor_b32(level)),
        Op::v_xnor_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { !(a ^ b) }),
        Op::v_add_u32 if saturates => lane_op!(level, |a: u32, b: u32| -> u32 { a.saturating_add(b) }),
        Op::v_add_u32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { a.wrapping_add(b) }).hot(hot::add_u32(level))
        }
        Op::v_sub_u32 if saturates => lane_op!(level, |a: u32, b: u32| -> u32 { a.saturating_sub(b) }),
        Op::v_sub_u32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { a.wrapping_sub(b) }).hot(hot::sub_u32(level))
        }
        Op::v_subrev_u32 if saturates => lane_op!(level, |a: u32, b: u32| -> u32 { b.saturating_sub(a) }),
        Op::v_subrev_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { b.wrapping_sub(a) }),
        Op::v_add_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { saturating_add_carry(a, b, Bit(0)) })
        }
        Op::v_add_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { add_carry(a, b, Bit(0)) })
            .hot(hot::add_carry_out(level)),
        Op::v_sub_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { saturating_sub_borrow(a, b, Bit(0)) })
        }
        Op::v_sub_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { sub_borrow(a, b, Bit(0)) })
            .hot(hot::sub_carry_out(level)),
        Op::v_subrev_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { saturating_sub_borrow(b, a, Bit(0)) })
        }
        Op::v_subrev_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { sub_borrow(b, a, Bit(0)) })
            .hot(hot::subrev_carry_out(level)),
        Op::v_addc_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { saturating_add_carry(a, b, c) })
        }
        Op::v_addc_co_u32 => lane_op!(level, |a: u32, b: u32, m: Bit| -> (u32, Bit) { add_carry(a, b, m) })
            .hot(hot::add_carry(level)),
        Op::v_subb_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { saturating_sub_borrow(a, b, c) })
        }
        Op::v_subb_co_u32 => lane_op!(level, |a: u32, b: u32, m: Bit| -> (u32, Bit) { sub_borrow(a, b, m) })
            .hot(hot::sub_carry(level)),
        Op::v_subbrev_co_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { saturating_sub_borrow(b, a, c) })
        }
        Op::v_subbrev_co_u32 => {
            lane_op!(level, |a: u32, b: u32, m: Bit| -> (u32, Bit) { sub_borrow(b, a, m) })
                .hot(hot::subrev_carry(level))
        }

        Op::v_add_u16 if saturates => lane_op!(level, |a: u16, b: u16| -> u16 { a.saturating_add(b) }),
        Op::v_add_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.wrapping_add(b) }),
        Op::v_sub_u16 if saturates => lane_op!(level, |a: u16, b: u16| -> u16 { a.saturating_sub(b) }),
        Op::v_sub_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.wrapping_sub(b) }),
        Op::v_subrev_u16 if saturates => lane_op!(level, |a: u16, b: u16| -> u16 { b.saturating_sub(a) }),
        Op::v_subrev_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { b.wrapping_sub(a) }),
        Op::v_mul_lo_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.wrapping_mul(b) }),
        Op::v_lshlrev_b16 => lane_op!(level, |a: u16, b: u16| -> u16 { b << (a & 15) }),
        Op::v_lshrrev_b16 => lane_op!(level, |a: u16, b: u16| -> u16 { b >> (a & 15) }),
        Op::v_ashrrev_i16 => lane_op!(level, |a: u16, b: i16| -> i16 { b >> (a & 15) }),
        Op::v_min_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.min(b) }),
        Op::v_max_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.max(b) }),
        Op::v_min_i16 => lane_op!(level, |a: i16, b: i16| -> i16 { a.min(b) }),
        Op::v_max_i16 => lane_op!(level, |a: i16, b: i16| -> i16 { a.max(b) }),

        Op::v_dot2c_f32_f16 => {
            lane_op!(level, |a: F16Pair, b: F16Pair, c: f32| -> f32 { dot2_f32_f16(a.0, b.0, c) })
                .accumulating()
                .bitwise()
        }
        Op::v_dot2c_i32_i16 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { saturating_dot2_i32_i16(a, b, c) })
                .accumulating()
        }
        Op::v_dot2c_i32_i16 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot2_i32_i16(a, b, c) }).accumulating()
        }
        Op::v_dot4c_i32_i8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, 0).saturating_add(c) })
                .accumulating()
        }
        Op::v_dot4c_i32_i8 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, c) }).accumulating()
        }
        Op::v_dot8c_i32_i4 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, 0).saturating_add(c) })
                .accumulating()
        }
        Op::v_dot8c_i32_i4 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, c) }).accumulating()
        }
        _ => return None,
    })
}

/// x * 2^n for an f16: exact in f32 for every result within the range of f16.
#[inline(always)]
fn ldexp_f16(x: f32, n: i16) -> f32 {
    ldexp_f32(x, i32::from(n).clamp(-64, 64))
}
