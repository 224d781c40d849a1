//! Element types: names, sizes, C names, and conversion between numbers and bytes.

use half::{bf16, f16};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The type of one element of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Dtype {
    /// IEEE half precision.
    Float16,
    /// Single precision with 8 bits of mantissa.
    Bfloat16,
    /// IEEE single precision.
    Float32,
    /// IEEE double precision.
    Float64,
    /// Signed, 8 bits.
    Int8,
    /// Unsigned, 8 bits.
    Uint8,
    /// Signed, 32 bits.
    Int32,
    /// Unsigned, 32 bits.
    Uint32,
    /// Signed, 64 bits.
    Int64,
    /// Unsigned, 64 bits.
    Uint64,
}

impl Dtype {
    /// All types.
    pub const ALL: [Self; 10] = [
        Self::Float16,
        Self::Bfloat16,
        Self::Float32,
        Self::Float64,
        Self::Int8,
        Self::Uint8,
        Self::Int32,
        Self::Uint32,
        Self::Int64,
        Self::Uint64,
    ];

    /// Returns the name in definitions and requests.
    pub fn name(self) -> &'static str {
        match self {
            Self::Float16 => "float16",
            Self::Bfloat16 => "bfloat16",
            Self::Float32 => "float32",
            Self::Float64 => "float64",
            Self::Int8 => "int8",
            Self::Uint8 => "uint8",
            Self::Int32 => "int32",
            Self::Uint32 => "uint32",
            Self::Int64 => "int64",
            Self::Uint64 => "uint64",
        }
    }

    /// Finds a type by its name.
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|dtype| dtype.name() == name)
    }

    /// Returns the size of an element in bytes.
    pub fn size(self) -> usize {
        match self {
            Self::Int8 | Self::Uint8 => 1,
            Self::Float16 | Self::Bfloat16 => 2,
            Self::Float32 | Self::Int32 | Self::Uint32 => 4,
            Self::Float64 | Self::Int64 | Self::Uint64 => 8,
        }
    }

    /// Returns whether the type is a floating-point type.
    pub fn is_float(self) -> bool {
        matches!(self, Self::Float16 | Self::Bfloat16 | Self::Float32 | Self::Float64)
    }

    /// Returns the type's name in HIP C++.
    pub fn c_name(self) -> &'static str {
        match self {
            Self::Float16 => "__half",
            Self::Bfloat16 => "hip_bfloat16",
            Self::Float32 => "float",
            Self::Float64 => "double",
            Self::Int8 => "int8_t",
            Self::Uint8 => "uint8_t",
            Self::Int32 => "int",
            Self::Uint32 => "uint32_t",
            Self::Int64 => "int64_t",
            Self::Uint64 => "uint64_t",
        }
    }

    /// Returns the header that declares [`Self::c_name`]; `None` if `hip/hip_runtime.h` does.
    pub fn header(self) -> Option<&'static str> {
        match self {
            Self::Float16 => Some("hip/hip_fp16.h"),
            Self::Bfloat16 => Some("hip/hip_bfloat16.h"),
            _ => None,
        }
    }

    /// Returns the type of scalar arguments for elements of this type. Half-precision scalars are passed as float.
    pub fn scalar(self) -> Self {
        match self {
            Self::Float16 | Self::Bfloat16 => Self::Float32,
            other => other,
        }
    }

    /// Encodes the nearest number of this type. Integer types accept integers only and saturate.
    pub fn encode(self, value: f64, bytes: &mut Vec<u8>) {
        match self {
            Self::Float16 => bytes.extend(f16::from_f64(value).to_le_bytes()),
            Self::Bfloat16 => bytes.extend(bf16::from_f64(value).to_le_bytes()),
            Self::Float32 => bytes.extend((value as f32).to_le_bytes()),
            Self::Float64 => bytes.extend(value.to_le_bytes()),
            _ => self.encode_integer(value as i128, bytes),
        }
    }

    /// Like [`Self::encode`], but for integers, which f64 cannot represent exactly in all cases.
    pub fn encode_integer(self, value: i128, bytes: &mut Vec<u8>) {
        match self {
            Self::Int8 => bytes.extend((value.clamp(-0x80, 0x7f) as i8).to_le_bytes()),
            Self::Uint8 => bytes.extend((value.clamp(0, 0xff) as u8).to_le_bytes()),
            Self::Int32 => bytes.extend((value.clamp(i32::MIN.into(), i32::MAX.into()) as i32).to_le_bytes()),
            Self::Uint32 => bytes.extend((value.clamp(0, u32::MAX.into()) as u32).to_le_bytes()),
            Self::Int64 => bytes.extend((value.clamp(i64::MIN.into(), i64::MAX.into()) as i64).to_le_bytes()),
            Self::Uint64 => bytes.extend((value.clamp(0, u64::MAX.into()) as u64).to_le_bytes()),
            _ => self.encode(value as f64, bytes),
        }
    }

    /// Decodes all complete elements of `bytes` to floating-point numbers.
    pub fn decode(self, bytes: &[u8]) -> Vec<f64> {
        let mut numbers = vec![0.0; bytes.len() / self.size()];
        self.decode_into(bytes, &mut numbers);
        numbers
    }

    /// Decodes elements of `bytes` to floating-point numbers, until there are no more of either.
    pub(crate) fn decode_into(self, bytes: &[u8], numbers: &mut [f64]) {
        match self {
            Self::Float16 => elements(bytes, numbers, |b| f16::from_le_bytes(b).to_f64()),
            Self::Bfloat16 => elements(bytes, numbers, |b| bf16::from_le_bytes(b).to_f64()),
            Self::Float32 => elements(bytes, numbers, |b| f32::from_le_bytes(b).into()),
            Self::Float64 => elements(bytes, numbers, f64::from_le_bytes),
            Self::Int8 => elements(bytes, numbers, |b| i8::from_le_bytes(b).into()),
            Self::Uint8 => elements(bytes, numbers, |b| u8::from_le_bytes(b).into()),
            Self::Int32 => elements(bytes, numbers, |b| i32::from_le_bytes(b).into()),
            Self::Uint32 => elements(bytes, numbers, |b| u32::from_le_bytes(b).into()),
            Self::Int64 => elements(bytes, numbers, |b| i64::from_le_bytes(b) as f64),
            Self::Uint64 => elements(bytes, numbers, |b| u64::from_le_bytes(b) as f64),
        }
    }

    /// Decodes all complete elements of `bytes` to integers; floating-point elements are truncated.
    pub fn decode_integers(self, bytes: &[u8]) -> Vec<i128> {
        if self == Self::Uint64 {
            let mut numbers = vec![0; bytes.len() / self.size()];
            elements(bytes, &mut numbers, |b| u64::from_le_bytes(b).into());
            return numbers;
        }
        if self.is_float() {
            return self.decode(bytes).into_iter().map(|value| value as i128).collect();
        }
        let mut numbers = vec![0; bytes.len() / self.size()];
        self.decode_low_bits_into(bytes, &mut numbers);
        numbers.into_iter().map(i128::from).collect()
    }

    /// Decodes elements of `bytes` to integers, until there are no more of either. Of larger numbers it takes the low 64 bits.
    pub(crate) fn decode_low_bits_into(self, bytes: &[u8], numbers: &mut [i64]) {
        match self {
            Self::Int8 => elements(bytes, numbers, |b| i8::from_le_bytes(b).into()),
            Self::Uint8 => elements(bytes, numbers, |b| u8::from_le_bytes(b).into()),
            Self::Int32 => elements(bytes, numbers, |b| i32::from_le_bytes(b).into()),
            Self::Uint32 => elements(bytes, numbers, |b| u32::from_le_bytes(b).into()),
            Self::Int64 => elements(bytes, numbers, i64::from_le_bytes),
            Self::Uint64 => elements(bytes, numbers, |b| u64::from_le_bytes(b) as i64),
            _ => {
                let whole = self.decode_integers(bytes);
                numbers.iter_mut().zip(whole).for_each(|(number, value)| *number = value as i64);
            }
        }
    }
}

