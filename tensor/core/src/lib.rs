//! Strided, lazily evaluated tensors with gradients. This crate handles shapes, types, graphs and launch planning; it is
//! independent of devices and of Python.

#![warn(missing_docs)]

pub mod autograd;
pub mod bounds;
pub mod decompose;
pub mod device;
pub mod dtype;
pub mod element;
pub mod error;
mod execute;
pub mod explain;
mod fast_path;
pub mod grad_mode;
mod graph;
mod launch;
pub mod layout;
mod node;
mod numbers;
pub mod ops;
mod plan;
pub mod program;
pub mod random;
mod shared;
mod signature;
pub mod step;
mod storage;
mod tensor;

pub use execute::{eval, eval_pending, eval_small, note, set_host_device};
pub use explain::{Explanation, explain};
pub use shared::{ConstantMemory, HostMemory, Lease};
pub use tensor::{Result, Tensor};
