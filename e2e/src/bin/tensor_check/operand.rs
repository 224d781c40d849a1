//! Operands of test cases: pseudo-random numbers from a fixed seed.

use tensor_core::dtype::{DType, Scalar};
use tensor_core::element;
use tensor_core::layout::Layout;

/// Contents of a buffer, and its shape and strides.
#[derive(Clone, Debug)]
pub struct Content {
    pub dtype: DType,
    pub layout: Layout,
    pub bytes: Vec<u8>,
}

/// Integers from -range to range, or from zero for unsigned types.
pub fn whole(dtype: DType, shape: &[usize], range: i64) -> Content {
    let mut state = shape.iter().fold(7 + range as u64, |hash, &length| hash * 31 + length as u64);
    let numbers = (0..shape.iter().product::<usize>()).map(|_| {
        let wide = (next(&mut state) % (2 * range as u64 + 1)) as f64 - range as f64;
        if matches!(dtype, DType::Bool | DType::U8 | DType::U16 | DType::U32 | DType::U64) {
            wide.abs()
        } else {
            wide
        }
    });
    of(dtype, shape, numbers)
}

/// Numbers between -2 and 2.
pub fn real(dtype: DType, shape: &[usize]) -> Content {
    let mut state = shape.iter().fold(11, |hash: u64, &length| hash * 37 + length as u64);
    let numbers = (0..shape.iter().product::<usize>())
        .map(|_| (next(&mut state) % 4_000_001) as f64 / 1_000_000.0 - 2.0);
    of(dtype, shape, numbers)
}

pub fn of(dtype: DType, shape: &[usize], numbers: impl Iterator<Item = f64>) -> Content {
    let mut bytes = Vec::new();
    for number in numbers {
        put(&mut bytes, dtype, number);
    }
    Content { dtype, layout: Layout::contiguous(shape), bytes }
}

impl Content {
    /// The same bytes with another shape, strides and offset.
    pub fn with_view(mut self, shape: &[usize], strides: &[isize], offset: usize) -> Content {
        self.layout = Layout { shape: shape.into(), strides: strides.into(), offset };
        self
    }
}

fn next(state: &mut u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    *state >> 33
}

fn put(bytes: &mut Vec<u8>, dtype: DType, x: f64) {
    let value = match dtype {
        DType::C64 | DType::C128 => Scalar::Complex(x, 1.0 - x),
        _ => Scalar::Float(x),
    };
    element::encode(value, dtype, bytes);
}

/// The bytes of a buffer as numbers; a complex number counts as two.
pub fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let mut numbers = Vec::with_capacity(bytes.len() / dtype.bytes());
    for one in bytes.chunks_exact(dtype.bytes()) {
        let value = element::decode(one, dtype);
        numbers.push(value.to_f64());
        if let Scalar::Complex(_, imaginary) = value {
            numbers.push(imaginary);
        }
    }
    numbers
}
