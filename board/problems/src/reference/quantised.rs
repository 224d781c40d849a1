//! Low-precision formats: OCP microscaling (MX) blocks of 32 elements with a power-of-two scale, and packed integers.

use super::matmul::product_transposed;
use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows};
use crate::maker::Maker;
use crate::values::Values;

/// Elements that share a scale.
const BLOCK: usize = 32;

pub(super) const ROWS: &[Row] = rows! {
    "int4-matmul" => int4_matmul;
    "mxfp4-dequantize" => mxfp4_dequantize;
    "mxfp4-gemm" => mxfp4_gemm;
    "mxfp4-quantize" => mxfp4_quantize;
    "mxfp8-dequantize" => mxfp8_dequantize, e4m3_q;
    "mxfp8-gemm" => mxfp8_gemm, e4m3_factors;
    "mxfp8-quantize" => mxfp8_quantize;
};

/// A small floating-point format without infinities.
#[derive(Clone, Copy)]
struct Format {
    mantissa_bits: u32,
    bias: i32,
    /// Exponent of the largest number.
    largest_exponent: i32,
    /// Bits of the largest number.
    largest: u8,
    /// Sign bit.
    sign: u8,
}

const E2M1: Format = Format { mantissa_bits: 1, bias: 1, largest_exponent: 2, largest: 0x7, sign: 0x8 };
const E4M3: Format = Format { mantissa_bits: 3, bias: 7, largest_exponent: 8, largest: 0x7e, sign: 0x80 };

impl Format {
    fn value(self, bits: u8) -> f64 {
        let magnitude = i32::from(bits & (self.sign - 1));
        let (exponent, mantissa) =
            (magnitude >> self.mantissa_bits, magnitude & ((1 << self.mantissa_bits) - 1));
        let one = 1 << self.mantissa_bits;
        // Subnormal numbers have no implicit leading one.
        let (digits, exponent) = if exponent == 0 { (mantissa, 1) } else { (one + mantissa, exponent) };
        let value = f64::from(digits) * 2f64.powi(exponent - self.bias - self.mantissa_bits as i32);
        if bits & self.sign != 0 { -value } else { value }
    }

    /// Rounds to the nearest number, ties to even; saturates at the largest number.
    fn bits(self, value: f64) -> u8 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        let magnitude = value.abs();
        let (mut best, mut distance) = (0, f64::INFINITY);
        for bits in 0..=self.largest {
            let here = (self.value(bits) - magnitude).abs();
            if here < distance || (here == distance && bits & 1 == 0) {
                (best, distance) = (bits, here);
            }
        }
        best | sign
    }

    /// Returns the scale byte of a block: the power of two that brings the largest element near the format's largest number.
    fn scale(self, block: &[f64]) -> u8 {
        let largest = block.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        if largest == 0.0 {
            return 0;
        }
        (largest.log2().floor() as i32 - self.largest_exponent + 127).clamp(0, 254) as u8
    }

    fn quantise(self, values: &[f64]) -> (Vec<i64>, Vec<i64>) {
        let (mut elements, mut scales) = (Vec::new(), Vec::new());
        for block in values.chunks_exact(BLOCK) {
            let scale = self.scale(block);
            scales.push(scale.into());
            elements.extend(block.iter().map(|value| i64::from(self.bits(value / power(scale)))));
        }
        (elements, scales)
    }

    fn dequantise<M: Mode>(self, elements: &[u8], scales: &[i64]) -> Vec<Real<M>> {
        let value = |(index, bits): (usize, &u8)| self.value(*bits) * power(scales[index / BLOCK] as u8);
        elements.iter().enumerate().map(value).map(real).collect()
    }
}

/// Returns the value of a scale byte.
fn power(scale: u8) -> f64 {
    2f64.powi(i32::from(scale) - 127)
}

/// Unpacks two elements per byte, the first in the low half.
fn unpacked(bytes: &[i64]) -> Vec<u8> {
    bytes.iter().flat_map(|byte| [(byte & 15) as u8, (byte >> 4) as u8]).collect()
}

