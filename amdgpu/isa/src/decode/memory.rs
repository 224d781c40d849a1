//! Decoders for DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF and MIMG.

use super::operand::{Literal, scalar_source, sgpr, vgpr, vgpr_or_agpr};
use super::{Code, Decoded, Fault, bit, blank, field, require};
use crate::table::{Encoding, Flags};
use crate::{Arch, DataType, Format, Inst};

pub fn ds(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Ds);
    let accumulation = bit(word, 25);
    inst.memory.gds = bit(word, 16);
    inst.imm = field(word, 0, 16) as i32;
    if row.flags.has(Flags::GDS_ONLY) {
        require(inst.memory.gds && !(accumulation && row.source_count() == 0))?;
    }
    if row.flags.has(Flags::NO_GDS) {
        require(!inst.memory.gds)?;
    }
    if row.flags.has(Flags::NO_OPERANDS) {
        require(inst.imm == 0 && second == 0 && !accumulation && !inst.memory.gds)?;
    }
    let dst = field(second, 24, 8);
    if row.dst == DataType::None {
        require(dst == 0)?;
    } else {
        inst.dst = vgpr_or_agpr(dst, row.dst, accumulation)?;
    }
    for (index, low) in [(0, 0), (1, 8), (2, 16)] {
        let register = field(second, low, 8);
        if row.src[index] == DataType::None {
            require(register == 0)?;
        } else {
            // The GWS (global wave sync) operations have data in the address field.
            let data = index > 0 || row.flags.has(Flags::GDS_ONLY);
            inst.src[index] = vgpr_or_agpr(register, row.src[index], accumulation && data)?;
        }
    }
    Ok(inst)
}

/// Segment of the FLAT family: GLOBAL and SCRATCH share its prefix.
pub fn flat_segment(word: u32) -> Option<Format> {
    [Some(Format::Flat), Some(Format::Scratch), Some(Format::Global), None][field(word, 14, 2) as usize]
}

/// `saddr` value for "none".
const NO_SADDR: u32 = 127;

pub fn flat(arch: Arch, row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, row.format);
    let accumulation = bit(second, 23);
    inst.memory.glc = bit(word, 16);
    inst.memory.slc = bit(word, 17);
    inst.memory.scc = bit(word, 25);
    require(!(inst.memory.scc && arch == Arch::Gfx90a && row.flags.has(Flags::NO_SCC_90A)))?;

    let lds_bit = bit(word, 13);
    if row.format == Format::Scratch && arch == Arch::Gfx942 {
        inst.memory.sve = lds_bit;
    } else {
        require(!lds_bit || arch == Arch::Gfx90a && row.flags.has(Flags::LDS_90A))?;
        inst.memory.lds = lds_bit;
    }
    let no_data = inst.memory.lds || row.flags.has(Flags::LDS_LOAD);
    require(!(no_data && accumulation))?;

    let offset = field(word, 0, 13);
    let saddr = field(second, 16, 7);
    if row.format == Format::Flat {
        inst.imm = offset as i32;
        require(saddr == 0)?;
    } else {
        inst.imm = (offset << 19) as i32 >> 19;
        inst.memory.has_saddr = saddr != NO_SADDR;
    }
    if inst.memory.has_saddr {
        let dwords = if row.format == Format::Scratch { 1 } else { 2 };
        inst.src[2] = sgpr(saddr, dwords)?;
    }
    let has_vaddr = match (row.format, arch) {
        (Format::Scratch, Arch::Gfx90a) => !inst.memory.has_saddr,
        (Format::Scratch, Arch::Gfx942) => inst.memory.sve,
        _ => true,
    };
    if has_vaddr {
        inst.src[0] = vgpr(field(second, 0, 8), inst.src_type(0))?;
    }
    if row.src[1] != DataType::None {
        inst.src[1] = vgpr_or_agpr(field(second, 8, 8), row.src[1], accumulation)?;
    }
    let returns = !row.flags.has(Flags::ATOMIC) || inst.memory.glc;
    if row.dst != DataType::None && returns && !inst.memory.lds {
        inst.dst = vgpr_or_agpr(field(second, 24, 8), row.dst, accumulation)?;
    }
    Ok(inst)
}

