//! VOP3: vector operations with up to three sources, and the 64-bit encodings of VOP1, VOP2 and VOPC.

use isa::{Inst, Op};

use crate::compile::{Compiler, Unsupported};
use crate::exec::format::vop1::{to_snorm, to_unorm};
use crate::exec::format::{vop1, vop2, vopc};
use crate::exec::lane::body::{assemble, assemble_byte, saturates};
use crate::exec::lane::op::{Bit, F16, F16Bits, Kind, Operation, lane_op};
use crate::exec::lane::{byte_sum, cross_lane, hot};
use crate::exec::math::division::{fixup_f32, fixup_f64, fmas_f32, fmas_f64, scale_f32, scale_f64};
use crate::exec::math::float::{
    f32_to_f16_toward_zero, flush, fma_f16, ldexp_f32, ldexp_f64, mad_f16, mad_f32, max_f32, max_f64,
    med3_f32, min_f32, min_f64, trig_preop_f64,
};
use crate::exec::math::integer::{saturate_i32, sign_extend_24};
use crate::exec::math::{cube, float8};
use crate::{Level, Uop};

pub fn compile(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    match inst.op {
        Op::v_readlane_b32 => return cross_lane::readlane(c, inst, index),
        Op::v_writelane_b32 => return cross_lane::writelane(c, inst, index),
        Op::v_nop | Op::v_clrexcp | Op::v_readfirstlane_b32 | Op::v_swap_b32 => {
            return vop1::compile(c, inst, index);
        }
        Op::v_mqsad_u32_u8 => return byte_sum::mqsad_u32_u8(c, inst, index),
        Op::v_cvt_sr_fp8_f32 => {
            let operation = lane_op!(c.level, mode m, |a: f32, b: u32| -> u16 {
                u16::from(float8::f32_to_fp8_stochastic(a, b, m.fp16_ovfl))
            });
            return assemble_byte(c, inst, index, operation);
        }
        Op::v_cvt_sr_bf8_f32 => {
            let operation = lane_op!(c.level, mode m, |a: f32, b: u32| -> u16 {
                u16::from(float8::f32_to_bf8_stochastic(a, b, m.fp16_ovfl))
            });
            return assemble_byte(c, inst, index, operation);
        }
        _ => {}
    }
    if vopc::operation(inst.op, c.level).is_some() {
        return vopc::compile(c, inst, index);
    }
    let saturates = saturates(inst);
    let operation = operation(inst.op, c.level, saturates)
        .or_else(|| vop2::operation(inst.op, c.level, saturates))
        .or_else(|| vop1::operation(inst.op, c.level));
    assemble(c, inst, index, operation.ok_or(Unsupported::Instruction(inst.op.name()))?)
}

/// Extracts `bits` bits of `value` starting at bit `offset`.
#[inline(always)]
fn extract(value: u32, offset: u32, bits: u32) -> u32 {
    value >> (offset & 31) & ((1 << (bits & 31)) - 1)
}

#[inline(always)]
fn extract_signed(value: u32, offset: u32, bits: u32) -> i32 {
    let (offset, bits) = (offset & 31, bits & 31);
    let field = extract(value, offset, bits);
    // A field that extends past bit 31 takes the sign of the value.
    let sign = if bits == 0 {
        0
    } else if offset + bits >= 32 {
        value >> 31
    } else {
        field >> (bits - 1) & 1
    };
    let bits = if offset + bits > 32 { 32 - offset } else { bits };
    let above = if bits == 0 { 0 } else { (!0_u32).wrapping_shl(bits) };
    (field | if sign == 1 { above } else { 0 }) as i32
}

/// Selects one of eight bytes, a replicated sign, or a constant (0 or 0xff), as `v_perm_b32` does.
#[inline(always)]
fn permute_byte(high: u32, low: u32, select: u32) -> u32 {
    let select = select & 0xff;
    let word = if select & 4 == 0 { low } else { high };
    let byte = word >> (8 * (select & 3)) & 0xff;
    let signed = if select & 2 == 0 { low } else { high };
    let sign = (signed >> (15 + 16 * (select & 1)) & 1) * 0xff;
    if select < 8 {
        byte
    } else if select < 12 {
        sign
    } else if select == 12 {
        0
    } else {
        0xff
    }
}

