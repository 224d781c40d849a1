//! Generates PTX from the SSA form of `lift`.
//!
//! Two modes: in pair mode a wave of 64 lanes is one warp, and a thread holds two lanes; in lane mode a lane is a thread. Knows
//! neither machine registers nor the CUDA driver.

#![warn(missing_docs)]
