//! Activation functions: element by element.

use super::real::{Mode, Real, real};
use super::row::{Call, Row, each, each_row, rows, write};
use crate::values::Values;

pub(super) const ROWS: &[Row] = rows! {
    "elu" => elu;
    "geglu" => geglu;
    "gelu" => gelu;
    "hard-sigmoid" => hard_sigmoid;
    "leaky-relu" => leaky_relu;
    "mish" => mish;
    "relu" => relu;
    "selu" => selu;
    "sigmoid" => sigmoid;
    "soft-plus" => soft_plus;
    "swiglu" => swiglu;
    "swish" => swish;
    "tanh" => tanh;
};

/// Applies `f` to every element of `input`.
fn map<M: Mode>(call: &Call<'_, M>, f: impl Fn(Real<M>) -> Real<M> + Sync) -> Vec<Values> {
    each(call, ["input"], |[x]| f(x))
}

fn relu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, |x| x.max(Real::zero()))
}

fn leaky_relu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    map(call, |x| leaky_of(x, alpha))
}

fn elu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let alpha = call.scalar("alpha");
    map(call, |x| if x > Real::zero() { x } else { alpha * x.exp_m1() })
}

fn selu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let (scale, alpha) = (real::<M>(1.050_700_987_355_480_5), real(1.673_263_242_354_377_2));
    map(call, |x| scale * if x > Real::zero() { x } else { alpha * x.exp_m1() })
}

fn sigmoid<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, sigmoid_of)
}

fn hard_sigmoid<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, |x| ((x + real(3.0)) / real(6.0)).max(Real::zero()).min(real(1.0)))
}

fn tanh<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, Real::tanh)
}

fn gelu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, gelu_of)
}

fn swish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, swish_of)
}

fn soft_plus<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, soft_plus_of)
}

fn mish<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    map(call, |x| x * soft_plus_of(x).tanh())
}

fn swiglu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    each(call, ["gate", "up"], |[gate, up]| swish_of(gate) * up)
}

/// Each row contains its gates first, then the gated values.
fn geglu<M: Mode>(call: &Call<'_, M>) -> Vec<Values> {
    let m = call.size("m");
    each_row(call, "input", 2 * m, m, |_, row, to| {
        let (gates, values) = row.split_at(m);
        write(to, gates.iter().zip(values).map(|(gate, value)| gelu_of(*gate) * *value));
    })
}

pub(super) fn leaky_of<M: Mode>(x: Real<M>, alpha: Real<M>) -> Real<M> {
    if x > Real::zero() { x } else { alpha * x }
}

pub(super) fn sigmoid_of<M: Mode>(x: Real<M>) -> Real<M> {
    real::<M>(1.0) / (real::<M>(1.0) + (-x).exp())
}

pub(super) fn swish_of<M: Mode>(x: Real<M>) -> Real<M> {
    x * sigmoid_of(x)
}

/// The tanh approximation of GELU.
fn gelu_of<M: Mode>(x: Real<M>) -> Real<M> {
    let inner = real::<M>(0.797_884_560_802_865_4) * (x + real::<M>(0.044715) * x * x * x);
    real::<M>(0.5) * x * (real::<M>(1.0) + inner.tanh())
}

fn soft_plus_of<M: Mode>(x: Real<M>) -> Real<M> {
    x.max(Real::zero()) + (-x.abs()).exp().ln_1p()
}
