//! Integer vector operations with the clamp bit set: results saturate instead of wrapping.

use isa::Op;

use super::byte_sum;
use super::lane_op::{Bit, Operation, Pair, lane_op};
use super::vop2::{dot4_i32_i8, dot8_i32_i4, sign_extend_24};
use super::vop3p::{dot4_u32_u8, dot8_u32_u4};
use crate::Level;

/// The saturating variant of an integer operation, if it has one.
pub fn operation(op: Op, level: Level) -> Option<Operation> {
    Some(match op {
        Op::v_add_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.saturating_add(b) }),
        Op::v_sub_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.saturating_sub(b) }),
        Op::v_subrev_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { b.saturating_sub(a) }),
        Op::v_add_i32 => lane_op!(level, |a: i32, b: i32| -> i32 { a.saturating_add(b) }),
        Op::v_sub_i32 => lane_op!(level, |a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
        Op::v_add_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.saturating_add(b) }),
        Op::v_sub_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.saturating_sub(b) }),
        Op::v_subrev_u16 => lane_op!(level, |a: u16, b: u16| -> u16 { b.saturating_sub(a) }),
        Op::v_add_i16 => lane_op!(level, |a: i16, b: i16| -> i16 { a.saturating_add(b) }).preserving(),
        Op::v_sub_i16 => lane_op!(level, |a: i16, b: i16| -> i16 { a.saturating_sub(b) }).preserving(),
        Op::v_add_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { sum(a, b, Bit(0)) }),
        Op::v_addc_co_u32 => lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { sum(a, b, c) }),
        Op::v_sub_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { difference(a, b, Bit(0)) }),
        Op::v_subb_co_u32 => lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { difference(a, b, c) }),
        Op::v_subrev_co_u32 => lane_op!(level, |a: u32, b: u32| -> (u32, Bit) { difference(b, a, Bit(0)) }),
        Op::v_subbrev_co_u32 => {
            lane_op!(level, |a: u32, b: u32, c: Bit| -> (u32, Bit) { difference(b, a, c) })
        }
        Op::v_mul_u32_u24 => lane_op!(level, |a: u32, b: u32| -> u32 {
            (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff)).min(u64::from(u32::MAX)) as u32
        }),
        Op::v_mul_i32_i24 => lane_op!(level, |a: u32, b: u32| -> i32 {
            saturate_i32(i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b)))
        }),
        Op::v_mad_u64_u32 => lane_op!(level, |a: u32, b: u32, c: u64| -> (u64, Bit) {
            let (sum, over) = (u64::from(a) * u64::from(b)).overflowing_add(c);
            (if over { u64::MAX } else { sum }, over.into())
        }),
        Op::v_mad_i64_i32 => lane_op!(level, |a: i32, b: i32, c: i64| -> (i64, Bit) {
            let product = i64::from(a) * i64::from(b);
            let (sum, over) = product.overflowing_add(c);
            (product.saturating_add(c), (over != (sum < 0)).into())
        }),
        Op::v_sad_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::sad(a, b).saturating_add(c) })
        }
        Op::v_sad_hi_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { (byte_sum::sad(a, b) << 16).saturating_add(c) })
        }
        Op::v_sad_u16 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).saturating_add(c)
        }),
        Op::v_sad_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).saturating_add(c) }),
        Op::v_msad_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::masked_sad(a, b).saturating_add(c) })
        }
        Op::v_qsad_pk_u16_u8 => lane_op!(level, |a: u64, b: u32, c: u64| -> u64 {
            byte_sum::sliding_saturated(a, b, c, byte_sum::sad)
        }),
        Op::v_mqsad_pk_u16_u8 => lane_op!(level, |a: u64, b: u32, c: u64| -> u64 {
            byte_sum::sliding_saturated(a, b, c, byte_sum::masked_sad)
        }),
        Op::v_mad_u32_u24 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) + u64::from(c)).min(u64::from(u32::MAX))
                as u32
        }),
        Op::v_mad_i32_i24 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 {
            saturate_i32(i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b)) + i64::from(c))
        }),
        Op::v_mad_u16 => mad_u16(level).preserving(),
        Op::v_mad_i16 => mad_i16(level).preserving(),
        Op::v_mad_legacy_u16 => mad_u16(level),
        Op::v_mad_legacy_i16 => mad_i16(level),
        Op::v_mad_u32_u16 => lane_op!(level, |a: u16, b: u16, c: u32| -> u32 {
            (u32::from(a) * u32::from(b)).saturating_add(c)
        }),
        Op::v_mad_i32_i16 => lane_op!(level, |a: i16, b: i16, c: i32| -> i32 {
            (i32::from(a) * i32::from(b)).saturating_add(c)
        }),
        Op::v_pk_add_u16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { a.saturating_add(b) }),
        Op::v_pk_sub_u16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { a.saturating_sub(b) }),
        Op::v_pk_add_i16 => lane_op!(level, packed |a: i16, b: i16| -> i16 { a.saturating_add(b) }),
        Op::v_pk_sub_i16 => lane_op!(level, packed |a: i16, b: i16| -> i16 { a.saturating_sub(b) }),
        Op::v_pk_mad_u16 => lane_op!(level, packed |a: u16, b: u16, c: u16| -> u16 {
            (u32::from(a) * u32::from(b)).saturating_add(u32::from(c)).min(0xffff) as u16
        }),
        Op::v_pk_mad_i16 => lane_op!(level, packed |a: i16, b: i16, c: i16| -> i16 {
            (i32::from(a) * i32::from(b)).saturating_add(i32::from(c)).clamp(-0x8000, 0x7fff) as i16
        }),
        Op::v_dot2_i32_i16 => lane_op!(level, |a: Pair, b: Pair, c: i32| -> i32 { dot2(a.0, b.0, c) }),
        Op::v_dot2c_i32_i16 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot2(a, b, c) }).accumulating()
        }
        Op::v_dot4c_i32_i8 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, 0).saturating_add(c) })
                .accumulating()
        }
        Op::v_dot8c_i32_i4 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, 0).saturating_add(c) })
                .accumulating()
        }
        Op::v_dot2_u32_u16 => lane_op!(level, |a: Pair, b: Pair, c: u32| -> u32 {
            let low = u64::from(a.0 & 0xffff) * u64::from(b.0 & 0xffff);
            let high = u64::from(a.0 >> 16) * u64::from(b.0 >> 16);
            (low + high + u64::from(c)).min(u64::from(u32::MAX)) as u32
        }),
        // The sums of small products cannot wrap before the accumulator is added.
        Op::v_dot4_i32_i8 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, 0).saturating_add(c) })
        }
        Op::v_dot4_u32_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot4_u32_u8(a, b, 0).saturating_add(c) })
        }
        Op::v_dot8_i32_i4 => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, 0).saturating_add(c) })
        }
        Op::v_dot8_u32_u4 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot8_u32_u4(a, b, 0).saturating_add(c) })
        }
        _ => return None,
    })
}

