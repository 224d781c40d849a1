//! What depends on the operating system: the same files, with the same items, for each system.

mod escapes;

#[cfg(unix)]
mod unix;
#[cfg(windows)]
mod windows;

#[cfg(unix)]
pub use unix::{child, folders, library, screen, standard_output};
#[cfg(windows)]
pub use windows::{child, folders, library, screen, standard_output};
