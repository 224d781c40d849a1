//! Typed buffers: components that are converted between memory and registers.

use isa::{Arch, Inst};

use super::{Operands, Outcome, unsupported};
use crate::Builder;

pub fn lift(_: &mut Builder, _: Arch, _: &Inst, _: &Operands) -> Result<Outcome, String> {
    unsupported("a typed buffer")
}
