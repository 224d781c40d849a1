//! The problems of the board: what is asked, with which inputs, what is right, and how near one has to come.
//!
//! Knows nothing of compilers, devices or networks and does no I/O: everything here is data and arithmetic.
//! `set/<slug>/` holds what people read and change (a table and a statement); `reference/` holds what is right.

mod case;
mod compare;
mod definition;
mod dtype;
mod expression;
mod harness;
mod launch;
mod parameter;
mod prepare;
mod problem;
mod reference;
mod set;
mod shape;
#[cfg(test)]
mod tolerance;

pub use case::{Case, Place, Set};
pub use compare::{Comparison, Expected, Mismatch, Tolerance, Values};
pub use definition::DefinitionError;
pub use dtype::Dtype;
pub use expression::{Expression, ExpressionError, Sizes};
pub use harness::harness;
pub use launch::{Formula, Launch, LaunchError};
pub use parameter::{Direction, Element, Fill, Parameter};
pub use prepare::{Argument, Prepared, Value};
pub use problem::{Difficulty, Problem};
pub use set::{all, find};
pub use shape::Shape;
