//! Sources of vector operations: registers and constants, DPP, SDWA, halves, signs.

use isa::{DataType, Flags, Format, Inst, Op, Operand};

use super::cross;
use crate::form::{Float, FloatType, NumberType, Rounding, Value};
use crate::translator::{Translated, Translator};

/// The sources of an instruction.
#[derive(Debug)]
pub struct Sources {
    /// Values with their modifiers applied.
    pub values: Vec<Value>,
    /// The mask among the sources, or VCC of `v_div_fmas`.
    pub carry: Option<Value>,
    /// Lanes that are written.
    pub written: Value,
}

/// How modifiers apply to a source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// Bits.
    Bits,
    /// The low half.
    Half,
    /// A float of this type; halves can be selected.
    Float(FloatType),
    /// Two halves; whether they are floats.
    PackedHalves(bool),
    /// Two singles.
    PackedSingles,
    /// A single, or a half that is converted to one.
    Mixed,
}

fn kind(inst: &Inst, n: usize) -> Kind {
    let flags = inst.encoding().flags;
    let data_type = inst.src_type(n);
    if flags.has(Flags::MIX) {
        return Kind::Mixed;
    }
    // v_cndmask moves bits, but takes the modifiers of floats.
    if inst.op == Op::v_cndmask_b32 {
        return Kind::Float(FloatType::F32);
    }
    match data_type {
        DataType::F16 => Kind::Float(FloatType::F16),
        DataType::F32 => Kind::Float(FloatType::F32),
        DataType::F64 => Kind::Float(FloatType::F64),
        DataType::B16 | DataType::U16 | DataType::I16 => Kind::Half,
        DataType::F16x2 if inst.format == Format::Vop3p => Kind::PackedHalves(true),
        DataType::F32x2 if inst.format == Format::Vop3p => Kind::PackedSingles,
        DataType::B16x2 | DataType::U16x2 | DataType::I16x2 if inst.format == Format::Vop3p => {
            Kind::PackedHalves(false)
        }
        _ => Kind::Bits,
    }
}

impl Sources {
    /// Reads the sources of an instruction.
    pub fn read(t: &mut Translator, inst: &Inst, exec: Value) -> Translated<Sources> {
        let flags = inst.encoding().flags;
        let mut sources = Sources { values: Vec::new(), carry: None, written: exec };
        for n in 0..inst.encoding().source_count() {
            if n == 2 && flags.has(Flags::CARRY_IN) {
                sources.carry = Some(t.source_mask(&inst.src[2], DataType::B64)?);
                continue;
            }
            let value = sources.one(t, inst, n, exec)?;
            sources.values.push(value);
        }
        if crate::vector::accumulates(inst.op) {
            let old = t.source(&inst.dst, inst.dst_type())?;
            sources.values.push(old);
        }
        if matches!(inst.op, Op::v_div_fmas_f32 | Op::v_div_fmas_f64) {
            sources.carry = Some(t.vcc());
        }
        Ok(sources)
    }

    fn one(&mut self, t: &mut Translator, inst: &Inst, n: usize, exec: Value) -> Translated<Value> {
        let kind = kind(inst, n);
        let half = inst.modifiers.op_sel_hi >> n & 1 == 1 && !matches!(inst.src[n], Operand::Literal(_));
        let data_type = match kind {
            Kind::Mixed if half => DataType::F16,
            Kind::Mixed => DataType::F32,
            _ => inst.src_type(n),
        };
        let mut value = if kind == Kind::PackedSingles {
            return packed_singles(t, inst, n);
        } else if let (Kind::Half, Operand::Float(bits)) = (kind, inst.src[n]) {
            // The low half of a single: an inline float has no 16-bit form in an integer operand.
            t.b().word(bits)
        } else {
            t.source(&inst.src[n], data_type)?
        };
        if n == 0
            && let Some(dpp) = inst.dpp
        {
            let moved = cross::dpp(t, &dpp, value, exec)?;
            (value, self.written) = (moved.value, moved.written);
        }
        if n < 2
            && let Some(sdwa) = inst.sdwa
        {
            let (selected, extended) = match n {
                0 => (sdwa.src0_sel, sdwa.src0_sext),
                _ => (sdwa.src1_sel, sdwa.src1_sext),
            };
            if let Some((offset, width)) = field(selected) {
                value = t.b().extract(value, offset, width, extended);
            }
        }
        modified(t, inst, n, kind, value)
    }
}

