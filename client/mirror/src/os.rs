//! What depends on the operating system: the same files, with the same items, for each system.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{pages, written};
#[cfg(windows)]
pub(crate) use windows::{pages, written};
