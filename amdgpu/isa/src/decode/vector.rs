//! Decoders for VOP1, VOP2, VOPC, VOP3 and VOP3P, with their SDWA and DPP forms.

use super::operand::{Literal, scalar_source, sgpr, vector_source, vgpr, vgpr_or_agpr};
use super::{Code, Decoded, Fault, bit, blank, field, require};
use crate::table::{Encoding, Flags};
use crate::{DataType, Dpp, Format, Inst, Operand, Sdwa};

/// Values of the first source field that mean an SDWA or DPP word follows.
const SDWA: u32 = 249;
const DPP: u32 = 250;

/// SDWA selection of all 32 bits.
const DWORD: u8 = 6;

pub fn vop1(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Vop1);
    let dst = field(word, 17, 8);
    if row.dst == DataType::None {
        require(dst == 0)?;
    } else if row.flags.has(Flags::SGPR_DST) {
        require(dst < 128)?;
        inst.dst = sgpr(dst, 1)?;
    } else {
        inst.dst = vgpr_or_agpr(dst, row.dst, row.flags.has(Flags::ACCVGPR))?;
    }
    if row.src[0] != DataType::None {
        first_source(&mut inst, row, word, code)?;
    }
    Ok(inst)
}

pub fn vop2(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Vop2);
    inst.dst = vgpr(field(word, 17, 8), row.dst)?;
    if row.flags.has(Flags::CARRY_OUT) {
        inst.sdst = Operand::VccLo;
    }
    let second = field(word, 9, 8);
    if row.flags.has(Flags::LITERAL_LAST | Flags::LITERAL_MIDDLE) {
        let mut literal = Literal::of(code);
        let constant = literal.operand()?;
        inst.src[0] = vector_source(field(word, 0, 9), row.src[0], &mut literal)?;
        let register = vgpr(second, row.src[1])?;
        let last = row.flags.has(Flags::LITERAL_LAST);
        inst.src[1] = if last { register } else { constant };
        inst.src[2] = if last { constant } else { register };
        return Ok(inst);
    }
    inst.src[1] = vgpr(second, row.src[1])?;
    if row.flags.has(Flags::CARRY_IN) {
        inst.src[2] = Operand::VccLo;
    }
    first_source(&mut inst, row, word, code)?;
    Ok(inst)
}

pub fn vopc(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Vopc);
    inst.sdst = Operand::VccLo;
    inst.src[1] = vgpr(field(word, 9, 8), row.src[1])?;
    first_source(&mut inst, row, word, code)?;
    Ok(inst)
}

/// Decodes the first source of a 32-bit form, which may make it an SDWA or DPP form.
fn first_source(inst: &mut Inst, row: &Encoding, word: u32, code: &mut Code) -> Decoded<()> {
    match field(word, 0, 9) {
        SDWA if row.flags.has(Flags::SDWA) => sdwa(inst, row, code.word()?),
        DPP if row.flags.has(Flags::DPP) => dpp(inst, row, code.word()?),
        value => {
            let scalar_allowed = !row.flags.has(Flags::VGPR_ONLY);
            require(scalar_allowed || value >= 256)?;
            inst.src[0] = vector_source(value, row.src[0], &mut Literal::of(code))?;
            if row.flags.has(Flags::ACCVGPR) {
                inst.src[0] = accumulation(inst.src[0])?;
            }
            Ok(())
        }
    }
}

fn sdwa(inst: &mut Inst, row: &Encoding, word: u32) -> Decoded<()> {
    let compare = inst.format == Format::Vopc;
    let one_source = row.src[1] == DataType::None;
    let source = |value: u32, scalar: bool, data_type: DataType| {
        if !scalar {
            return vgpr(value, data_type);
        }
        scalar_source(value, data_type, &mut Literal::none())
    };
    inst.src[0] = source(field(word, 0, 8), bit(word, 23), row.src[0])?;
    if bit(word, 31) {
        require(!one_source)?;
        // The second source is a vector register of the first word; with this bit set, the same number is a scalar operand.
        let Operand::Vgpr(register) = inst.src[1] else { return Err(Fault::Unknown) };
        inst.src[1] = source(register.into(), true, row.src[1])?;
    }
    if compare {
        // Without this bit the result goes to VCC.
        if bit(word, 15) {
            inst.sdst = sgpr(field(word, 8, 7), 2)?;
        }
    } else {
        inst.modifiers.clamp = bit(word, 13);
        inst.modifiers.omod = field(word, 14, 2) as u8;
        require(inst.modifiers.omod == 0 || row.flags.has(Flags::OMOD) && row.dst.is_float())?;
    }
    let mut sext = [false; 2];
    for (index, low) in [(0, 19), (1, 27)] {
        let (extend, negate, absolute) = (bit(word, low), bit(word, low + 1), bit(word, low + 2));
        if row.src[index] == DataType::None {
            require(field(word, 24, 6) == 0)?;
        } else if takes_float_modifiers(row, index) {
            require(!extend)?;
            inst.modifiers.neg |= u8::from(negate) << index;
            inst.modifiers.abs |= u8::from(absolute) << index;
        } else {
            require(!negate && !absolute)?;
            sext[index] = extend;
        }
    }
    let selection = |low| {
        let value = field(word, low, 3) as u8;
        require(value <= 6).map(|()| value)
    };
    let whole_dst = row.flags.has(Flags::SDWA_WHOLE_DST);
    let dst_unused = if compare || whole_dst { 0 } else { field(word, 11, 2) as u8 };
    require(dst_unused <= 2)?;
    let dst_sel = if compare { DWORD } else { selection(8)? };
    require(!whole_dst || dst_sel == DWORD)?;
    inst.sdwa = Some(Sdwa {
        dst_sel,
        dst_unused,
        src0_sel: selection(16)?,
        src0_sext: sext[0],
        src1_sel: if one_source { DWORD } else { selection(24)? },
        src1_sext: sext[1],
    });
    Ok(())
}

