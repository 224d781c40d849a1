//! The problem set of the board: definitions, inputs, reference implementations and tolerances.
//!
//! The crate consists of data and arithmetic: no compilers, devices, networks or I/O. `set/<slug>/` contains each problem's definition
//! (`problem.toml`) and statement; `reference/` contains the reference implementations.

#![warn(missing_docs)]

mod argument;
mod case;
mod compare;
mod custom;
mod definition;
mod dtype;
mod expression;
mod generator;
mod harness;
mod launch;
mod maker;
mod parameter;
mod precision;
mod prepare;
mod problem;
mod reference;
mod rows;
mod set;
mod shape;
mod threads;
#[cfg(test)]
mod tolerance;
mod values;

pub use argument::{Argument, Prepared, Value};
pub use case::{Case, Place, Set};
pub use compare::{Comparison, Expected, Mismatch, Tolerance, ValueKind};
pub use custom::{Custom, CustomCase, CustomError, CustomFill, MOST_CUSTOM_ELEMENTS, Number};
pub use definition::DefinitionError;
pub use dtype::Dtype;
pub use expression::{Expression, ExpressionError, Sizes};
pub use generator::{Generator, Numbers, mixed};
pub use harness::harness;
pub use launch::{Formula, Launch, LaunchError};
pub use parameter::{Direction, Element, Fill, Parameter};
pub use precision::InputPrecision;
pub use problem::{Difficulty, Problem};
pub use rows::{Part, Source};
pub use set::{all, find};
pub use shape::Shape;
pub use threads::with_threads;
pub use values::Values;
