//! Random numbers, identical to those of every other device: see `tensor_core::random`.

use half::{bf16, f16};
use tensor_core::dtype::DType;
use tensor_core::error::DeviceError;
use tensor_core::random::{
    integer, normal_pair, normal_pair_f64, per_block, philox, uniform_f32, uniform_f64,
};
use tensor_core::step::Distribution;

use crate::element::with_element;
use crate::threads::{Shared, Threads};
use crate::view::View;

/// Generator blocks per task.
const BLOCKS: usize = 4096;

pub fn random(
    threads: &Threads,
    seed: u64,
    offset: u64,
    distribution: Distribution,
    output: &View,
) -> Result<(), DeviceError> {
    let elements = output.elements();
    let each = per_block(output.dtype, distribution) as usize;
    let blocks = elements.div_ceil(each);
    macro_rules! fill {
        ($T:ty, |$block:ident| $values:expr) => {{
            let to = Shared::new(output.start::<$T>());
            threads.each(blocks.div_ceil(BLOCKS), blocks.saturating_mul(50), |task| {
                for number in task * BLOCKS..blocks.min((task + 1) * BLOCKS) {
                    let $block = philox(seed, offset.wrapping_add(number as u64));
                    let values = $values;
                    let first = number * each;
                    for (n, &value) in values.iter().enumerate().take(elements - first) {
                        // SAFETY: the index is below the number of elements of the output, and every block has its own elements.
                        unsafe { *to.get().add(first + n) = value };
                    }
                }
            });
            Ok(())
        }};
    }
    let refuse = |dtype| Err(DeviceError::Unsupported(format!("{distribution:?} random numbers of {dtype}")));
    match distribution {
        Distribution::Uniform => match output.dtype {
            DType::F64 => fill!(f64, |b| [uniform_f64(b[0], b[1]), uniform_f64(b[2], b[3])]),
            DType::F32 => fill!(f32, |b| b.map(uniform_f32)),
            DType::F16 => fill!(f16, |b| b.map(|word| f16::from_f32(cut(uniform_f32(word), 13)))),
            DType::BF16 => fill!(bf16, |b| b.map(|word| bf16::from_f32(cut(uniform_f32(word), 16)))),
            other => refuse(other),
        },
        Distribution::Normal => match output.dtype {
            DType::F64 => fill!(f64, |b| <[f64; 2]>::from(normal_pair_f64(b))),
            DType::F32 => fill!(f32, |b| four(b).map(|value| value as f32)),
            DType::F16 => fill!(f16, |b| four(b).map(|value| f16::from_f32(value as f32))),
            DType::BF16 => fill!(bf16, |b| four(b).map(|value| bf16::from_f32(value as f32))),
            other => refuse(other),
        },
        Distribution::Integers { low, high } => {
            let pair = |b: [u32; 4]| [integer(b[0], b[1], low, high), integer(b[2], b[3], low, high)];
            match output.dtype {
                DType::C64 | DType::C128 => refuse(output.dtype),
                dtype => {
                    with_element!(dtype, T => fill!(T, |b| pair(b).map(<T as FromInteger>::from_integer)))
                }
            }
        }
    }
}

/// Rounds down to a type with `bits` fewer mantissa bits.
fn cut(value: f32, bits: u32) -> f32 {
    f32::from_bits(value.to_bits() >> bits << bits)
}

fn four(block: [u32; 4]) -> [f64; 4] {
    let (first, second) = normal_pair(block[0], block[1]);
    let (third, fourth) = normal_pair(block[2], block[3]);
    [first, second, third, fourth]
}

trait FromInteger {
    fn from_integer(value: i64) -> Self;
}

macro_rules! from_integer {
    ($($T:ty)*) => {$(
        impl FromInteger for $T {
            fn from_integer(value: i64) -> $T {
                value as $T
            }
        }
    )*};
}

from_integer!(u8 u16 u32 u64 i8 i16 i32 i64 f32 f64);

impl FromInteger for f16 {
    fn from_integer(value: i64) -> f16 {
        f16::from_f64(value as f64)
    }
}

impl FromInteger for bf16 {
    fn from_integer(value: i64) -> bf16 {
        bf16::from_f64(value as f64)
    }
}

impl FromInteger for crate::element::Flag {
    fn from_integer(value: i64) -> crate::element::Flag {
        crate::element::Flag(u8::from(value != 0))
    }
}

impl FromInteger for num_complex::Complex64 {
    fn from_integer(value: i64) -> num_complex::Complex64 {
        num_complex::Complex64::new(value as f64, 0.0)
    }
}

impl FromInteger for num_complex::Complex32 {
    fn from_integer(value: i64) -> num_complex::Complex32 {
        num_complex::Complex32::new(value as f32, 0.0)
    }
}
