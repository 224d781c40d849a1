//! Element-wise operations on vectors and matrices, and reordering.

use super::real::Mode;
use super::row::{Call, Row, WORK, each, rows, write};
use crate::threads::fill;
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
    each(call, ["input1", "input2"], |[a, b]| a + b)
}

fn axpy<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    each(call, ["x", "y"], |[x, y]| alpha * x + y)
}

fn scaled<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let scalar = call.scalar("scalar");
    each(call, ["input_matrix"], |[x]| scalar * x)
}

fn reverse<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let data = call.reals("data");
    let last = data.len();
    vec![Values::Floats(fill(last, 1, WORK, |range, part| {
        write(part, data.range(last - range.end..last - range.start).into_iter().rev());
    }))]
}

fn transpose<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (rows, columns) = (call.size("rows"), call.size("columns"));
    let input = call.floats("input");
    vec![Values::Floats(fill(rows * columns, rows, WORK, |range, part| {
        let first = range.start / rows;
        // Row by row of the input, whose elements in these columns are neighbours.
        for row in 0..rows {
            for (column, to) in part.chunks_exact_mut(rows).enumerate() {
                to[row] = input[row * columns + first + column].output();
            }
        }
    }))]
}

fn embedding<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (table, ids, d) = (call.reals("table"), call.integers("ids"), call.size("d"));
    vec![Values::Floats(fill(ids.len() * d, d, WORK, |range, part| {
        for (id, to) in ids[range.start / d..range.end / d].iter().zip(part.chunks_exact_mut(d)) {
            let start = *id as usize * d;
            write(to, table.range(start..start + d));
        }
    }))]
}
