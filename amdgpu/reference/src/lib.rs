//! Reference implementation of vector instructions: one lane at a time, written to be compared with the ISA manual.
//!
//! Floats are exact numbers that are rounded once ([`exact`]), with no float arithmetic of the host, so that the reference cannot
//! share an error with an implementation. Tests of the emulator compare it with this crate: those of single lane loops, and
//! those of whole instructions with all their operand forms and modifiers.

#![warn(missing_docs)]

mod convert;
mod evaluate;
pub mod exact;
mod float;
mod integer;
mod lane;
pub mod random;

pub use evaluate::evaluate;
pub use lane::{Lane, Outcome};
