//! Attention variants and rotary position embedding (RoPE).

use super::matmul::dot;
use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows};
use super::softmax::softmax_of;
use crate::maker::Maker;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "causal-attention" => causal;
    "decode-attention" => decode;
    "grouped-query-attention" => grouped;
    "rope" => rope, angles;
    "scaled-dot-attention" => full;
};

/// Computes the attention output of one query over its keys and values.
fn attend<M: Mode>(query: &[Real<M>], keys: &[&[Real<M>]], values: &[&[Real<M>]]) -> Vec<Real<M>> {
    let scale = real::<M>(query.len() as f64).sqrt();
    let scores: Vec<Real<M>> = keys.iter().map(|key| dot(query, key) / scale).collect();
    let shares = softmax_of(&scores);
    let element = |e: usize| shares.iter().zip(values).map(|(share, value)| *share * value[e]).sum();
    (0..query.len()).map(element).collect()
}

/// Computes all query heads in order, each with its key/value head.
fn heads<M: Mode>(call: &Call<'_, M>, sharing: usize, causal: bool) -> Vec<Values> {
    let (s, e) = (call.size("S"), call.size("E"));
    let (q, k, v) = (call.floats("Q"), call.floats("K"), call.floats("V"));
    // A part of the case has fewer queries.
    let places = call.places("Q", s);
    let mut output = Vec::with_capacity(q.len());
    for (head, queries) in q.chunks_exact(places.len() * e).enumerate() {
        let start = head / sharing * s * e;
        let keys: Vec<&[Real<M>]> = k[start..start + s * e].chunks_exact(e).collect();
        let values: Vec<&[Real<M>]> = v[start..start + s * e].chunks_exact(e).collect();
        for (query, place) in queries.chunks_exact(e).zip(&places) {
            let seen = if causal { place + 1 } else { s };
            output.extend(attend(query, &keys[..seen], &values[..seen]));
        }
    }
    floats(output)
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
    let (q, k, v) = (call.floats("q"), call.floats("K"), call.floats("V"));
    floats((0..h).flat_map(|head| {
        let of_head = |cache: &'_ [Real<M>]| -> Vec<Vec<Real<M>>> {
            (0..s).map(|place| cache[(place * h + head) * e..(place * h + head + 1) * e].to_vec()).collect()
        };
        let (keys, values) = (of_head(&k), of_head(&v));
        let keys: Vec<&[Real<M>]> = keys.iter().map(Vec::as_slice).collect();
        let values: Vec<&[Real<M>]> = values.iter().map(Vec::as_slice).collect();
        attend(&q[head * e..(head + 1) * e], &keys, &values)
    }))
}

/// Rotates element `i` of the first half with element `i` of the second.
fn rope<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (h, e) = (call.size("H"), call.size("E"));
    let half = e / 2;
    let (x, cos, sin) = (call.floats("x"), call.floats("cos"), call.floats("sin"));
    floats(x.chunks_exact(e).enumerate().flat_map(|(row, head)| {
        let start = row / h * half;
        let (cos, sin) = (&cos[start..start + half], &sin[start..start + half]);
        let first = (0..half).map(|i| head[i] * cos[i] - head[half + i] * sin[i]);
        let second = (0..half).map(|i| head[half + i] * cos[i] + head[i] * sin[i]);
        first.chain(second).collect::<Vec<_>>()
    }))
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
