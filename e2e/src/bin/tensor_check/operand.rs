//! Operands of test cases: pseudo-random numbers from a fixed seed.

use tensor_core::dtype::DType;
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
    match dtype {
        DType::Bool => bytes.push(u8::from(x != 0.0)),
        DType::U8 => bytes.push(x as u8),
        DType::I8 => bytes.push(x as i8 as u8),
        DType::U16 => bytes.extend((x as u16).to_le_bytes()),
        DType::I16 => bytes.extend((x as i16).to_le_bytes()),
        DType::U32 => bytes.extend((x as u32).to_le_bytes()),
        DType::I32 => bytes.extend((x as i32).to_le_bytes()),
        DType::U64 => bytes.extend((x as u64).to_le_bytes()),
        DType::I64 => bytes.extend((x as i64).to_le_bytes()),
        DType::F16 => bytes.extend(half::f16::from_f64(x).to_le_bytes()),
        DType::BF16 => bytes.extend(half::bf16::from_f64(x).to_le_bytes()),
        DType::F32 => bytes.extend((x as f32).to_le_bytes()),
        DType::F64 => bytes.extend(x.to_le_bytes()),
        DType::C64 => {
            bytes.extend((x as f32).to_le_bytes());
            bytes.extend((1.0 - x as f32).to_le_bytes());
        }
    }
}

/// The bytes of a buffer as numbers; a complex number counts as two.
pub fn numbers(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f64) -> Vec<f64> {
        bytes.chunks_exact(N).map(|chunk| read(chunk.try_into().unwrap_or([0; N]))).collect()
    }
    match dtype {
        DType::Bool | DType::U8 => each(bytes, |it: [u8; 1]| f64::from(it[0])),
        DType::I8 => each(bytes, |it: [u8; 1]| f64::from(it[0] as i8)),
        DType::U16 => each(bytes, |it| f64::from(u16::from_le_bytes(it))),
        DType::I16 => each(bytes, |it| f64::from(i16::from_le_bytes(it))),
        DType::U32 => each(bytes, |it| f64::from(u32::from_le_bytes(it))),
        DType::I32 => each(bytes, |it| f64::from(i32::from_le_bytes(it))),
        DType::U64 => each(bytes, |it| u64::from_le_bytes(it) as f64),
        DType::I64 => each(bytes, |it| i64::from_le_bytes(it) as f64),
        DType::F16 => each(bytes, |it| half::f16::from_le_bytes(it).to_f64()),
        DType::BF16 => each(bytes, |it| half::bf16::from_le_bytes(it).to_f64()),
        DType::F32 | DType::C64 => each(bytes, |it| f64::from(f32::from_le_bytes(it))),
        DType::F64 => each(bytes, f64::from_le_bytes),
    }
}
