//! Native code for hot runs of lane-local operations.
//!
//! Owns which runs of a program there are ([`block`]), when one is compiled, and entering it. A run's micro-ops all stay where they
//! are; only the first one's handler is replaced, by one that runs the whole run natively once it is hot, and else does what the
//! first one did. Native code needs AVX-512; elsewhere, and under an unusual MODE, there are only micro-ops.

#[cfg(target_arch = "x86_64")]
mod assembler;
#[cfg(target_arch = "x86_64")]
mod block;
#[cfg(target_arch = "x86_64")]
mod comparison;
#[cfg(target_arch = "x86_64")]
mod emit;
#[cfg(target_arch = "x86_64")]
mod entry;
#[cfg(target_arch = "x86_64")]
mod executable;
#[cfg(target_arch = "x86_64")]
mod float;
#[cfg(target_arch = "x86_64")]
mod integer;
#[cfg(target_arch = "x86_64")]
mod local_read;
#[cfg(target_arch = "x86_64")]
mod qword;
#[cfg(target_arch = "x86_64")]
mod register;
#[cfg(target_arch = "x86_64")]
mod template;

#[cfg(target_arch = "x86_64")]
pub(crate) use entry::Native;
#[cfg(not(target_arch = "x86_64"))]
pub(crate) use nowhere::Native;

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

#[cfg(not(target_arch = "x86_64"))]
mod nowhere {
    use isa::Inst;

    use crate::{Level, Uop};

    /// No native code on this machine.
    #[derive(Debug, Default)]
    pub struct Native;

    impl Native {
        pub fn install(_: Level, _: &mut [Uop], _: &[Inst], _: &[bool]) -> Native {
            Native
        }
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests;
