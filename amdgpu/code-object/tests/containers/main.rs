//! Tests of the parser with output of real compilers and with corrupted input.

mod hostile;
mod images;
mod toolchain;
