//! Matrix products.

use super::activation;
use super::product::{Panels, dots};
use super::real::{Mode, Real};
use super::row::{Call, Row, WORK, each_row, floats, rows, write};
use crate::maker::Maker;
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "batched-matmul" => batched;
    "diagonal-matmul" => diagonal;
    "gemm-multiply-leakyrelu" => multiply_leaky;
    "gemm-relu" => linear_relu;
    "int8-matmul" => int8;
    "lora-linear" => lora;
    "lower-trig-matmul" => square, lower_factors;
    "matmul-3d" => three;
    "matmul-4d" => four;
    "matmul-sigmoid-sum" => sigmoid_sum;
    "matmul-swish" => linear_swish;
    "matmul-swish-scaling" => swish_scaling;
    "matrix-multiplication" => multiplication;
    "matrix-power" => power, contraction;
    "matrix-vector" => vector;
    "square-matmul" => square;
    "symmetric-matmul" => square, symmetric_factors;
    "upper-trig-matmul" => square, upper_factors;
};

fn multiplication<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    floats(product(&call.floats("input_a"), &call.floats("input_b"), m, n, k))
}

fn square<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let n = call.size("n");
    let (a, b) = (call.floats("input_a"), call.floats("input_b"));
    // A part of the case has fewer rows and columns.
    floats(product(&a, &b, a.len() / n, b.len() / n, n))
}

fn vector<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, k) = (call.size("m"), call.size("k"));
    let (a, b) = (call.reals("input_a"), call.floats("input_b"));
    vec![Values::Floats(fill(m, EIGHT, WORK * k, |range, part| {
        for (index, to) in part.chunks_mut(EIGHT).enumerate() {
            let first = range.start + index * EIGHT;
            let rows = a.range(first * k..(first + to.len()) * k);
            write(to, dot_each(&rows, &b));
        }
    }))]
}

fn three<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (n, m, k, l) = (call.size("n"), call.size("m"), call.size("k"), call.size("l"));
    floats(product(&call.floats("A"), &call.floats("B"), n * m, l, k))
}

fn four<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let rows = call.size("b") * call.size("i") * call.size("j");
    floats(product(&call.floats("A"), &call.floats("B"), rows, call.size("k"), call.size("l")))
}

fn batched<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    let (a, b) = (call.reals("A"), call.reals("B"));
    let count = a.len() / (m * k);
    vec![Values::Floats(fill(count * m * n, m * n, 2 * k, |range, part| {
        let pairs = range.start / (m * n)..range.end / (m * n);
        for (pair, to) in pairs.zip(part.chunks_exact_mut(m * n)) {
            let (a, b) =
                (a.range(pair * m * k..(pair + 1) * m * k), b.range(pair * k * n..(pair + 1) * k * n));
            write(to, product(&a, &b, m, n, k));
        }
    }))]
}

fn diagonal<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let m = call.size("m");
    let diagonal = call.floats("diagonal_a");
    each_row(call, "input_b", m, m, |row, elements, to| {
        write(to, elements.iter().map(|x| diagonal[row] * *x));
    })
}

fn power<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, exponent) = (call.size("size"), call.size("n"));
    let matrix = call.floats("input_matrix");
    floats((1..exponent).fold(matrix.clone(), |power, _| product(&power, &matrix, size, size, size)))
}

fn linear_relu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (b, n, m) = (call.size("B"), call.size("N"), call.size("M"));
    let sums = linear(&call.floats("A"), &call.floats("W"), &call.floats("b"), b, n, m);
    mapped(&sums, |_, x| x.max(Real::zero()))
}

fn linear_swish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (b, i, o) = (call.size("batch_size"), call.size("in_features"), call.size("out_features"));
    let (x, w, bias) = (call.floats("input_matrix"), call.floats("weight_matrix"), call.floats("bias"));
    let scaling = call.scalar("scaling_factor");
    mapped(&linear(&x, &w, &bias, b, i, o), |_, x| scaling * activation::swish_of(x))
}

fn multiply_leaky<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    let factors = call.floats("C");
    mapped(&capital(call), |index, x| activation::leaky_of(x * factors[index], alpha))
}

fn swish_scaling<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let scale = call.scalar("scale");
    mapped(&capital(call), |_, x| scale * activation::swish_of(x))
}

fn sigmoid_sum<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let products = capital(call);
    let terms = fill(products.len(), 1, WORK, |range, part: &mut [Real<M>]| {
        part.iter_mut().zip(&products[range]).for_each(|(term, x)| *term = activation::sigmoid_of(*x));
    });
    floats([Real::sum_of(&terms)])
}

fn lora<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k, r) = (call.size("m"), call.size("n"), call.size("k"), call.size("r"));
    let x = call.floats("x");
    let base = product(&x, &call.floats("W"), m, n, k);
    let low = product(&product(&x, &call.floats("A"), m, r, k), &call.floats("B"), m, n, r);
    let scaling = call.scalar("scaling");
    mapped(&base, |index, base| base + scaling * low[index])
}

