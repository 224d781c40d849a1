//! The tests of `instructions.rs` without native code: `rig` selects this by the name of this file.

#[path = "instructions.rs"]
mod instructions;
