//! Operations: each makes nodes and says how gradients go back. Nothing here runs.

mod axes;
pub mod create;
pub mod elementwise;
mod gradients;
pub mod matmul;
pub mod reduce;
pub mod shape;
