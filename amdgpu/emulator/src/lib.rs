//! A software gfx90a/gfx942 compute device: executes real code objects on the CPU.
//!
//! Implements waves, LDS, dispatch and the instructions. It is independent of HIP, streams and sessions. A kernel is decoded once
//! into micro-ops ([`Uop`]); a wave is 64 lanes in fixed-size arrays, over which the compiler vectorises.
//!
//! A device pointer is a host pointer. [`Memory`] is the table of addresses that kernels may access. [`Module::load`] loads a
//! code object and [`Gpu::launch`] runs one of its kernels. An error in a kernel is reported as a [`Fault`]; it never crashes the
//! process.

#![warn(missing_docs)]

mod buffer;
pub mod compile;
mod condition;
mod context;
mod dispatch;
#[expect(clippy::needless_range_loop, reason = "lane loops index several arrays at once")]
pub mod exec;
mod fault;
mod gate;
mod grid;
pub mod guard;
pub mod heap;
mod hostcall;
mod initial_registers;
mod jit;
pub mod kernarg;
mod launch;
mod launch_stats;
mod level;
pub mod memory;
pub mod module;
pub mod observe;
mod printf;
mod printf_buffer;
mod program;
pub mod rate;
mod run_loop;
mod schedule;
mod uop;
mod wave;
mod workgroup;

pub use dispatch::Gpu;
pub use fault::{Fault, FaultKind};
pub use heap::{Heap, Pages};
pub use hostcall::Output;
pub use isa::Mode;
pub use jit::Compilation;
pub use launch::{Dispatch, GpuConfig};
pub use launch_stats::LaunchStats;
pub use level::Level;
pub(crate) use level::{Body, handler};
pub use memory::{Access, Memory};
pub use module::{LoadedKernel, Module};
pub use printf::render_message;
pub use printf_buffer::print_records;
pub use program::{Options, Program};
pub use uop::{Flow, Handler, Src, SrcKind, Uop};
pub use wave::{Lanes, Wave, sreg};
