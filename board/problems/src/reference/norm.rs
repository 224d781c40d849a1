//! Normalisation of rows, channels and groups.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, each_row, rows, write};
use crate::threads::{fill, parts};
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
    let x = call.reals("X");
    let samples = x.len() / (features * area);
    let place = |sample: usize, feature: usize| (sample * features + feature) * area;
    let normal = parts(features, 1, |feature| {
        let lines = (0..samples).flat_map(|sample| {
            let start = place(sample, feature.start);
            x.range(start..start + area)
        });
        standardised(&lines.collect::<Vec<_>>())
    });
    vec![Values::Floats(fill(x.len(), area, 1, |range, part| {
        for (line, to) in (range.start / area..).zip(part.chunks_exact_mut(area)) {
            let (sample, feature) = (line / features, line % features);
            write(to, normal[feature][sample * area..(sample + 1) * area].iter().copied());
        }
    }))]
}

fn layer<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("F") * call.size("D1") * call.size("D2");
    let (gamma, beta) = (call.floats("gamma"), call.floats("beta"));
    each_row(call, "X", length, length, |_, row, to| {
        let rows = standardised(row).into_iter().zip(&gamma).zip(&beta);
        write(to, rows.map(|((x, gamma), beta)| x * *gamma + *beta));
    })
}

fn instance<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("S");
    each_row(call, "X", length, length, |_, row, to| write(to, standardised(row)))
}

fn group<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (channels, area, groups) = (call.size("C"), call.size("S"), call.size("G"));
    let (gamma, beta) = (call.floats("gamma"), call.floats("beta"));
    let length = channels / groups * area;
    each_row(call, "X", length, length, |row, elements, to| {
        let elements = standardised(elements).into_iter().enumerate();
        write(
            to,
            elements.map(|(index, x)| {
                let channel = (row * length + index) / area % channels;
                x * gamma[channel] + beta[channel]
            }),
        );
    })
}

fn rms<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("N");
    each_row(call, "X", length, length, |_, row, to| {
        let squares: Vec<Real<M>> = row.iter().copied().map(Real::square).collect();
        let root = (mean(&squares) + real(EPSILON)).sqrt();
        write(to, row.iter().map(|x| *x / root));
    })
}

fn l1<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("D");
    each_row(call, "X", length, length, |_, row, to| {
        let norm: Real<M> = row.iter().copied().map(Real::abs).sum();
        write(to, row.iter().map(|x| *x / norm));
    })
}

fn l2<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let length = call.size("D");
    each_row(call, "X", length, length, |_, row, to| {
        let norm = row.iter().copied().map(Real::square).sum::<Real<M>>().sqrt();
        write(to, row.iter().map(|x| *x / norm));
    })
}
