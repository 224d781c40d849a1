//! Lifts gfx90a and gfx942 machine code to a small SSA form, for translators to other instruction sets.
//!
//! A [`Function`] is one kernel: a control-flow graph whose values are uniform (one per wave), per lane, or lane masks. EXEC,
//! VCC and SCC are values like any other. Knows nothing of the instruction set that the form is translated to.

#![warn(missing_docs)]

pub mod analysis;
mod assumptions;
mod builder;
mod entry;
pub mod evaluate;
mod fold;
pub mod form;
mod graph;
mod lane;
mod lifter;
pub mod memory;
mod register;
mod scalar;
mod translator;
pub mod vector;

pub use analysis::{Obstacle, optimize, separate, verify};
pub use assumptions::{Assumptions, Code, function_pointers};
pub use builder::Builder;
pub use form::{Block, BlockData, Function, Instruction, Kind, Operation, Refusal, Shape, Terminator, Value};
pub use lifter::{lift, lift_fragment};
