//! Single elements as bytes, in the machine's byte order.

use half::{bf16, f16};

use crate::dtype::{DType, Scalar};

/// Appends a number as an element. Values out of range wrap, as in casts of tensors; of a complex number, other types get the real part.
#[inline]
pub fn encode(value: Scalar, dtype: DType, into: &mut Vec<u8>) {
    let float = value.to_f64();
    let imaginary = if let Scalar::Complex(_, imaginary) = value { imaginary } else { 0.0 };
    let integer = match value {
        Scalar::Bool(value) => i64::from(value),
        Scalar::Int(value) => value,
        Scalar::UInt(value) => value as i64,
        Scalar::Float(value) => value as i64,
        Scalar::Complex(real, _) => real as i64,
    };
    match dtype {
        DType::Bool => into.push(u8::from(float != 0.0 || imaginary != 0.0)),
        DType::U8 => into.push(integer as u8),
        DType::I8 => into.extend((integer as i8).to_ne_bytes()),
        DType::U16 => into.extend((integer as u16).to_ne_bytes()),
        DType::I16 => into.extend((integer as i16).to_ne_bytes()),
        DType::U32 => into.extend((integer as u32).to_ne_bytes()),
        DType::I32 => into.extend((integer as i32).to_ne_bytes()),
        DType::U64 => match value {
            Scalar::Float(value) if value >= 0.0 => into.extend((value as u64).to_ne_bytes()),
            _ => into.extend((integer as u64).to_ne_bytes()),
        },
        DType::I64 => into.extend(integer.to_ne_bytes()),
        DType::F16 => into.extend(f16::from_f64(float).to_ne_bytes()),
        DType::BF16 => into.extend(bf16::from_f64(float).to_ne_bytes()),
        DType::F32 => into.extend((float as f32).to_ne_bytes()),
        DType::F64 => into.extend(float.to_ne_bytes()),
        DType::C64 => {
            into.extend((float as f32).to_ne_bytes());
            into.extend((imaginary as f32).to_ne_bytes());
        }
        DType::C128 => {
            into.extend(float.to_ne_bytes());
            into.extend(imaginary.to_ne_bytes());
        }
    }
}

/// Reads the element at the start of `bytes`.
#[inline]
pub fn decode(bytes: &[u8], dtype: DType) -> Scalar {
    macro_rules! read {
        ($type:ty) => {{
            let mut raw = [0; size_of::<$type>()];
            raw.copy_from_slice(&bytes[..size_of::<$type>()]);
            <$type>::from_ne_bytes(raw)
        }};
    }
    match dtype {
        DType::Bool => Scalar::Bool(bytes[0] != 0),
        DType::U8 => Scalar::UInt(u64::from(bytes[0])),
        DType::U16 => Scalar::UInt(u64::from(read!(u16))),
        DType::U32 => Scalar::UInt(u64::from(read!(u32))),
        DType::U64 => Scalar::UInt(read!(u64)),
        DType::I8 => Scalar::Int(i64::from(read!(i8))),
        DType::I16 => Scalar::Int(i64::from(read!(i16))),
        DType::I32 => Scalar::Int(i64::from(read!(i32))),
        DType::I64 => Scalar::Int(read!(i64)),
        DType::F16 => Scalar::Float(f64::from(f16::from_bits(read!(u16)))),
        DType::BF16 => Scalar::Float(f64::from(bf16::from_bits(read!(u16)))),
        DType::F32 => Scalar::Float(f64::from(read!(f32))),
        DType::F64 => Scalar::Float(read!(f64)),
        DType::C64 | DType::C128 => {
            let part = |at: usize| decode(&bytes[at..], dtype.part()).to_f64();
            Scalar::Complex(part(0), part(dtype.part().bytes()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_reads_back_what_it_holds() {
        for dtype in DType::ALL {
            let mut bytes = Vec::new();
            encode(Scalar::Complex(1.0, -2.0), dtype, &mut bytes);
            assert_eq!(bytes.len(), dtype.bytes());
            let expected = if dtype.is_complex() { (1.0, Some(-2.0)) } else { (1.0, None) };
            let decoded = decode(&bytes, dtype);
            let imaginary = if let Scalar::Complex(_, imaginary) = decoded { Some(imaginary) } else { None };
            assert_eq!((decoded.to_f64(), imaginary), expected, "{dtype}");
        }
    }

    #[test]
    fn integers_out_of_range_wrap() {
        let wrapped = |value: Scalar, dtype: DType| {
            let mut bytes = Vec::new();
            encode(value, dtype, &mut bytes);
            decode(&bytes, dtype)
        };
        assert_eq!(wrapped(Scalar::Int(-1), DType::U8), Scalar::UInt(255));
        assert_eq!(wrapped(Scalar::Int(300), DType::I8), Scalar::Int(44));
        assert_eq!(wrapped(Scalar::Float(1.8e19), DType::U64), Scalar::UInt(18_000_000_000_000_000_000));
    }
}
