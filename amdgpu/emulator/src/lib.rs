//! A software gfx90a/gfx942 compute device: runs real code objects on the CPU.
//!
//! Owns waves, local memory, dispatch and the execution of instructions; refuses to know of HIP, streams or sessions.
//! A kernel is decoded once into micro-ops ([`Uop`]); a wave is 64 lanes held as fixed arrays that the compiler vectorises.

pub mod compile;
pub mod exec;
mod level;
mod uop;
mod wave;

pub use level::{Body, Level, handler};
pub use uop::{Flow, Handler, Src, SrcKind, Uop};
pub use wave::{Lanes, Mode, Wave};
