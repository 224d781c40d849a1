//! The C ABI: the exported functions, and how their arguments are shown in a trace.

mod arguments;
pub mod exports;
mod extensions;
#[cfg(windows)]
mod unserved;
