//! Vector instructions: operands, modifiers and destinations. What an operation computes is in [`crate::vector`].

mod cross;
mod result;
mod source;

pub use cross::permute;

use isa::{DataType, Flags, Inst, Op};

use crate::form::{Binary, Input, Kind, Matrix, Operation, Shape, Unary, Value};
use crate::register::EXEC;
use crate::translator::{Translated, Translator, unsupported, vector_number};
use crate::vector as valu;

/// Translates an instruction.
pub fn vector(t: &mut Translator, inst: &Inst) -> Translated<()> {
    match inst.op {
        Op::v_nop | Op::v_clrexcp => Ok(()),
        Op::v_readfirstlane_b32 => {
            let (value, exec) = (t.source(&inst.src[0], DataType::B32)?, t.exec());
            let word = t.b().across(Operation::ReadFirstLane, &[value, exec], (Kind::Word, Shape::Uniform));
            t.set_number(&inst.dst, word)
        }
        Op::v_readlane_b32 => {
            let value = t.source(&inst.src[0], DataType::B32)?;
            let index = t.source(&inst.src[1], DataType::B32)?;
            let word = t.b().across(Operation::ReadLane, &[value, index], (Kind::Word, Shape::Uniform));
            t.set_number(&inst.dst, word)
        }
        Op::v_writelane_b32 => {
            let value = t.source(&inst.src[0], DataType::B32)?;
            let index = t.source(&inst.src[1], DataType::B32)?;
            let mut b = t.b();
            let (number, last) = (b.input(Input::LaneNumber), b.word(63));
            let index = b.and(index, last);
            let here = b.compare(crate::form::Compare::Equal, number, index);
            t.set_vectors(&inst.dst, &[value], here)
        }
        Op::v_swap_b32 => {
            let x = t.source(&inst.dst, DataType::B32)?;
            let y = t.source(&inst.src[0], DataType::B32)?;
            let exec = t.exec();
            t.set_vectors(&inst.dst, &[y], exec)?;
            t.set_vectors(&inst.src[0], &[x], exec)
        }
        Op::v_pk_mov_b32 => {
            let mut words = Vec::new();
            for n in 0..2 {
                let part = u32::from(inst.modifiers.op_sel >> n & 1);
                words.push(t.source_word(&inst.src[n], DataType::B32x2, part)?);
            }
            let exec = t.exec();
            t.set_vectors(&inst.dst, &words, exec)
        }
        _ if inst.encoding().flags.has(Flags::MFMA | Flags::SMFMAC) => matrix(t, inst),
        _ => general(t, inst),
    }
}

/// Matrix operations read and write all lanes.
fn matrix(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let sparse = inst.encoding().flags.has(Flags::SMFMAC);
    for n in 0..3 {
        let Some(source) = vector_number(&inst.src[n]) else { continue };
        let Some(dst) = vector_number(&inst.dst) else { continue };
        let (width, count) = (inst.src_width(n) as u16, inst.dst_width() as u16);
        let whole = source == dst && width == count;
        // Factors are read before a result is written, and so are the summands of a result of up to four registers; compilers
        // use both. Longer results are written while summands are read, and compilers avoid that overlap.
        let is_read_first = n < 2 || count <= 4;
        if !is_read_first && !whole && source < dst + count && dst < source + width {
            return Err("the destination of a matrix operation overlaps a source in part".to_owned());
        }
    }
    let mut operands = Vec::new();
    for n in 0..2 {
        operands.extend(t.source_words(&inst.src[n], inst.src_type(n))?);
    }
    if sparse {
        operands.extend(t.source_words(&inst.dst, inst.dst_type())?);
    }
    operands.extend(t.source_words(&inst.src[2], inst.src_type(2))?);
    let m = &inst.modifiers;
    let operation = Operation::Matrix(Matrix { op: inst.op, cbsz: m.cbsz, abid: m.abid, blgp: m.blgp });
    let results = vec![(Kind::Word, Shape::Lane); inst.dst_width() as usize];
    let words = t.b().append(operation, &operands, &results);
    let all = t.b().bit(true);
    t.set_vectors(&inst.dst, &words, all)
}

/// Operations that work lane by lane.
fn general(t: &mut Translator, inst: &Inst) -> Translated<()> {
    let exec = t.exec();
    let sources = source::Sources::read(t, inst, exec)?;
    let outcome = match own(t, inst, &sources.values) {
        Some(value) => valu::Outcome { value: Some(value), mask: None },
        None => {
            let (mode, clamp) = (t.mode, inst.modifiers.clamp);
            let outcome = valu::lift(&mut t.b(), inst.op, &sources.values, sources.carry, &mode, clamp);
            match outcome {
                Some(outcome) => outcome,
                None => return unsupported(inst),
            }
        }
    };
    let written = sources.written;
    if let Some(value) = outcome.value {
        let (mode, omod, clamp) = (t.mode, inst.modifiers.omod, inst.modifiers.clamp);
        let value = valu::finish(&mut t.b(), inst.op, value, omod, clamp, &mode);
        let words = result::words(t, inst, value)?;
        t.set_vectors(&inst.dst, &words, written)?;
    }
    if let Some(mask) = outcome.mask {
        let mask = t.b().and(written, mask);
        t.set_mask(&inst.sdst, mask)?;
        if inst.op.writes_exec() {
            t.set_mask_register(EXEC, mask);
        }
    }
    if outcome.value.is_none() && outcome.mask.is_none() {
        return unsupported(inst);
    }
    // A vector destination without a value would keep its old contents silently.
    if outcome.value.is_none() && vector_number(&inst.dst).is_some() {
        return unsupported(inst);
    }
    Ok(())
}

/// Moves, and operations that know the lane's number.
fn own(t: &mut Translator, inst: &Inst, sources: &[Value]) -> Option<Value> {
    match inst.op {
        Op::v_mov_b32
        | Op::v_mov_b64
        | Op::v_accvgpr_mov_b32
        | Op::v_accvgpr_read_b32
        | Op::v_accvgpr_write_b32 => Some(sources[0]),
        Op::v_mbcnt_lo_u32_b32 | Op::v_mbcnt_hi_u32_b32 => {
            let mut b = t.b();
            let below = b.input(Input::LanesBelow);
            let below = if inst.op == Op::v_mbcnt_lo_u32_b32 { b.low(below) } else { b.high(below) };
            let counted = b.and(below, sources[0]);
            let count = b.unary(Unary::Popcount, counted);
            Some(b.binary(Binary::Add, count, sources[1]))
        }
        _ => None,
    }
}
