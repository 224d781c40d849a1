//! Arithmetic of the GPU on single values that differs from the CPU's.

pub(crate) mod cube;
pub(crate) mod division;
pub(crate) mod float;
pub(crate) mod float8;
pub(crate) mod integer;
