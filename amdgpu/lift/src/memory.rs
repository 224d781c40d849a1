//! Memory instructions as loads, stores and atomics of the form.
//!
//! Addresses, offsets, element sizes, range checks and cache bits are made explicit here. Whatever has no exact equivalent in the
//! form is refused with a reason.

mod atomic;
mod buffer;
mod element;
mod facts;
mod fence;
mod flat;
mod local;
mod scalar;
mod typed;

use isa::{Arch, Format, Inst};

use crate::Builder;
use crate::form::*;

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
    /// What the words of a buffer resource probably are, if that is known.
    pub resource: Option<[u32; 4]>,
    /// FLAT_SCRATCH, low and high word.
    pub flat_scratch: [Value; 2],
}

/// Results of a memory instruction.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Words of the vector destination. What inactive lanes hold does not matter.
    pub lanes: Vec<Value>,
    /// Words of the scalar destination.
    pub scalars: Vec<Value>,
}

impl Outcome {
    fn lanes(lanes: Vec<Value>) -> Outcome {
        Outcome { lanes, scalars: Vec::new() }
    }

    fn scalars(scalars: Vec<Value>) -> Outcome {
        Outcome { lanes: Vec::new(), scalars }
    }
}

/// Lifts a memory instruction: DS but for cross-lane moves, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF and SMEM. The error says why the
/// instruction cannot be lifted.
pub fn lift(b: &mut Builder<'_>, arch: Arch, inst: &Inst, operands: &Operands) -> Result<Outcome, String> {
    match inst.format {
        Format::Ds => local::lift(b, inst, operands),
        Format::Flat | Format::Global | Format::Scratch => flat::lift(b, arch, inst, operands),
        Format::Mubuf if fence::is_fence(inst) => Ok(fence::lift(b, arch, inst)),
        Format::Mubuf | Format::Mtbuf if inst.op.name().contains("_format_") => {
            typed::lift(b, arch, inst, operands)
        }
        Format::Mubuf | Format::Mtbuf => buffer::lift(b, arch, inst, operands),
        Format::Smem => scalar::lift(b, inst, operands),
        _ => Err("images are not supported".to_owned()),
    }
}

/// The reason for an operation that has no equivalent in the form.
fn unsupported<T>(what: &str) -> Result<T, String> {
    Err(format!("{what} is not supported"))
}

/// A source that the instruction must have, with at least `count` words.
fn words(operands: &Operands, index: usize, count: usize) -> Result<&[Value], String> {
    operands.sources[index].get(..count).ok_or_else(|| format!("source {index} is too short"))
}

/// Address of a lane's dword when memory moves to and from LDS without registers: M0, an offset, and four bytes for each lane.
fn lane_of_local(b: &mut Builder, m0: Value) -> Value {
    let low = b.word(0xffff);
    let base = b.binary(Binary::And, m0, low);
    let lane = b.input(Input::LaneNumber);
    let two = b.word(2);
    let lane = b.binary(Binary::ShiftLeft, lane, two);
    b.binary(Binary::Add, base, lane)
}

/// An access of LDS: workgroup scope by its nature.
fn local_access(bytes: u8, offset: i32) -> Access {
    Access { space: Space::Lds, bytes, signed: false, offset, scope: MemoryScope::Workgroup, align: 0 }
}
