//! Priorities of threads.

/// Does nothing: on Windows threads of the library keep the priority of the program.
pub fn lower_priority() {}
