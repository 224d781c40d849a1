//! Vectors: element with element.

use super::{Call, Mode, Row, floats, rows};
use crate::compare::Values;

pub(super) const ROWS: &[Row] = rows! {
    "vector-addition" => addition;
};

fn addition<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    floats(call.floats("input1").into_iter().zip(call.floats("input2")).map(|(a, b)| a + b))
}
