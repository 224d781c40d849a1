//! The CPU device: interprets programs block by block in vector loops, computes matrix products and convolutions with one packed
//! kernel, and implements every other step. It supports every operation that is defined for an element type.

#![warn(missing_docs)]

mod complex;
mod contract;
mod device;
mod element;
mod fault;
mod fold;
mod kernels;
mod level;
mod map;
mod math;
mod memory;
mod movement;
mod plan;
mod plan_cache;
mod random;
mod reduce;
mod rows;
mod sequence;
mod thread_pool;
mod threads;
mod view;
mod walk;

pub use device::{CpuDevice, CpuOptions};
pub use level::Level;
