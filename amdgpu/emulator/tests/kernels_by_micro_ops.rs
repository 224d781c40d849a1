//! The tests of `kernels.rs` without native code: `rig` selects this by the name of this file.

#[path = "kernels.rs"]
mod kernels;
