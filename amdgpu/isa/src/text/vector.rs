//! Disassembly of VOP1, VOP2, VOPC, VOP3 and VOP3P, with their SDWA and DPP forms.

use super::{Line, operand::operand};
use crate::table::Flags;
use crate::{Arch, DataType, Dpp, Format, Inst, Operand, Sdwa};

pub fn vop(inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(&mnemonic(inst));
    if row.dst != DataType::None {
        line.operand(operand(inst.dst, row.dst));
    }
    if inst.sdst != Operand::None {
        line.operand(operand(inst.sdst, DataType::B64));
    }
    for index in 0..row.source_count() {
        line.operand(source(inst, index));
    }
    if inst.modifiers.op_sel != 0 {
        op_sel(&mut line, inst);
    }
    line.flag(inst.modifiers.clamp, "clamp");
    line.flag(inst.modifiers.omod != 0, ["", "mul:2", "mul:4", "div:2"][usize::from(inst.modifiers.omod)]);
    if let Some(sdwa) = inst.sdwa {
        selections(&mut line, inst, sdwa);
    }
    if let Some(dpp) = inst.dpp {
        line.modifier(dpp_control(dpp.ctrl));
        line.modifier(format!("row_mask:{:#x} bank_mask:{:#x}", dpp.row_mask, dpp.bank_mask));
        line.flag(dpp.bound_ctrl, "bound_ctrl:1");
    }
    line.text
}

/// Mnemonic with the suffix of its encoding. Operations with a single encoding have no suffix.
fn mnemonic(inst: &Inst) -> String {
    let row = inst.encoding();
    let name = inst.op.name();
    let suffix = if inst.sdwa.is_some() {
        "_sdwa"
    } else if inst.dpp.is_some() {
        "_dpp"
    } else if row.format == Format::Vop3 || row.flags.has(Flags::NO_SUFFIX) || row.source_count() == 0 {
        ""
    } else if inst.format == Format::Vop3 {
        "_e64"
    } else {
        "_e32"
    };
    format!("{name}{suffix}")
}

/// Text of a source with its modifiers.
fn source(inst: &Inst, index: usize) -> String {
    let row = inst.encoding();
    let literal_only = row.flags.has(Flags::LITERAL_LAST) && index == 2
        || row.flags.has(Flags::LITERAL_MIDDLE) && index == 1;
    if let (true, Operand::Literal(value)) = (literal_only, inst.src[index]) {
        return format!("{value:#x}");
    }
    // The 16-bit exponent of v_ldexp_f16 is written like a float.
    let float_operation = row.flags.has(Flags::MODS) && row.src[index] == DataType::I16;
    let text = operand(inst.src[index], if float_operation { DataType::F16 } else { row.src[index] });
    let sext = inst.modifiers.sext >> index & 1 != 0
        || inst.sdwa.is_some_and(|sdwa| [sdwa.src0_sext, sdwa.src1_sext, false][index]);
    let negate = inst.modifiers.neg >> index & 1 != 0;
    let absolute = inst.modifiers.abs >> index & 1 != 0;
    let constant = matches!(inst.src[index], Operand::Int(_) | Operand::Float(_));
    match (negate, absolute) {
        _ if sext => format!("sext({text})"),
        (true, true) => format!("-|{text}|"),
        (false, true) => format!("|{text}|"),
        // "-1.0" would be a different constant.
        (true, false) if constant => format!("neg({text})"),
        (true, false) => format!("-{text}"),
        (false, false) => text,
    }
}

/// Appends `op_sel` of VOP3: one bit per source, then one for the destination.
fn op_sel(line: &mut Line, inst: &Inst) {
    let flags = inst.encoding().flags;
    let bits = inst.modifiers.op_sel;
    if flags.has(Flags::OPSEL3) || inst.encoding().source_count() == 3 {
        line.bits("op_sel", bits, 4);
    } else {
        line.bits("op_sel", bits & 0b011 | bits >> 1 & 0b100, 3);
    }
}

