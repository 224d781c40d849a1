//! Tensors: strided, lazy, with gradients. This crate knows shapes, types, graphs and what to launch; it knows no device and no Python.

pub mod device;
pub mod dtype;
pub mod error;
pub mod layout;
pub mod program;
pub mod random;
pub mod step;
