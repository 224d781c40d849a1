//! Functions of single elements.

use super::{Call, Mode, Row, floats, real::real, rows};
use crate::compare::Values;

pub(super) const ROWS: &[Row] = rows! {
    "leaky-relu" => leaky_relu;
};

fn leaky_relu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    floats(call.floats("input").into_iter().map(|x| if x > real(0.0) { x } else { alpha * x }))
}