fn int8<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    let (a, columns) = (call.integers("a"), transposed(&call.integers("b"), k, n));
    let dot = |row: &[i64], column: &[i64]| row.iter().zip(column).map(|(x, y)| x * y).sum::<i64>();
    vec![Values::Integers(fill(m * n, n, k, |range, part| {
        let rows = a[range.start / n * k..range.end / n * k].chunks_exact(k);
        for (row, to) in rows.zip(part.chunks_exact_mut(n)) {
            to.iter_mut().zip(columns.chunks_exact(k)).for_each(|(c, column)| *c = dot(row, column));
        }
    }))]
}

/// `A` (M x K) times `B` (K x N).
fn capital<M: Mode>(call: &Call<'_, M>) -> Vec<Real<M>> {
    product(&call.floats("A"), &call.floats("B"), call.size("M"), call.size("N"), call.size("K"))
}

/// `x` (rows x inputs) times the transpose of `w` (outputs x inputs), plus a bias for every output.
fn linear<M: Mode>(
    x: &[Real<M>],
    w: &[Real<M>],
    bias: &[Real<M>],
    rows: usize,
    inputs: usize,
    outputs: usize,
) -> Vec<Real<M>> {
    let mut sums = product_transposed(x, w, rows, inputs);
    for row in sums.chunks_exact_mut(outputs) {
        row.iter_mut().zip(bias).for_each(|(sum, bias)| *sum += *bias);
    }
    sums
}

/// Builds a single output: `f` of the position and the value of every element.
fn mapped<M: Mode>(values: &[Real<M>], f: impl Fn(usize, Real<M>) -> Real<M> + Sync) -> Vec<Values> {
    vec![Values::Floats(fill(values.len(), 1, WORK, |range, part| {
        write(part, range.map(|index| f(index, values[index])));
    }))]
}

/// `a` (m x k) times `b` (k x n), both row-major.
pub(super) fn product<M: Mode>(a: &[Real<M>], b: &[Real<M>], m: usize, n: usize, k: usize) -> Vec<Real<M>> {
    match M::pairwise() {
        true => one_by_one(a, &transposed(b, k, n), k),
        false => Panels::of_rows(b, k, n).product(a, m),
    }
}

/// `a` (m x k) times the transpose of `b` (n x k).
pub(super) fn product_transposed<M: Mode>(a: &[Real<M>], b: &[Real<M>], m: usize, k: usize) -> Vec<Real<M>> {
    match M::pairwise() {
        true => one_by_one(a, b, k),
        false => Panels::of_columns(b, k).product(a, m),
    }
}

/// Rows of `a` times rows of `b`, in the order of additions of the mode.
fn one_by_one<M: Mode>(a: &[Real<M>], b: &[Real<M>], k: usize) -> Vec<Real<M>> {
    let rows = a.chunks_exact(k);
    rows.flat_map(|row| b.chunks_exact(k).map(|column| dot(row, column))).collect()
}

/// Rows whose dot products are computed at once: sums of doubles take four cycles and do not wait for each other.
const EIGHT: usize = 8;

/// The dot products of rows with a vector.
pub(super) fn dot_each<M: Mode>(rows: &[Real<M>], vector: &[Real<M>]) -> Vec<Real<M>> {
    let k = vector.len();
    let mut sums = Vec::with_capacity(rows.len() / k);
    for some in rows.chunks(EIGHT * k) {
        let mut each = some.chunks_exact(k);
        match some.len() == EIGHT * k && !M::pairwise() {
            true => sums.extend(dots([(); EIGHT].map(|()| each.next().unwrap_or_default()), vector)),
            false => sums.extend(each.map(|row| dot(row, vector))),
        }
    }
    sums
}

pub(super) fn dot<M: Mode>(a: &[Real<M>], b: &[Real<M>]) -> Real<M> {
    a.iter().zip(b).map(|(x, y)| *x * *y).sum()
}

/// Transposes a matrix of `rows` rows.
pub(super) fn transposed<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    (0..columns).flat_map(|column| (0..rows).map(move |row| matrix[row * columns + column])).collect()
}

fn lower_factors(maker: &mut Maker<'_>) {
    masked(maker, |row, column| column <= row);
}

fn upper_factors(maker: &mut Maker<'_>) {
    masked(maker, |row, column| column >= row);
}

/// Generates two matrices that are zero where the mask is false.
fn masked(maker: &mut Maker<'_>, mask: fn(usize, usize) -> bool) {
    let n = maker.size("n");
    for name in ["input_a", "input_b"] {
        maker.random_numbers(name, n * n, 1, |index, random| {
            let value = random.uniform(-1.0, 1.0);
            if mask(index / n, index % n) { value } else { 0.0 }
        });
    }
}

fn symmetric_factors(maker: &mut Maker<'_>) {
    let n = maker.size("n");
    for name in ["input_a", "input_b"] {
        let mut random = maker.random(name);
        let mut matrix: Vec<f64> = (0..n * n).map(|_| random.uniform(-1.0, 1.0)).collect();
        for row in 0..n {
            for column in 0..row {
                matrix[row * n + column] = matrix[column * n + row];
            }
        }
        maker.floats(name, matrix);
    }
}

/// Generates a matrix whose powers neither overflow nor vanish.
fn contraction(maker: &mut Maker<'_>) {
    let size = maker.size("size");
    let bound = (3.0 / size as f64).sqrt();
    maker.random_numbers("input_matrix", size * size, 1, |_, random| random.uniform(-bound, bound));
}
