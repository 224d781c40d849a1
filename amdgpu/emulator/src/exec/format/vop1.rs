//! VOP1: vector operations with one source.

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::exec::lane::body::assemble;
use crate::exec::lane::op::{F16, Kind, Operation, lane_op};
use crate::exec::lane::{cross_lane, hot};
use crate::exec::math::float::{
    cos_turns, exp2_f32, f32_to_i32, f32_to_u32, f64_to_i32, f64_to_u32, fract_f32, fract_f64,
    frexp_exponent_f32, frexp_exponent_f64, frexp_mantissa_f32, frexp_mantissa_f64, log2_f32, rsq_f32,
    sin_turns,
};
use crate::exec::math::float8;
use crate::{Level, Uop};

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    match inst.op {
        Op::v_nop | Op::v_clrexcp => Ok(cross_lane::nothing(c, index)),
        Op::v_readfirstlane_b32 => cross_lane::readfirstlane(c, inst, index),
        Op::v_swap_b32 => cross_lane::swap(c, inst, index),
        _ => {
            let operation = operation(inst.op, c.level).ok_or(Unsupported::Instruction(inst.op.name()))?;
            assemble(c, inst, index, operation)
        }
    }
}

/// Converts a float, clamped to [-1, 1], to a signed normalised 16-bit integer.
#[inline(always)]
pub fn to_snorm(x: f32) -> i16 {
    let x = if x > 1.0 { 1.0 } else { x };
    let x = if x < -1.0 { -1.0 } else { x };
    nearest_even(x * 32767.0) as i16
}

/// Converts a float, clamped to [0, 1], to an unsigned normalised 16-bit integer.
#[inline(always)]
pub fn to_unorm(x: f32) -> u16 {
    let x = if x > 1.0 { 1.0 } else { x };
    let x = if x < 0.0 { 0.0 } else { x };
    nearest_even(x * 65535.0) as u16
}

/// Rounds a value below 2^22 without the rounding instruction that the base level lacks.
#[inline(always)]
fn nearest_even(x: f32) -> f32 {
    const MAGIC: f32 = 12_582_912.0;
    (x + MAGIC) - MAGIC
}

/// Saturates an i16 to an unsigned byte.
#[inline(always)]
fn saturate_u8(value: i16) -> u32 {
    value.clamp(0, 255) as u32
}

