//! Numerical methods: sparse products, stencils, transforms, factorisations, clustering.

use super::matmul::dot;
use super::real::{Mode, Real, real};
use super::reduction::first_best;
use super::row::{Call, Row, floats, integers, rows};
use crate::maker::Maker;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "cholesky" => cholesky, positive_definite;
    "fft" => fft;
    "jacobi-stencil" => jacobi;
    "k-means-assign" => nearest, clusters;
    "spmv" => spmv, sparse;
};

fn spmv<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (offsets, columns) = (call.integers("row_offsets"), call.integers("columns"));
    let (values, x) = (call.floats("values"), call.floats("x"));
    floats(offsets.windows(2).map(|ends| {
        let row = ends[0] as usize..ends[1] as usize;
        row.map(|place| values[place] * x[columns[place] as usize]).sum::<Real<M>>()
    }))
}

/// Generates `nnz` random positions, sorted by row; rows may be empty.
fn sparse(maker: &mut Maker<'_>) {
    let (rows, width, nnz) = (maker.size("rows") as i64, maker.size("width") as i64, maker.size("nnz"));
    let mut random = maker.random("places");
    let mut places: Vec<(i64, i64)> =
        (0..nnz).map(|_| (random.integer(0, rows - 1), random.integer(0, width - 1))).collect();
    places.sort_unstable();
    let offsets: Vec<i64> =
        (0..=rows).map(|row| places.partition_point(|(at, _)| *at < row) as i64).collect();
    maker.integers("row_offsets", offsets);
    maker.integers("columns", places.into_iter().map(|(_, column)| column));
}

fn jacobi<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (h, w) = (call.size("h"), call.size("w"));
    let quarter = real::<M>(0.25);
    let mut grid = call.floats("input");
    for _ in 0..call.size("iterations") {
        let old = grid.clone();
        for y in 1..h.saturating_sub(1) {
            for x in 1..w.saturating_sub(1) {
                let at = y * w + x;
                grid[at] = quarter * (old[at - w] + old[at + w] + old[at - 1] + old[at + 1]);
            }
        }
    }
    floats(grid)
}

/// Radix-2 FFT: transforms even and odd elements and combines them with twiddle factors.
fn fft<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let input = call.floats("real_in").into_iter().zip(call.floats("imag_in")).collect::<Vec<_>>();
    let (re, im): (Vec<_>, Vec<_>) = transform(&input).into_iter().unzip();
    [re, im].into_iter().flat_map(floats).collect()
}

type Complex<M> = (Real<M>, Real<M>);

fn transform<M: Mode>(input: &[Complex<M>]) -> Vec<Complex<M>> {
    let n = input.len();
    if n == 1 {
        return input.to_vec();
    }
    let half = |start: usize| transform(&input[start..].iter().copied().step_by(2).collect::<Vec<_>>());
    let (even, odd) = (half(0), half(1));
    let mut output = vec![(Real::zero(), Real::zero()); n];
    for k in 0..n / 2 {
        let angle = -2.0 * std::f64::consts::PI * k as f64 / n as f64;
        let (cos, sin) = (real::<M>(angle.cos()), real::<M>(angle.sin()));
        let turned = (odd[k].0 * cos - odd[k].1 * sin, odd[k].0 * sin + odd[k].1 * cos);
        output[k] = (even[k].0 + turned.0, even[k].1 + turned.1);
        output[k + n / 2] = (even[k].0 - turned.0, even[k].1 - turned.1);
    }
    output
}

/// Computes the lower triangular factor, row by row.
fn cholesky<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let a = call.floats("A");
    let mut l = vec![Real::zero(); n * n];
    for row in 0..n {
        for column in 0..=row {
            let known = dot(&l[row * n..row * n + column], &l[column * n..column * n + column]);
            let rest = a[row * n + column] - known;
            l[row * n + column] = if row == column { rest.sqrt() } else { rest / l[column * n + column] };
        }
    }
    floats(l)
}

/// Generates a random symmetric matrix that is diagonally dominant.
fn positive_definite(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    let mut random = maker.random("A");
    let mut matrix: Vec<f64> = (0..n * n).map(|_| random.uniform(-1.0, 1.0)).collect();
    for row in 0..n {
        for column in 0..row {
            matrix[row * n + column] = matrix[column * n + row];
        }
        matrix[row * n + row] = n as f64 * random.uniform(0.75, 1.25);
    }
    maker.floats("A", matrix);
}

fn nearest<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let d = call.size("d");
    let centroids = call.floats("centroids");
    integers(call.floats("points").chunks_exact(d).map(|point| {
        let distance = |centroid: &[Real<M>]| {
            point.iter().zip(centroid).map(|(x, c)| (*x - *c).square()).sum::<Real<M>>()
        };
        let distances: Vec<Real<M>> = centroids.chunks_exact(d).map(distance).collect();
        first_best(&distances, |new, best| new < best)
    }))
}

/// Generates points that are near one centroid and far from the others, so that rounding cannot change the assignment.
fn clusters(maker: &mut Maker<'_>) {
    let (n, d, k) = (maker.size("n"), maker.size("d"), maker.size("k"));
    let mut random = maker.random("centroids");
    // Along the first axis the centroids are 1 apart, in random order.
    let order = random.permutation(k);
    let centroids: Vec<f64> = (0..k * d)
        .map(|index| if index % d == 0 { order[index / d] as f64 } else { random.uniform(-1.0, 1.0) })
        .collect();
    let mut random = maker.random("points");
    let mut points = Vec::with_capacity(n * d);
    for _ in 0..n {
        let home = random.integer(0, k as i64 - 1) as usize;
        points.extend(
            centroids[home * d..(home + 1) * d].iter().map(|c| c + random.uniform(-0.25, 0.25) / d as f64),
        );
    }
    maker.floats("centroids", centroids);
    maker.floats("points", points);
}