fn mad_u16(level: Level) -> Operation {
    lane_op!(level, |a: u16, b: u16, c: u16| -> u16 {
        (u32::from(a) * u32::from(b)).saturating_add(u32::from(c)).min(0xffff) as u16
    })
}

fn mad_i16(level: Level) -> Operation {
    lane_op!(level, |a: i16, b: i16, c: i16| -> i16 {
        (i32::from(a) * i32::from(b)).saturating_add(i32::from(c)).clamp(-0x8000, 0x7fff) as i16
    })
}

/// Sum with carry in, and the carry out.
#[inline(always)]
fn sum(a: u32, b: u32, carry: Bit) -> (u32, Bit) {
    let sum = u64::from(a) + u64::from(b) + u64::from(carry.0 & 1);
    (sum.min(u64::from(u32::MAX)) as u32, (sum >> 32 != 0).into())
}

/// Difference with borrow in, and the borrow out.
#[inline(always)]
fn difference(a: u32, b: u32, borrow: Bit) -> (u32, Bit) {
    let taken = u64::from(b) + u64::from(borrow.0 & 1);
    (u64::from(a).saturating_sub(taken) as u32, (taken > u64::from(a)).into())
}

#[inline(always)]
fn dot2(a: u32, b: u32, c: i32) -> i32 {
    let low = i64::from(a as i16) * i64::from(b as i16);
    let high = i64::from(a as i32 >> 16) * i64::from(b as i32 >> 16);
    saturate_i32(low + high + i64::from(c))
}

#[inline(always)]
fn saturate_i32(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
