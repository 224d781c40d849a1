//! Kernels of unary functions.

use num_complex::{Complex32, Complex64};
use tensor_core::dtype::DType;
use tensor_core::program::Unary;

use super::{Kernel, copy, function};
use crate::complex;
use crate::level::Level;
use crate::math;

/// Returns the kernel from the argument's to the result's register type; `None` if the function is not defined for it.
pub fn unary(what: Unary, from: DType, to: DType, level: Level) -> Option<Kernel> {
    let answers = match what {
        Unary::Not | Unary::IsNan | Unary::IsInf => DType::Bool,
        Unary::Real | Unary::Imag | Unary::Abs if from.is_complex() => from.part(),
        _ => from,
    };
    if answers != to {
        return None;
    }
    match from {
        DType::Bool => flags(what, level),
        DType::U8 => u8s(what, level),
        DType::U16 => u16s(what, level),
        DType::U32 => u32s(what, level),
        DType::U64 => u64s(what, level),
        DType::I8 => i8s(what, level),
        DType::I16 => i16s(what, level),
        DType::I32 => i32s(what, level),
        DType::I64 => i64s(what, level),
        DType::F16 | DType::BF16 | DType::F32 => single(what, level),
        DType::F64 => double(what, level),
        DType::C64 => complex(what, level),
        DType::C128 => double_complex(what, level),
    }
}

fn flags(what: Unary, level: Level) -> Option<Kernel> {
    Some(match what {
        Unary::Not | Unary::BitNot => function!(medium, level, |a: u8| -> u8 { a ^ 1 }),
        Unary::IsNan | Unary::IsInf | Unary::Imag => function!(medium, level, |_a: u8| -> u8 { 0 }),
        Unary::Abs | Unary::Sign | Unary::Real | Unary::Conj => copy(1),
        Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round => copy(1),
        _ => return None,
    })
}

macro_rules! integers {
    ($($name:ident: $T:ty, $loops:ident, |$a:ident| $abs:expr, $sign:expr;)*) => {$(
        fn $name(what: Unary, level: Level) -> Option<Kernel> {
            Some(match what {
                Unary::Neg => function!($loops, level, |a: $T| -> $T { a.wrapping_neg() }),
                Unary::Abs => function!($loops, level, |$a: $T| -> $T { $abs }),
                Unary::Sign => function!($loops, level, |$a: $T| -> $T { $sign }),
                Unary::BitNot => function!($loops, level, |a: $T| -> $T { !a }),
                Unary::Not => function!($loops, level, |a: $T| -> u8 { u8::from(a == 0) }),
                Unary::IsNan | Unary::IsInf => function!($loops, level, |_a: $T| -> u8 { 0 }),
                Unary::Imag => function!($loops, level, |_a: $T| -> $T { 0 }),
                Unary::Floor | Unary::Ceil | Unary::Trunc | Unary::Round | Unary::Real | Unary::Conj => copy(size_of::<$T>()),
                _ => return None,
            })
        }
    )*};
}

integers! {
    u8s: u8, called, |a| a, a.min(1);
    u16s: u16, called, |a| a, a.min(1);
    u32s: u32, called, |a| a, a.min(1);
    u64s: u64, called, |a| a, a.min(1);
    i8s: i8, called, |a| a.wrapping_abs(), a.signum();
    i16s: i16, called, |a| a.wrapping_abs(), a.signum();
    i32s: i32, medium, |a| a.wrapping_abs(), a.signum();
    i64s: i64, medium, |a| a.wrapping_abs(), a.signum();
}

