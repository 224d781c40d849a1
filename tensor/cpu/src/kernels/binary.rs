//! Kernels of binary functions on operands of one type.

use num_complex::{Complex32, Complex64};
use tensor_core::dtype::DType;
use tensor_core::program::Binary;

use super::{Kernel, function};
use crate::level::Level;
use crate::math;

/// Returns the kernel for operands of this register type; `None` if the function is not defined for it.
pub fn binary(what: Binary, of: DType, level: Level) -> Option<Kernel> {
    match of {
        DType::Bool => flags(what, level),
        DType::U8 => u8s(what, level),
        DType::U16 => u16s(what, level),
        DType::U32 => u32s(what, level),
        DType::U64 => u64s(what, level),
        DType::I8 => i8s(what, level),
        DType::I16 => i16s(what, level),
        DType::I32 => i32s(what, level),
        DType::I64 if what == Binary::Within => {
            Some(function!(called, level, |a: i64, b: i64| -> i64 { crate::fault::within(a, b) }))
        }
        DType::I64 => i64s(what, level),
        DType::F16 | DType::BF16 | DType::F32 => single(what, level),
        DType::F64 => double(what, level),
        DType::C64 => complex(what, level),
        DType::C128 => double_complex(what, level),
    }
}

fn flags(what: Binary, level: Level) -> Option<Kernel> {
    Some(match what {
        Binary::Add | Binary::Max | Binary::Or => function!(medium, level, |a: u8, b: u8| -> u8 { a | b }),
        Binary::Mul | Binary::Min | Binary::And => function!(medium, level, |a: u8, b: u8| -> u8 { a & b }),
        Binary::Sub | Binary::Xor | Binary::Ne => function!(medium, level, |a: u8, b: u8| -> u8 { a ^ b }),
        Binary::Eq => function!(medium, level, |a: u8, b: u8| -> u8 { a ^ b ^ 1 }),
        Binary::Lt => function!(medium, level, |a: u8, b: u8| -> u8 { (a ^ 1) & b }),
        Binary::Le => function!(medium, level, |a: u8, b: u8| -> u8 { (a ^ 1) | b }),
        Binary::Gt => function!(medium, level, |a: u8, b: u8| -> u8 { a & (b ^ 1) }),
        Binary::Ge => function!(medium, level, |a: u8, b: u8| -> u8 { a | (b ^ 1) }),
        // Anything to the power of zero is one.
        Binary::Pow => function!(medium, level, |a: u8, b: u8| -> u8 { a | (b ^ 1) }),
        _ => return None,
    })
}

macro_rules! comparisons {
    ($what:expr, $loops:ident, $level:expr, $T:ty, { $($own:tt)* }) => {
        match $what {
            Binary::Eq => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a == b) }),
            Binary::Ne => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a != b) }),
            Binary::Lt => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a < b) }),
            Binary::Le => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a <= b) }),
            Binary::Gt => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a > b) }),
            Binary::Ge => function!($loops, $level, |a: $T, b: $T| -> u8 { u8::from(a >= b) }),
            $($own)*
        }
    };
}

macro_rules! integers {
    ($($name:ident: $T:ident, $loops:ident, |$a:ident, $b:ident| $floor:expr, $rem:expr, $pow:expr, $shr:expr;)*) => {$(
        fn $name(what: Binary, level: Level) -> Option<Kernel> {
            Some(comparisons!(what, $loops, level, $T, {
                Binary::Add => function!($loops, level, |a: $T, b: $T| -> $T { a.wrapping_add(b) }),
                Binary::Sub => function!($loops, level, |a: $T, b: $T| -> $T { a.wrapping_sub(b) }),
                Binary::Mul => function!($loops, level, |a: $T, b: $T| -> $T { a.wrapping_mul(b) }),
                Binary::Max => function!($loops, level, |a: $T, b: $T| -> $T { a.max(b) }),
                Binary::Min => function!($loops, level, |a: $T, b: $T| -> $T { a.min(b) }),
                Binary::And => function!($loops, level, |a: $T, b: $T| -> $T { a & b }),
                Binary::Or => function!($loops, level, |a: $T, b: $T| -> $T { a | b }),
                Binary::Xor => function!($loops, level, |a: $T, b: $T| -> $T { a ^ b }),
                // A shift by a negative count, or by at least the number of bits, gives zero (or the sign).
                Binary::Shl => function!($loops, level, |a: $T, b: $T| -> $T {
                    if (b as u64) < u64::from($T::BITS) { a.wrapping_shl(b as u32) } else { 0 }
                }),
                Binary::Shr => function!($loops, level, |$a: $T, $b: $T| -> $T {
                    if ($b as u64) < u64::from($T::BITS) { $a.wrapping_shr($b as u32) } else { $shr }
                }),
                Binary::Div => function!(called, level, |a: $T, b: $T| -> $T {
                    if b == 0 { 0 } else { a.wrapping_div(b) }
                }),
                Binary::FloorDiv => function!(called, level, |$a: $T, $b: $T| -> $T { if $b == 0 { 0 } else { $floor } }),
                Binary::Rem => function!(called, level, |$a: $T, $b: $T| -> $T { if $b == 0 { 0 } else { $rem } }),
                Binary::Pow => function!(called, level, |$a: $T, $b: $T| -> $T { $pow }),
                _ => return None,
            }))
        }
    )*};
}

