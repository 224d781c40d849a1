//! The tests of `instructions.rs` with the native code of processors without AVX-512: `rig` goes by the name of this file.

#[path = "instructions.rs"]
mod instructions;
