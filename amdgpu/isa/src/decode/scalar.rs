//! Decoders for SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use super::operand::{Literal, scalar_source, sgpr};
use super::{Code, Decoded, bit, blank, field, require};
use crate::table::{Encoding, Flags};
use crate::{DataType, Format, Inst, Operand};

pub fn sop1(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Sop1);
    if row.dst != DataType::None {
        inst.dst = sgpr(field(word, 16, 7), row.dst.dwords())?;
    }
    if row.src[0] != DataType::None {
        let only_registers = row.flags.has(Flags::SGPR_ONLY);
        let mut literal = if only_registers { Literal::none() } else { Literal::of(code) };
        inst.src[0] = scalar_source(field(word, 0, 8), row.src[0], &mut literal)?;
        require(!only_registers || !matches!(inst.src[0], Operand::Int(_) | Operand::Float(_)))?;
    }
    Ok(inst)
}

pub fn sop2(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Sop2);
    if row.dst != DataType::None {
        inst.dst = sgpr(field(word, 16, 7), row.dst.dwords())?;
    }
    two_sources(&mut inst, row, word, code)?;
    Ok(inst)
}

pub fn sopc(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Sopc);
    if row.flags.has(Flags::GPR_IDX) {
        inst.src[0] = scalar_source(field(word, 0, 8), row.src[0], &mut Literal::of(code))?;
        inst.imm = field(word, 8, 8) as i32;
    } else {
        two_sources(&mut inst, row, word, code)?;
    }
    Ok(inst)
}

fn two_sources(inst: &mut Inst, row: &Encoding, word: u32, code: &mut Code) -> Decoded<()> {
    let mut literal = Literal::of(code);
    inst.src[0] = scalar_source(field(word, 0, 8), row.src[0], &mut literal)?;
    inst.src[1] = scalar_source(field(word, 8, 8), row.src[1], &mut literal)?;
    Ok(())
}

pub fn sopk(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let mut inst = blank(row, Format::Sopk);
    inst.imm = i32::from(field(word, 0, 16) as u16 as i16);
    if row.dst != DataType::None {
        inst.dst = sgpr(field(word, 16, 7), row.dst.dwords())?;
    }
    if row.flags.has(Flags::LITERAL_LAST) {
        inst.src[0] = Literal::of(code).operand()?;
    }
    Ok(inst)
}

pub fn sopp(row: &Encoding, word: u32) -> Decoded {
    let mut inst = blank(row, Format::Sopp);
    inst.imm = i32::from(field(word, 0, 16) as u16 as i16);
    require(!row.flags.has(Flags::NO_OPERANDS) || inst.imm == 0)?;
    Ok(inst)
}

pub fn smem(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Smem);
    inst.memory.soffset_en = bit(word, 14);
    inst.memory.imm = bit(word, 17);
    if row.flags.has(Flags::PROBE) {
        inst.memory.probe = field(word, 6, 7) as u8;
    } else if row.dst != DataType::None {
        inst.dst = sgpr(field(word, 6, 7), row.dst.dwords())?;
        require(!matches!(inst.dst, Operand::M0 | Operand::ExecLo | Operand::ExecHi))?;
    }
    if row.src[0] == DataType::None {
        require(!inst.memory.imm)?;
        inst.memory.soffset_en = false;
        return Ok(inst);
    }
    if row.dst != DataType::None {
        inst.memory.glc = bit(word, 16);
    }
    inst.src[0] = sgpr(field(word, 0, 6) << 1, row.src[0].dwords())?;
    if inst.memory.imm {
        // 21 bits, signed.
        inst.imm = (second << 11) as i32 >> 11;
    }
    if inst.memory.soffset_en {
        inst.src[1] = sgpr(field(second, 25, 7), 1)?;
    } else if !inst.memory.imm {
        inst.src[1] = sgpr(field(second, 0, 7), 1)?;
    }
    Ok(inst)
}
