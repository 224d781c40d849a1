//! Disassembly of SOP1, SOP2, SOPC, SOPK, SOPP and SMEM.

use super::{Line, operand::operand};
use crate::table::Flags;
use crate::{Arch, DataType, Inst, Operand};

pub fn sop(inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    if row.dst != DataType::None {
        line.operand(operand(inst.dst, row.dst));
    }
    for index in 0..row.source_count() {
        line.operand(operand(inst.src[index], row.src[index]));
    }
    if row.flags.has(Flags::GPR_IDX) {
        line.operand(gpr_idx(inst.imm as u32));
    }
    line.text
}

pub fn sopk(arch: Arch, inst: &Inst, pc: u64) -> String {
    let row = inst.encoding();
    let imm = inst.imm as u16;
    let mut line = Line::new(inst.op.name());
    if row.flags.has(Flags::HWREG) {
        // s_getreg has its destination first, s_setreg the hardware register that it writes.
        let mut operands = vec![hwreg(arch, imm)];
        if row.flags.has(Flags::LITERAL_LAST) {
            operands.push(operand(inst.src[0], row.src[0]));
        } else if row.flags.has(Flags::STORE) {
            operands.push(operand(inst.dst, row.dst));
        } else {
            operands.insert(0, operand(inst.dst, row.dst));
        }
        operands.iter().for_each(|text| line.operand(text));
    } else {
        line.operand(operand(inst.dst, row.dst));
        line.operand(if row.flags.has(Flags::BRANCH) { imm.to_string() } else { format!("{imm:#x}") });
        branch_target(&mut line, inst, pc);
    }
    line.text
}

pub fn sopp(inst: &Inst, pc: u64) -> String {
    let flags = inst.encoding().flags;
    let imm = inst.imm as u16;
    let mut line = Line::new(inst.op.name());
    if flags.has(Flags::BRANCH) {
        line.operand(imm.to_string());
        branch_target(&mut line, inst, pc);
    } else if flags.has(Flags::WAITCNT) {
        line.operand(waitcnt(imm));
    } else if flags.has(Flags::SENDMSG) {
        line.operand(sendmsg(imm));
    } else if flags.has(Flags::GPR_IDX) {
        line.operand(gpr_idx(imm.into()));
    } else if flags.has(Flags::OPTIONAL_IMM) {
        if imm != 0 {
            line.operand(imm.to_string());
        }
    } else if !flags.has(Flags::NO_OPERANDS) {
        line.operand(small_or_hex(imm));
    }
    line.text
}

/// Formats an immediate: decimal in the range of inline constants, else hexadecimal.
fn small_or_hex(imm: u16) -> String {
    if imm <= 64 { imm.to_string() } else { format!("{imm:#x}") }
}

/// Appends the target address of a branch as a comment.
fn branch_target(line: &mut Line, inst: &Inst, pc: u64) {
    if inst.encoding().flags.has(Flags::BRANCH) {
        let target = pc.wrapping_add(4).wrapping_add_signed(i64::from(inst.imm) * 4);
        line.modifier(format!("; {target:#x}"));
    }
}

fn gpr_idx(imm: u32) -> String {
    if imm > 0xf {
        return format!("{imm:#x}");
    }
    let names = ["SRC0", "SRC1", "SRC2", "DST"];
    let set: Vec<&str> = (0..4).filter(|bit| imm >> bit & 1 != 0).map(|bit| names[bit]).collect();
    format!("gpr_idx({})", set.join(","))
}

/// Formats the operand of s_waitcnt. Counters that wait for nothing (all bits set) are omitted, unless all of them are.
fn waitcnt(imm: u16) -> String {
    let vector = imm & 0xf | imm >> 10 & 0x30;
    let export = imm >> 4 & 0x7;
    let scalar = imm >> 8 & 0xf;
    let counters = [("vmcnt", vector, 0x3f), ("expcnt", export, 0x7), ("lgkmcnt", scalar, 0xf)];
    let all_idle = counters.iter().all(|(_, count, most)| count == most);
    let waits = counters.iter().filter(|(_, count, most)| all_idle || count != most);
    let text: Vec<String> = waits.map(|(name, count, _)| format!("{name}({count})")).collect();
    text.join(" ")
}