macro_rules! signed {
    ($($name:ident: $T:ident, $loops:ident;)*) => {
        integers! {$(
            $name: $T, $loops, |a, b|
            {
                let quotient = a.wrapping_div(b);
                let rest = a.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { quotient.wrapping_sub(1) } else { quotient }
            },
            {
                let rest = a.wrapping_rem(b);
                if rest != 0 && (rest < 0) != (b < 0) { rest.wrapping_add(b) } else { rest }
            },
            // A negative power of an integer is an integer only for one and minus one.
            match (a, b < 0) {
                (_, false) => power(a as u64, b as u64) as $T,
                (1, true) => 1,
                (-1, true) => if b & 1 == 0 { 1 } else { -1 },
                _ => 0,
            },
            if a < 0 { -1 } else { 0 };
        )*}
    };
}

macro_rules! unsigned {
    ($($name:ident: $T:ident, $loops:ident;)*) => {
        integers! {$(
            $name: $T, $loops, |a, b| a / b, a % b, power(u64::from(a), u64::from(b)) as $T, { let _ = a; 0 };
        )*}
    };
}

signed! { i8s: i8, called; i16s: i16, called; i32s: i32, medium; i64s: i64, medium; }
unsigned! { u8s: u8, called; u16s: u16, called; u32s: u32, called; u64s: u64, called; }

/// Computed modulo 2^64, which is right for narrower integers too.
fn power(mut base: u64, mut exponent: u64) -> u64 {
    let mut result = 1_u64;
    while exponent != 0 {
        if exponent & 1 != 0 {
            result = result.wrapping_mul(base);
        }
        base = base.wrapping_mul(base);
        exponent >>= 1;
    }
    result
}

macro_rules! floats {
    ($what:expr, $level:expr, $T:ident, $nextafter:path, { $($own:tt)* }) => {
        comparisons!($what, wide, $level, $T, {
            Binary::Add => function!(wide, $level, |a: $T, b: $T| -> $T { a + b }),
            Binary::Sub => function!(wide, $level, |a: $T, b: $T| -> $T { a - b }),
            Binary::Mul => function!(wide, $level, |a: $T, b: $T| -> $T { a * b }),
            Binary::Div => function!(wide, $level, |a: $T, b: $T| -> $T { a / b }),
            Binary::Max => function!(wide, $level, |a: $T, b: $T| -> $T {
                if a > b || a.is_nan() { a } else { b }
            }),
            Binary::Min => function!(wide, $level, |a: $T, b: $T| -> $T {
                if a < b || a.is_nan() { a } else { b }
            }),
            Binary::FloorDiv => function!(called, $level, |a: $T, b: $T| -> $T {{
                if b == 0.0 {
                    a / b
                } else {
                    let rest = a % b;
                    let mut quotient = (a - rest) / b;
                    if rest != 0.0 && (b < 0.0) != (rest < 0.0) {
                        quotient -= 1.0;
                    }
                    if quotient == 0.0 {
                        (0.0 as $T).copysign(a / b)
                    } else {
                        let floor = quotient.floor();
                        if quotient - floor > 0.5 { floor + 1.0 } else { floor }
                    }
                }
            }}),
            Binary::Rem => function!(called, $level, |a: $T, b: $T| -> $T {{
                let rest = a % b;
                if rest == 0.0 {
                    rest.copysign(b)
                } else if (b < 0.0) != (rest < 0.0) {
                    rest + b
                } else {
                    rest
                }
            }}),
            Binary::Pow => function!(called, $level, |a: $T, b: $T| -> $T { a.powf(b) }),
            Binary::Atan2 => function!(called, $level, |a: $T, b: $T| -> $T { a.atan2(b) }),
            Binary::Hypot => function!(called, $level, |a: $T, b: $T| -> $T { a.hypot(b) }),
            Binary::Copysign => function!(wide, $level, |a: $T, b: $T| -> $T { a.copysign(b) }),
            Binary::Nextafter => function!(called, $level, |a: $T, b: $T| -> $T { $nextafter(a, b) }),
            Binary::And | Binary::Or | Binary::Xor | Binary::Shl | Binary::Shr | Binary::Within => return None,
            $($own)*
        })
    };
}

