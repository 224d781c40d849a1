//! VOP3P: packed operations, dot products and mixed precision. Matrix operations are in `mfma.rs`.

use isa::{Inst, Op};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::format::{mfma, vop1};
use crate::exec::lane::body::{assemble, assemble_half, saturates};
use crate::exec::lane::op::{F16, F16Pair, Mix, Operation, Pair, lane_op};
use crate::exec::math::float::{dot2_f32_f16, fma_f16, max_f32, min_f32};
use crate::exec::math::integer::{
    dot2_i32_i16, dot4_i32_i8, dot4_u32_u8, dot8_i32_i4, dot8_u32_u4, saturating_dot2_i32_i16,
};
use crate::{Level, Uop};

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    match inst.op {
        Op::v_pk_mov_b32 => return pk_mov(c, inst, index),
        Op::v_fma_mixlo_f16 => {
            let operation = mix_f16(c.level);
            return assemble_half(c, inst, index, operation, false);
        }
        Op::v_fma_mixhi_f16 => {
            let operation = mix_f16(c.level);
            return assemble_half(c, inst, index, operation, true);
        }
        _ => {}
    }
    if let Some(matrix) = mfma::Matrix::of(inst.op) {
        return mfma::compile(c, inst, index, matrix);
    }
    let operation =
        operation(inst.op, c.level, saturates(inst)).or_else(|| vop1::operation(inst.op, c.level));
    assemble(c, inst, index, operation.ok_or(Unsupported::Instruction(inst.op.name()))?)
}

/// `v_pk_mov_b32`: each dword of the destination comes from one dword of one source, so `op_sel` is resolved at compile time.
fn pk_mov(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let operation = lane_op!(c.level, |a: u32, b: u32| -> u64 { u64::from(a) | u64::from(b) << 32 });
    let mut uop = assemble(c, inst, index, operation)?;
    for n in 0..2 {
        uop.src[n] = c.source(inst, &inst.src[n], 2, Type::B32)?;
        uop.src[n].index += u16::from(inst.modifiers.op_sel >> n & 1);
    }
    Ok(uop)
}

fn mix_f16(level: Level) -> Operation {
    lane_op!(level, |a: Mix, b: Mix, c: Mix| -> F16 { F16(a.0.mul_add(b.0, c.0)) })
}

