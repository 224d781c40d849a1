//! Numerical methods: sparse products, stencils, transforms, factorisations, clustering.

use super::graph::{LOW, sorted_pairs, starts};
use super::matmul::{dot, transposed};
use super::multi::step;
use super::product::Panels;
use super::real::{Mode, Real, real};
use super::reduction::first_best;
use super::row::{Call, Row, WORK, floats, rows};
use super::wide::wide;
use crate::maker::Maker;
use crate::threads::{each, fill, parts};
use crate::values::Values;
use std::ops::Range;

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
    let rows = offsets.len() - 1;
    vec![Values::Floats(fill(rows, 1, WORK * (1 + columns.len() / rows.max(1)), |range, part| {
        for (to, ends) in part.iter_mut().zip(offsets[range.start..=range.end].windows(2)) {
            let row = ends[0] as usize..ends[1] as usize;
            *to = row.map(|place| values[place] * x[columns[place] as usize]).sum::<Real<M>>().output();
        }
    }))]
}

/// Generates `nnz` random positions, sorted by row; rows may be empty.
fn sparse(maker: &mut Maker<'_>) {
    let (rows, width, nnz) = (maker.size("rows") as i64, maker.size("width") as i64, maker.size("nnz"));
    let mut random = maker.random("places");
    let mut below = |count: i64| random.integer(0, count - 1) as u64;
    let places = sorted_pairs((0..nnz).map(|_| (below(rows), below(width))));
    maker.integers("row_offsets", starts(&places, rows as usize));
    maker.integers("columns", places.into_iter().map(|place| (place & LOW) as i64));
}

fn jacobi<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (h, w) = (call.size("h"), call.size("w"));
    let quarter = real::<M>(0.25);
    let mut grid = call.floats("input");
    for _ in 0..call.size("iterations") {
        grid = step(&grid, h, w, |above, below, left, right| quarter * (above + below + left + right));
    }
    floats(grid)
}

/// Radix-2 FFT: transforms even and odd elements and combines them with twiddle factors.
fn fft<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let input = call.floats("real_in").into_iter().zip(call.floats("imag_in")).collect::<Vec<_>>();
    let n = input.len();
    assert!(n.is_power_of_two(), "{n} elements are no power of two");
    let turns = turns(n);
    // Transforms of every `count`-th element, each on a thread, are combined in pairs.
    let count = TRANSFORMS.min(n);
    let mut transforms = parts(count, 1, |part| {
        let own: Vec<Complex<M>> = input[part.start..].iter().copied().step_by(count).collect();
        let mut output = own.clone();
        transform(&own, 1, &mut output, &turns);
        output
    });
    while transforms.len() > 1 {
        let odd = transforms.split_off(transforms.len() / 2);
        let pairs = transforms.into_iter().zip(odd);
        transforms = pairs
            .map(|(mut even, mut odd)| {
                let turns = &turns[even.len().ilog2() as usize];
                let parts = even.chunks_mut(PAIRS).zip(odd.chunks_mut(PAIRS)).zip(turns.chunks(PAIRS));
                each(parts, |((even, odd), turns)| combine(even, odd, turns));
                even.extend(odd);
                even
            })
            .collect();
    }
    let (re, im): (Vec<_>, Vec<_>) = transforms.into_iter().flatten().unzip();
    [re, im].into_iter().flat_map(floats).collect()
}

/// Transforms of parts that are computed at the same time, and elements of two transforms that are combined at a time.
const TRANSFORMS: usize = 16;
const PAIRS: usize = 1 << 14;

type Complex<M> = (Real<M>, Real<M>);

/// Computes the twiddle factors that combine transforms of 1, 2, 4, ... elements, up to half of `n`.
fn turns<M: Mode>(n: usize) -> Vec<Vec<Complex<M>>> {
    let whole = fill(n / 2, 1, 4 * WORK, |range, part: &mut [Complex<M>]| {
        for (turn, k) in part.iter_mut().zip(range) {
            let angle = -2.0 * std::f64::consts::PI * k as f64 / n as f64;
            *turn = (real(angle.cos()), real(angle.sin()));
        }
    });
    let mut turns = vec![whole];
    while let Some(last) = turns.last().filter(|last| last.len() > 1) {
        // The angles of half as many elements are every second one, without another rounding.
        turns.push(last.iter().copied().step_by(2).collect());
    }
    turns.reverse();
    turns
}

/// Transforms every `stride`-th element.
fn transform<M: Mode>(
    input: &[Complex<M>],
    stride: usize,
    output: &mut [Complex<M>],
    turns: &[Vec<Complex<M>>],
) {
    if output.len() == 1 {
        output[0] = input[0];
        return;
    }
    let (even, odd) = output.split_at_mut(output.len() / 2);
    transform(input, 2 * stride, even, turns);
    transform(&input[stride..], 2 * stride, odd, turns);
    combine(even, odd, &turns[even.len().ilog2() as usize]);
}

