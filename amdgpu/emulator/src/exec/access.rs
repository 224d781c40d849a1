//! Memory instructions, independent of their encoding: addresses and their checks, elements, atomics, private memory.

pub(crate) mod addresses;
pub(crate) mod atomic;
pub(crate) mod checked;
pub(crate) mod element;
pub(crate) mod operand;
pub(crate) mod private;
pub(crate) mod to_local;
