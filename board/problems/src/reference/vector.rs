//! Element-wise operations on vectors and matrices, and reordering.

use super::matmul::transposed;
use super::real::Mode;
use super::row::{Call, Row, floats, rows};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "axpy" => axpy;
    "embedding-lookup" => embedding;
    "matrix-scalar" => scaled;
    "reverse" => reverse;
    "transpose" => transpose;
    "vector-addition" => addition;
};

fn addition<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("input1").into_iter().zip(call.floats("input2")).map(|(a, b)| a + b))
}

fn axpy<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    floats(call.floats("x").into_iter().zip(call.floats("y")).map(|(x, y)| alpha * x + y))
}

fn scaled<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let scalar = call.scalar("scalar");
    floats(call.floats("input_matrix").into_iter().map(|x| scalar * x))
}

fn reverse<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("data").into_iter().rev())
}

fn transpose<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(transposed(&call.floats("input"), call.size("rows"), call.size("columns")))
}

fn embedding<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (table, d) = (call.floats("table"), call.size("d"));
    floats(call.integers("ids").into_iter().flat_map(|id| {
        let start = id as usize * d;
        table[start..start + d].to_vec()
    }))
}
