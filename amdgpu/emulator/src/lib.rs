//! A software gfx90a/gfx942 compute device: runs real code objects on the CPU.
//!
//! Owns waves, local memory, dispatch and the execution of instructions; refuses to know of HIP, streams or sessions.
//! A kernel is decoded once into micro-ops ([`Uop`]); a wave is 64 lanes held as fixed arrays that the compiler vectorises.
//!
//! A device pointer is a host pointer. [`Memory`] says which addresses kernels may touch; [`Module::load`] puts a code object at
//! its place and [`Gpu::launch`] runs a kernel of it. Anything a kernel does wrong is a [`Fault`], never a crash.

mod buffer;
pub mod compile;
mod dispatch;
#[expect(clippy::needless_range_loop, reason = "lane loops index several arrays at once")]
pub mod exec;
mod fault;
mod gate;
pub mod guard;
pub mod heap;
mod hostcall;
mod initial;
mod jit;
mod level;
pub mod memory;
pub mod module;
pub mod observe;
mod printf;
mod printf_buffer;
mod program;
pub mod rate;
mod schedule;
mod uop;
mod wave;
mod workgroup;

pub use dispatch::{Dispatch, Gpu, GpuConfig, LaunchStats};
pub use fault::{Fault, FaultKind};
pub use heap::{Heap, Pages};
pub use hostcall::Output;
pub use jit::Compilation;
pub use level::{Body, Level, handler};
pub use memory::{Access, Memory};
pub use module::{LoadedKernel, Module};
pub use printf::render_message;
pub use printf_buffer::print_records;
pub use program::{Options, Program};
pub use uop::{Flow, Handler, Src, SrcKind, Uop};
pub use wave::{Lanes, Mode, Wave, sreg};
