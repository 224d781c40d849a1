//! Native code for hot runs of lane-local operations.
//!
//! Owns when runs become native code. How is the business of one module for each architecture that there is native code for, and
//! one that stands in for it elsewhere.

#[cfg_attr(not(target_arch = "x86_64"), path = "jit/nowhere.rs")]
mod x86;

pub(crate) use x86::Native;

/// When runs become native code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compilation {
    Never,
    /// After a run was entered so many times; 0 is at once.
    After(u32),
}

impl Default for Compilation {
    fn default() -> Compilation {
        Compilation::After(200)
    }
}

impl Compilation {
    /// Entries before a run is compiled, as waves carry it.
    pub(crate) fn threshold(self) -> u32 {
        match self {
            Compilation::Never => u32::MAX,
            Compilation::After(entries) => entries.min(u32::MAX - 1),
        }
    }
}
