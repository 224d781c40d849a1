//! The tests of `kernels.rs` with native code for CPUs without AVX-512: `rig` selects this by the name of this file.

#[path = "kernels.rs"]
mod kernels;
