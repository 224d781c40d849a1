//! Everything that depends on the operating system: memory, modules, exit, standard streams, threads. The same files, with the
//! same items, for each system.

pub mod object_kind;
#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{demangle, descriptor, hooks, last_thread, memory, module, output, thread};
#[cfg(windows)]
pub use windows::{demangle, descriptor, hooks, last_thread, memory, module, output, thread};
