//! f16 operations under directed rounding or FP16_OVFL.
//!
//! The vector lane loops compute f16 in f32 and round once to nearest even. Here each lane is computed in f64 with the directed
//! rounding of MODE; rounding the result to f16 in the same direction then gives the correctly rounded value. Slow, but rarely
//! needed.

use isa::{DataType, Flags, Op};

use super::mode::with_rounding;
use crate::Mode;
use crate::exec::lane::op::{Kind, Shape};
use crate::exec::lane::source::{Results, Sources};
use crate::exec::math::float::{f32_to_half, half_to_f32, to_half};

/// Returns true if this MODE requires [`run`] instead of the lane loop.
pub fn wanted(op: Op, mode: &Mode) -> bool {
    (mode.round_f64 != 0 || mode.round_f32 != 0 && is_mix(op)) && op.rounds() && is_half(op)
}

/// Returns true if the result is one f16, or two.
fn is_half(op: Op) -> bool {
    matches!(op.encoding().dst, DataType::F16 | DataType::F16x2)
}

fn is_mix(op: Op) -> bool {
    op.encoding().flags.has(Flags::MIX)
}

/// Computes all lanes of an operation for which [`wanted`] returned true.
pub fn run(op: Op, sources: &Sources<'_>, results: &mut Results) {
    let Some(compute) = compute(op) else { return };
    let rounding = sources.mode.round_f64;
    let packed = op.encoding().dst == DataType::F16x2;
    let mix = is_mix(op);
    for lane in 0..64 {
        let source = |n: usize, half: u32| {
            let bits = sources.lo[n].0[lane];
            match op.encoding().src[n] {
                DataType::F32 => f64::from(f32::from_bits(bits)),
                DataType::U16 => f64::from(bits as u16),
                DataType::I16 => f64::from(bits as i16),
                _ => f64::from(half_to_f32(bits >> (16 * half))),
            }
        };
        let half = |part: u32| {
            let mut value = 0.0;
            if mix {
                let [a, b, c] = [0, 1, 2].map(|n| f32::from_bits(sources.lo[n].0[lane]));
                let mut sum = 0.0_f32;
                with_rounding(sources.mode.round_f32, || sum = std::hint::black_box(a).mul_add(b, c));
                value = f64::from(sum);
            } else {
                let [a, b, c] = [0, 1, 2].map(|n| source(n, part));
                with_rounding(rounding, || value = compute([std::hint::black_box(a), b, c], rounding));
            }
            if rounding == 0 { f32_to_half(value as f32) } else { to_half(value, rounding) }
        };
        results.lo.0[lane] = if packed { half(0) | half(1) << 16 } else { half(0) };
    }
}

/// Applies FP16_OVFL: clamps f16 overflow to the largest finite value, but keeps infinities that come from an infinite source or
/// a pole.
pub fn saturate(op: Op, shape: Shape, sources: &Sources<'_>, results: &mut Results) {
    let halves: u32 = match shape.dst {
        Kind::F16 => 1,
        Kind::PkF16 => 2,
        _ => return,
    };
    if op.has_pole() {
        return;
    }
    for lane in 0..64 {
        let infinite = |n: usize, half: u32| {
            let bits = sources.lo[n].0[lane];
            match shape.src[n] {
                Kind::F32 | Kind::Mix => bits & 0x7fff_ffff == 0x7f80_0000,
                Kind::F16 => bits & 0x7fff == 0x7c00,
                Kind::PkF16 => bits >> (16 * half) & 0x7fff == 0x7c00,
                _ => false,
            }
        };
        for half in 0..halves {
            let shift = 16 * half;
            // Each source of `v_cvt_pkrtz` produces one half of the result.
            let own = if op == Op::v_cvt_pkrtz_f16_f32 { half as usize..half as usize + 1 } else { 0..3 };
            let overflows = results.lo.0[lane] >> shift & 0x7fff == 0x7c00;
            if overflows && !own.clone().any(|n| infinite(n, half)) {
                results.lo.0[lane] -= 1 << shift;
            }
        }
    }
}

type Compute = fn([f64; 3], u8) -> f64;

/// The arithmetic of an operation in f64, exact or rounded in the current direction. Products of f16 values are exact.
fn compute(op: Op) -> Option<Compute> {
    Some(match op {
        Op::v_add_f16 | Op::v_pk_add_f16 => |[a, b, _], _| a + b,
        Op::v_sub_f16 => |[a, b, _], _| a - b,
        Op::v_subrev_f16 => |[a, b, _], _| b - a,
        Op::v_mul_f16 | Op::v_pk_mul_f16 => |[a, b, _], _| a * b,
        Op::v_fma_f16 | Op::v_fma_legacy_f16 | Op::v_pk_fma_f16 | Op::v_pk_fmac_f16 => {
            |[a, b, c], _| a * b + c
        }
        Op::v_mad_f16 | Op::v_mad_legacy_f16 | Op::v_mac_f16 | Op::v_madak_f16 | Op::v_madmk_f16 => {
            |[a, b, c], rounding| f64::from(half_to_f32(to_half(a * b, rounding))) + c
        }
        Op::v_ldexp_f16 => |[a, b, _], _| a * f64::exp2(b.clamp(-80.0, 80.0)),
        Op::v_fract_f16 => |[a, ..], _| {
            let fract = a - a.floor();
            if fract > 0.999_511_718_75 { 0.999_511_718_75 } else { fract }
        },
        Op::v_cvt_f16_f32 | Op::v_cvt_f16_u16 | Op::v_cvt_f16_i16 => |[a, ..], _| a,
        // Rounded to f32 first, with `round_f32`: see `run`.
        Op::v_fma_mixlo_f16 | Op::v_fma_mixhi_f16 => |[a, ..], _| a,
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_that_is_rounded_has_its_arithmetic_here() {
        for &op in Op::ALL {
            assert_eq!(compute(op).is_some(), op.rounds() && is_half(op), "{}", op.name());
        }
    }
}
