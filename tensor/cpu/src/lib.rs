//! The CPU device: interprets programs block by block in vector loops, computes matrix products and convolutions with one packed
//! kernel, and implements every other step. It supports every operation that is defined for an element type.

#![warn(missing_docs)]

mod complex;
mod contract;
mod device;
mod element;
mod entropy;
mod fault;
mod fold;
mod indexing;
mod kernels;
mod level;
mod map;
mod math;
mod memory;
mod movement;
mod order;
mod plan;
mod plan_cache;
mod pool;
mod random;
mod reduce;
mod rows;
mod sequence;
mod sort;
mod thread_pool;
mod threads;
mod transpose;
mod view;
mod walk;

pub use device::{CpuDevice, CpuOptions};
pub use level::Level;