fn single(what: Binary, level: Level) -> Option<Kernel> {
    Some(floats!(what, level, f32, libm::nextafterf, {
        Binary::Logaddexp => function!(wide, level, |a: f32, b: f32| -> f32 {{
            let high = if a > b { a } else { b };
            let apart = (a - b).abs();
            // Both are the same infinity: their difference would be NaN.
            let more = if a == b { std::f32::consts::LN_2 } else { log_one_plus(math::exp(-apart)) };
            high + more
        }}),
        Binary::Complex => {
            function!(medium, level, |a: f32, b: f32| -> Complex32 { Complex32::new(a, b) })
        }
    }))
}

/// The logarithm of one plus a number in [0, 1], corrected for the rounding of the sum.
#[inline(always)]
fn log_one_plus(x: f32) -> f32 {
    let sum = 1.0 + x;
    let lost = x - (sum - 1.0);
    math::log(sum) + lost / sum
}

fn double(what: Binary, level: Level) -> Option<Kernel> {
    Some(floats!(what, level, f64, libm::nextafter, {
        Binary::Logaddexp => function!(called, level, |a: f64, b: f64| -> f64 {{
            let high = if a > b { a } else { b };
            if a == b { high + std::f64::consts::LN_2 } else { high + (-(a - b).abs()).exp().ln_1p() }
        }}),
        Binary::Complex => {
            function!(medium, level, |a: f64, b: f64| -> Complex64 { Complex64::new(a, b) })
        }
    }))
}

fn complex(what: Binary, level: Level) -> Option<Kernel> {
    Some(match what {
        Binary::Add => function!(called, level, |a: Complex32, b: Complex32| -> Complex32 { a + b }),
        Binary::Sub => function!(called, level, |a: Complex32, b: Complex32| -> Complex32 { a - b }),
        Binary::Mul => function!(called, level, |a: Complex32, b: Complex32| -> Complex32 { a * b }),
        Binary::Div => function!(called, level, |a: Complex32, b: Complex32| -> Complex32 {
            {
                let answer = double_of(a) / double_of(b);
                Complex32::new(answer.re as f32, answer.im as f32)
            }
        }),
        Binary::Pow => function!(called, level, |a: Complex32, b: Complex32| -> Complex32 {
            {
                let answer = double_of(a).powc(double_of(b));
                Complex32::new(answer.re as f32, answer.im as f32)
            }
        }),
        Binary::Eq => function!(called, level, |a: Complex32, b: Complex32| -> u8 { u8::from(a == b) }),
        Binary::Ne => function!(called, level, |a: Complex32, b: Complex32| -> u8 { u8::from(a != b) }),
        _ => return None,
    })
}

fn double_complex(what: Binary, level: Level) -> Option<Kernel> {
    Some(match what {
        Binary::Add => function!(called, level, |a: Complex64, b: Complex64| -> Complex64 { a + b }),
        Binary::Sub => function!(called, level, |a: Complex64, b: Complex64| -> Complex64 { a - b }),
        Binary::Mul => function!(called, level, |a: Complex64, b: Complex64| -> Complex64 { a * b }),
        Binary::Div => function!(called, level, |a: Complex64, b: Complex64| -> Complex64 {
            crate::complex::quotient(a, b)
        }),
        Binary::Pow => function!(called, level, |a: Complex64, b: Complex64| -> Complex64 { a.powc(b) }),
        Binary::Eq => function!(called, level, |a: Complex64, b: Complex64| -> u8 { u8::from(a == b) }),
        Binary::Ne => function!(called, level, |a: Complex64, b: Complex64| -> u8 { u8::from(a != b) }),
        _ => return None,
    })
}

fn double_of(z: Complex32) -> Complex64 {
    Complex64::new(f64::from(z.re), f64::from(z.im))
}
