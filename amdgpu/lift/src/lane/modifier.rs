//! Output scaling.

use isa::{Inst, Mode};

use crate::form::Value;
use crate::translator::{Translated, Translator};

/// Whether the output modifier has an effect: the hardware ignores it in IEEE mode and where MODE keeps denormal results.
pub fn scales(inst: &Inst, mode: &Mode) -> bool {
    let single = inst.dst_type().element_bits() == 32;
    let denormals = if single { mode.denorm_f32 } else { mode.denorm_f64 };
    inst.modifiers.omod != 0 && inst.dst_type().is_float() && !mode.ieee && denormals & 2 == 0
}

/// The scaled result.
pub fn scaled(_: &mut Translator, inst: &Inst, _: Value) -> Translated<Value> {
    Err(format!("{} with an output modifier that has an effect", inst.op.name()))
}