/// First bit and width of an SDWA selector; `None` for the whole word.
pub fn field(selector: u8) -> Option<(u8, u8)> {
    match selector {
        0..=3 => Some((8 * selector, 8)),
        4 | 5 => Some((16 * (selector - 4), 16)),
        _ => None,
    }
}

/// Applies the selection of halves, the absolute value and the negation.
fn modified(t: &mut Translator, inst: &Inst, n: usize, kind: Kind, value: Value) -> Translated<Value> {
    let m = &inst.modifiers;
    let set = |mask: u8| mask >> n & 1 == 1;
    let mut b = t.b();
    let signed = |b: &mut crate::Builder<'_>, of: FloatType, mut value: Value| {
        if set(m.abs) {
            value = b.float(Float::Absolute, of, Rounding::Nearest, &[value]);
        }
        if set(m.neg) {
            value = b.float(Float::Negate, of, Rounding::Nearest, &[value]);
        }
        value
    };
    Ok(match kind {
        Kind::Bits => value,
        Kind::Half | Kind::Float(FloatType::F16) => {
            let value = if set(m.op_sel) { b.extract(value, 16, 16, false) } else { value };
            if kind == Kind::Half { value } else { signed(&mut b, FloatType::F16, value) }
        }
        Kind::Float(of) => signed(&mut b, of, value),
        Kind::PackedHalves(float) => {
            let plain = !set(m.op_sel) && set(m.op_sel_hi);
            let mut value = value;
            if !plain {
                let low = if set(m.op_sel) { 2 } else { 0 };
                let high = if set(m.op_sel_hi) { 2 } else { 0 };
                let bytes = crate::Operation::Bytes([low, low + 1, high, high + 1]);
                value = match b.function.constant(value) {
                    Some(bits) => {
                        let bits = bits as u32;
                        b.word(bits >> (8 * low) & 0xffff | (bits >> (8 * high)) << 16)
                    }
                    None => b.pure(bytes, &[value, value], crate::Kind::Word),
                };
            }
            let flip = u32::from(set(m.neg)) << 15 | u32::from(set(m.neg_hi)) << 31;
            if float && flip != 0 {
                let flip = b.word(flip);
                value = b.binary(crate::form::Binary::Xor, value, flip);
            }
            value
        }
        Kind::PackedSingles => value,
        Kind::Mixed => {
            let mut value = value;
            if set(m.op_sel_hi) {
                let offset = if set(m.op_sel) { 16 } else { 0 };
                let half = b.extract(value, offset, 16, false);
                value = b.convert(NumberType::F16, NumberType::F32, Rounding::Nearest, half);
            }
            signed(&mut b, FloatType::F32, value)
        }
    })
}

/// Two singles, each of either word.
fn packed_singles(t: &mut Translator, inst: &Inst, n: usize) -> Translated<Value> {
    let m = &inst.modifiers;
    let mut words = Vec::new();
    for (selected, negated) in [(m.op_sel, m.neg), (m.op_sel_hi, m.neg_hi)] {
        let part = u32::from(selected >> n & 1);
        let word = t.source_word(&inst.src[n], DataType::F32x2, part)?;
        words.push(if negated >> n & 1 == 1 {
            t.b().float(Float::Negate, FloatType::F32, Rounding::Nearest, &[word])
        } else {
            word
        });
    }
    Ok(t.b().pack(words[0], words[1]))
}
