//! The tests of `kernels.rs` with the native code of processors without AVX-512: `rig` goes by the name of this file.

#[path = "kernels.rs"]
mod kernels;
