//! Elements of floating point types as numbers of f64, for computations on the host.

use std::ops::{Div, Mul};

use num_complex::{Complex32, Complex64};
use tensor_linalg::Entry;

use crate::dtype::DType;

/// A number that computations on the host use: f64, or Complex64 for complex types.
pub(crate) trait Number: Entry + From<f64> + Mul<Output = Self> + Div<Output = Self> {
    /// Reads elements of a real type, or of a complex one.
    fn read(bytes: &[u8], dtype: DType) -> Vec<Self>;
    /// Appends numbers as elements of a type.
    fn write(numbers: &[Self], dtype: DType, into: &mut Vec<u8>);
    /// The absolute value.
    fn size(self) -> f64;
}

impl Number for f64 {
    fn read(bytes: &[u8], dtype: DType) -> Vec<f64> {
        match dtype {
            DType::F64 => bytes.as_chunks().0.iter().map(|&raw| f64::from_ne_bytes(raw)).collect(),
            _ => bytes.as_chunks().0.iter().map(|&raw| f64::from(f32::from_ne_bytes(raw))).collect(),
        }
    }

    fn write(numbers: &[f64], dtype: DType, into: &mut Vec<u8>) {
        match dtype {
            DType::F64 => into.extend(numbers.iter().flat_map(|number| number.to_ne_bytes())),
            _ => into.extend(numbers.iter().flat_map(|number| (*number as f32).to_ne_bytes())),
        }
    }

    fn size(self) -> f64 {
        self.abs()
    }
}

impl Number for Complex64 {
    fn read(bytes: &[u8], dtype: DType) -> Vec<Complex64> {
        let parts = f64::read(bytes, dtype.part());
        parts.as_chunks().0.iter().map(|&[re, im]| Complex64::new(re, im)).collect()
    }

    fn write(numbers: &[Complex64], dtype: DType, into: &mut Vec<u8>) {
        into.reserve(numbers.len() * dtype.bytes());
        for &Complex64 { re, im } in numbers {
            match dtype {
                DType::C128 => {
                    into.extend_from_slice(&re.to_ne_bytes());
                    into.extend_from_slice(&im.to_ne_bytes());
                }
                _ => {
                    let Complex32 { re, im } = Complex32::new(re as f32, im as f32);
                    into.extend_from_slice(&re.to_ne_bytes());
                    into.extend_from_slice(&im.to_ne_bytes());
                }
            }
        }
    }

    fn size(self) -> f64 {
        self.re.hypot(self.im)
    }
}
