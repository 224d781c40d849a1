//! Loss functions.

use super::matmul::dot;
use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows};
use crate::maker::Maker;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cosine-similarity" => cosine;
    "hinge-loss" => hinge, signs;
    "huber-loss" => huber;
    "kl-loss" => kl, distributions;
    "mse-loss" => mse;
    "triplet-margin" => triplet;
};

/// Applies `f` to each prediction and its target.
fn each<M: Mode>(call: &Call<'_, M>, f: impl Fn(Real<M>, Real<M>) -> Real<M>) -> Vec<Real<M>> {
    let pairs = call.floats("predictions").into_iter().zip(call.floats("targets"));
    pairs.map(|(prediction, target)| f(prediction, target)).collect()
}

fn mse<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let squares = each(call, |prediction, target| (prediction - target).square());
    floats([Real::sum_of(&squares) / real(squares.len() as f64)])
}

fn huber<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(each(call, |prediction, target| {
        let distance = (prediction - target).abs();
        let (half, one) = (real::<M>(0.5), real::<M>(1.0));
        if distance < one { half * distance * distance } else { distance - half }
    }))
}

fn hinge<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(each(call, |prediction, target| (real::<M>(1.0) - prediction * target).max(Real::zero())))
}

fn kl<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(each(call, |prediction, target| {
        if target > Real::zero() { target * (target.ln() - prediction.ln()) } else { Real::zero() }
    }))
}

fn cosine<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let d = call.size("d");
    let (predictions, targets) = (call.floats("predictions"), call.floats("targets"));
    let pairs = predictions.chunks_exact(d).zip(targets.chunks_exact(d));
    floats(pairs.map(|(a, b)| dot(a, b) / (dot(a, a).sqrt() * dot(b, b).sqrt())))
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
    let mut random = maker.random("targets");
    let targets: Vec<f64> = (0..n).map(|_| (2 * random.integer(0, 1) - 1) as f64).collect();
    maker.floats("targets", targets);
}

/// Generates distributions that sum to about one; one target in ten is zero.
fn distributions(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    for name in ["predictions", "targets"] {
        let mut random = maker.random(name);
        let mut element = || {
            let value = random.uniform(0.1, 1.9) / n as f64;
            if name == "targets" && random.integer(0, 9) == 0 { 0.0 } else { value }
        };
        let values: Vec<f64> = (0..n).map(|_| element()).collect();
        maker.floats(name, values);
    }
}
