//! Vector instructions: the result of one lane in operations of the form.
//!
//! Mirrors the reference implementation (`isa_reference::evaluate`). One file for each family; each is a table from operations to
//! decompositions. In the default MODE most float operations are one operation of the form.

mod bytes;
mod compare;
mod convert;
pub mod division;
mod float;
mod integer;
mod lane;
mod packed;
pub mod quotient;
mod result;
mod scale;
mod short;

use isa::{Flags, Format, Mode, Op};

use crate::form::Kind;
use crate::{Builder, Value};
use lane::Lane;

pub use result::finish;

/// Results of a vector instruction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Value of the destination, a word or a double by the row's type.
    pub value: Option<Value>,
    /// Bit of the mask destination: a comparison's result or a carry. Not yet limited to the active lanes.
    pub mask: Option<Value>,
}

impl Outcome {
    fn value(value: Value) -> Outcome {
        Outcome { value: Some(value), mask: None }
    }

    fn mask(mask: Value) -> Outcome {
        Outcome { value: None, mask: Some(mask) }
    }

    fn both(value: Value, mask: Value) -> Outcome {
        Outcome { value: Some(value), mask: Some(mask) }
    }
}

/// Appends the operations of one instruction. `sources` have their modifiers applied and are words or doubles by the row's
/// types; an accumulator (the destination of `v_fmac`) is the third. Sources of `v_fma_mix` are f32. `carry` is the carry-in, the
/// condition of `v_cndmask`, or VCC of `v_div_fmas`. `clamp` makes integers saturate; output scaling and the clamp of floats follow
/// in [`finish`]. `None` for operations that have no decomposition.
pub fn lift(
    b: &mut Builder<'_>,
    op: Op,
    sources: &[Value],
    carry: Option<Value>,
    mode: &Mode,
    clamp: bool,
) -> Option<Outcome> {
    let row = op.encoding();
    let vector =
        matches!(row.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p);
    if !vector || op.crosses_lanes() {
        return None;
    }
    let kinds = source_kinds(op)?;
    let fits = kinds.len() <= sources.len()
        && kinds.iter().zip(sources).all(|(kind, source)| b.function.kind(*source) == *kind);
    let first = *sources.first()?;
    if !fits {
        return None;
    }
    let mut all = [first; 3];
    all.iter_mut().zip(sources).for_each(|(to, from)| *to = *from);
    let lane = Lane::new(b, op, all, carry, *mode, clamp && op.saturates());
    compare::lift(&lane)
        .or_else(|| integer::lift(&lane))
        .or_else(|| short::lift(&lane).map(Outcome::value))
        .or_else(|| bytes::lift(&lane).map(Outcome::value))
        .or_else(|| packed::lift(&lane).map(Outcome::value))
        .or_else(|| convert::lift(&lane).map(Outcome::value))
        .or_else(|| division::lift(&lane))
        .or_else(|| float::lift(&lane).map(Outcome::value))
}

/// Kinds of the sources that [`lift`] expects; `None` if one is neither a word nor a double.
fn source_kinds(op: Op) -> Option<Vec<Kind>> {
    let row = op.encoding();
    let mix = row.flags.has(Flags::MIX);
    let mut types: Vec<_> = row.src[..row.source_count()].to_vec();
    if row.flags.has(Flags::CARRY_IN) {
        types.pop();
    }
    if accumulates(op) {
        types.push(row.dst);
    }
    let kind = |dwords: u32| match dwords {
        1 => Some(Kind::Word),
        2 => Some(Kind::Double),
        _ => None,
    };
    types.iter().map(|data_type| if mix { Some(Kind::Word) } else { kind(data_type.dwords()) }).collect()
}

/// Whether the destination is also the third source.
pub fn accumulates(op: Op) -> bool {
    matches!(
        op,
        Op::v_fmac_f32
            | Op::v_fmac_f64
            | Op::v_mac_f32
            | Op::v_mac_f16
            | Op::v_pk_fmac_f16
            | Op::v_cvt_pkaccum_u8_f32
            | Op::v_dot2c_f32_f16
            | Op::v_dot2c_i32_i16
            | Op::v_dot4c_i32_i8
            | Op::v_dot8c_i32_i4
    )
}

#[cfg(test)]
mod tests;
