//! The Rust type of each element type, and its arithmetic where programs are not interpreted.

use half::{bf16, f16};
use num_complex::{Complex32, Complex64};

/// A type that values are accumulated in.
pub trait Number: Copy + Send + Sync + 'static {
    const ZERO: Self;
    const ONE: Self;
    fn add(self, other: Self) -> Self;
    fn mul(self, other: Self) -> Self;
    /// `self * by + to`, with a single rounding for floats.
    fn fma(self, by: Self, to: Self) -> Self;
}

/// An element type in memory.
pub trait Element: Copy + Send + Sync + 'static {
    /// The type that it is accumulated in.
    type Wide: Number;
    fn widen(self) -> Self::Wide;
    fn narrow(wide: Self::Wide) -> Self;
    /// Whether it is strictly before `other` in ascending order; NaN is last.
    fn before(self, other: Self) -> bool;
    fn is_nan(self) -> bool;
}

/// A bool in memory: zero or one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd)]
#[repr(transparent)]
pub struct Flag(pub u8);

macro_rules! integers {
    ($($T:ty)*) => {$(
        impl Number for $T {
            const ZERO: $T = 0;
            const ONE: $T = 1;
            #[inline(always)]
            fn add(self, other: $T) -> $T { self.wrapping_add(other) }
            #[inline(always)]
            fn mul(self, other: $T) -> $T { self.wrapping_mul(other) }
            #[inline(always)]
            fn fma(self, by: $T, to: $T) -> $T { self.wrapping_mul(by).wrapping_add(to) }
        }
        impl Element for $T {
            type Wide = $T;
            #[inline(always)]
            fn widen(self) -> $T { self }
            #[inline(always)]
            fn narrow(wide: $T) -> $T { wide }
            #[inline(always)]
            fn before(self, other: $T) -> bool { self < other }
            #[inline(always)]
            fn is_nan(self) -> bool { false }
        }
    )*};
}

macro_rules! floats {
    ($($T:ty)*) => {$(
        impl Number for $T {
            const ZERO: $T = 0.0;
            const ONE: $T = 1.0;
            #[inline(always)]
            fn add(self, other: $T) -> $T { self + other }
            #[inline(always)]
            fn mul(self, other: $T) -> $T { self * other }
            #[inline(always)]
            fn fma(self, by: $T, to: $T) -> $T { self.mul_add(by, to) }
        }
        impl Element for $T {
            type Wide = $T;
            #[inline(always)]
            fn widen(self) -> $T { self }
            #[inline(always)]
            fn narrow(wide: $T) -> $T { wide }
            #[inline(always)]
            fn before(self, other: $T) -> bool { self < other || (other.is_nan() && !self.is_nan()) }
            #[inline(always)]
            fn is_nan(self) -> bool { <$T>::is_nan(self) }
        }
    )*};
}

macro_rules! halves {
    ($($T:ty, $widen:ident, $narrow:ident;)*) => {$(
        impl Element for $T {
            type Wide = f32;
            #[inline(always)]
            fn widen(self) -> f32 { $widen(self.to_bits()) }
            #[inline(always)]
            fn narrow(wide: f32) -> $T { <$T>::from_bits($narrow(wide)) }
            #[inline(always)]
            fn before(self, other: $T) -> bool { self.widen().before(other.widen()) }
            #[inline(always)]
            fn is_nan(self) -> bool { <$T>::is_nan(self) }
        }
    )*};
}

integers!(u8 u16 u32 u64 i8 i16 i32 i64);
floats!(f32 f64);
halves!(f16, f16_to_f32, f32_to_f16; bf16, bf16_to_f32, f32_to_bf16;);

impl Number for Flag {
    const ZERO: Flag = Flag(0);
    const ONE: Flag = Flag(1);
    #[inline(always)]
    fn add(self, other: Flag) -> Flag {
        Flag(self.0 | other.0)
    }
    #[inline(always)]
    fn mul(self, other: Flag) -> Flag {
        Flag(self.0 & other.0)
    }
    #[inline(always)]
    fn fma(self, by: Flag, to: Flag) -> Flag {
        self.mul(by).add(to)
    }
}

impl Element for Flag {
    type Wide = Flag;
    #[inline(always)]
    fn widen(self) -> Flag {
        self
    }
    #[inline(always)]
    fn narrow(wide: Flag) -> Flag {
        wide
    }
    #[inline(always)]
    fn before(self, other: Flag) -> bool {
        self < other
    }
    #[inline(always)]
    fn is_nan(self) -> bool {
        false
    }
}

