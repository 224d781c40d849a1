//! Attention variants and rotary position embedding (RoPE).

use super::matmul::{dot, dot_each};
use super::product::Panels;
use super::real::{Mode, Real, real};
use super::row::{Call, Reals, Row, each_row, rows, write};
use super::softmax::softmax_of;
use crate::maker::Maker;
use crate::threads::fill;
use crate::values::Values;
use std::ops::Range;

pub(super) const ROWS: &[Row] = rows! {
    "causal-attention" => causal;
    "decode-attention" => decode;
    "grouped-query-attention" => grouped;
    "rope" => rope, angles;
    "scaled-dot-attention" => full;
};

/// Positions of a cache that are decoded at a time.
const PLACES: usize = 256;
/// Queries whose scores are computed together.
const QUERIES: usize = 16;

/// Keys and values of one head.
struct Head<'a, M> {
    keys: &'a [Real<M>],
    values: &'a [Real<M>],
    /// The same, for products.
    packed: Option<(Panels<M>, Panels<M>)>,
    e: usize,
}

impl<'a, M: Mode> Head<'a, M> {
    fn new(keys: &'a [Real<M>], values: &'a [Real<M>], e: usize) -> Self {
        let pack = || (Panels::of_columns(keys, e), Panels::of_rows(values, keys.len() / e, e));
        Self { keys, values, packed: (!M::pairwise()).then(pack), e }
    }

    /// Computes the outputs of some queries over as many keys as each of them sees.
    fn attend(&self, queries: &[Real<M>], seen: &[usize], to: &mut [f64]) {
        let (e, scale) = (self.e, real::<M>(self.e as f64).sqrt());
        let Some((keys, values)) = &self.packed else {
            for ((query, seen), to) in queries.chunks_exact(e).zip(seen).zip(to.chunks_exact_mut(e)) {
                write(to, self.attend_one_by_one(query, *seen, scale));
            }
            return;
        };
        let most = seen.iter().copied().max().unwrap_or(0);
        let mut scores = vec![Real::zero(); seen.len() * most];
        keys.multiply(queries, e, most, &mut scores);
        let mut outputs = vec![Real::zero(); queries.len()];
        for (index, seen) in seen.iter().enumerate() {
            let scores = &mut scores[index * most..index * most + seen];
            scores.iter_mut().for_each(|score| *score = *score / scale);
            let shares = softmax_of(scores);
            scores.copy_from_slice(&shares);
            if *seen != most {
                values.multiply(&shares, *seen, e, &mut outputs[index * e..(index + 1) * e]);
            }
        }
        // The last of a causal block, and all of others.
        let whole = seen.iter().position(|seen| *seen == most).unwrap_or(seen.len());
        values.multiply(&scores[whole * most..], most, e, &mut outputs[whole * e..]);
        write(to, outputs);
    }

    fn attend_one_by_one(&self, query: &[Real<M>], seen: usize, scale: Real<M>) -> Vec<Real<M>> {
        let keys = self.keys.chunks_exact(self.e).take(seen);
        let scores: Vec<Real<M>> = keys.map(|key| dot(query, key) / scale).collect();
        let shares = softmax_of(&scores);
        let values = || shares.iter().zip(self.values.chunks_exact(self.e));
        (0..self.e).map(|e| values().map(|(share, value)| *share * value[e]).sum()).collect()
    }
}

/// Computes all query heads in order, each with its key/value head.
fn heads<M: Mode>(call: &Call<'_, M>, sharing: usize, causal: bool) -> Vec<Values> {
    let (s, e) = (call.size("S"), call.size("E"));
    let (q, k, v) = (call.reals("Q"), call.reals("K"), call.reals("V"));
    // A part of the case has fewer queries.
    let places = call.places("Q", s);
    let seen: Vec<usize> = places.iter().map(|place| if causal { place + 1 } else { s }).collect();
    let unit = places.len() * e;
    vec![Values::Floats(fill(q.len(), unit, 4 * s, |range, part| {
        for (head, to) in (range.start / unit..range.end / unit).zip(part.chunks_exact_mut(unit)) {
            let start = head / sharing * s * e;
            let (keys, values) = (k.range(start..start + s * e), v.range(start..start + s * e));
            let queries = q.range(head * unit..(head + 1) * unit);
            let head = Head::new(&keys, &values, e);
            let blocks = queries.chunks(QUERIES * e).zip(seen.chunks(QUERIES));
            blocks
                .zip(to.chunks_mut(QUERIES * e))
                .for_each(|((queries, seen), to)| head.attend(queries, seen, to));
        }
    }))]
}

fn full<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    heads(call, 1, false)
}

fn causal<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    heads(call, 1, true)
}

fn grouped<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    heads(call, call.size("H") / call.size("G"), false)
}

/// One query per head; keys and values are ordered by position.
fn decode<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (h, s, e) = (call.size("H"), call.size("S"), call.size("E"));
    let (q, k, v) = (call.floats("q"), call.reals("K"), call.reals("V"));
    let scale = real::<M>(e as f64).sqrt();
    vec![Values::Floats(fill(h * e, e, 4 * s, |range, part| {
        for (head, to) in (range.start / e..range.end / e).zip(part.chunks_exact_mut(e)) {
            let query = &q[head * e..(head + 1) * e];
            let some = |cache: &Reals<'_, M>, places: Range<usize>| -> Vec<Real<M>> {
                let of_place = |place| cache.range((place * h + head) * e..(place * h + head + 1) * e);
                places.flat_map(of_place).collect()
            };
            let blocks = || (0..s).step_by(PLACES).map(|first| first..(first + PLACES).min(s));
            let scores: Vec<Real<M>> = blocks()
                .flat_map(|places| dot_each(&some(&k, places), query))
                .map(|dot| dot / scale)
                .collect();
            let shares = softmax_of(&scores);
            if M::pairwise() {
                let values = some(&v, 0..s);
                let terms = |i: usize| shares.iter().zip(values.chunks_exact(e)).map(move |(a, b)| *a * b[i]);
                write(to, (0..e).map(|i| terms(i).sum::<Real<M>>()));
                continue;
            }
            let mut sums = vec![Real::zero(); e];
            for places in blocks() {
                for (share, value) in shares[places.clone()].iter().zip(some(&v, places).chunks_exact(e)) {
                    sums.iter_mut().zip(value).for_each(|(sum, value)| *sum += *share * *value);
                }
            }
            write(to, sums);
        }
    }))]
}

/// Rotates element `i` of the first half with element `i` of the second.
fn rope<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (h, e) = (call.size("H"), call.size("E"));
    let half = e / 2;
    let (cos, sin) = (call.floats("cos"), call.floats("sin"));
    each_row(call, "x", e, e, |row, head, to| {
        let start = row / h * half;
        let (cos, sin) = (&cos[start..start + half], &sin[start..start + half]);
        let first = (0..half).map(|i| head[i] * cos[i] - head[half + i] * sin[i]);
        let second = (0..half).map(|i| head[half + i] * cos[i] + head[i] * sin[i]);
        write(to, first.chain(second));
    })
}

fn angles(maker: &mut Maker<'_>) {
    let (s, half) = (maker.size("S"), maker.size("E") / 2);
    let angle = |index: usize| {
        let (place, i) = (index / half, index % half);
        place as f64 * 10_000f64.powf(-(i as f64) / half as f64)
    };
    maker.floats("cos", (0..s * half).map(|index| angle(index).cos()));
    maker.floats("sin", (0..s * half).map(|index| angle(index).sin()));
}