/// The functions that both float types share; the caller adds the others.
macro_rules! floats {
    ($what:expr, $level:expr, $T:ty, { $($own:tt)* }) => {
        match $what {
            Unary::Neg => function!(wide, $level, |a: $T| -> $T { -a }),
            Unary::Abs => function!(wide, $level, |a: $T| -> $T { a.abs() }),
            // Zeros and NaN are unchanged.
            Unary::Sign => function!(wide, $level, |a: $T| -> $T {
                if a > 0.0 { 1.0 } else if a < 0.0 { -1.0 } else { a }
            }),
            Unary::Not => function!(wide, $level, |a: $T| -> u8 { u8::from(a == 0.0) }),
            Unary::Sqrt => function!(wide, $level, |a: $T| -> $T { a.sqrt() }),
            Unary::Rsqrt => function!(wide, $level, |a: $T| -> $T { 1.0 / a.sqrt() }),
            Unary::Recip => function!(wide, $level, |a: $T| -> $T { 1.0 / a }),
            Unary::Exp2 => function!(called, $level, |a: $T| -> $T { a.exp2() }),
            Unary::Expm1 => function!(called, $level, |a: $T| -> $T { a.exp_m1() }),
            Unary::Log2 => function!(called, $level, |a: $T| -> $T { a.log2() }),
            Unary::Log10 => function!(called, $level, |a: $T| -> $T { a.log10() }),
            Unary::Log1p => function!(called, $level, |a: $T| -> $T { a.ln_1p() }),
            Unary::Tan => function!(called, $level, |a: $T| -> $T { a.tan() }),
            Unary::Asin => function!(called, $level, |a: $T| -> $T { a.asin() }),
            Unary::Acos => function!(called, $level, |a: $T| -> $T { a.acos() }),
            Unary::Atan => function!(called, $level, |a: $T| -> $T { a.atan() }),
            Unary::Sinh => function!(called, $level, |a: $T| -> $T { a.sinh() }),
            Unary::Cosh => function!(called, $level, |a: $T| -> $T { a.cosh() }),
            Unary::Floor => function!(wide, $level, |a: $T| -> $T { a.floor() }),
            Unary::Ceil => function!(wide, $level, |a: $T| -> $T { a.ceil() }),
            Unary::Trunc => function!(wide, $level, |a: $T| -> $T { a.trunc() }),
            Unary::Round => function!(wide, $level, |a: $T| -> $T { a.round_ties_even() }),
            Unary::IsNan => function!(wide, $level, |a: $T| -> u8 { u8::from(a.is_nan()) }),
            Unary::IsInf => function!(wide, $level, |a: $T| -> u8 { u8::from(a.is_infinite()) }),
            Unary::Real | Unary::Conj => copy(size_of::<$T>()),
            Unary::Imag => function!(wide, $level, |_a: $T| -> $T { 0.0 }),
            Unary::BitNot => return None,
            $($own)*
        }
    };
}

fn single(what: Unary, level: Level) -> Option<Kernel> {
    Some(floats!(what, level, f32, {
        Unary::Exp => function!(wide, level, |a: f32| -> f32 { math::exp(a) }),
        Unary::Log => function!(wide, level, |a: f32| -> f32 { math::log(a) }),
        Unary::Tanh => function!(wide, level, |a: f32| -> f32 { math::tanh(a) }),
        Unary::Sigmoid => function!(wide, level, |a: f32| -> f32 { math::sigmoid(a) }),
        Unary::Erf => function!(wide, level, |a: f32| -> f32 { math::erf(a) }),
        // std's versions lose precision near zero, or overflow early.
        Unary::Asinh => function!(called, level, |a: f32| -> f32 { libm::asinhf(a) }),
        Unary::Acosh => function!(called, level, |a: f32| -> f32 { libm::acoshf(a) }),
        Unary::Atanh => function!(called, level, |a: f32| -> f32 { libm::atanhf(a) }),
        Unary::Sin => return Some(sine(level)),
        Unary::Cos => return Some(cosine(level)),
    }))
}

fn double(what: Unary, level: Level) -> Option<Kernel> {
    Some(floats!(what, level, f64, {
        Unary::Exp => function!(called, level, |a: f64| -> f64 { a.exp() }),
        Unary::Log => function!(called, level, |a: f64| -> f64 { a.ln() }),
        Unary::Tanh => function!(called, level, |a: f64| -> f64 { a.tanh() }),
        Unary::Erf => function!(called, level, |a: f64| -> f64 { libm::erf(a) }),
        Unary::Asinh => function!(called, level, |a: f64| -> f64 { libm::asinh(a) }),
        Unary::Acosh => function!(called, level, |a: f64| -> f64 { libm::acosh(a) }),
        Unary::Atanh => function!(called, level, |a: f64| -> f64 { libm::atanh(a) }),
        Unary::Sin => function!(called, level, |a: f64| -> f64 { a.sin() }),
        Unary::Cos => function!(called, level, |a: f64| -> f64 { a.cos() }),
        Unary::Sigmoid => function!(called, level, |a: f64| -> f64 {{
            let power = (-a.abs()).exp();
            let share = 1.0 / (1.0 + power);
            if a < 0.0 { power * share } else { share }
        }}),
    }))
}

