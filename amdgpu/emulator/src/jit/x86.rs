//! Native code on x86-64.
//!
//! Owns which runs of a program there are ([`block`]), compiling them, and entering them. A run's micro-ops all stay where they
//! are; only the first one's handler is replaced, by one that runs the whole run natively once it is hot, and else does what the
//! first one did. Native code needs AVX2, and is better with AVX-512; elsewhere, and under an unusual MODE,
//! there are only micro-ops.

mod assembler;
mod block;
mod comparison;
mod emit;
mod entry;
mod executable;
mod float;
mod future;
mod integer;
mod lacking;
mod local_read;
mod mask;
mod qword;
mod register;
mod target;
mod template;

pub use entry::Native;

#[cfg(test)]
mod tests;
