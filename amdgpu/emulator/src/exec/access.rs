//! Memory instructions, independent of their encoding: addresses and their checks, elements, atomics, private memory.

pub(crate) mod address;
pub(crate) mod atomic;
pub(crate) mod element;
pub(crate) mod private;
