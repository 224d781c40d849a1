//! Source and result modifiers: neg, abs, op_sel, omod, clamp.
//!
//! They are applied to a copy of a source in scratch, or to the results before they are stored, so operation bodies ignore them.

use isa::Modifiers;

use crate::exec::lane::op::Kind;
use crate::exec::lane::source::Results;
use crate::exec::math::float::{f32_to_half, half_to_f32, to_half};
use crate::{Lanes, Mode};

/// Returns true if these modifiers change source `n` of this kind.
pub fn modifies(kind: Kind, n: usize, modifiers: &Modifiers) -> bool {
    let set = |mask: u8| mask >> n & 1 == 1;
    match kind {
        Kind::None | Kind::Mask | Kind::B32 | Kind::B64 => false,
        Kind::B16 => set(modifiers.op_sel),
        Kind::F16 => set(modifiers.op_sel) || set(modifiers.neg) || set(modifiers.abs),
        Kind::F32 | Kind::F64 => set(modifiers.neg) || set(modifiers.abs),
        Kind::Pk16 | Kind::PkF16 | Kind::PkF32 => {
            set(modifiers.op_sel) || !set(modifiers.op_sel_hi) || set(modifiers.neg) || set(modifiers.neg_hi)
        }
        Kind::Mix => set(modifiers.op_sel_hi) || set(modifiers.neg) || set(modifiers.abs),
    }
}

/// Applies the modifiers of source `n` to its lanes.
#[inline(always)]
pub fn source(kind: Kind, n: usize, modifiers: &Modifiers, lo: &mut Lanes, hi: &mut Lanes) {
    let set = |mask: u8| mask >> n & 1 == 1;
    let (neg, abs) = (set(modifiers.neg), set(modifiers.abs));
    match kind {
        Kind::None | Kind::Mask | Kind::B32 | Kind::B64 => {}
        Kind::B16 | Kind::F16 => {
            if set(modifiers.op_sel) {
                for value in &mut lo.0 {
                    *value >>= 16;
                }
            }
            if kind == Kind::F16 {
                sign(lo, 0x8000, neg, abs);
            }
        }
        Kind::F32 => sign(lo, 0x8000_0000, neg, abs),
        Kind::F64 => sign(hi, 0x8000_0000, neg, abs),
        Kind::Pk16 | Kind::PkF16 => {
            let low = 16 * u32::from(set(modifiers.op_sel));
            let high = 16 * u32::from(set(modifiers.op_sel_hi));
            let flip = if kind == Kind::PkF16 {
                u32::from(neg) << 15 | u32::from(set(modifiers.neg_hi)) << 31
            } else {
                0
            };
            for value in &mut lo.0 {
                *value = (*value >> low & 0xffff | (*value >> high) << 16) ^ flip;
            }
        }
        Kind::PkF32 => {
            let (old_lo, old_hi) = (*lo, *hi);
            *lo = if set(modifiers.op_sel) { old_hi } else { old_lo };
            *hi = if set(modifiers.op_sel_hi) { old_hi } else { old_lo };
            sign(lo, 0x8000_0000, neg, false);
            sign(hi, 0x8000_0000, set(modifiers.neg_hi), false);
        }
        Kind::Mix => {
            if set(modifiers.op_sel_hi) {
                let shift = 16 * u32::from(set(modifiers.op_sel));
                for value in &mut lo.0 {
                    *value = half_to_f32(*value >> shift).to_bits();
                }
            }
            sign(lo, 0x8000_0000, neg, abs);
        }
    }
}

#[inline(always)]
fn sign(lanes: &mut Lanes, bit: u32, neg: bool, abs: bool) {
    let clear = if abs { bit } else { 0 };
    let flip = if neg { bit } else { 0 };
    for value in &mut lanes.0 {
        *value = *value & !clear ^ flip;
    }
}

/// Applies omod and the float clamp to the results.
///
/// The hardware ignores omod in IEEE mode and if MODE keeps subnormal results.
#[inline(always)]
pub fn result(kind: Kind, modifiers: &Modifiers, mode: &Mode, results: &mut Results) {
    let denormals = if matches!(kind, Kind::F32 | Kind::PkF32) { mode.denorm_f32 } else { mode.denorm_f64 };
    let scale = modifiers.omod != 0 && !mode.ieee && denormals & 2 == 0;
    let factor = if scale { [1.0, 2.0, 4.0, 0.5][usize::from(modifiers.omod & 3)] } else { 1.0 };
    let (clamp, nan_is_zero) = (modifiers.clamp, mode.dx10_clamp);
    if !scale && !clamp {
        return;
    }
    match kind {
        Kind::F32 => {
            for value in &mut results.lo.0 {
                *value = finish(f32::from_bits(*value), factor, clamp, nan_is_zero).to_bits();
            }
        }
        Kind::PkF32 => {
            for value in results.lo.0.iter_mut().chain(&mut results.hi.0) {
                *value = finish(f32::from_bits(*value), factor, clamp, nan_is_zero).to_bits();
            }
        }
        Kind::F16 => {
            for value in &mut results.lo.0 {
                *value = finish_f16(*value, factor, clamp, mode);
            }
        }
        Kind::PkF16 => {
            for value in &mut results.lo.0 {
                let low = finish_f16(*value, factor, clamp, mode);
                let high = finish_f16(*value >> 16, factor, clamp, mode);
                *value = low | high << 16;
            }
        }
        Kind::F64 => {
            for lane in 0..64 {
                let bits = u64::from(results.lo.0[lane]) | u64::from(results.hi.0[lane]) << 32;
                let mut value = f64::from_bits(bits);
                if scale {
                    value *= f64::from(factor);
                    value = if value.abs() < f64::MIN_POSITIVE { 0.0 } else { value };
                }
                if clamp {
                    value = if value.is_nan() && nan_is_zero { 0.0 } else { clamp_f64(value) };
                }
                results.lo.0[lane] = value.to_bits() as u32;
                results.hi.0[lane] = (value.to_bits() >> 32) as u32;
            }
        }
        _ => {}
    }
}

#[inline(always)]
fn finish(value: f32, factor: f32, clamp: bool, nan_is_zero: bool) -> f32 {
    let value = if factor == 1.0 {
        value
    } else {
        // Output scaling flushes subnormals and drops the sign of zeros.
        let product = value * factor;
        if product.abs() < f32::MIN_POSITIVE { 0.0 } else { product }
    };
    if !clamp {
        value
    } else if value.is_nan() {
        if nan_is_zero { 0.0 } else { value }
    } else if value > 1.0 {
        1.0
    } else if value > 0.0 {
        value
    } else {
        0.0
    }
}

#[inline(always)]
fn finish_f16(bits: u32, factor: f32, clamp: bool, mode: &Mode) -> u32 {
    let value = finish(half_to_f32(bits), factor, clamp, mode.dx10_clamp);
    let half = if mode.round_f64 == 0 { f32_to_half(value) } else { to_half(value.into(), mode.round_f64) };
    let half = if factor != 1.0 && half & 0x7c00 == 0 { 0 } else { half };
    // A finite f16 overflowed.
    let overflows = mode.fp16_ovfl && half & 0x7fff == 0x7c00 && bits & 0x7fff != 0x7c00;
    if overflows { half - 1 } else { half }
}

#[inline(always)]
fn clamp_f64(value: f64) -> f64 {
    if value > 1.0 {
        1.0
    } else if value > 0.0 || value.is_nan() {
        value
    } else {
        0.0
    }
}
