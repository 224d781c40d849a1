//! Low-precision formats: OCP microscaling (MX) blocks of 32 elements with a power-of-two scale, and packed integers.

use super::matmul::product_transposed;
use super::real::{Mode, Real, real};
use super::row::{Call, Reals, Row, WORK, floats, rows};
use crate::maker::Maker;
use crate::threads::{fill, fill_two};
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

    /// Rounds to the nearest number, ties to even; saturates at the largest number. `values` are those of the numbers that are not negative.
    fn bits(self, values: &[f64], value: f64) -> u8 {
        let sign = if value.is_sign_negative() { self.sign } else { 0 };
        let magnitude = value.abs();
        let above = values.partition_point(|value| *value < magnitude).min(values.len() - 1);
        let below = above.saturating_sub(1);
        let distance = |bits: usize| (values[bits] - magnitude).abs();
        let (down, up) = (distance(below), distance(above));
        let nearest = if up < down || (up == down && above.is_multiple_of(2)) { above } else { below };
        nearest as u8 | sign
    }

    /// Returns the numbers that are not negative, in ascending order.
    fn values(self) -> Vec<f64> {
        (0..=self.largest).map(|bits| self.value(bits)).collect()
    }

    /// Returns the scale byte of a block: the power of two that brings the largest element near the format's largest number.
    fn scale(self, block: &[f64]) -> u8 {
        let largest = block.iter().fold(0.0f64, |largest, value| largest.max(value.abs()));
        if largest == 0.0 {
            return 0;
        }
        (largest.log2().floor() as i32 - self.largest_exponent + 127).clamp(0, 254) as u8
    }

    /// Quantises an input. A byte has so many elements.
    fn quantise<M: Mode>(self, input: &Reals<'_, M>, of_a_byte: usize) -> Vec<Values> {
        let (values, width) = (self.values(), BLOCK / of_a_byte);
        let blocks = input.len() / BLOCK;
        let (elements, scales) = fill_two(blocks, (width, 1), WORK * BLOCK, |range, elements, scales| {
            let numbers: Vec<f64> =
                input.range(range.start * BLOCK..range.end * BLOCK).into_iter().map(Real::output).collect();
            let outputs = elements.chunks_exact_mut(width).zip(scales);
            for (block, (bytes, to)) in numbers.chunks_exact(BLOCK).zip(outputs) {
                let scale = self.scale(block);
                *to = i64::from(scale);
                let power = power(scale);
                for (byte, elements) in bytes.iter_mut().zip(block.chunks_exact(of_a_byte)) {
                    let bits = elements.iter().map(|value| i64::from(self.bits(&values, value / power)));
                    *byte = bits.rev().fold(0, |byte, bits| byte << 4 | bits);
                }
            }
        });
        vec![Values::Integers(elements), Values::Integers(scales)]
    }

    /// Computes the numbers of blocks. A byte has so many elements, the first in the low bits.
    fn dequantise<M: Mode>(
        self,
        call: &Call<'_, M>,
        (q, scale): (&str, &str),
        of_a_byte: usize,
    ) -> Vec<Real<M>> {
        let (bytes, scales, width) = (call.whole(q), call.integers(scale), BLOCK / of_a_byte);
        let values: Vec<f64> = (0..=u8::MAX).map(|bits| self.value(bits)).collect();
        fill(bytes.len() * of_a_byte, BLOCK, WORK, |range, part| {
            let blocks = range.start / BLOCK..range.end / BLOCK;
            let bytes = bytes.range(blocks.start * width..blocks.end * width);
            let numbers = bytes.chunks_exact(width).zip(&scales[blocks]).zip(part.chunks_exact_mut(BLOCK));
            for ((bytes, scale), numbers) in numbers {
                let power = power(*scale as u8);
                for (byte, numbers) in bytes.iter().zip(numbers.chunks_exact_mut(of_a_byte)) {
                    let mask = if of_a_byte == 1 { 0xff } else { 0xf };
                    for (place, number) in numbers.iter_mut().enumerate() {
                        *number = real(values[(byte >> (4 * place) & mask) as usize] * power);
                    }
                }
            }
        })
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

fn mxfp4_quantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    E2M1.quantise(&call.reals("a"), 2)
}

fn mxfp8_quantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    E4M3.quantise(&call.reals("a"), 1)
}

fn mxfp4_dequantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(E2M1.dequantise(call, ("q", "scale"), 2))
}

fn mxfp8_dequantize<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(E4M3.dequantise(call, ("q", "scale"), 1))
}

fn mxfp4_gemm<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    gemm(call, E2M1, 2)
}

fn mxfp8_gemm<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    gemm(call, E4M3, 1)
}

fn gemm<M: Mode>(call: &Call<'_, M>, format: Format, of_a_byte: usize) -> Vec<Values> {
    let a = format.dequantise(call, ("q_a", "scale_a"), of_a_byte);
    let b = format.dequantise(call, ("q_b", "scale_b"), of_a_byte);
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
    maker.random_numbers(name, count, 2, |_, random| {
        (random.integer(0, 0x7e) | random.integer(0, 1) << 7) as f64
    });
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
            assert_eq!(E4M3.bits(&E4M3.values(), E4M3.value(bits)), bits);
        }
        let values = E2M1.values();
        let bits = |value: f64| E2M1.bits(&values, value);
        assert_eq!(bits(2.5), bits(2.0));
        assert_eq!(bits(5.0), bits(4.0));
        assert_eq!(bits(0.25), 0);
        assert_eq!(bits(0.75), bits(1.0));
        assert_eq!(bits(-100.0), 0xf);
    }
}
