//! Evaluation of the form: the judge of the lifter, of its passes and of what is made from the form.
//!
//! Runs a function wave by wave, one instruction at a time, with plain arrays as memory. Slow and simple; bounded by a number of
//! instructions.

mod atomic;
mod cross;
mod fault;
mod fragment;
mod grid;
mod launch;
mod matrix;
mod memory;
mod pure;
mod wave;

pub use fault::Fault;
pub use fragment::{Fragment, Observed, run_fragment};
pub use grid::run;
pub use launch::{Launch, Stats};
pub use memory::{Bytes, Memory};
pub use pure::evaluate_pure;
pub(crate) use pure::is_signalling;

#[cfg(test)]
mod tests;
