//! Everything that depends on the operating system: memory mappings, fences, copies between processes. The same files, with the
//! same items, for each system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{barrier, direct_copy, double_mapping, fork, reserve};
#[cfg(windows)]
pub use windows::{barrier, direct_copy, double_mapping, fork, reserve};
