//! Disassembly of DS, FLAT, GLOBAL, SCRATCH, MUBUF, MTBUF and MIMG.

use super::{Line, operand::operand};
use crate::table::Flags;
use crate::{Arch, DataType, Format, Inst, Operand};

pub fn ds(inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    if row.dst != DataType::None {
        line.operand(operand(inst.dst, row.dst));
    }
    for index in 0..3 {
        if row.src[index] != DataType::None {
            line.operand(operand(inst.src[index], row.src[index]));
        }
    }
    if row.flags.has(Flags::OFFSET2) {
        line.value("offset0", inst.imm & 0xff);
        line.value("offset1", inst.imm >> 8);
    } else if row.flags.has(Flags::SWIZZLE) {
        if inst.imm != 0 {
            line.modifier(swizzle(inst.imm as u32));
        }
    } else {
        line.value("offset", inst.imm);
    }
    // Only the GWS (global wave sync) operations print the `gds` flag.
    line.flag(row.flags.has(Flags::GDS_ONLY), "gds");
    line.text
}

/// Pattern of ds_swizzle_b32: a quad permutation, or and/or/xor masks on the lane number.
fn swizzle(imm: u32) -> String {
    if imm & 0xff00 == 0x8000 {
        let lane = |quarter: u32| imm >> (2 * quarter) & 3;
        return format!("offset:swizzle(QUAD_PERM,{},{},{},{})", lane(0), lane(1), lane(2), lane(3));
    }
    if imm & 0x8000 != 0 {
        return format!("offset:{imm}");
    }
    let (and, or, xor) = (imm & 0x1f, imm >> 5 & 0x1f, imm >> 10 & 0x1f);
    if and == 0x1f && or == 0 && xor.is_power_of_two() {
        return format!("offset:swizzle(SWAP,{xor})");
    }
    if and == 0x1f && or == 0 && xor > 0 && (xor + 1).is_power_of_two() {
        return format!("offset:swizzle(REVERSE,{})", xor + 1);
    }
    let group = 32 - and;
    if group > 1 && group.is_power_of_two() && or < group && xor == 0 {
        return format!("offset:swizzle(BROADCAST,{group},{or})");
    }
    // From the highest bit of the lane number: 0 and 1 force the bit, p preserves it, i inverts it.
    let mask: String = (0..5)
        .rev()
        .map(|bit| match (and >> bit & 1, or >> bit & 1, xor >> bit & 1) {
            (_, 1, 0) | (0, 0, 1) => '1',
            (_, 1, 1) | (0, 0, 0) => '0',
            (_, _, 1) => 'i',
            _ => 'p',
        })
        .collect();
    format!("offset:swizzle(BITMASK_PERM,\"{mask}\")")
}

pub fn flat(arch: Arch, inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    if inst.dst != Operand::None {
        line.operand(operand(inst.dst, row.dst));
    }
    line.operand(operand(inst.src[0], inst.src_type(0)));
    if row.src[1] != DataType::None {
        line.operand(operand(inst.src[1], row.src[1]));
    }
    if inst.format != Format::Flat {
        line.operand(operand(inst.src[2], inst.src_type(2)));
    }
    line.value("offset", inst.imm);
    cache_policy(&mut line, arch, inst);
    line.flag(inst.memory.lds, "lds");
    line.text
}

fn cache_policy(line: &mut Line, arch: Arch, inst: &Inst) {
    let names = match arch {
        Arch::Gfx90a => ["glc", "slc", "scc"],
        Arch::Gfx942 => ["sc0", "nt", "sc1"],
    };
    let bits = [inst.memory.glc, inst.memory.slc, inst.memory.scc];
    for (set, name) in bits.into_iter().zip(names) {
        line.flag(set, name);
    }
}

