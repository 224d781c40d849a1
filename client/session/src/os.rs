//! Everything that depends on the operating system: memory mappings, fences, copies between processes.

pub mod barrier;
pub mod direct_copy;
pub mod double_mapping;
pub mod fork;
pub mod reserve;
