//! The crate against real compilers' output and against damage.

mod hostile;
mod images;
mod toolchain;