/// Sine and cosine: in f32 if no angle of the block needs more; else also in f64, with the few angles that are too large for that
/// recomputed by libm. The result for an angle does not depend on the others.
macro_rules! angles {
    ($name:ident, $near:path, $far:path, $library:path) => {
        fn $name(level: Level) -> Kernel {
            /// # Safety
            /// Like [`Kernel`].
            unsafe fn large(to: *mut u8, a: *const u8, n: usize) {
                for i in 0..n {
                    // SAFETY: the caller guarantees that both hold `n` elements.
                    unsafe {
                        let angle = *a.cast::<f32>().add(i);
                        if angle.abs() > math::ANGLE {
                            *to.cast::<f32>().add(i) = $library(angle);
                        }
                    }
                }
            }
            macro_rules! both {
                ($at:expr) => {{
                    /// # Safety
                    /// Like [`Kernel`].
                    unsafe fn whole(to: *mut u8, a: *const u8, b: *const u8, c: *const u8, n: usize) {
                        // SAFETY: guaranteed by the caller; the level was detected on this processor.
                        unsafe {
                            if largest(a, n) <= math::NEAR.to_bits() as i32 {
                                function!(wide, $at, |a: f32| -> f32 { $near(a) })(to, a, b, c, n);
                            } else {
                                function!(wide, $at, |a: f32| -> f32 { $far(a) })(to, a, b, c, n);
                                large(to, a, n);
                            }
                        }
                    }
                    whole
                }};
            }
            match level {
                Level::Plain => both!(Level::Plain),
                Level::Avx2 => both!(Level::Avx2),
                Level::Avx512 => both!(Level::Avx512),
            }
        }
    };
}

angles!(sine, math::sine, math::far_sine, f32::sin);
angles!(cosine, math::cosine, math::far_cosine, f32::cos);

/// Returns the bits of the largest magnitude; bit patterns of magnitudes are ordered like the numbers.
///
/// # Safety
/// There are `n` f32 elements.
unsafe fn largest(a: *const u8, n: usize) -> i32 {
    // SAFETY: guaranteed by the caller.
    (0..n).fold(0, |all, i| all.max(unsafe { *a.cast::<i32>().add(i) } & i32::MAX))
}

/// The functions of a complex type; `$through` makes a kernel of a function of `Complex64`.
macro_rules! complexes {
    ($what:expr, $level:expr, $C:ty, $R:ty, $through:ident) => {
        Some(match $what {
            Unary::Neg => function!(called, $level, |a: $C| -> $C { -a }),
            Unary::Conj => function!(called, $level, |a: $C| -> $C { a.conj() }),
            Unary::Real => function!(called, $level, |a: $C| -> $R { a.re }),
            Unary::Imag => function!(called, $level, |a: $C| -> $R { a.im }),
            Unary::Abs => function!(called, $level, |a: $C| -> $R { a.re.hypot(a.im) }),
            Unary::Not => function!(called, $level, |a: $C| -> u8 { u8::from(a.re == 0.0 && a.im == 0.0) }),
            Unary::IsNan => {
                function!(called, $level, |a: $C| -> u8 { u8::from(a.re.is_nan() || a.im.is_nan()) })
            }
            Unary::IsInf => {
                function!(called, $level, |a: $C| -> u8 {
                    u8::from(a.re.is_infinite() || a.im.is_infinite())
                })
            }
            Unary::Sign => $through!(complex::sign),
            Unary::Sqrt => $through!(complex::sqrt),
            Unary::Rsqrt => $through!(complex::rsqrt),
            Unary::Recip => $through!(complex::recip),
            Unary::Exp => $through!(complex::exp),
            Unary::Exp2 => $through!(complex::exp2),
            Unary::Expm1 => $through!(complex::expm1),
            Unary::Log => $through!(complex::log),
            Unary::Log2 => $through!(complex::log2),
            Unary::Log10 => $through!(complex::log10),
            Unary::Log1p => $through!(complex::log1p),
            Unary::Sin => $through!(complex::sin),
            Unary::Cos => $through!(complex::cos),
            Unary::Tan => $through!(complex::tan),
            Unary::Asin => $through!(complex::asin),
            Unary::Acos => $through!(complex::acos),
            Unary::Atan => $through!(complex::atan),
            Unary::Sinh => $through!(complex::sinh),
            Unary::Cosh => $through!(complex::cosh),
            Unary::Tanh => $through!(complex::tanh),
            Unary::Asinh => $through!(complex::asinh),
            Unary::Acosh => $through!(complex::acosh),
            Unary::Atanh => $through!(complex::atanh),
            Unary::Sigmoid => $through!(complex::sigmoid),
            _ => return None,
        })
    };
}

/// Complex functions, computed in f64 so that intermediate results do not overflow.
fn complex(what: Unary, level: Level) -> Option<Kernel> {
    macro_rules! through {
        ($function:path) => {
            function!(called, level, |a: Complex32| -> Complex32 {
                {
                    let answer = $function(Complex64::new(f64::from(a.re), f64::from(a.im)));
                    Complex32::new(answer.re as f32, answer.im as f32)
                }
            })
        };
    }
    complexes!(what, level, Complex32, f32, through)
}

fn double_complex(what: Unary, level: Level) -> Option<Kernel> {
    macro_rules! through {
        ($function:path) => {
            function!(called, level, |a: Complex64| -> Complex64 { $function(a) })
        };
    }
    complexes!(what, level, Complex64, f64, through)
}
