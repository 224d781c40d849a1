//! Generates PTX from the SSA form of `lift`.
//!
//! Two modes: in pair mode a wave of 64 lanes is one warp, and a thread holds two lanes; in lane mode a lane is a thread. Knows
//! neither machine registers nor the CUDA driver. [`launch`] is the launch contract: the parameters and
//! the block size that a caller must pass.

#![warn(missing_docs)]

mod emit;
mod generator;
mod halves;
mod lane_map;
pub mod launch;
mod liveness;
mod mode;
mod polling;
mod range;
mod translation;

pub use translation::{Mode, Options, Target, Translation, translate};