impl fmt::Display for Dtype {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

fn elements<const N: usize, T>(bytes: &[u8], numbers: &mut [T], decode: impl Fn([u8; N]) -> T) {
    let (whole, _) = bytes.as_chunks::<N>();
    numbers.iter_mut().zip(whole).for_each(|(number, chunk)| *number = decode(*chunk));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_their_types() {
        for dtype in Dtype::ALL {
            assert_eq!(Dtype::from_name(dtype.name()), Some(dtype));
        }
        assert_eq!(Dtype::from_name("float"), None);
    }

    #[test]
    fn small_whole_numbers_survive_every_type() {
        for dtype in Dtype::ALL {
            let mut bytes = Vec::new();
            for value in [0.0, 1.0, 2.0, 100.0] {
                dtype.encode(value, &mut bytes);
            }
            assert_eq!(bytes.len(), 4 * dtype.size());
            assert_eq!(dtype.decode(&bytes), [0.0, 1.0, 2.0, 100.0], "{dtype}");
            assert_eq!(dtype.decode_integers(&bytes), [0, 1, 2, 100], "{dtype}");
        }
    }

    #[test]
    fn integers_keep_all_64_bits() {
        let mut bytes = Vec::new();
        Dtype::Uint64.encode_integer(u64::MAX.into(), &mut bytes);
        assert_eq!(Dtype::Uint64.decode_integers(&bytes), [i128::from(u64::MAX)]);
    }
}
