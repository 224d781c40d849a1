//! Matrix products.

use super::activation;
use super::real::{Mode, Real};
use super::row::{Call, Row, floats, integers, rows};
use crate::maker::Maker;
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
    floats(product(&call.floats("input_a"), &call.floats("input_b"), m, 1, k))
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
    let (a, b) = (call.floats("A"), call.floats("B"));
    let pairs = a.chunks_exact(m * k).zip(b.chunks_exact(k * n));
    floats(pairs.flat_map(|(a, b)| product(a, b, m, n, k)))
}

fn diagonal<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let m = call.size("m");
    let (diagonal, b) = (call.floats("diagonal_a"), call.floats("input_b"));
    floats(b.iter().enumerate().map(|(index, x)| diagonal[index / m] * *x))
}

fn power<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (size, exponent) = (call.size("size"), call.size("n"));
    let matrix = call.floats("input_matrix");
    floats((1..exponent).fold(matrix.clone(), |power, _| product(&power, &matrix, size, size, size)))
}

fn linear_relu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (b, n, m) = (call.size("B"), call.size("N"), call.size("M"));
    let sums = linear(&call.floats("A"), &call.floats("W"), &call.floats("b"), b, n, m);
    floats(sums.into_iter().map(|x| x.max(Real::zero())))
}

fn linear_swish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (b, i, o) = (call.size("batch_size"), call.size("in_features"), call.size("out_features"));
    let (x, w, bias) = (call.floats("input_matrix"), call.floats("weight_matrix"), call.floats("bias"));
    let scaling = call.scalar("scaling_factor");
    floats(linear(&x, &w, &bias, b, i, o).into_iter().map(|x| scaling * activation::swish_of(x)))
}

fn multiply_leaky<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    let factors = call.floats("C");
    let leaky = |(x, c): (Real<M>, Real<M>)| activation::leaky_of(x * c, alpha);
    floats(capital(call).into_iter().zip(factors).map(leaky))
}

fn swish_scaling<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let scale = call.scalar("scale");
    floats(capital(call).into_iter().map(|x| scale * activation::swish_of(x)))
}

fn sigmoid_sum<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats([capital(call).into_iter().map(activation::sigmoid_of).sum::<Real<M>>()])
}

fn lora<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k, r) = (call.size("m"), call.size("n"), call.size("k"), call.size("r"));
    let x = call.floats("x");
    let base = product(&x, &call.floats("W"), m, n, k);
    let low = product(&product(&x, &call.floats("A"), m, r, k), &call.floats("B"), m, n, r);
    let scaling = call.scalar("scaling");
    floats(base.into_iter().zip(low).map(|(base, low)| base + scaling * low))
}

fn int8<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    let (a, columns) = (call.integers("a"), transposed(&call.integers("b"), k, n));
    let dot = |row: &[i64], column: &[i64]| row.iter().zip(column).map(|(x, y)| x * y).sum::<i64>();
    let mut c = Vec::with_capacity(m * n);
    for row in a.chunks_exact(k) {
        c.extend(columns.chunks_exact(k).map(|column| dot(row, column)));
    }
    integers(c)
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
    let sums = product_transposed(x, w, rows, inputs);
    sums.into_iter().enumerate().map(|(index, sum)| sum + bias[index % outputs]).collect()
}

/// `a` (m x k) times `b` (k x n), both row-major.
pub(super) fn product<M: Mode>(a: &[Real<M>], b: &[Real<M>], m: usize, n: usize, k: usize) -> Vec<Real<M>> {
    // Transposes b, so that both factors are read sequentially.
    product_transposed(a, &transposed(b, k, n), m, k)
}

/// `a` (m x k) times the transpose of `b` (n x k).
pub(super) fn product_transposed<M: Mode>(a: &[Real<M>], b: &[Real<M>], m: usize, k: usize) -> Vec<Real<M>> {
    let mut c = Vec::with_capacity(m * b.len() / k);
    for row in a.chunks_exact(k) {
        c.extend(b.chunks_exact(k).map(|column| dot(row, column)));
    }
    c
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
        let mut random = maker.random(name);
        let mut element = |index: usize| {
            let value = random.uniform(-1.0, 1.0);
            if mask(index / n, index % n) { value } else { 0.0 }
        };
        let matrix: Vec<f64> = (0..n * n).map(&mut element).collect();
        maker.floats(name, matrix);
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
    let mut random = maker.random("input_matrix");
    let matrix: Vec<f64> = (0..size * size).map(|_| random.uniform(-bound, bound)).collect();
    maker.floats("input_matrix", matrix);
}