macro_rules! complex {
    ($($C:ident)*) => {$(
        impl Number for $C {
            const ZERO: $C = $C::new(0.0, 0.0);
            const ONE: $C = $C::new(1.0, 0.0);
            #[inline(always)]
            fn add(self, other: $C) -> $C {
                self + other
            }
            #[inline(always)]
            fn mul(self, other: $C) -> $C {
                self * other
            }
            #[inline(always)]
            fn fma(self, by: $C, to: $C) -> $C {
                $C::new(
                    self.re.mul_add(by.re, (-self.im).mul_add(by.im, to.re)),
                    self.re.mul_add(by.im, self.im.mul_add(by.re, to.im)),
                )
            }
        }

        impl Element for $C {
            type Wide = $C;
            #[inline(always)]
            fn widen(self) -> $C {
                self
            }
            #[inline(always)]
            fn narrow(wide: $C) -> $C {
                wide
            }
            /// Ordered by real part, then by imaginary part.
            #[inline(always)]
            fn before(self, other: $C) -> bool {
                match (self.is_nan(), other.is_nan()) {
                    (false, false) => self.re < other.re || (self.re == other.re && self.im < other.im),
                    (mine, theirs) => theirs && !mine,
                }
            }
            #[inline(always)]
            fn is_nan(self) -> bool {
                $C::is_nan(self)
            }
        }
    )*};
}

complex! { Complex32 Complex64 }

// Branch-free conversions, so that loops of them are vectorised.

#[inline(always)]
pub fn f16_to_f32(half: u16) -> f32 {
    // A multiplication shifts the exponent, which also normalises subnormal numbers.
    let moved = f32::from_bits(u32::from(half & 0x7FFF) << 13) * f32::from_bits(0x7780_0000);
    let beyond = if moved >= 65_536.0 { 0x7F80_0000 } else { 0 };
    f32::from_bits(moved.to_bits() | beyond | u32::from(half & 0x8000) << 16)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_f16(value: f32) -> u16 {
    let sign = value.to_bits() & 0x8000_0000;
    let bits = value.to_bits() ^ sign;
    // Adding one half makes the processor round a subnormal result at the right bit.
    let subnormal = (f32::from_bits(bits) + 0.5).to_bits().wrapping_sub(0x3F00_0000);
    let normal = bits.wrapping_add(0xC800_0FFF).wrapping_add((bits >> 13) & 1) >> 13;
    let beyond = if bits > 0x7F80_0000 { 0x7E00 } else { 0x7C00 };
    let half = if bits < 0x3880_0000 { subnormal } else { normal };
    let half = if bits >= 0x4780_0000 { beyond } else { half };
    (half | sign >> 16) as u16
}

#[inline(always)]
pub fn bf16_to_f32(half: u16) -> f32 {
    f32::from_bits(u32::from(half) << 16)
}

/// Rounds to nearest, ties to even.
#[inline(always)]
pub fn f32_to_bf16(value: f32) -> u16 {
    let bits = value.to_bits();
    let rounded = bits.wrapping_add(0x7FFF).wrapping_add((bits >> 16) & 1) >> 16;
    let nan = bits >> 16 | 0x0040;
    (if bits & 0x7FFF_FFFF > 0x7F80_0000 { nan } else { rounded }) as u16
}

/// Runs an expression with the Rust type of an element type.
macro_rules! with_element {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::element::with_element! {
            @match $dtype, $T => $body;
            Bool $crate::element::Flag, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64, C64 num_complex::Complex32,
            C128 num_complex::Complex64,
        }
    };
    (@match $dtype:expr, $T:ident => $body:expr; $($variant:ident $type:ty,)*) => {
        match $dtype {
            $(tensor_core::dtype::DType::$variant => {
                type $T = $type;
                $body
            })*
        }
    };
}
pub(crate) use with_element;

/// Runs an expression with a type of `bytes` bytes, for pure copies.
macro_rules! with_bytes {
    ($bytes:expr, $T:ident => $body:expr) => {
        match $bytes {
            1 => {
                type $T = u8;
                $body
            }
            2 => {
                type $T = u16;
                $body
            }
            4 => {
                type $T = u32;
                $body
            }
            8 => {
                type $T = u64;
                $body
            }
            _ => {
                type $T = [u64; 2];
                $body
            }
        }
    };
}
pub(crate) use with_bytes;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn halves_widen_and_come_back() {
        for bits in 0..=u16::MAX {
            for (wide, back, truth) in [
                (f16_to_f32(bits), f32_to_f16(f16_to_f32(bits)), f16::from_bits(bits).to_f32()),
                (bf16_to_f32(bits), f32_to_bf16(bf16_to_f32(bits)), bf16::from_bits(bits).to_f32()),
            ] {
                if truth.is_nan() {
                    assert!(wide.is_nan());
                } else {
                    assert_eq!(wide.to_bits(), truth.to_bits());
                    assert_eq!(back, bits);
                }
            }
        }
    }

    #[test]
    fn narrowing_rounds_to_the_nearest_even() {
        let mut bits = 0_u32;
        for _ in 0..200_000 {
            bits = bits.wrapping_add(0x9E37_79B9);
            let value = f32::from_bits(bits);
            if value.is_nan() {
                assert!(f16::from_bits(f32_to_f16(value)).is_nan());
                assert!(bf16::from_bits(f32_to_bf16(value)).is_nan());
            } else {
                assert_eq!(f32_to_f16(value), f16::from_f32(value).to_bits(), "{value}");
                assert_eq!(f32_to_bf16(value), bf16::from_f32(value).to_bits(), "{value}");
            }
            let small = value.abs().min(1.0) * 1e-4;
            if !small.is_nan() {
                assert_eq!(f32_to_f16(small), f16::from_f32(small).to_bits(), "{small}");
            }
        }
    }
}
