//! Problems for several GPUs. Where a buffer is makes no difference to its contents.

use super::matmul;
use super::real::{Mode, Real, real};
use super::row::{Call, Row, WORK, each, floats, rows};
use crate::threads::fill;
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "all-reduce" => all_reduce;
    "jacobi-two-gpus" => jacobi;
    "matmul-two-gpus" => product;
};

fn all_reduce<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let mut outputs = each(call, ["input0", "input1"], |[a, b]| a + b);
    outputs.extend(outputs.clone());
    outputs
}

fn jacobi<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (rows, columns) = (2 * call.size("rows"), call.size("columns"));
    let mut field: Vec<Real<M>> = call.floats("top");
    field.extend(call.floats("bottom"));
    for _ in 0..call.size("steps") {
        field = step(&field, rows, columns, |above, below, left, right| {
            real::<M>(0.25) * ((above + below) + (left + right))
        });
    }
    let bottom = field.split_off(field.len() / 2);
    [field, bottom].into_iter().flat_map(floats).collect()
}

/// Computes every number of a grid that is not at an edge from its neighbours: above, below, left and right.
pub(super) fn step<M: Mode>(
    grid: &[Real<M>],
    rows: usize,
    columns: usize,
    f: impl Fn(Real<M>, Real<M>, Real<M>, Real<M>) -> Real<M> + Sync,
) -> Vec<Real<M>> {
    fill(rows * columns, columns, WORK, |range, part| {
        for (row, line) in (range.start / columns..).zip(part.chunks_exact_mut(columns)) {
            let start = row * columns;
            line.copy_from_slice(&grid[start..start + columns]);
            if row == 0 || row + 1 == rows || columns < 3 {
                continue;
            }
            let above = &grid[start - columns + 1..start - 1];
            let below = &grid[start + columns + 1..start + 2 * columns - 1];
            let sides = grid[start..start + columns].windows(3);
            let neighbours = above.iter().zip(below).zip(sides);
            for (to, ((above, below), sides)) in line[1..columns - 1].iter_mut().zip(neighbours) {
                *to = f(*above, *below, sides[0], sides[2]);
            }
        }
    })
}

fn product<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    let b = call.floats("b");
    ["a0", "a1"]
        .into_iter()
        .flat_map(|half| floats(matmul::product(&call.floats(half), &b, m, n, k)))
        .collect()
}
