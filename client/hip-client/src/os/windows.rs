//! Windows.

pub mod demangle;
pub mod descriptor;
pub mod hooks;
pub mod last_thread;
pub mod memory;
pub mod module;
pub mod output;
pub mod thread;
