//! The tests of `instructions.rs` with native code for CPUs without AVX-512: `rig` selects this by the name of this file.

#[path = "instructions.rs"]
mod instructions;
