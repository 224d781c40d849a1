//! Translations of every operation: `ptxas` accepts them, and a GPU, where there is one, computes what the evaluator of the form
//! computes.

mod cases;
mod gpu;
mod ptxas;
mod pure;
mod wave;

/// Every case.
fn all() -> Vec<cases::Case> {
    let mut all = pure::cases();
    all.extend(wave::cases());
    all
}