/// Combines the transforms of even and odd elements to the two halves of a transform.
fn combine<M: Mode>(even: &mut [Complex<M>], odd: &mut [Complex<M>], turns: &[Complex<M>]) {
    for ((even, odd), (cos, sin)) in even.iter_mut().zip(odd).zip(turns) {
        let turned = (odd.0 * *cos - odd.1 * *sin, odd.0 * *sin + odd.1 * *cos);
        *odd = (even.0 - turned.0, even.1 - turned.1);
        *even = (even.0 + turned.0, even.1 + turned.1);
    }
}

/// Computes the lower triangular factor.
fn cholesky<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let a = call.floats("A");
    let mut l = vec![Real::zero(); n * n];
    let element = |row: usize, column: usize, known: Real<M>, diagonal: Real<M>| {
        let rest = a[row * n + column] - known;
        if row == column { rest.sqrt() } else { rest / diagonal }
    };
    if M::pairwise() {
        for row in 0..n {
            for column in 0..=row {
                let known = dot(&l[row * n..row * n + column], &l[column * n..column * n + column]);
                l[row * n + column] = element(row, column, known, l[column * n + column]);
            }
        }
        return floats(l);
    }
    // Some columns at a time, of all rows. Sums begin with the columns before them, which is a product of matrices.
    for first in (0..n).step_by(BLOCK) {
        let width = BLOCK.min(n - first);
        let before = |row: usize| &l[row * n..row * n + first];
        let gathered = |rows: Range<usize>| -> Vec<Real<M>> { rows.flat_map(before).copied().collect() };
        let panels = (first > 0).then(|| Panels::of_columns(&gathered(first..first + width), first));
        let mut begun = fill((n - first) * width, width, first + 1, |range, part| {
            let rows = first + range.start / width..first + range.end / width;
            if let Some(panels) = &panels {
                panels.multiply(&gathered(rows), first, width, part);
            }
        });
        // Turns the sums of a row into its elements before the diagonal of the block, with the rows above.
        let finish = |row: usize, sums: &mut [Real<M>], above: &[Real<M>]| {
            for (column, other) in above.chunks_exact(width).enumerate() {
                let (known, rest) = sums.split_at_mut(column);
                let sum = known.iter().zip(other).fold(rest[0], |sum, (x, y)| sum + *x * *y);
                rest[0] = element(row, first + column, sum, other[column]);
            }
        };
        let (top, below) = begun.split_at_mut(width * width);
        for row in 0..width {
            let (above, rest) = top.split_at_mut(row * width);
            finish(first + row, &mut rest[..width], above);
            let (known, rest) = rest.split_at_mut(row);
            let sum = known.iter().fold(rest[0], |sum, x| sum + *x * *x);
            rest[0] = element(first + row, first + row, sum, sum);
        }
        let size = LINES * width;
        each(below.chunks_mut(size).enumerate(), |(index, rows)| {
            for (place, sums) in rows.chunks_exact_mut(width).enumerate() {
                finish(first + width + index * LINES + place, sums, top);
            }
        });
        for (row, values) in (first..n).zip(begun.chunks_exact(width)) {
            let count = width.min(row + 1 - first);
            l[row * n + first..row * n + first + count].copy_from_slice(&values[..count]);
        }
    }
    floats(l)
}

/// Columns of a factor that are computed together, and rows of them on one thread.
const BLOCK: usize = 64;
const LINES: usize = 16;

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
    let (points, centroids) = (call.reals("points"), call.floats("centroids"));
    let k = centroids.len() / d;
    let axes = transposed(&centroids, k, d);
    vec![Values::Integers(fill(points.len() / d, 1, centroids.len(), |range, part| {
        let mut distances = vec![Real::zero(); k];
        for (point, to) in points.range(range.start * d..range.end * d).chunks_exact(d).zip(part) {
            match M::pairwise() {
                false => distances_of(point, &axes, &mut distances),
                true => {
                    let distance = |centroid: &[Real<M>]| {
                        point.iter().zip(centroid).map(|(x, c)| (*x - *c).square()).sum::<Real<M>>()
                    };
                    distances = centroids.chunks_exact(d).map(distance).collect();
                }
            }
            *to = first_best(&distances, |new, best| new < best);
        }
    }))]
}

wide! {
    /// Computes the squared distances of a point from all centroids, whose coordinates are given axis by axis.
    fn distances_of<M: Mode>(point: &[Real<M>], axes: &[Real<M>], distances: &mut [Real<M>]) {
        distances.fill(Real::zero());
        for (x, centroids) in point.iter().zip(axes.chunks_exact(distances.len())) {
            for (sum, c) in distances.iter_mut().zip(centroids) {
                *sum += (*x - *c).square();
            }
        }
    }
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
