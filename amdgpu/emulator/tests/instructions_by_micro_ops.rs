//! The tests of `instructions.rs` without native code: `rig` goes by the name of this file.

#[path = "instructions.rs"]
mod instructions;
