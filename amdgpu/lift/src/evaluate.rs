//! Evaluation of the form: the judge of the lifter, of its passes and of what is made from the form.

mod pure;

pub use pure::evaluate_pure;