#[inline(always)]
fn permute(high: u32, low: u32, select: u32) -> u32 {
    permute_byte(high, low, select)
        | permute_byte(high, low, select >> 8) << 8
        | permute_byte(high, low, select >> 16) << 16
        | permute_byte(high, low, select >> 24) << 24
}

/// Multiply-add; the flag is bit 64 of the result.
#[inline(always)]
fn mad_u64(a: u32, b: u32, c: u64) -> (u64, Bit) {
    let (sum, over) = (u64::from(a) * u64::from(b)).overflowing_add(c);
    (sum, over.into())
}

#[inline(always)]
fn mad_i64(a: i32, b: i32, c: i64) -> (i64, Bit) {
    let (sum, over) = (i64::from(a) * i64::from(b)).overflowing_add(c);
    (sum, (over != (sum < 0)).into())
}

/// Converts `value` to an unsigned byte and inserts it as byte `place` of `old`.
#[inline(always)]
fn insert_u8(value: f32, place: u32, old: u32) -> u32 {
    let shift = 8 * (place & 3);
    old & !(0xff << shift) | u32::from(value as u8) << shift
}

#[inline(always)]
fn med3<T: Ord + Copy>(a: T, b: T, c: T) -> T {
    a.min(b).max(a.max(b).min(c))
}

/// `v_div_fixup_f16`, on f16 values held as f32.
#[inline(always)]
fn fixup_f16(quotient: f32, denominator: f32, numerator: f32) -> f32 {
    fixup_f32(quotient, denominator, numerator)
}

fn saturating_mad_u16(level: Level) -> Operation {
    lane_op!(level, |a: u16, b: u16, c: u16| -> u16 {
        (u32::from(a) * u32::from(b)).saturating_add(u32::from(c)).min(0xffff) as u16
    })
}

fn saturating_mad_i16(level: Level) -> Operation {
    lane_op!(level, |a: i16, b: i16, c: i16| -> i16 {
        (i32::from(a) * i32::from(b)).saturating_add(i32::from(c)).clamp(-0x8000, 0x7fff) as i16
    })
}

