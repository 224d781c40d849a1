//! Integer operations with the clamp bit: results saturate instead of wrapping.

use isa::Op;

use super::lane_op::{Operation, lane_op};
use super::vop2::{dot4_i32_i8, dot8_i32_i4, sign_extend_24};
use super::vop3p::{dot4_u32_u8, dot8_u32_u4};
use crate::Level;

/// The saturating twin of an integer operation, if it has one.
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
        Op::v_mad_u32_u24 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) + u64::from(c)).min(u64::from(u32::MAX))
                as u32
        }),
        Op::v_mad_i32_i24 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 {
            saturate_i32(i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b)) + i64::from(c))
        }),
        Op::v_mad_u16 => lane_op!(level, |a: u16, b: u16, c: u16| -> u16 {
            (u32::from(a) * u32::from(b)).saturating_add(u32::from(c)).min(0xffff) as u16
        })
        .preserving(),
        Op::v_mad_i16 => lane_op!(level, |a: i16, b: i16, c: i16| -> i16 {
            (i32::from(a) * i32::from(b)).saturating_add(i32::from(c)).clamp(-0x8000, 0x7fff) as i16
        })
        .preserving(),
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
        Op::v_dot2_i32_i16 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 {
            let low = i64::from(a as i16) * i64::from(b as i16);
            let high = i64::from(a as i32 >> 16) * i64::from(b as i32 >> 16);
            saturate_i32(low + high + i64::from(c))
        }),
        Op::v_dot2_u32_u16 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            let low = u64::from(a & 0xffff) * u64::from(b & 0xffff);
            let high = u64::from(a >> 16) * u64::from(b >> 16);
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

#[inline(always)]
fn saturate_i32(value: i64) -> i32 {
    value.clamp(i64::from(i32::MIN), i64::from(i32::MAX)) as i32
}