pub fn mubuf(arch: Arch, row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Mubuf);
    inst.memory.glc = bit(word, 14);
    inst.memory.scc = bit(word, 15);
    inst.memory.lds = bit(word, 16);
    inst.memory.slc = bit(word, 17);
    let lds_allowed = row.flags.has(Flags::LDS_OK | Flags::LDS_ONLY);
    require(!inst.memory.lds || lds_allowed)?;
    require(inst.memory.lds || !row.flags.has(Flags::LDS_ONLY))?;
    require(!(inst.memory.scc && arch == Arch::Gfx90a && row.flags.has(Flags::NO_SCC_90A)))?;
    if row.flags.has(Flags::NO_OPERANDS) {
        require(!bit(word, 12) && !bit(word, 13) && !bit(second, 23))?;
        let cache_bits = row.flags.has(Flags::CACHE_BITS);
        require(cache_bits || !(inst.memory.glc || inst.memory.scc))?;
        inst.memory.slc = false;
        if arch == Arch::Gfx90a {
            (inst.memory.glc, inst.memory.scc) = (false, false);
        }
        return Ok(inst);
    }
    buffer(&mut inst, row, word, second, bit(second, 23))?;
    Ok(inst)
}

pub fn mtbuf(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Mtbuf);
    inst.memory.glc = bit(word, 14);
    inst.memory.slc = bit(second, 22);
    inst.memory.scc = bit(second, 21);
    inst.memory.dfmt = field(word, 19, 4) as u8;
    inst.memory.nfmt = field(word, 23, 3) as u8;
    buffer(&mut inst, row, word, second, bit(second, 23))?;
    Ok(inst)
}

/// Decodes the fields that MUBUF and MTBUF share.
fn buffer(inst: &mut Inst, row: &Encoding, word: u32, second: u32, accumulation: bool) -> Decoded<()> {
    inst.imm = field(word, 0, 12) as i32;
    inst.memory.offen = bit(word, 12);
    inst.memory.idxen = bit(word, 13);
    require(!(inst.memory.lds && accumulation))?;
    if row.flags.has(Flags::LDS_ONLY) {
        require(!inst.memory.offen && !inst.memory.idxen)?;
    } else if inst.memory.offen || inst.memory.idxen {
        inst.src[0] = vgpr(field(second, 0, 8), inst.src_type(0))?;
    }
    let data = field(second, 8, 8);
    if row.src[1] != DataType::None {
        inst.src[1] = vgpr_or_agpr(data, row.src[1], accumulation)?;
    }
    let returns = !row.flags.has(Flags::ATOMIC) || inst.memory.glc;
    if row.dst != DataType::None && returns && !inst.memory.lds {
        inst.dst = vgpr_or_agpr(data, row.dst, accumulation)?;
    }
    inst.src[2] = sgpr(field(second, 16, 5) << 2, 4)?;
    inst.src[3] = scalar_source(field(second, 24, 8), DataType::U32, &mut Literal::none())?;
    Ok(())
}

pub fn mimg(row: &Encoding, word: u32, code: &mut Code) -> Decoded {
    let second = code.word()?;
    let mut inst = blank(row, Format::Mimg);
    require(!bit(word, 0))?;
    let accumulation = bit(word, 16);
    let m = &mut inst.memory;
    m.scc = bit(word, 7);
    m.dmask = field(word, 8, 4) as u8;
    m.unorm = bit(word, 12);
    m.glc = bit(word, 13);
    m.da = bit(word, 14);
    m.a16 = bit(word, 15);
    m.lwe = bit(word, 17);
    m.slc = bit(word, 25);
    m.d16 = bit(second, 31);
    require(!m.d16 || row.flags.has(Flags::D16))?;
    let width = inst.image_data_width().ok_or(Fault::Unknown)?;
    let data = field(second, 8, 8);
    require(data + width <= 256)?;
    let data = vgpr_or_agpr(data, DataType::B32, accumulation)?;
    inst.src[0] = vgpr(field(second, 0, 8), DataType::U32)?;
    inst.src[2] = sgpr(field(second, 16, 5) << 2, 8)?;
    let sampler = field(second, 21, 5);
    if row.flags.has(Flags::SAMPLER) {
        inst.src[3] = sgpr(sampler << 2, 4)?;
    } else {
        require(sampler == 0)?;
    }
    if row.flags.has(Flags::STORE | Flags::ATOMIC) {
        inst.src[1] = data;
    }
    if !row.flags.has(Flags::STORE) && (!row.flags.has(Flags::ATOMIC) || inst.memory.glc) {
        inst.dst = data;
    }
    Ok(inst)
}