/// The body of an operation that exists only in the 64-bit encoding. With `saturates`, that of the clamped form of an integer
/// operation.
pub fn operation(op: Op, level: Level, saturates: bool) -> Option<Operation> {
    Some(match op {
        Op::v_fma_f32 => {
            lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { a.mul_add(b, c) }).hot(hot::fma_f32(level))
        }
        Op::v_mad_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { mad_f32(a, b, c) }),
        Op::v_mad_legacy_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 {
            if flush(a) == 0.0 || flush(b) == 0.0 { mad_f32(0.0, 0.0, c) } else { mad_f32(a, b, c) }
        }),
        Op::v_fma_f64 => lane_op!(level, |a: f64, b: f64, c: f64| -> f64 { a.mul_add(b, c) }),
        Op::v_add_f64 => lane_op!(level, |a: f64, b: f64| -> f64 { a + b }),
        Op::v_mul_f64 => lane_op!(level, |a: f64, b: f64| -> f64 { a * b }),
        Op::v_min_f64 => lane_op!(level, mode m, |a: f64, b: f64| -> f64 { min_f64(a, b, m.ieee) }),
        Op::v_max_f64 => lane_op!(level, mode m, |a: f64, b: f64| -> f64 { max_f64(a, b, m.ieee) }),
        Op::v_ldexp_f64 => lane_op!(level, |a: f64, b: i32| -> f64 { ldexp_f64(a, b) }),
        Op::v_ldexp_f32 => lane_op!(level, |a: f32, b: i32| -> f32 { ldexp_f32(a, b) }),
        Op::v_min3_f32 => {
            lane_op!(level, mode m, |a: f32, b: f32, c: f32| -> f32 { min_f32(min_f32(a, b, m.ieee), c, m.ieee) })
        }
        Op::v_max3_f32 => {
            lane_op!(level, mode m, |a: f32, b: f32, c: f32| -> f32 { max_f32(max_f32(a, b, m.ieee), c, m.ieee) })
        }
        Op::v_med3_f32 => {
            lane_op!(level, mode m, |a: f32, b: f32, c: f32| -> f32 { med3_f32(a, b, c, m.ieee) })
        }

        Op::v_div_scale_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> (f32, Bit) {
            let (value, scaled) = scale_f32(a, b, c);
            (value, scaled.into())
        }),
        Op::v_div_scale_f64 => lane_op!(level, |a: f64, b: f64, c: f64| -> (f64, Bit) {
            let (value, scaled) = scale_f64(a, b, c);
            (value, scaled.into())
        }),
        Op::v_div_fmas_f32 => {
            lane_op!(level, vcc v, |a: f32, b: f32, c: f32| -> f32 { fmas_f32(a, b, c, v) })
        }
        Op::v_div_fmas_f64 => {
            lane_op!(level, vcc v, |a: f64, b: f64, c: f64| -> f64 { fmas_f64(a, b, c, v) })
        }
        Op::v_div_fixup_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { fixup_f32(a, b, c) }),
        Op::v_div_fixup_f64 => lane_op!(level, |a: f64, b: f64, c: f64| -> f64 { fixup_f64(a, b, c) }),
        Op::v_div_fixup_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(fixup_f16(a.0, b.0, c.0)) }).preserving()
        }
        Op::v_div_fixup_legacy_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(fixup_f16(a.0, b.0, c.0)) })
        }
        Op::v_trig_preop_f64 => lane_op!(level, |a: f64, b: u32| -> f64 { trig_preop_f64(a, b) }),

        Op::v_fma_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(fma_f16(a.0, b.0, c.0)) }).preserving()
        }
        Op::v_fma_legacy_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(fma_f16(a.0, b.0, c.0)) })
        }
        Op::v_mad_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(mad_f16(a.0, b.0, c.0)) }).preserving()
        }
        Op::v_mad_legacy_f16 => {
            lane_op!(level, |a: F16, b: F16, c: F16| -> F16 { F16(mad_f16(a.0, b.0, c.0)) })
        }
        Op::v_min3_f16 => lane_op!(level, mode m, |a: F16, b: F16, c: F16| -> F16 {
            F16(min_f32(min_f32(a.0, b.0, m.ieee), c.0, m.ieee))
        })
        .preserving(),
        Op::v_max3_f16 => lane_op!(level, mode m, |a: F16, b: F16, c: F16| -> F16 {
            F16(max_f32(max_f32(a.0, b.0, m.ieee), c.0, m.ieee))
        })
        .preserving(),
        Op::v_med3_f16 => {
            lane_op!(level, mode m, |a: F16, b: F16, c: F16| -> F16 { F16(med3_f32(a.0, b.0, c.0, m.ieee)) })
                .preserving()
        }
        Op::v_pack_b32_f16 => {
            lane_op!(level, |a: F16Bits, b: F16Bits| -> u32 { u32::from(a.0) | u32::from(b.0) << 16 })
                .bitwise()
        }

        Op::v_mul_lo_u32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.wrapping_mul(b) }),
        Op::v_mul_hi_u32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { ((u64::from(a) * u64::from(b)) >> 32) as u32 })
        }
        Op::v_mul_hi_i32 => {
            lane_op!(level, |a: i32, b: i32| -> i32 { ((i64::from(a) * i64::from(b)) >> 32) as i32 })
        }
        Op::v_mad_i32_i24 if saturates => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 {
            saturate_i32(i64::from(sign_extend_24(a)) * i64::from(sign_extend_24(b)) + i64::from(c))
        }),
        Op::v_mad_i32_i24 => lane_op!(level, |a: u32, b: u32, c: i32| -> i32 {
            sign_extend_24(a).wrapping_mul(sign_extend_24(b)).wrapping_add(c)
        }),
        Op::v_mad_u32_u24 if saturates => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (u64::from(a & 0xff_ffff) * u64::from(b & 0xff_ffff) + u64::from(c)).min(u64::from(u32::MAX))
                as u32
        }),
        Op::v_mad_u32_u24 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (a & 0xff_ffff).wrapping_mul(b & 0xff_ffff).wrapping_add(c)
        }),
        Op::v_mad_u32_u16 if saturates => lane_op!(level, |a: u16, b: u16, c: u32| -> u32 {
            (u32::from(a) * u32::from(b)).saturating_add(c)
        }),
        Op::v_mad_u32_u16 => {
            lane_op!(level, |a: u16, b: u16, c: u32| -> u32 { (u32::from(a) * u32::from(b)).wrapping_add(c) })
        }
        Op::v_mad_i32_i16 if saturates => lane_op!(level, |a: i16, b: i16, c: i32| -> i32 {
            (i32::from(a) * i32::from(b)).saturating_add(c)
        }),
        Op::v_mad_i32_i16 => {
            lane_op!(level, |a: i16, b: i16, c: i32| -> i32 { (i32::from(a) * i32::from(b)).wrapping_add(c) })
        }
        Op::v_mad_u16 if saturates => saturating_mad_u16(level).preserving(),
        Op::v_mad_u16 => {
            lane_op!(level, |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) })
                .preserving()
        }
        Op::v_mad_i16 if saturates => saturating_mad_i16(level).preserving(),
        Op::v_mad_i16 => {
            lane_op!(level, |a: i16, b: i16, c: i16| -> i16 { a.wrapping_mul(b).wrapping_add(c) })
                .preserving()
        }
        Op::v_mad_legacy_u16 if saturates => saturating_mad_u16(level),
        Op::v_mad_legacy_i16 if saturates => saturating_mad_i16(level),
        Op::v_mad_legacy_u16 | Op::v_mad_legacy_i16 => {
            lane_op!(level, |a: u16, b: u16, c: u16| -> u16 { a.wrapping_mul(b).wrapping_add(c) })
        }
        Op::v_mad_u64_u32 if saturates => lane_op!(level, |a: u32, b: u32, c: u64| -> (u64, Bit) {
            let (sum, over) = (u64::from(a) * u64::from(b)).overflowing_add(c);
            (if over { u64::MAX } else { sum }, over.into())
        }),
        Op::v_mad_u64_u32 => lane_op!(level, |a: u32, b: u32, c: u64| -> (u64, Bit) { mad_u64(a, b, c) }),
        Op::v_mad_i64_i32 if saturates => lane_op!(level, |a: i32, b: i32, c: i64| -> (i64, Bit) {
            let product = i64::from(a) * i64::from(b);
            let (sum, over) = product.overflowing_add(c);
            (product.saturating_add(c), (over != (sum < 0)).into())
        }),
        Op::v_mad_i64_i32 => lane_op!(level, |a: i32, b: i32, c: i64| -> (i64, Bit) { mad_i64(a, b, c) }),

        Op::v_add_i32 if saturates => lane_op!(level, |a: i32, b: i32| -> i32 { a.saturating_add(b) }),
        Op::v_add_i32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { a.wrapping_add(b) }).hot(hot::add_u32(level))
        }
        Op::v_sub_i32 if saturates => lane_op!(level, |a: i32, b: i32| -> i32 { a.saturating_sub(b) }),
        Op::v_sub_i32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { a.wrapping_sub(b) }).hot(hot::sub_u32(level))
        }
        Op::v_add_i16 if saturates => {
            lane_op!(level, |a: i16, b: i16| -> i16 { a.saturating_add(b) }).preserving()
        }
        Op::v_add_i16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.wrapping_add(b) }).preserving(),
        Op::v_sub_i16 if saturates => {
            lane_op!(level, |a: i16, b: i16| -> i16 { a.saturating_sub(b) }).preserving()
        }
        Op::v_sub_i16 => lane_op!(level, |a: u16, b: u16| -> u16 { a.wrapping_sub(b) }).preserving(),
        Op::v_add3_u32 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b).wrapping_add(c) })
                .hot(hot::add3_u32(level))
        }
        Op::v_xad_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { (a ^ b).wrapping_add(c) }),
        Op::v_add_lshl_u32 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.wrapping_add(b) << (c & 31) })
                .hot(hot::add_shift(level))
        }
        Op::v_lshl_add_u32 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { (a << (b & 31)).wrapping_add(c) })
                .hot(hot::shift_add(level))
        }
        Op::v_lshl_add_u64 => {
            lane_op!(level, |a: u64, b: u32, c: u64| -> u64 { (a << (b & 7)).wrapping_add(c) })
        }
        Op::v_lshl_or_b32 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a << (b & 31) | c }).hot(hot::shift_or(level))
        }
        Op::v_and_or_b32 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a & b | c }).hot(hot::and_or(level))
        }
        Op::v_or3_b32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a | b | c }),
        Op::v_bfe_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { extract(a, b, c) }),
        Op::v_bfe_i32 => lane_op!(level, |a: u32, b: u32, c: u32| -> i32 { extract_signed(a, b, c) }),
        Op::v_bfi_b32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a & b | !a & c }),
        Op::v_bfm_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { ((1_u32 << (a & 31)) - 1) << (b & 31) }),
        Op::v_alignbit_b32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (c & 31)) as u32
        }),
        Op::v_alignbyte_b32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            ((u64::from(a) << 32 | u64::from(b)) >> (8 * (c & 3))) as u32
        }),
        Op::v_perm_b32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { permute(a, b, c) }),
        Op::v_lshlrev_b64 => lane_op!(level, |a: u32, b: u64| -> u64 { b << (a & 63) }),
        Op::v_lshrrev_b64 => lane_op!(level, |a: u32, b: u64| -> u64 { b >> (a & 63) }),
        Op::v_ashrrev_i64 => lane_op!(level, |a: u32, b: i64| -> i64 { b >> (a & 63) }),
        Op::v_bcnt_u32_b32 => lane_op!(level, |a: u32, b: u32| -> u32 { a.count_ones().wrapping_add(b) }),
        Op::v_mbcnt_lo_u32_b32 => lane_op!(level, lane i, |a: u32, b: u32| -> u32 {
            let below = if i < 32 { (1_u32 << (i & 31)) - 1 } else { !0 };
            (a & below).count_ones().wrapping_add(b)
        }),
        Op::v_mbcnt_hi_u32_b32 => lane_op!(level, lane i, |a: u32, b: u32| -> u32 {
            let below = if i < 32 { 0 } else { (1_u32 << (i & 31)) - 1 };
            (a & below).count_ones().wrapping_add(b)
        }),

        Op::v_min3_i32 => lane_op!(level, |a: i32, b: i32, c: i32| -> i32 { a.min(b).min(c) }),
        Op::v_max3_i32 => lane_op!(level, |a: i32, b: i32, c: i32| -> i32 { a.max(b).max(c) }),
        Op::v_med3_i32 => lane_op!(level, |a: i32, b: i32, c: i32| -> i32 { med3(a, b, c) }),
        Op::v_min3_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.min(b).min(c) }),
        Op::v_max3_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.max(b).max(c) }),
        Op::v_med3_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { med3(a, b, c) }),
        Op::v_min3_i16 => lane_op!(level, |a: i16, b: i16, c: i16| -> i16 { a.min(b).min(c) }).preserving(),
        Op::v_max3_i16 => lane_op!(level, |a: i16, b: i16, c: i16| -> i16 { a.max(b).max(c) }).preserving(),
        Op::v_med3_i16 => lane_op!(level, |a: i16, b: i16, c: i16| -> i16 { med3(a, b, c) }).preserving(),
        Op::v_min3_u16 => lane_op!(level, |a: u16, b: u16, c: u16| -> u16 { a.min(b).min(c) }).preserving(),
        Op::v_max3_u16 => lane_op!(level, |a: u16, b: u16, c: u16| -> u16 { a.max(b).max(c) }).preserving(),
        Op::v_med3_u16 => lane_op!(level, |a: u16, b: u16, c: u16| -> u16 { med3(a, b, c) }).preserving(),

        Op::v_cvt_pkrtz_f16_f32 => lane_op!(level, |a: f32, b: f32| -> u32 {
            u32::from(f32_to_f16_toward_zero(a)) | u32::from(f32_to_f16_toward_zero(b)) << 16
        })
        .writing(Kind::PkF16),
        Op::v_cvt_pknorm_i16_f32 => lane_op!(level, |a: f32, b: f32| -> u32 {
            u32::from(to_snorm(a) as u16) | u32::from(to_snorm(b) as u16) << 16
        }),
        Op::v_cvt_pknorm_u16_f32 => {
            lane_op!(level, |a: f32, b: f32| -> u32 { u32::from(to_unorm(a)) | u32::from(to_unorm(b)) << 16 })
        }
        Op::v_cvt_pknorm_i16_f16 => lane_op!(level, |a: F16, b: F16| -> u32 {
            u32::from(to_snorm(a.0) as u16) | u32::from(to_snorm(b.0) as u16) << 16
        }),
        Op::v_cvt_pknorm_u16_f16 => {
            lane_op!(level, |a: F16, b: F16| -> u32 {
                u32::from(to_unorm(a.0)) | u32::from(to_unorm(b.0)) << 16
            })
        }
        Op::v_cvt_pk_u16_u32 => {
            lane_op!(level, |a: u32, b: u32| -> u32 { a.min(0xffff) | b.min(0xffff) << 16 })
        }
        Op::v_cvt_pk_i16_i32 => lane_op!(level, |a: i32, b: i32| -> u32 {
            a.clamp(-0x8000, 0x7fff) as u32 & 0xffff | (b.clamp(-0x8000, 0x7fff) as u32) << 16
        }),
        Op::v_cvt_pk_u8_f32 => lane_op!(level, |a: f32, b: u32, c: u32| -> u32 { insert_u8(a, b, c) }),
        Op::v_cvt_pkaccum_u8_f32 => {
            lane_op!(level, |a: f32, b: u32, c: u32| -> u32 { insert_u8(a, b, c) }).accumulating()
        }
        Op::v_cvt_pk_fp8_f32 => lane_op!(level, mode m, |a: f32, b: f32| -> u16 {
            u16::from(float8::f32_to_fp8(a, m.fp16_ovfl)) | u16::from(float8::f32_to_fp8(b, m.fp16_ovfl)) << 8
        })
        .preserving(),
        Op::v_cvt_pk_bf8_f32 => lane_op!(level, mode m, |a: f32, b: f32| -> u16 {
            u16::from(float8::f32_to_bf8(a, m.fp16_ovfl)) | u16::from(float8::f32_to_bf8(b, m.fp16_ovfl)) << 8
        })
        .preserving(),

        Op::v_sad_u8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::sad(a, b).saturating_add(c) })
        }
        Op::v_sad_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::sad(a, b).wrapping_add(c) })
        }
        Op::v_sad_hi_u8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { (byte_sum::sad(a, b) << 16).saturating_add(c) })
        }
        Op::v_sad_hi_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { (byte_sum::sad(a, b) << 16).wrapping_add(c) })
        }
        Op::v_sad_u16 if saturates => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).saturating_add(c)
        }),
        Op::v_sad_u16 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 {
            (a & 0xffff).abs_diff(b & 0xffff).wrapping_add((a >> 16).abs_diff(b >> 16)).wrapping_add(c)
        }),
        Op::v_sad_u32 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).saturating_add(c) })
        }
        Op::v_sad_u32 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { a.abs_diff(b).wrapping_add(c) }),
        Op::v_msad_u8 if saturates => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::masked_sad(a, b).saturating_add(c) })
        }
        Op::v_msad_u8 => {
            lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::masked_sad(a, b).wrapping_add(c) })
        }
        Op::v_qsad_pk_u16_u8 if saturates => lane_op!(level, |a: u64, b: u32, c: u64| -> u64 {
            byte_sum::sliding_saturated(a, b, c, byte_sum::sad)
        }),
        Op::v_qsad_pk_u16_u8 => {
            lane_op!(level, |a: u64, b: u32, c: u64| -> u64 { byte_sum::sliding(a, b, c, byte_sum::sad) })
        }
        Op::v_mqsad_pk_u16_u8 if saturates => lane_op!(level, |a: u64, b: u32, c: u64| -> u64 {
            byte_sum::sliding_saturated(a, b, c, byte_sum::masked_sad)
        }),
        Op::v_mqsad_pk_u16_u8 => {
            lane_op!(level, |a: u64, b: u32, c: u64| -> u64 {
                byte_sum::sliding(a, b, c, byte_sum::masked_sad)
            })
        }
        Op::v_lerp_u8 => lane_op!(level, |a: u32, b: u32, c: u32| -> u32 { byte_sum::lerp(a, b, c) }),

        Op::v_cubeid_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { cube::face(a, b, c) }),
        Op::v_cubesc_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { cube::s(a, b, c) }),
        Op::v_cubetc_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { cube::t(a, b, c) }),
        Op::v_cubema_f32 => lane_op!(level, |a: f32, b: f32, c: f32| -> f32 { cube::major(a, b, c) }),
        _ => return None,
    })
}
