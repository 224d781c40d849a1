//! Tensor operations: each creates nodes and records how gradients flow back. Nothing is evaluated, except where documented.

pub mod activation;
pub mod attention;
mod axes;
pub mod conv;
pub mod create;
pub mod diagonal;
pub mod einsum;
pub mod elementwise;
pub mod fft;
mod fused;
mod gradients;
pub mod index;
pub mod iota;
pub mod join;
pub mod length;
pub mod linalg;
pub mod loss;
pub mod matmul;
pub mod norm;
pub mod pool;
pub mod reduce;
pub mod shape;
pub mod softmax;
pub mod sort;
pub mod strided;
pub mod unique;
pub mod window;
