//! What depends on the operating system: the same files, with the same items, for each system. Only sockets of Linux carry
//! descriptors.

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub(crate) use unix::{attached, fifo_pair, private_file, socket, threads, timer};
#[cfg(windows)]
pub(crate) use windows::{fifo_pair, private_file, socket, threads, timer};