fn sendmsg(imm: u16) -> String {
    let (message, operation, stream) = (imm & 0xf, imm >> 4 & 0x7, imm >> 8 & 0x3);
    let plain = |name: &str| format!("sendmsg({name})");
    let geometry = |name: &str| {
        let operation = ["GS_OP_NOP", "GS_OP_CUT", "GS_OP_EMIT", "GS_OP_EMIT_CUT"][operation as usize];
        format!("sendmsg({name}, {operation}, {stream})")
    };
    let system = |operation: &str| format!("sendmsg(MSG_SYSMSG, {operation})");
    match (message, operation, stream) {
        (1, 0, 0) => plain("MSG_INTERRUPT"),
        (2, 1..=3, _) => geometry("MSG_GS"),
        (3, 0, 0) => plain("MSG_GS_DONE, GS_OP_NOP"),
        (3, 1..=3, _) => geometry("MSG_GS_DONE"),
        (4, 0, 0) => plain("MSG_SAVEWAVE"),
        (5, 0, 0) => plain("MSG_STALL_WAVE_GEN"),
        (6, 0, 0) => plain("MSG_HALT_WAVES"),
        (7, 0, 0) => plain("MSG_ORDERED_PS_DONE"),
        (8, 0, 0) => plain("MSG_EARLY_PRIM_DEALLOC"),
        (9, 0, 0) => plain("MSG_GS_ALLOC_REQ"),
        (10, 0, 0) => plain("MSG_GET_DOORBELL"),
        (15, 1, 0) => system("SYSMSG_OP_ECC_ERR_INTERRUPT"),
        (15, 2, 0) => system("SYSMSG_OP_REG_RD"),
        (15, 4, 0) => system("SYSMSG_OP_TTRACE_PC"),
        _ if message | operation << 4 | stream << 8 != imm => imm.to_string(),
        _ => format!("sendmsg({message}, {operation}, {stream})"),
    }
}

/// Hardware registers of s_getreg and s_setreg; an empty name means that the number is unused.
const HWREGS: [&str; 25] = [
    "",
    "HW_REG_MODE",
    "HW_REG_STATUS",
    "HW_REG_TRAPSTS",
    "HW_REG_HW_ID",
    "HW_REG_GPR_ALLOC",
    "HW_REG_LDS_ALLOC",
    "HW_REG_IB_STS",
    "",
    "",
    "",
    "",
    "",
    "",
    "",
    "HW_REG_SH_MEM_BASES",
    "HW_REG_TBA_LO",
    "HW_REG_TBA_HI",
    "HW_REG_TMA_LO",
    "HW_REG_TMA_HI",
    "HW_REG_XCC_ID",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA",
    "HW_REG_SQ_PERF_SNAPSHOT_DATA1",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_LO",
    "HW_REG_SQ_PERF_SNAPSHOT_PC_HI",
];

/// The first hardware register that gfx90a does not have.
const FIRST_GFX942_HWREG: usize = 20;

fn hwreg(arch: Arch, imm: u16) -> String {
    let (register, offset, size) = (usize::from(imm & 0x3f), imm >> 6 & 0x1f, (imm >> 11) + 1);
    let known = match arch {
        Arch::Gfx90a => &HWREGS[..FIRST_GFX942_HWREG],
        Arch::Gfx942 => &HWREGS[..],
    };
    let name = match known.get(register) {
        Some(name) if !name.is_empty() => name.to_string(),
        _ => register.to_string(),
    };
    if (offset, size) == (0, 32) {
        format!("hwreg({name})")
    } else {
        format!("hwreg({name}, {offset}, {size})")
    }
}

pub fn smem(inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    if row.flags.has(Flags::PROBE) {
        line.operand(small_or_hex(inst.memory.probe.into()));
    } else if row.dst != DataType::None {
        line.operand(operand(inst.dst, row.dst));
    }
    if row.src[0] == DataType::None {
        return line.text;
    }
    line.operand(operand(inst.src[0], row.src[0]));
    let offset =
        if inst.imm < 0 { format!("-{:#x}", inst.imm.unsigned_abs()) } else { format!("{:#x}", inst.imm) };
    if inst.src[1] == Operand::None {
        line.operand(offset);
    } else {
        line.operand(operand(inst.src[1], DataType::U32));
        if inst.memory.imm {
            line.modifier(format!("offset:{offset}"));
        }
    }
    line.flag(inst.memory.glc, "glc");
    line.text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waitcnt_leaves_out_the_counters_it_does_not_wait_for() {
        assert_eq!(waitcnt(0x0f70), "vmcnt(0)");
        assert_eq!(waitcnt(0xc07f), "lgkmcnt(0)");
        assert_eq!(waitcnt(0xcf7f), "vmcnt(63) expcnt(7) lgkmcnt(15)");
    }

    #[test]
    fn hardware_registers_are_named_where_the_architecture_has_them() {
        assert_eq!(hwreg(Arch::Gfx942, 0xf814), "hwreg(HW_REG_XCC_ID)");
        assert_eq!(hwreg(Arch::Gfx90a, 0xf814), "hwreg(20)");
        assert_eq!(hwreg(Arch::Gfx90a, 0x1041), "hwreg(HW_REG_MODE, 1, 3)");
    }
}
