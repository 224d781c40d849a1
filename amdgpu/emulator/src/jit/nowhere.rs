//! Where there is no native code: micro-ops do everything.

use isa::Inst;

use crate::{Level, Uop};

/// No runs.
#[derive(Debug, Default)]
pub struct Native;

impl Native {
    pub fn install(_: Level, _: &mut [Uop], _: &[Inst], _: &[bool]) -> Native {
        Native
    }
}
