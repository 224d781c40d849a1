//! Just-in-time compiler for hot runs of lane-local operations.
//!
//! This file decides when a run is compiled. Code generation is in one module per supported architecture, with a stub for all
//! others.

#[cfg_attr(not(target_arch = "x86_64"), path = "jit/stub.rs")]
mod x86;

pub(crate) use x86::Native;

/// When runs of micro-ops are compiled to native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compilation {
    /// Runs are never compiled.
    Never,
    /// After a run was entered this many times; 0 compiles immediately.
    After(u32),
}

impl Default for Compilation {
    fn default() -> Compilation {
        Compilation::After(200)
    }
}

impl Compilation {
    /// Number of entries before a run is compiled, as stored in each wave.
    pub(crate) fn threshold(self) -> u32 {
        match self {
            Compilation::Never => u32::MAX,
            Compilation::After(entries) => entries.min(u32::MAX - 1),
        }
    }
}