/// The body of a VOP1 operation, shared by all its encodings.
pub fn operation(op: Op, level: Level) -> Option<Operation> {
    Some(match op {
        Op::v_mov_b32 | Op::v_accvgpr_mov_b32 | Op::v_accvgpr_read_b32 | Op::v_accvgpr_write_b32 => {
            lane_op!(level, |a: u32| -> u32 { a }).hot(hot::move_b32(level))
        }
        Op::v_mov_b64 => lane_op!(level, |a: u64| -> u64 { a }),
        Op::v_not_b32 => lane_op!(level, |a: u32| -> u32 { !a }),
        Op::v_bfrev_b32 => lane_op!(level, |a: u32| -> u32 { a.reverse_bits() }),
        Op::v_ffbh_u32 => lane_op!(level, |a: u32| -> u32 { if a == 0 { !0 } else { a.leading_zeros() } }),
        Op::v_ffbl_b32 => lane_op!(level, |a: u32| -> u32 { if a == 0 { !0 } else { a.trailing_zeros() } }),
        Op::v_ffbh_i32 => lane_op!(level, |a: i32| -> u32 {
            let differs = (a ^ (a >> 31)) as u32;
            if differs == 0 { !0 } else { differs.leading_zeros() }
        }),
        Op::v_sat_pk_u8_i16 => {
            lane_op!(level, |a: u32| -> u32 { saturate_u8(a as i16) | saturate_u8((a >> 16) as i16) << 8 })
        }

        Op::v_cvt_f32_i32 => lane_op!(level, |a: i32| -> f32 { a as f32 }),
        Op::v_cvt_f32_u32 => lane_op!(level, |a: u32| -> f32 { a as f32 }),
        Op::v_cvt_i32_f32 => lane_op!(level, |a: f32| -> i32 { f32_to_i32(a) }),
        Op::v_cvt_u32_f32 => lane_op!(level, |a: f32| -> u32 { f32_to_u32(a) }),
        Op::v_cvt_rpi_i32_f32 => lane_op!(level, |a: f32| -> i32 { f32_to_i32((a + 0.5).floor()) }),
        Op::v_cvt_flr_i32_f32 => lane_op!(level, |a: f32| -> i32 { f32_to_i32(a.floor()) }),
        Op::v_cvt_off_f32_i4 => lane_op!(level, |a: u32| -> f32 { ((a << 28) as i32 >> 28) as f32 * 0.0625 }),
        Op::v_cvt_f32_ubyte0 => lane_op!(level, |a: u32| -> f32 { (a & 0xff) as f32 }),
        Op::v_cvt_f32_ubyte1 => lane_op!(level, |a: u32| -> f32 { (a >> 8 & 0xff) as f32 }),
        Op::v_cvt_f32_ubyte2 => lane_op!(level, |a: u32| -> f32 { (a >> 16 & 0xff) as f32 }),
        Op::v_cvt_f32_ubyte3 => lane_op!(level, |a: u32| -> f32 { (a >> 24) as f32 }),
        Op::v_cvt_f64_i32 => lane_op!(level, |a: i32| -> f64 { f64::from(a) }),
        Op::v_cvt_f64_u32 => lane_op!(level, |a: u32| -> f64 { f64::from(a) }),
        Op::v_cvt_f64_f32 => lane_op!(level, |a: f32| -> f64 { f64::from(a) }),
        Op::v_cvt_i32_f64 => lane_op!(level, |a: f64| -> i32 { f64_to_i32(a) }),
        Op::v_cvt_u32_f64 => lane_op!(level, |a: f64| -> u32 { f64_to_u32(a) }),
        Op::v_cvt_f32_f64 => lane_op!(level, |a: f64| -> f32 { a as f32 }),
        Op::v_cvt_f16_f32 => lane_op!(level, |a: f32| -> F16 { F16(a) }),
        Op::v_cvt_f32_f16 => lane_op!(level, |a: F16| -> f32 { a.0 }),
        Op::v_cvt_f16_u16 => lane_op!(level, |a: u16| -> F16 { F16(f32::from(a)) }),
        Op::v_cvt_f16_i16 => lane_op!(level, |a: i16| -> F16 { F16(f32::from(a)) }),
        Op::v_cvt_u16_f16 => lane_op!(level, |a: F16| -> u16 { f32_to_i32(a.0).clamp(0, 0xffff) as u16 }),
        Op::v_cvt_i16_f16 => {
            lane_op!(level, |a: F16| -> i16 { f32_to_i32(a.0).clamp(-0x8000, 0x7fff) as i16 })
        }
        Op::v_cvt_norm_i16_f16 => lane_op!(level, |a: F16| -> i16 { to_snorm(a.0) }),
        Op::v_cvt_norm_u16_f16 => lane_op!(level, |a: F16| -> u16 { to_unorm(a.0) }),
        Op::v_cvt_f32_fp8 => lane_op!(level, |a: u32| -> f32 { float8::fp8_to_f32(a as u8) }),
        Op::v_cvt_f32_bf8 => lane_op!(level, |a: u32| -> f32 { float8::bf8_to_f32(a as u8) }),
        Op::v_cvt_pk_f32_fp8 => lane_op!(level, |a: u32| -> u64 {
            let (low, high) = (float8::fp8_to_f32(a as u8), float8::fp8_to_f32((a >> 8) as u8));
            u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
        })
        .writing(Kind::PkF32),
        Op::v_cvt_pk_f32_bf8 => lane_op!(level, |a: u32| -> u64 {
            let (low, high) = (float8::bf8_to_f32(a as u8), float8::bf8_to_f32((a >> 8) as u8));
            u64::from(low.to_bits()) | u64::from(high.to_bits()) << 32
        })
        .writing(Kind::PkF32),

        Op::v_trunc_f32 => lane_op!(level, |a: f32| -> f32 { a.trunc() }),
        Op::v_ceil_f32 => lane_op!(level, |a: f32| -> f32 { a.ceil() }),
        Op::v_rndne_f32 => lane_op!(level, |a: f32| -> f32 { a.round_ties_even() }),
        Op::v_floor_f32 => lane_op!(level, |a: f32| -> f32 { a.floor() }),
        Op::v_fract_f32 => lane_op!(level, |a: f32| -> f32 { fract_f32(a) }),
        Op::v_trunc_f64 => lane_op!(level, |a: f64| -> f64 { a.trunc() }),
        Op::v_ceil_f64 => lane_op!(level, |a: f64| -> f64 { a.ceil() }),
        Op::v_rndne_f64 => lane_op!(level, |a: f64| -> f64 { a.round_ties_even() }),
        Op::v_floor_f64 => lane_op!(level, |a: f64| -> f64 { a.floor() }),
        Op::v_fract_f64 => lane_op!(level, |a: f64| -> f64 { fract_f64(a) }),
        Op::v_trunc_f16 => lane_op!(level, |a: F16| -> F16 { F16(a.0.trunc()) }),
        Op::v_ceil_f16 => lane_op!(level, |a: F16| -> F16 { F16(a.0.ceil()) }),
        Op::v_rndne_f16 => lane_op!(level, |a: F16| -> F16 { F16(a.0.round_ties_even()) }),
        Op::v_floor_f16 => lane_op!(level, |a: F16| -> F16 { F16(a.0.floor()) }),
        Op::v_fract_f16 => lane_op!(level, |a: F16| -> F16 {
            // Clamp to the largest f16 below one.
            let fract = a.0 - a.0.floor();
            F16(if fract > 0.999_511_7 { 0.999_511_7 } else { fract })
        }),

        Op::v_exp_f32 | Op::v_exp_legacy_f32 => lane_op!(level, |a: f32| -> f32 { exp2_f32(a) }),
        Op::v_log_f32 | Op::v_log_legacy_f32 => lane_op!(level, |a: f32| -> f32 { log2_f32(a) }),
        Op::v_sin_f32 => lane_op!(level, |a: f32| -> f32 { sin_turns(a) }),
        Op::v_cos_f32 => lane_op!(level, |a: f32| -> f32 { cos_turns(a) }),
        Op::v_rcp_f32 | Op::v_rcp_iflag_f32 => lane_op!(level, |a: f32| -> f32 { 1.0 / a }),
        Op::v_rsq_f32 => lane_op!(level, |a: f32| -> f32 { rsq_f32(a) }),
        Op::v_sqrt_f32 => lane_op!(level, |a: f32| -> f32 { a.sqrt() }),
        Op::v_rcp_f64 => lane_op!(level, |a: f64| -> f64 { 1.0 / a }),
        Op::v_rsq_f64 => lane_op!(level, |a: f64| -> f64 { 1.0 / a.sqrt() }),
        Op::v_sqrt_f64 => lane_op!(level, |a: f64| -> f64 { a.sqrt() }),
        Op::v_exp_f16 => lane_op!(level, |a: F16| -> F16 { F16(exp2_f32(a.0)) }),
        Op::v_log_f16 => lane_op!(level, |a: F16| -> F16 { F16(log2_f32(a.0)) }),
        Op::v_sin_f16 => lane_op!(level, |a: F16| -> F16 { F16(sin_turns(a.0)) }),
        Op::v_cos_f16 => lane_op!(level, |a: F16| -> F16 { F16(cos_turns(a.0)) }),
        Op::v_rcp_f16 => lane_op!(level, |a: F16| -> F16 { F16(1.0 / a.0) }),
        Op::v_rsq_f16 => lane_op!(level, |a: F16| -> F16 { F16(rsq_f32(a.0)) }),
        Op::v_sqrt_f16 => lane_op!(level, |a: F16| -> F16 { F16(a.0.sqrt()) }),

        Op::v_frexp_mant_f32 => lane_op!(level, |a: f32| -> f32 { frexp_mantissa_f32(a) }),
        Op::v_frexp_exp_i32_f32 => lane_op!(level, |a: f32| -> i32 { frexp_exponent_f32(a) }),
        Op::v_frexp_mant_f64 => lane_op!(level, |a: f64| -> f64 { frexp_mantissa_f64(a) }),
        Op::v_frexp_exp_i32_f64 => lane_op!(level, |a: f64| -> i32 { frexp_exponent_f64(a) }),
        Op::v_frexp_mant_f16 => lane_op!(level, |a: F16| -> F16 { F16(frexp_mantissa_f32(a.0)) }),
        Op::v_frexp_exp_i16_f16 => lane_op!(level, |a: F16| -> i16 { frexp_exponent_f32(a.0) as i16 }),
        _ => return None,
    })
}