pub fn buffer(arch: Arch, inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    if row.flags.has(Flags::NO_OPERANDS) {
        cache_policy(&mut line, arch, inst);
        return line.text;
    }
    if row.src[1] != DataType::None {
        line.operand(operand(inst.src[1], row.src[1]));
    } else if inst.dst != Operand::None {
        line.operand(operand(inst.dst, row.dst));
    }
    if !row.flags.has(Flags::LDS_ONLY) {
        line.operand(operand(inst.src[0], inst.src_type(0)));
    }
    line.operand(operand(inst.src[2], row.src[2]));
    line.operand(operand(inst.src[3], row.src[3]));
    if inst.format == Format::Mtbuf {
        buffer_format(&mut line, inst);
    }
    line.flag(inst.memory.idxen, "idxen");
    line.flag(inst.memory.offen, "offen");
    line.value("offset", inst.imm);
    if row.flags.has(Flags::LDS_ONLY) {
        line.flag(inst.memory.lds, "lds");
        cache_policy(&mut line, arch, inst);
    } else {
        cache_policy(&mut line, arch, inst);
        line.flag(inst.memory.lds, "lds");
    }
    line.text
}

/// Data format and number format, each omitted when it is the assembler's default.
fn buffer_format(line: &mut Line, inst: &Inst) {
    const DATA: [&str; 16] = [
        "INVALID",
        "8",
        "16",
        "8_8",
        "32",
        "16_16",
        "10_11_11",
        "11_11_10",
        "10_10_10_2",
        "2_10_10_10",
        "8_8_8_8",
        "32_32",
        "16_16_16_16",
        "32_32_32",
        "32_32_32_32",
        "RESERVED_15",
    ];
    const NUMBER: [&str; 8] = ["UNORM", "SNORM", "USCALED", "SSCALED", "UINT", "SINT", "RESERVED_6", "FLOAT"];
    let (data, number) = (inst.memory.dfmt, inst.memory.nfmt);
    let mut parts = Vec::new();
    if data != 1 {
        parts.push(format!("BUF_DATA_FORMAT_{}", DATA[usize::from(data & 0xf)]));
    }
    if number != 0 {
        parts.push(format!("BUF_NUM_FORMAT_{}", NUMBER[usize::from(number & 7)]));
    }
    if !parts.is_empty() {
        line.modifier(format!("format:[{}]", parts.join(",")));
    }
}

pub fn image(inst: &Inst) -> String {
    let row = inst.encoding();
    let m = inst.memory;
    let mut line = Line::new(inst.op.name());
    let data = if inst.src[1] == Operand::None { inst.dst } else { inst.src[1] };
    line.operand(register_run(data, inst.image_data_width().unwrap_or(1)));
    line.operand(operand(inst.src[0], DataType::U32));
    line.operand(operand(inst.src[2], row.src[2]));
    if inst.src[3] != Operand::None {
        line.operand(operand(inst.src[3], DataType::B128));
    }
    if m.dmask != 0 {
        line.modifier(format!("dmask:{:#x}", m.dmask));
    }
    line.flag(m.unorm, "unorm");
    line.flag(m.glc, "glc");
    line.flag(m.slc, "slc");
    line.flag(m.scc, "scc");
    line.flag(m.a16, "a16");
    line.flag(m.lwe, "lwe");
    line.flag(m.da, "da");
    line.flag(m.d16, "d16");
    line.text
}

/// Consecutive vector registers, for counts that no [`DataType`] has.
fn register_run(first: Operand, dwords: u32) -> String {
    let (file, first) = match first {
        Operand::Agpr(first) => ('a', first),
        Operand::Vgpr(first) => ('v', first),
        _ => return operand(first, DataType::B32),
    };
    if dwords == 1 {
        format!("{file}{first}")
    } else {
        format!("{file}[{first}:{}]", u32::from(first) + dwords - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swizzles_have_their_symbolic_names() {
        assert_eq!(swizzle(0x80e4), "offset:swizzle(QUAD_PERM,0,1,2,3)");
        assert_eq!(swizzle(0x041f), "offset:swizzle(SWAP,1)");
        assert_eq!(swizzle(0x7c1f), "offset:swizzle(REVERSE,32)");
        assert_eq!(swizzle(0x003c), "offset:swizzle(BROADCAST,4,1)");
        assert_eq!(swizzle(0x5555), "offset:swizzle(BITMASK_PERM,\"i1i1i\")");
        assert_eq!(swizzle(0x001f), "offset:swizzle(BITMASK_PERM,\"ppppp\")");
    }
}
