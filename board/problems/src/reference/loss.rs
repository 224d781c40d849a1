//! Loss functions.

use super::matmul::dot;
use super::real::{Mode, Real, real};
use super::row::{Call, Row, WORK, each, floats, rows};
use crate::maker::{Maker, Random};
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cosine-similarity" => cosine;
    "hinge-loss" => hinge, signs;
    "huber-loss" => huber;
    "kl-loss" => kl, distributions;
    "mse-loss" => mse;
    "triplet-margin" => triplet;
};

const PAIRS: [&str; 2] = ["predictions", "targets"];

fn mse<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (predictions, targets) = (call.reals("predictions"), call.reals("targets"));
    let squares =
        predictions.iter().zip(targets.iter()).map(|(prediction, target)| (prediction - target).square());
    floats([squares.sum::<Real<M>>() / real(predictions.len() as f64)])
}

fn huber<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each(call, PAIRS, |[prediction, target]| {
        let distance = (prediction - target).abs();
        let (half, one) = (real::<M>(0.5), real::<M>(1.0));
        if distance < one { half * distance * distance } else { distance - half }
    })
}

fn hinge<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each(call, PAIRS, |[prediction, target]| (real::<M>(1.0) - prediction * target).max(Real::zero()))
}

fn kl<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each(call, PAIRS, |[prediction, target]| {
        if target > Real::zero() { target * (target.ln() - prediction.ln()) } else { Real::zero() }
    })
}

fn cosine<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let d = call.size("d");
    let (predictions, targets) = (call.reals("predictions"), call.reals("targets"));
    vec![Values::Floats(fill(predictions.len() / d, 1, WORK * d, |range, part| {
        let range = range.start * d..range.end * d;
        let (a, b) = (predictions.range(range.clone()), targets.range(range));
        for ((a, b), to) in a.chunks_exact(d).zip(b.chunks_exact(d)).zip(part) {
            let (ab, aa, bb) = products(a, b);
            *to = (ab / (aa.sqrt() * bb.sqrt())).output();
        }
    }))]
}

/// The dot products of a and b, of a and itself, and of b and itself.
fn products<M: Mode>(a: &[Real<M>], b: &[Real<M>]) -> (Real<M>, Real<M>, Real<M>) {
    if M::pairwise() {
        return (dot(a, b), dot(a, a), dot(b, b));
    }
    let zero = Real::zero();
    a.iter()
        .zip(b)
        .fold((zero, zero, zero), |(ab, aa, bb), (x, y)| (ab + *x * *y, aa + *x * *x, bb + *y * *y))
}

fn triplet<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (batch, length, margin) = (call.size("B"), call.size("E"), call.scalar("margin"));
    let (anchor, positive, negative) =
        (call.floats("anchor"), call.floats("positive"), call.floats("negative"));
    let distance = |a: &[Real<M>], b: &[Real<M>]| {
        a.iter().zip(b).map(|(x, y)| (*x - *y).square()).sum::<Real<M>>().sqrt()
    };
    let rows =
        anchor.chunks_exact(length).zip(positive.chunks_exact(length)).zip(negative.chunks_exact(length));
    let losses = rows.map(|((a, p), n)| (distance(a, p) - distance(a, n) + margin).max(Real::zero()));
    floats([losses.sum::<Real<M>>() / real(batch as f64)])
}

/// Generates targets of 1 or -1.
fn signs(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    maker.random_numbers("targets", n, 1, |_, random| (2 * random.integer(0, 1) - 1) as f64);
}

/// Generates distributions that sum to about one; one target in ten is zero.
fn distributions(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    let value = |random: &mut Random| random.uniform(0.1, 1.9) / n as f64;
    maker.random_numbers("predictions", n, 1, |_, random| value(random));
    maker.random_numbers("targets", n, 2, |_, random| {
        let value = value(random);
        if random.integer(0, 9) == 0 { 0.0 } else { value }
    });
}
