//! Conditions as sources: VCCZ, EXECZ and SCC are copied to the scalar file before an instruction that reads them.

use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Uop, Wave};

/// Writes VCCZ, EXECZ or SCC to the scalar file, where a source can read it.
struct Condition;

impl Body for Condition {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let value = match usize::from(uop.dst) {
            sreg::VCCZ => wave.vcc() == 0,
            sreg::EXECZ => wave.exec() == 0,
            _ => wave.scc,
        };
        wave.set_sgpr64(usize::from(uop.dst), u64::from(value));
        Flow::Next
    }
}

/// The handler that writes VCCZ, EXECZ or SCC (selected by `dst`) to the scalar file.
pub(crate) fn handler() -> Handler {
    crate::handler::<Condition>(Level::Base)
}