/// The body of a per-lane VOP3P operation. With `saturates`, that of the clamped form of an integer operation.
pub fn operation(op: Op, level: Level, saturates: bool) -> Option<Operation> {
    Some(match op {
        Op::v_pk_fma_f16 => {
            lane_op!(level, packed |a: F16, b: F16, c: F16| -> F16 { F16(fma_f16(a.0, b.0, c.0)) })
        }
        Op::v_pk_add_f16 => lane_op!(level, packed |a: F16, b: F16| -> F16 { F16(a.0 + b.0) }),
        Op::v_pk_mul_f16 => lane_op!(level, packed |a: F16, b: F16| -> F16 { F16(a.0 * b.0) }),
        Op::v_pk_min_f16 => {
            lane_op!(level, packed mode m, |a: F16, b: F16| -> F16 { F16(min_f32(a.0, b.0, m.ieee)) })
        }
        Op::v_pk_max_f16 => {
            lane_op!(level, packed mode m, |a: F16, b: F16| -> F16 { F16(max_f32(a.0, b.0, m.ieee)) })
        }

        Op::v_pk_mad_i16 if saturates => lane_op!(level, packed |a: i16, b: i16, c: i16| -> i16 {
            (i32::from(a) * i32::from(b)).saturating_add(i32::from(c)).clamp(-0x8000, 0x7fff) as i16
        }),
        Op::v_pk_mad_u16 if saturates => lane_op!(level, packed |a: u16, b: u16, c: u16| -> u16 {
            (u32::from(a) * u32::from(b)).saturating_add(u32::from(c)).min(0xffff) as u16
        }),
        Op::v_pk_mad_i16 | Op::v_pk_mad_u16 => {
            lane_op!(level, packed |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) })
        }
        Op::v_pk_mul_lo_u16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { a.wrapping_mul(b) }),
        Op::v_pk_add_i16 if saturates => {
            lane_op!(level, packed |a: i16, b: i16| -> i16 { a.saturating_add(b) })
        }
        Op::v_pk_add_u16 if saturates => {
            lane_op!(level, packed |a: u16, b: u16| -> u16 { a.saturating_add(b) })
        }
        Op::v_pk_add_i16 | Op::v_pk_add_u16 => {
            lane_op!(level, packed |a: u16, b: u16| -> u16 { a.wrapping_add(b) })
        }
        Op::v_pk_sub_i16 if saturates => {
            lane_op!(level, packed |a: i16, b: i16| -> i16 { a.saturating_sub(b) })
        }
        Op::v_pk_sub_u16 if saturates => {
            lane_op!(level, packed |a: u16, b: u16| -> u16 { a.saturating_sub(b) })
        }
        Op::v_pk_sub_i16 | Op::v_pk_sub_u16 => {
            lane_op!(level, packed |a: u16, b: u16| -> u16 { a.wrapping_sub(b) })
        }
        Op::v_pk_lshlrev_b16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { b << (a & 15) }),
        Op::v_pk_lshrrev_b16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { b >> (a & 15) }),
        Op::v_pk_ashrrev_i16 => lane_op!(level, packed |a: i16, b: i16| -> i16 { b >> (a & 15) }),
        Op::v_pk_max_i16 => lane_op!(level, packed |a: i16, b: i16| -> i16 { a.max(b) }),
        Op::v_pk_min_i16 => lane_op!(level, packed |a: i16, b: i16| -> i16 { a.min(b) }),
        Op::v_pk_max_u16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { a.max(b) }),
        Op::v_pk_min_u16 => lane_op!(level, packed |a: u16, b: u16| -> u16 { a.min(b) }),

        Op::v_pk_fma_f32 => lane_op!(level, paired | a, b, c | a.mul_add(b, c)),
        Op::v_pk_mul_f32 => lane_op!(level, paired | a, b | a * b),
        Op::v_pk_add_f32 => lane_op!(level, paired | a, b | a + b),

        Op::v_fma_mix_f32 => lane_op!(level, |a: Mix, b: Mix, c: Mix| -> f32 { a.0.mul_add(b.0, c.0) }),

        Op::v_dot2_f32_f16 => {
            lane_op!(level, |a: F16Pair, b: F16Pair, c: f32| -> f32 { dot2_f32_f16(a.0, b.0, c) }).bitwise()
        }
        Op::v_dot2_i32_i16 if saturates => {
            lane_op!(level, |a: Pair, b: Pair, c: i32| -> i32 { saturating_dot2_i32_i16(a.0, b.0, c) })
        }
        Op::v_dot2_i32_i16 => {
            lane_op!(level, |a: Pair, b: Pair, c: i32| -> i32 { dot2_i32_i16(a.0, b.0, c) })
        }
        Op::v_dot2_u32_u16 if saturates => lane_op!(level, |a: Pair, b: Pair, c: u32| -> u32 {
            let low = u64::from(a.0 & 0xffff) * u64::from(b.0 & 0xffff);
            let high = u64::from(a.0 >> 16) * u64::from(b.0 >> 16);
            (low + high + u64::from(c)).min(u64::from(u32::MAX)) as u32
        }),
        Op::v_dot2_u32_u16 => lane_op!(level, |a: Pair, b: Pair, c: u32| -> u32 {
            c.wrapping_add((a.0 & 0xffff) * (b.0 & 0xffff)).wrapping_add((a.0 >> 16) * (b.0 >> 16))
        }),
        // The sums of small products cannot wrap before the accumulator is added.
        Op::v_dot4_i32_i8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, 0).saturating_add(c) })
        }
        Op::v_dot4_i32_i8 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot4_i32_i8(a, b, c) }),
        Op::v_dot4_u32_u8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot4_u32_u8(a, b, 0).saturating_add(c) })
        }
        Op::v_dot4_u32_u8 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot4_u32_u8(a, b, c) }),
        Op::v_dot8_i32_i4 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, 0).saturating_add(c) })
        }
        Op::v_dot8_i32_i4 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 { dot8_i32_i4(a, b, c) }),
        Op::v_dot8_u32_u4 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot8_u32_u4(a, b, 0).saturating_add(c) })
        }
        Op::v_dot8_u32_u4 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { dot8_u32_u4(a, b, c) }),
        _ => return None,
    })
}
