//! Finite field arithmetic; results are exact.

use super::real::Mode;
use super::row::{Call, Row, WORK, each_integer, rows};
use crate::threads::fill;
use crate::values::Values;

/// The Mersenne prime 2^31 - 1.
const PRIME: u64 = (1 << 31) - 1;

pub(super) const ROWS: &[Row] = rows! {
    "ecc-point-negation" => negation;
    "modular-power" => power;
    "poly-multiply-ff" => polynomials;
    "vector-multiply-ff" => vectors;
};

fn vectors<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each_integer(call, ["input1", "input2"], |[a, b]| (a as u64 * b as u64 % PRIME) as i64)
}

fn polynomials<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (a, b) = (call.integers("input1"), call.integers("input2"));
    let coefficient = |power: usize| {
        let first = power.saturating_sub(b.len() - 1);
        let pairs = a[first..a.len().min(power + 1)].iter().enumerate();
        // Remainders do not wait for each other, and their sum has 64 bits.
        pairs.map(|(i, x)| *x as u64 * b[power - first - i] as u64 % PRIME).sum::<u64>() % PRIME
    };
    vec![Values::Integers(fill(a.len() + b.len() - 1, 1, WORK * b.len(), |range, part| {
        part.iter_mut().zip(range).for_each(|(element, power)| *element = coefficient(power) as i64);
    }))]
}

fn power<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each_integer(call, ["bases", "exponents"], |[base, exponent]| {
        let (mut result, mut square, mut rest) = (1, base as u64 % PRIME, exponent as u64);
        while rest > 0 {
            if rest & 1 == 1 {
                result = result * square % PRIME;
            }
            square = square * square % PRIME;
            rest >>= 1;
        }
        result as i64
    })
}

/// (x, y) becomes (x, p - y), and zero stays zero.
fn negation<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let p = call.integers("p")[0];
    let (xs, ys) = (call.whole("xs"), call.whole("ys"));
    vec![Values::Integers(fill(2 * xs.len(), 2, WORK, |range, part| {
        let range = range.start / 2..range.end / 2;
        let points = xs.range(range.clone()).into_iter().zip(ys.range(range));
        let (pairs, _) = part.as_chunks_mut::<2>();
        pairs.iter_mut().zip(points).for_each(|(pair, (x, y))| *pair = [x, if y == 0 { 0 } else { p - y }]);
    }))]
}
