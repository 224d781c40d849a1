//! Normalisation of rows, channels and groups.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, floats, rows};
use crate::values::Values;

/// Added to the variance, to avoid division by zero.
const EPSILON: f64 = 1e-5;

pub(super) const ROWS: &[Row] = rows! {
    "batch-norm" => batch;
    "group-norm" => group;
    "instance-norm" => instance;
    "l1-norm" => l1;
    "l2-norm" => l2;
    "layer-norm" => layer;
    "rms-norm" => rms;
};

fn mean<M: Mode>(values: &[Real<M>]) -> Real<M> {
    Real::sum_of(values) / real(values.len() as f64)
}

/// Normalises to mean zero and variance one.
fn standardised<M: Mode>(values: &[Real<M>]) -> Vec<Real<M>> {
    let centre = mean(values);
    let squares: Vec<Real<M>> = values.iter().map(|x| (*x - centre).square()).collect();
    let deviation = (mean(&squares) + real(EPSILON)).sqrt();
    values.iter().map(|x| (*x - centre) / deviation).collect()
}

fn batch<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (features, area) = (call.size("F"), call.size("D1") * call.size("D2"));
    let x = call.floats("X");
    let mut y = x.clone();
    for feature in 0..features {
        let places: Vec<usize> = x
            .chunks_exact(features * area)
            .enumerate()
            .flat_map(|(sample, _)| {
                let start = (sample * features + feature) * area;
                start..start + area
            })
            .collect();
        let values: Vec<Real<M>> = places.iter().map(|place| x[*place]).collect();
        for (place, value) in places.into_iter().zip(standardised(&values)) {
            y[place] = value;
        }
    }
    floats(y)
}

fn layer<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("F") * call.size("D1") * call.size("D2");
    let (gamma, beta) = (call.floats("gamma"), call.floats("beta"));
    floats(call.floats("X").chunks_exact(length).flat_map(|row| {
        let rows = standardised(row).into_iter().zip(&gamma).zip(&beta);
        rows.map(|((x, gamma), beta)| x * *gamma + *beta).collect::<Vec<_>>()
    }))
}

fn instance<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("X").chunks_exact(call.size("S")).flat_map(standardised))
}

fn group<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (channels, area, groups) = (call.size("C"), call.size("S"), call.size("G"));
    let (gamma, beta) = (call.floats("gamma"), call.floats("beta"));
    let normal: Vec<Real<M>> =
        call.floats("X").chunks_exact(channels / groups * area).flat_map(standardised).collect();
    floats(normal.into_iter().enumerate().map(|(index, x)| {
        let channel = index / area % channels;
        x * gamma[channel] + beta[channel]
    }))
}

fn rms<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("X").chunks_exact(call.size("N")).flat_map(|row| {
        let squares: Vec<Real<M>> = row.iter().copied().map(Real::square).collect();
        let root = (mean(&squares) + real(EPSILON)).sqrt();
        row.iter().map(|x| *x / root).collect::<Vec<_>>()
    }))
}

fn l1<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("X").chunks_exact(call.size("D")).flat_map(|row| {
        let norm: Real<M> = row.iter().copied().map(Real::abs).sum();
        row.iter().map(|x| *x / norm).collect::<Vec<_>>()
    }))
}

fn l2<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("X").chunks_exact(call.size("D")).flat_map(|row| {
        let norm = row.iter().copied().map(Real::square).sum::<Real<M>>().sqrt();
        row.iter().map(|x| *x / norm).collect::<Vec<_>>()
    }))
}
