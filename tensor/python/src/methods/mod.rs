//! The operations of tensors, as methods. Each of them is a function of the module too: the same object, so there is no second wrapper.

pub mod binary;
pub mod conv;
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
