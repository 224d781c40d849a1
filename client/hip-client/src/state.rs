//! The client's state of a session, and the operations on it that several HIP functions share.

pub mod advice;
pub mod credit;
pub mod descriptor;
pub mod fence;
pub mod handles;
pub mod kernarg;
pub mod linker;
pub mod memory;
pub mod module;
pub mod occupancy;
pub mod registry;
pub mod runtime;
pub mod texture;
pub mod thread;
pub mod unmirrored;
pub mod variables;
pub mod virtual_memory;
