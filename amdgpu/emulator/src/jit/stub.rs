//! Stub for architectures without a JIT compiler: all micro-ops are interpreted.

use isa::Inst;

use crate::{Level, Uop};

/// Empty set of native runs.
#[derive(Debug, Default)]
pub struct Native;

impl Native {
    pub fn install(_: Level, _: &mut [Uop], _: &[Inst], _: &[bool]) -> Native {
        Native
    }
}
