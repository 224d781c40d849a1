//! Memory instructions: addresses, data and masks in operations of the form.

use isa::{Arch, Inst};

use crate::{Builder, Value};

/// Operands of a memory instruction.
#[derive(Clone, Debug)]
pub struct Operands {
    /// EXEC.
    pub exec: Value,
    /// Words of each source, in the order documented at [`Inst`]; empty for sources that do not exist. For scalar memory,
    /// `sources[2]` is the data of stores.
    pub sources: [Vec<Value>; 4],
    /// Words that the destination holds before the instruction, for loads that keep a half of it.
    pub old: Vec<Value>,
    /// M0.
    pub m0: Value,
    /// FLAT_SCRATCH, low and high word.
    pub flat_scratch: [Value; 2],
}

/// Results of a memory instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// New words of a vector destination; what inactive lanes hold does not matter.
    pub lanes: Vec<Value>,
    /// New words of a scalar destination.
    pub scalars: Vec<Value>,
}

/// Appends the operations of one instruction. The error says what is not supported.
pub fn lift(b: &mut Builder<'_>, arch: Arch, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    let _ = (b, arch, operands);
    Err(format!("{} is not supported", inst.op.name()))
}
