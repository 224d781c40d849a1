//! Conversions between element types. Floats to integers truncate and saturate; anything to bool is "is not zero"; halves are
//! rounded to nearest, ties to even.

use num_complex::{Complex32, Complex64};
use tensor_core::dtype::DType;

use super::{Kernel, copy, function};
use crate::element::{bf16_to_f32, f16_to_f32, f32_to_bf16, f32_to_f16};
use crate::level::Level;

/// Converts between register types: halves are f32 there.
pub fn cast(from: DType, to: DType, level: Level) -> Kernel {
    macro_rules! to_any {
        ($A:ty, $loops:ident, $float:ident) => {
            match to {
                DType::Bool => function!($loops, level, |a: $A| -> u8 { u8::from(a != 0 as $A) }),
                DType::U8 => function!($loops, level, |a: $A| -> u8 { a as u8 }),
                DType::U16 => function!(called, level, |a: $A| -> u16 { a as u16 }),
                DType::U32 => function!(called, level, |a: $A| -> u32 { a as u32 }),
                DType::U64 => function!(called, level, |a: $A| -> u64 { a as u64 }),
                DType::I8 => function!(called, level, |a: $A| -> i8 { a as i8 }),
                DType::I16 => function!(called, level, |a: $A| -> i16 { a as i16 }),
                DType::I32 => function!($loops, level, |a: $A| -> i32 { a as i32 }),
                DType::I64 => function!($loops, level, |a: $A| -> i64 { a as i64 }),
                DType::F16 | DType::BF16 | DType::F32 => {
                    function!($float, level, |a: $A| -> f32 { a as f32 })
                }
                DType::F64 => function!($float, level, |a: $A| -> f64 { a as f64 }),
                DType::C64 => {
                    function!(called, level, |a: $A| -> Complex32 { Complex32::new(a as f32, 0.0) })
                }
                DType::C128 => {
                    function!(called, level, |a: $A| -> Complex64 { Complex64::new(a as f64, 0.0) })
                }
            }
        };
    }
    macro_rules! of_complex {
        ($A:ty) => {
            match to {
                DType::Bool => {
                    function!(called, level, |a: $A| -> u8 { u8::from(a.re != 0.0 || a.im != 0.0) })
                }
                DType::U8 => function!(called, level, |a: $A| -> u8 { a.re as u8 }),
                DType::U16 => function!(called, level, |a: $A| -> u16 { a.re as u16 }),
                DType::U32 => function!(called, level, |a: $A| -> u32 { a.re as u32 }),
                DType::U64 => function!(called, level, |a: $A| -> u64 { a.re as u64 }),
                DType::I8 => function!(called, level, |a: $A| -> i8 { a.re as i8 }),
                DType::I16 => function!(called, level, |a: $A| -> i16 { a.re as i16 }),
                DType::I32 => function!(called, level, |a: $A| -> i32 { a.re as i32 }),
                DType::I64 => function!(called, level, |a: $A| -> i64 { a.re as i64 }),
                DType::F64 => function!(called, level, |a: $A| -> f64 { a.re as f64 }),
                DType::C64 => {
                    function!(called, level, |a: $A| -> Complex32 {
                        Complex32::new(a.re as f32, a.im as f32)
                    })
                }
                DType::C128 => {
                    function!(called, level, |a: $A| -> Complex64 {
                        Complex64::new(a.re as f64, a.im as f64)
                    })
                }
                DType::F16 | DType::BF16 | DType::F32 => {
                    function!(called, level, |a: $A| -> f32 { a.re as f32 })
                }
            }
        };
    }
    match from {
        _ if from == to => copy(from.bytes()),
        DType::Bool | DType::U8 => to_any!(u8, medium, wide),
        DType::U16 => to_any!(u16, called, called),
        DType::U32 => to_any!(u32, called, called),
        DType::U64 => to_any!(u64, called, called),
        DType::I8 => to_any!(i8, called, called),
        DType::I16 => to_any!(i16, called, called),
        DType::I32 => to_any!(i32, medium, wide),
        DType::I64 => to_any!(i64, medium, wide),
        DType::F16 | DType::BF16 | DType::F32 => to_any!(f32, wide, wide),
        DType::F64 => to_any!(f64, wide, wide),
        DType::C64 => of_complex!(Complex32),
        DType::C128 => of_complex!(Complex64),
    }
}

/// Loads a half from memory as the f32 in a register.
pub fn widen(half: DType, level: Level) -> Kernel {
    match half {
        DType::F16 => function!(wide, level, |a: u16| -> f32 { f16_to_f32(a) }),
        _ => function!(wide, level, |a: u16| -> f32 { bf16_to_f32(a) }),
    }
}

/// Stores the f32 in a register as a half.
pub fn narrow(half: DType, level: Level) -> Kernel {
    match half {
        DType::F16 => function!(wide, level, |a: f32| -> u16 { f32_to_f16(a) }),
        _ => function!(wide, level, |a: f32| -> u16 { f32_to_bf16(a) }),
    }
}

/// Rounds an f32 to the nearest value of the half type.
pub fn round(half: DType, level: Level) -> Kernel {
    match half {
        DType::F16 => function!(wide, level, |a: f32| -> f32 { f16_to_f32(f32_to_f16(a)) }),
        _ => function!(wide, level, |a: f32| -> f32 { bf16_to_f32(f32_to_bf16(a)) }),
    }
}
