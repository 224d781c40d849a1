//! Keys: unsigned integers whose order is that of elements in a sort, so that sorts compare and divide integers only.

use half::{bf16, f16};

use crate::element::Flag;

/// An unsigned integer of 32 or 64 bits.
pub trait Key: Copy + Ord + Send + Sync + 'static {
    fn wide(self) -> u64;
    /// The difference from a lesser key.
    fn less(self, by: Self) -> Self;
    /// The low bits after a shift to the right.
    fn shifted(self, bits: u32) -> usize;
}

impl Key for u32 {
    #[inline(always)]
    fn wide(self) -> u64 {
        u64::from(self)
    }
    #[inline(always)]
    fn less(self, by: u32) -> u32 {
        self.wrapping_sub(by)
    }
    #[inline(always)]
    fn shifted(self, bits: u32) -> usize {
        (self >> bits) as usize
    }
}

impl Key for u64 {
    #[inline(always)]
    fn wide(self) -> u64 {
        self
    }
    #[inline(always)]
    fn less(self, by: u64) -> u64 {
        self.wrapping_sub(by)
    }
    #[inline(always)]
    fn shifted(self, bits: u32) -> usize {
        (self >> bits) as usize
    }
}

/// An element type with an order.
pub trait Ordered: Copy + Send + Sync + 'static {
    type Key: Key;
    /// The key of an element: less if the element is earlier. Both zeros have one key, and NaN is last in both directions.
    fn key(self, descending: bool) -> Self::Key;
}

macro_rules! integers {
    ($($T:ident $U:ident $Key:ident $least:expr;)*) => {$(
        impl Ordered for $T {
            type Key = $Key;
            #[inline(always)]
            fn key(self, descending: bool) -> $Key {
                // Adding the sign bit orders numbers with a sign like those without.
                let key = $Key::from((self as $U) ^ ($least as $U));
                if descending { $Key::from($U::MAX).wrapping_sub(key) } else { key }
            }
        }
    )*};
}

integers! {
    u8 u8 u32 u8::MIN;
    u16 u16 u32 u16::MIN;
    u32 u32 u32 u32::MIN;
    u64 u64 u64 u64::MIN;
    i8 u8 u32 i8::MIN;
    i16 u16 u32 i16::MIN;
    i32 u32 u32 i32::MIN;
    i64 u64 u64 i64::MIN;
}

impl Ordered for Flag {
    type Key = u32;
    #[inline(always)]
    fn key(self, descending: bool) -> u32 {
        u32::from((self.0 != 0) != descending)
    }
}

macro_rules! floats {
    ($($T:ident $U:ident $Key:ident $zero:expr;)*) => {$(
        impl Ordered for $T {
            type Key = $Key;
            #[inline(always)]
            fn key(self, descending: bool) -> $Key {
                const SIGN: $U = 1 << ($U::BITS - 1);
                // Minus zero plus zero is zero.
                let bits = if self == $zero { 0 } else { self.to_bits() };
                let key = if bits & SIGN != 0 { !bits } else { bits | SIGN };
                let key = if descending { !key } else { key };
                if self.is_nan() { $Key::MAX } else { $Key::from(key) }
            }
        }
    )*};
}

floats! {
    f16 u16 u32 f16::ZERO;
    bf16 u16 u32 bf16::ZERO;
    f32 u32 u32 0.0;
    f64 u64 u64 0.0;
}

/// Runs an expression with the Rust type of an element type that has an order; else returns an error.
macro_rules! with_ordered {
    ($dtype:expr, $T:ident => $body:expr) => {
        $crate::order::with_ordered! {
            @match $dtype, $T => $body;
            Bool $crate::element::Flag, U8 u8, U16 u16, U32 u32, U64 u64, I8 i8, I16 i16, I32 i32, I64 i64,
            F16 half::f16, BF16 half::bf16, F32 f32, F64 f64,
        }
    };
    (@match $dtype:expr, $T:ident => $body:expr; $($variant:ident $type:ty,)*) => {
        match $dtype {
            $(tensor_core::dtype::DType::$variant => {
                type $T = $type;
                $body
            })*
            other => Err(tensor_core::error::DeviceError::Unsupported(format!("an order of {other}"))),
        }
    };
}
pub(crate) use with_ordered;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_ordered_like_elements() {
        let floats = [f32::NEG_INFINITY, f32::MIN, -1.5, -1e-42, 0.0, 1e-42, 1.5, f32::MAX, f32::INFINITY];
        let halves = floats.map(f16::from_f32);
        for pair in floats.windows(2) {
            assert!(pair[0].key(false) < pair[1].key(false) && pair[0].key(true) > pair[1].key(true));
            assert!(f64::from(pair[0]).key(false) < f64::from(pair[1]).key(false));
        }
        assert!(halves.windows(2).all(|pair| pair[0].key(false) <= pair[1].key(false)));
        for descending in [false, true] {
            assert_eq!((-0.0_f32).key(descending), 0.0_f32.key(descending));
            assert!(floats.iter().all(|float| float.key(descending) < f32::NAN.key(descending)));
            assert_eq!((-f32::NAN).key(descending), f32::NAN.key(descending));
        }
        for pair in [i64::MIN, -1, 0, 1, i64::MAX].windows(2) {
            assert!(pair[0].key(false) < pair[1].key(false) && pair[0].key(true) > pair[1].key(true));
        }
        assert!((-1_i8).key(false) < 0_i8.key(false) && 255_u8.key(true) < 254_u8.key(true));
        assert!(Flag(0).key(false) < Flag(1).key(false) && Flag(1).key(true) < Flag(0).key(true));
    }
}