fn dpp(inst: &mut Inst, row: &Encoding, word: u32) -> Decoded<()> {
    inst.src[0] = vgpr(field(word, 0, 8), row.src[0])?;
    for (index, low) in [(0, 20), (1, 22)] {
        modifiers(inst, row, index, bit(word, low), bit(word, low + 1))?;
    }
    let ctrl = field(word, 8, 9) as u16;
    let double = [row.dst, row.src[0], row.src[1]].iter().any(|t| t.dwords() == 2);
    require(if double { Dpp::is_row_newbcast(ctrl) } else { Dpp::is_valid(ctrl) })?;
    inst.dpp = Some(Dpp {
        ctrl,
        bound_ctrl: bit(word, 19),
        bank_mask: field(word, 24, 4) as u8,
        row_mask: field(word, 28, 4) as u8,
    });
    Ok(())
}

/// Whether `neg` and `abs` apply to this source.
fn takes_float_modifiers(row: &Encoding, index: usize) -> bool {
    row.flags.has(Flags::MODS) && is_floating(row, index) || row.flags.has(Flags::MODS0) && index == 0
}

/// v_cndmask moves bits, but accepts the modifiers of floating-point operands.
fn is_floating(row: &Encoding, index: usize) -> bool {
    row.src[index].is_float() || row.flags.has(Flags::CARRY_IN) && index < 2
}

/// Sets the `neg` and `abs` bits of one source of a VOP3 or DPP form.
fn modifiers(inst: &mut Inst, row: &Encoding, index: usize, negate: bool, absolute: bool) -> Decoded<()> {
    if row.flags.has(Flags::MODS_IGNORED) && row.src[index] != DataType::None {
        return Ok(());
    }
    if takes_float_modifiers(row, index) {
        inst.modifiers.neg |= u8::from(negate) << index;
        inst.modifiers.abs |= u8::from(absolute) << index;
    } else if row.flags.has(Flags::MODS)
        && row.src[index] != DataType::None
        && !row.flags.has(Flags::CARRY_IN)
    {
        inst.modifiers.sext |= u8::from(negate) << index;
    } else if row.flags.has(Flags::OPSEL3) {
        // Ignored.
    } else {
        require(!negate && !absolute)?;
    }
    Ok(())
}

pub fn vop3(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Vop3);
    let dst = field(word, 0, 8);
    if row.format == Format::Vopc {
        require(dst < 128)?;
        inst.sdst = sgpr(dst, 2)?;
    } else if row.flags.has(Flags::SGPR_DST) {
        require(dst < 128)?;
        inst.dst = sgpr(dst, 1)?;
    } else if row.dst == DataType::None {
        require(dst == 0)?;
    } else {
        inst.dst = vgpr(dst, row.dst)?;
    }

    let carry_out = row.flags.has(Flags::CARRY_OUT);
    if carry_out {
        inst.sdst = sgpr(field(word, 8, 7), 2)?;
    } else if row.flags.has(Flags::OPSEL) {
        inst.modifiers.op_sel = field(word, 11, 4) as u8;
        require(row.source_count() == 3 || row.flags.has(Flags::OPSEL3) || !bit(word, 13))?;
    }
    inst.modifiers.clamp = bit(word, 15);
    require(!inst.modifiers.clamp || row.flags.has(Flags::CLAMP))?;
    inst.modifiers.omod = field(second, 27, 2) as u8;
    require(inst.modifiers.omod == 0 || row.flags.has(Flags::OMOD))?;

    for index in 0..3 {
        let value = field(second, 9 * index as u32, 9);
        let negate = bit(second, 29 + index as u32);
        if row.src[index] == DataType::None {
            require(value == 0)?;
        } else if row.flags.has(Flags::CARRY_IN) && index == 2 {
            require(value < 128)?;
            inst.src[2] = sgpr(value, 2)?;
            require(inst.src[2] != Operand::ExecLo)?;
        } else {
            inst.src[index] = vector_source(value, row.src[index], &mut Literal::none())?;
            // Wider operands cannot be constants or scalar registers.
            require(row.src[index].dwords() <= 2 || matches!(inst.src[index], Operand::Vgpr(_)))?;
        }
        if row.flags.has(Flags::NEG) {
            inst.modifiers.neg |= u8::from(negate) << index;
        } else {
            modifiers(&mut inst, row, index, negate, !carry_out && bit(word, 8 + index as u32))?;
        }
    }
    if row.flags.has(Flags::LANE) {
        // The lane number is scalar; v_readlane reads a vector register, v_writelane writes a scalar into one.
        let scalar = |operand| !matches!(operand, Operand::Vgpr(_) | Operand::LdsDirect);
        let reads = row.flags.has(Flags::SGPR_DST);
        require(scalar(inst.src[1]) && scalar(inst.src[0]) != reads)?;
    }
    Ok(inst)
}

