//! Problems for several GPUs. Where a buffer is makes no difference to its contents.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, rows};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "all-reduce" => all_reduce;
    "jacobi-two-gpus" => jacobi;
    "matmul-two-gpus" => product;
};

fn values<M: Mode>(numbers: impl IntoIterator<Item = Real<M>>) -> Values {
    Values::Floats(numbers.into_iter().map(Real::output).collect())
}

fn all_reduce<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let sum: Vec<Real<M>> =
        call.floats("input0").into_iter().zip(call.floats("input1")).map(|(a, b)| a + b).collect();
    vec![values(sum.clone()), values(sum)]
}

fn jacobi<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (rows, columns) = (2 * call.size("rows"), call.size("columns"));
    let mut field: Vec<Real<M>> = call.floats("top");
    field.extend(call.floats("bottom"));
    for _ in 0..call.size("steps") {
        let mut next = field.clone();
        for row in 1..rows - 1 {
            for column in 1..columns - 1 {
                let at = row * columns + column;
                let (vertical, horizontal) =
                    (field[at - columns] + field[at + columns], field[at - 1] + field[at + 1]);
                next[at] = real::<M>(0.25) * (vertical + horizontal);
            }
        }
        field = next;
    }
    let bottom = field.split_off(field.len() / 2);
    vec![values(field), values(bottom)]
}

fn product<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (m, n, k) = (call.size("m"), call.size("n"), call.size("k"));
    let b = call.floats("b");
    let half = |name: &str| {
        let a = call.floats(name);
        let element = |at: usize| {
            let (row, column) = (at / n, at % n);
            (0..k).map(|index| a[row * k + index] * b[index * n + column]).sum::<Real<M>>()
        };
        values((0..m * n).map(element).collect::<Vec<_>>())
    };
    vec![half("a0"), half("a1")]
}
