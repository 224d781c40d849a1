//! Judges one submission: compiles it, runs it on a device through the client library, compares its outputs and measures its run time.
//!
//! The crate does not handle users, queues, databases or HTTP. User code runs on a device or in the sandbox, never in this process. The
//! expected outputs never leave this process.

#![warn(missing_docs)]

mod access_report;
mod buffers;
mod channel;
mod check;
mod code;
mod compile;
mod context;
mod custom;
mod ending;
mod gate;
mod generator;
mod gpu;
mod hip;
mod host_solution;
mod job;
mod judge;
mod measure;
mod message;
mod object_rules;
mod observed;
mod profile_report;
mod program;
mod recipe;
mod rules;
pub mod runner;
mod sample;
mod session;
mod software_gpu;
mod statistics;
mod times;
mod tools;
mod whole;

pub use compile::{CompileError, Compiled, Compiler};
pub use custom::custom_case;
pub use gpu::{Gpu, Roof};
pub use job::{DEVICE_REQUEST, Grant, Job, Limits};
pub use judge::run;
pub use object_rules::ObjectBreach;
pub use recipe::RecipeError;
pub use sandbox::{IsolationRange, Level};
pub use toolchain::{Toolchain, ToolchainProblem};
pub use tools::Tools;
