//! JIT compiler for x86-64.
//!
//! Finds the runs of a program ([`block`]), compiles them and enters them. All micro-ops of a run stay in place; only the handler
//! of the first is replaced by one that executes the whole run natively once it is hot, and otherwise calls the original handler.
//! Native code requires AVX2 and is faster with AVX-512. On other CPUs, and under a non-default MODE, only micro-ops are used.

mod assembler;
mod avx2_fallback;
mod block;
mod comparison;
mod emit;
mod entry;
mod executable;
mod float;
mod integer;
mod liveness;
mod local_read;
mod lower;
mod mask;
mod qword;
mod read_code;
mod register;
mod run;
mod target;
mod template;
mod template_table;
mod value;

pub use entry::Native;

#[cfg(test)]
mod tests;