fn selections(line: &mut Line, inst: &Inst, sdwa: Sdwa) {
    const SELECTIONS: [&str; 7] = ["BYTE_0", "BYTE_1", "BYTE_2", "BYTE_3", "WORD_0", "WORD_1", "DWORD"];
    const UNUSED: [&str; 3] = ["UNUSED_PAD", "UNUSED_SEXT", "UNUSED_PRESERVE"];
    if inst.format != Format::Vopc && !inst.encoding().flags.has(Flags::SDWA_WHOLE_DST) {
        line.modifier(format!("dst_sel:{}", SELECTIONS[usize::from(sdwa.dst_sel)]));
        line.modifier(format!("dst_unused:{}", UNUSED[usize::from(sdwa.dst_unused)]));
    }
    line.modifier(format!("src0_sel:{}", SELECTIONS[usize::from(sdwa.src0_sel)]));
    if inst.encoding().source_count() > 1 {
        line.modifier(format!("src1_sel:{}", SELECTIONS[usize::from(sdwa.src1_sel)]));
    }
}

fn dpp_control(ctrl: u16) -> String {
    match ctrl {
        0x000..=0x0ff => {
            let lane = |quarter: u16| ctrl >> (2 * quarter) & 3;
            format!("quad_perm:[{},{},{},{}]", lane(0), lane(1), lane(2), lane(3))
        }
        0x101..=0x10f => format!("row_shl:{}", ctrl & 0xf),
        0x111..=0x11f => format!("row_shr:{}", ctrl & 0xf),
        0x121..=0x12f => format!("row_ror:{}", ctrl & 0xf),
        0x130 => "wave_shl:1".to_string(),
        0x134 => "wave_rol:1".to_string(),
        0x138 => "wave_shr:1".to_string(),
        0x13c => "wave_ror:1".to_string(),
        0x140 => "row_mirror".to_string(),
        0x141 => "row_half_mirror".to_string(),
        0x142 => "row_bcast:15".to_string(),
        0x143 => "row_bcast:31".to_string(),
        _ if Dpp::is_row_newbcast(ctrl) => format!("row_newbcast:{}", ctrl & 0xf),
        _ => format!("dpp_ctrl:{ctrl:#x}"),
    }
}

pub fn vop3p(arch: Arch, inst: &Inst) -> String {
    let row = inst.encoding();
    let mut line = Line::new(inst.op.name());
    line.operand(operand(inst.dst, row.dst));
    let count = row.source_count();
    for index in 0..count {
        let mix = row.flags.has(Flags::MIX);
        line.operand(if mix { source(inst, index) } else { operand(inst.src[index], row.src[index]) });
    }
    let m = inst.modifiers;
    if row.flags.has(Flags::MFMA | Flags::SMFMAC) {
        line.value("cbsz", m.cbsz.into());
        line.value("abid", m.abid.into());
        if arch == Arch::Gfx942 && row.flags.has(Flags::F64) {
            if m.blgp != 0 {
                line.bits("neg", m.blgp, 3);
            }
        } else {
            line.value("blgp", m.blgp.into());
        }
        return line.text;
    }
    if row.flags.has(Flags::ACCVGPR) {
        return line.text;
    }
    // Defaults: packed operations use the high halves, mixed-precision operations f32.
    let usual_hi = if row.flags.has(Flags::MIX) { 0 } else { (1 << count) - 1 };
    if m.op_sel != 0 {
        line.bits("op_sel", m.op_sel, count);
    }
    if m.op_sel_hi != usual_hi {
        line.bits("op_sel_hi", m.op_sel_hi, count);
    }
    if !row.flags.has(Flags::MIX) {
        if m.neg != 0 {
            line.bits("neg_lo", m.neg, count);
        }
        if m.neg_hi != 0 {
            line.bits("neg_hi", m.neg_hi, count);
        }
    }
    line.flag(m.clamp, "clamp");
    line.text
}
