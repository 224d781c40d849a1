//! Tensor operations as methods. Each is also a function of the module: the same object, so there is no second wrapper.

pub mod binary;
pub mod conv;
pub mod hooks;
pub mod in_place;
pub mod index;
pub mod join;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod reduce;
pub mod shape;
pub mod sort;
pub mod unary;
