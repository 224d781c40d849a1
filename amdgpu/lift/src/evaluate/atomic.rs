//! Arithmetic of atomic operations.

use isa_reference::exact::{F16, Format, NEAREST, Number};

use crate::form::Atomic;

const BF16: Format = Format { bits: 16, fraction: 7 };

/// The new value in memory. `data` is the datum, or the new value of a compare-and-swap; `other` the expected value, or the bits
/// that a masked or sets.
pub fn apply(atomic: Atomic, wide: bool, old: u64, data: u64, other: u64) -> u64 {
    let mask = if wide { u64::MAX } else { 0xffff_ffff };
    let signed = |value: u64| if wide { value as i64 } else { i64::from(value as i32) };
    let float = |bits: u64| if wide { f64::from_bits(bits) } else { f32::from_bits(bits as u32).into() };
    let new = match atomic {
        Atomic::Swap => data,
        Atomic::CompareSwap if old == other => data,
        Atomic::FloatCompareSwap if float(old) == float(other) => data,
        Atomic::CompareSwap | Atomic::FloatCompareSwap => old,
        Atomic::Add => old.wrapping_add(data),
        Atomic::Subtract => old.wrapping_sub(data),
        Atomic::ReverseSubtract => data.wrapping_sub(old),
        Atomic::MinimumSigned => signed(old).min(signed(data)) as u64,
        Atomic::MaximumSigned => signed(old).max(signed(data)) as u64,
        Atomic::MinimumUnsigned => old.min(data),
        Atomic::MaximumUnsigned => old.max(data),
        Atomic::And => old & data,
        Atomic::Or => old | data,
        Atomic::Xor => old ^ data,
        Atomic::Increment if old >= data => 0,
        Atomic::Increment => old + 1,
        Atomic::Decrement if old == 0 || old > data => data,
        Atomic::Decrement => old - 1,
        Atomic::MaskedOr => old & !data | other,
        Atomic::FloatAdd if wide => (float(old) + float(data)).to_bits(),
        Atomic::FloatAdd => u64::from((f32::from_bits(old as u32) + f32::from_bits(data as u32)).to_bits()),
        // A number is preferred to a NaN.
        Atomic::FloatMinimum if float(data) < float(old) || float(old).is_nan() => data,
        Atomic::FloatMaximum if float(data) > float(old) || float(old).is_nan() => data,
        Atomic::FloatMinimum | Atomic::FloatMaximum => old,
        Atomic::HalfAdd => halves(F16, old, data),
        Atomic::Bf16Add => halves(BF16, old, data),
    };
    new & mask
}

fn halves(format: Format, old: u64, data: u64) -> u64 {
    let half = |shift: u32| {
        let [a, b] = [old, data].map(|bits| Number::of(format, bits >> shift & 0xffff));
        a.plus(b, NEAREST).bits(format, NEAREST) << shift
    };
    half(0) | half(16)
}