fn packed(elements: &[i64]) -> Vec<i64> {
    let (pairs, _) = elements.as_chunks::<2>();
    pairs.iter().map(|[low, high]| low | high << 4).collect()
}

fn bytes(elements: Vec<i64>) -> Vec<u8> {
    elements.into_iter().map(|element| element as u8).collect()
}

fn input<M: Mode>(call: &Call<'_, M>) -> Vec<f64> {
    call.floats("a").into_iter().map(Real::output).collect()
}

fn mxfp4_quantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (elements, scales) = E2M1.quantise(&input(call));
    vec![Values::Integers(packed(&elements)), Values::Integers(scales)]
}

fn mxfp8_quantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (elements, scales) = E4M3.quantise(&input(call));
    vec![Values::Integers(elements), Values::Integers(scales)]
}

fn mxfp4_dequantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(E2M1.dequantise::<M>(&unpacked(&call.integers("q")), &call.integers("scale")))
}

fn mxfp8_dequantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(E4M3.dequantise::<M>(&bytes(call.integers("q")), &call.integers("scale")))
}

fn mxfp4_gemm<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let factor =
        |q: &str, scale: &str| E2M1.dequantise::<M>(&unpacked(&call.integers(q)), &call.integers(scale));
    let (a, b) = (factor("q_a", "scale_a"), factor("q_b", "scale_b"));
    floats(product_transposed(&a, &b, call.size("m"), call.size("k")))
}

fn mxfp8_gemm<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let factor = |q: &str, scale: &str| E4M3.dequantise::<M>(&bytes(call.integers(q)), &call.integers(scale));
    let (a, b) = (factor("q_a", "scale_a"), factor("q_b", "scale_b"));
    floats(product_transposed(&a, &b, call.size("m"), call.size("k")))
}

/// 4-bit weights with zero point 8, and one scale per 32 weights of a row.
fn int4_matmul<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let scales = call.floats("scales");
    let weights: Vec<Real<M>> = unpacked(&call.integers("q"))
        .into_iter()
        .enumerate()
        .map(|(index, q)| real::<M>(f64::from(q) - 8.0) * scales[index / BLOCK])
        .collect();
    floats(product_transposed(&call.floats("x"), &weights, call.size("m"), call.size("k")))
}

/// Generates random elements except the two NaN encodings.
fn e4m3(maker: &mut Maker<'_>, name: &str, count: usize) {
    let mut random = maker.random(name);
    let elements: Vec<i64> =
        (0..count).map(|_| random.integer(0, 0x7e) | random.integer(0, 1) << 7).collect();
    maker.integers(name, elements);
}

fn e4m3_q(maker: &mut Maker<'_>) {
    let count = maker.size("m") * maker.size("k");
    e4m3(maker, "q", count);
}

fn e4m3_factors(maker: &mut Maker<'_>) {
    let k = maker.size("k");
    let (a, b) = (maker.size("m") * k, maker.size("n") * k);
    e4m3(maker, "q_a", a);
    e4m3(maker, "q_b", b);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_formats_have_the_numbers_of_the_specification() {
        let e2m1: Vec<f64> = (0..8).map(|bits| E2M1.value(bits)).collect();
        assert_eq!(e2m1, [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0]);
        assert_eq!(E2M1.value(0xf), -6.0);
        assert_eq!(E4M3.value(0x7e), 448.0);
        assert_eq!(E4M3.value(0x08), 2f64.powi(-6));
        assert_eq!(E4M3.value(0x01), 2f64.powi(-9));
        assert_eq!(power(127), 1.0);
    }

    #[test]
    fn numbers_round_to_the_nearest_and_to_even_between() {
        for bits in (0..=0x7e).chain(0x80..=0xfe) {
            assert_eq!(E4M3.bits(E4M3.value(bits)), bits);
        }
        assert_eq!(E2M1.bits(2.5), E2M1.bits(2.0));
        assert_eq!(E2M1.bits(5.0), E2M1.bits(4.0));
        assert_eq!(E2M1.bits(0.25), 0);
        assert_eq!(E2M1.bits(0.75), E2M1.bits(1.0));
        assert_eq!(E2M1.bits(-100.0), 0xf);
    }
}
