//! Vector instructions: the result of one lane in operations of the form.

use isa::{Mode, Op};

use crate::{Builder, Value};

/// Results of a vector instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Value of the destination, a word or a double by the row's type.
    pub value: Option<Value>,
    /// Bit of the mask destination: a comparison's result or a carry. Not yet limited to the active lanes.
    pub mask: Option<Value>,
}

/// Appends the operations of one instruction. `sources` have their modifiers applied and are words or doubles by the row's
/// types; `carry` is the carry-in, the condition of `v_cndmask`, or VCC of `v_div_fmas`. `None` for operations that have no
/// decomposition.
pub fn lift(
    b: &mut Builder<'_>,
    op: Op,
    sources: &[Value],
    carry: Option<Value>,
    mode: &Mode,
    clamp: bool,
) -> Option<Outcome> {
    let _ = (b, op, sources, carry, mode, clamp);
    None
}
