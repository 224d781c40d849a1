//! Moves between lanes: DPP sources, `ds_swizzle`, `ds_permute` and `ds_bpermute`.

use isa::{DataType, Dpp, Inst, Op};

use crate::form::{Binary, Kind, Operation, Pattern, Shape, Value};
use crate::translator::{Translated, Translator, unsupported};

/// A source that came from other lanes.
#[derive(Clone, Copy, Debug)]
pub struct Moved {
    /// The value.
    pub value: Value,
    /// Lanes that the instruction writes.
    pub written: Value,
}

/// A DPP source. A lane whose source lane does not exist or is inactive reads 0 with `bound_ctrl`, else it is not written.
pub fn dpp(t: &mut Translator, dpp: &Dpp, value: Value, exec: Value) -> Translated<Moved> {
    if !Dpp::is_valid(dpp.ctrl) {
        return Err("unknown DPP control".to_owned());
    }
    let pattern = Operation::Move(Pattern::Dpp(dpp.ctrl));
    let mut b = t.b();
    let full = b.function.constant(exec) == Some(1);
    let shift = |b: &mut crate::Builder<'_>, word: Value| {
        let zero = b.word(0);
        let word = b.select(exec, word, zero);
        b.across(pattern.clone(), &[word], (Kind::Word, Shape::Lane))
    };
    let moved = if b.function.kind(value) == Kind::Double {
        let (low, high) = (b.low(value), b.high(value));
        let (low, high) = (shift(&mut b, low), shift(&mut b, high));
        b.pack(low, high)
    } else {
        shift(&mut b, value)
    };
    let enabled = b.double(enabled(dpp));
    let enabled = b.mask_of(enabled);
    let mut written = b.and(exec, enabled);
    if !dpp.bound_ctrl {
        let readable = if full {
            let lanes = b.double(valid(dpp.ctrl));
            b.mask_of(lanes)
        } else {
            let one = b.word(1);
            let active = shift(&mut b, one);
            b.nonzero(active)
        };
        written = b.and(written, readable);
    }
    Ok(Moved { value: moved, written })
}

/// Lanes that the row and bank masks enable. A row is 16 lanes, a bank is 4 lanes of each row.
fn enabled(dpp: &Dpp) -> u64 {
    (0..64_u32)
        .filter(|lane| dpp.row_mask >> (lane / 16) & 1 == 1 && dpp.bank_mask >> (lane / 4 % 4) & 1 == 1)
        .fold(0, |mask, lane| mask | 1 << lane)
}

/// Lanes whose source lane exists.
fn valid(ctrl: u16) -> u64 {
    let count = u32::from(ctrl & 15);
    (0..64_u32)
        .filter(|lane| match ctrl {
            0x101..=0x10f => lane % 16 + count < 16,
            0x111..=0x11f => lane % 16 >= count,
            0x130 => *lane < 63,
            0x138 => *lane > 0,
            0x142 => *lane >= 16,
            0x143 => *lane >= 32,
            _ => true,
        })
        .fold(0, |mask, lane| mask | 1 << lane)
}

/// Moves in the DS format. Inactive source lanes read as zero.
pub fn permute(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let first = t.source(&inst.src[0], DataType::B32)?;
    let exec = t.exec();
    let data = match inst.op {
        Op::ds_swizzle_b32 => first,
        _ => t.source(&inst.src[1], DataType::B32)?,
    };
    let mut b = t.b();
    let lane = (Kind::Word, Shape::Lane);
    let zero = b.word(0);
    let active = b.select(exec, data, zero);
    let offset = b.word(inst.imm as u16 as u32);
    let address = b.binary(Binary::Add, first, offset);
    let two = b.word(2);
    let index = b.binary(Binary::ShiftRight, address, two);
    let word = match inst.op {
        // The last patterns are Fourier transforms.
        Op::ds_swizzle_b32 if inst.imm as u16 >= 0xe000 => return unsupported(inst),
        Op::ds_swizzle_b32 => b.across(Operation::Move(Pattern::Swizzle(inst.imm as u16)), &[active], lane),
        Op::ds_bpermute_b32 => b.across(Operation::Shuffle, &[active, index], lane),
        _ => b.across(Operation::Push, &[data, index, exec], lane),
    };
    t.set_vectors(&inst.dst, &[word], exec)
}