pub fn vop3p(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    if row.flags.has(Flags::MFMA | Flags::SMFMAC) {
        return matrix(row, word, second);
    }
    let mut inst = blank(row, Format::Vop3p);
    if row.flags.has(Flags::ACCVGPR) {
        return accvgpr(inst, row, word, second);
    }
    inst.dst = vgpr(field(word, 0, 8), row.dst)?;
    let m = &mut inst.modifiers;
    m.clamp = bit(word, 15);
    m.op_sel = field(word, 11, 3) as u8;
    m.op_sel_hi = (field(second, 27, 2) | field(word, 14, 1) << 2) as u8;
    m.neg = field(second, 29, 3) as u8;
    m.neg_hi = field(word, 8, 3) as u8;
    if row.source_count() == 2 {
        require((m.op_sel | m.neg | m.neg_hi) & 0b100 == 0 && field(second, 18, 9) == 0)?;
        m.op_sel_hi &= 0b011;
    }
    if row.flags.has(Flags::MIX) {
        m.abs = std::mem::take(&mut m.neg_hi);
    }
    for index in 0..row.source_count() {
        let value = field(second, 9 * index as u32, 9);
        inst.src[index] = vector_source(value, row.src[index], &mut Literal::none())?;
    }
    Ok(inst)
}

fn matrix(row: &Encoding, word: u32, second: u32) -> Decoded {
    let mut inst = blank(row, Format::Vop3p);
    let accumulator = bit(word, 15);
    inst.modifiers.cbsz = field(word, 8, 3) as u8;
    inst.modifiers.abid = field(word, 11, 4) as u8;
    inst.modifiers.blgp = field(second, 29, 3) as u8;
    inst.dst = vgpr_or_agpr(field(word, 0, 8), row.dst, accumulator)?;
    for index in 0..2 {
        let value = field(second, 9 * index as u32, 9);
        require(value >= 256)?;
        let accumulation = bit(second, 27 + index as u32);
        inst.src[index] = vgpr_or_agpr(value - 256, row.src[index], accumulation)?;
    }
    let third = field(second, 18, 9);
    if row.flags.has(Flags::SMFMAC) {
        require(inst.modifiers.blgp == 0 && third >= 256)?;
        inst.src[2] = vgpr(third - 256, row.src[2])?;
    } else if third >= 256 {
        inst.src[2] = vgpr_or_agpr(third - 256, row.src[2], accumulator)?;
    } else {
        inst.src[2] = vector_source(third, row.src[2], &mut Literal::none())?;
        require(matches!(inst.src[2], Operand::Int(_) | Operand::Float(_)))?;
    }
    Ok(inst)
}

/// Decodes v_accvgpr_read and v_accvgpr_write: one side is an accumulation register.
fn accvgpr(mut inst: Inst, row: &Encoding, word: u32, second: u32) -> Decoded {
    let write = !row.flags.has(Flags::VGPR_ONLY);
    inst.dst = vgpr_or_agpr(field(word, 0, 8), row.dst, write)?;
    inst.src[0] = vector_source(field(second, 0, 9), row.src[0], &mut Literal::none())?;
    if !write {
        inst.src[0] = accumulation(inst.src[0])?;
    }
    // Compilers set the bits that select the high half in packed operations; they have no meaning here.
    require(field(word, 8, 6) == 0 && field(second, 9, 18) == 0 && field(second, 29, 3) == 0)?;
    Ok(inst)
}

/// Turns a vector register into the accumulation register of the same number.
fn accumulation(operand: Operand) -> Decoded<Operand> {
    match operand {
        Operand::Vgpr(first) => Ok(Operand::Agpr(first)),
        _ => Err(Fault::Unknown),
    }
}
