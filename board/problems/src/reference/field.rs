//! Finite field arithmetic; results are exact.

use super::real::Mode;
use super::row::{Call, Row, integers, rows};
use crate::values::Values;

/// The Mersenne prime 2^31 - 1.
const PRIME: u64 = (1 << 31) - 1;

pub(super) const ROWS: &[Row] = rows! {
    "ecc-point-negation" => negation;
    "modular-power" => power;
    "poly-multiply-ff" => polynomials;
    "vector-multiply-ff" => vectors;
};

fn elements<M: Mode>(call: &Call<'_, M>, name: &str) -> Vec<u64> {
    call.integers(name).into_iter().map(|value| value as u64).collect()
}

fn vectors<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let pairs = elements(call, "input1").into_iter().zip(elements(call, "input2"));
    integers(pairs.map(|(a, b)| (a * b % PRIME) as i64))
}

fn polynomials<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (a, b) = (elements(call, "input1"), elements(call, "input2"));
    let mut product = vec![0; a.len() + b.len() - 1];
    for (i, x) in a.iter().enumerate() {
        for (j, y) in b.iter().enumerate() {
            product[i + j] = (product[i + j] + x * y) % PRIME;
        }
    }
    integers(product.into_iter().map(|coefficient| coefficient as i64))
}

fn power<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let pairs = elements(call, "bases").into_iter().zip(elements(call, "exponents"));
    integers(pairs.map(|(base, exponent)| {
        let (mut result, mut square, mut rest) = (1, base % PRIME, exponent);
        while rest > 0 {
            if rest & 1 == 1 {
                result = result * square % PRIME;
            }
            square = square * square % PRIME;
            rest >>= 1;
        }
        result as i64
    }))
}

/// (x, y) becomes (x, p - y), and zero stays zero.
fn negation<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let p = call.integers("p")[0];
    let points = call.integers("xs").into_iter().zip(call.integers("ys"));
    integers(points.flat_map(|(x, y)| [x, if y == 0 { 0 } else { p - y }]))
}
