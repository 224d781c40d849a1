//! The tests of `kernels.rs` without native code: `rig` goes by the name of this file.

#[path = "kernels.rs"]
mod kernels;
