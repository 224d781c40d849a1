//! Non-default MODE settings: subnormal flushing and directed rounding.

use crate::exec::lane::op::{Kind, Shape};
use crate::exec::lane::source::Results;
use crate::{Lanes, Mode};

/// The MODE rounding field that applies to an operation: `round_f32` for f32 operations, else `round_f64`, which also covers f16
/// and conversions from f64.
pub fn rounding(shape: Shape, mode: &Mode) -> u8 {
    match shape.dst {
        Kind::F32 | Kind::PkF32 if shape.src[0] != Kind::F64 => mode.round_f32,
        _ => mode.round_f64,
    }
}

/// The MODE rounding field that applies to output scaling (omod) of a result of this kind.
pub fn scaling(kind: Kind, mode: &Mode) -> u8 {
    if matches!(kind, Kind::F32 | Kind::PkF32) { mode.round_f32 } else { mode.round_f64 }
}

/// Flushes subnormal sources if MODE says so.
pub fn flush_source(kind: Kind, mode: &Mode, lo: &mut Lanes, hi: &mut Lanes) {
    flush(kind, mode.denorm_f32 & 1 == 0, mode.denorm_f64 & 1 == 0, lo, hi);
}

/// Flushes subnormal results if MODE says so.
pub fn flush_result(kind: Kind, mode: &Mode, results: &mut Results) {
    flush(kind, mode.denorm_f32 & 2 == 0, mode.denorm_f64 & 2 == 0, &mut results.lo, &mut results.hi);
}

fn flush(kind: Kind, flush_f32: bool, flush_others: bool, lo: &mut Lanes, hi: &mut Lanes) {
    let dword = |value: &mut u32| {
        if *value & 0x7f80_0000 == 0 {
            *value &= 0x8000_0000;
        }
    };
    let half = |value: &mut u32, shift: u32| {
        if *value >> shift & 0x7c00 == 0 {
            *value &= !(0x3ff << shift);
        }
    };
    match kind {
        Kind::F32 | Kind::Mix if flush_f32 => lo.0.iter_mut().for_each(dword),
        Kind::PkF32 if flush_f32 => lo.0.iter_mut().chain(&mut hi.0).for_each(dword),
        Kind::F16 if flush_others => lo.0.iter_mut().for_each(|value| half(value, 0)),
        Kind::PkF16 if flush_others => lo.0.iter_mut().for_each(|value| {
            half(value, 0);
            half(value, 16);
        }),
        Kind::F64 if flush_others => {
            for (lo, hi) in lo.0.iter_mut().zip(&mut hi.0) {
                if *hi & 0x7ff0_0000 == 0 {
                    (*lo, *hi) = (0, *hi & 0x8000_0000);
                }
            }
        }
        _ => {}
    }
}

/// Runs `body` with the host's rounding mode set to a MODE rounding field: 0 nearest even, 1 up, 2 down, 3 towards zero.
///
/// Implemented only on x86-64, where MXCSR controls all vector arithmetic; on other hosts results are rounded to nearest.
pub fn with_rounding(rounding: u8, body: impl FnOnce()) {
    if rounding & 3 == 0 {
        return body();
    }
    #[cfg(target_arch = "x86_64")]
    {
        let field = [0, 0b10, 0b01, 0b11][usize::from(rounding & 3)];
        let mut old = 0_u32;
        // SAFETY: reads and writes only MXCSR and the two locals. The lane loop is called through a pointer, so the compiler
        // moves none of its arithmetic across the asm blocks, and MXCSR is restored afterwards.
        unsafe {
            std::arch::asm!("stmxcsr [{}]", in(reg) &raw mut old, options(nostack));
            let new = old & !(0b11 << 13) | field << 13;
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const new, options(nostack));
            body();
            std::arch::asm!("ldmxcsr [{}]", in(reg) &raw const old, options(nostack));
        }
    }
    #[cfg(not(target_arch = "x86_64"))]
    body();
}
