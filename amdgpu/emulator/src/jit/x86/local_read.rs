//! Reads of local memory inside a run.
//!
//! They have no effect but their result and cannot fault: past the end they give zero. Nothing in a run writes local memory, so it
//! does not matter that one slice's reads all come before the next one's. Reads at offsets from one address register form a group,
//! whose addresses are looked at once: all the same, in a row, or anything.

use iced_x86::{Code, Instruction, MemoryOperand, Register};
use isa::{Inst, Op};

use super::assembler::{Arg, Label, k, xmm, zmm};
use super::emit::{ACTIVE, Emit, LDS, LDS_SIZE};
use crate::Uop;

/// One read: dwords at offsets from the address register.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Read {
    address: u16,
    /// First destination register, offset and number of dwords of each element.
    elements: Vec<(u16, u32, u16)>,
}

impl Read {
    pub fn of(inst: &Inst, uop: &Uop) -> Option<Read> {
        let raw = inst.imm as u32 & 0xffff;
        let (first, second) = (raw & 0xff, raw >> 8);
        let one = |dwords| vec![(uop.dst, raw, dwords)];
        let two = |dwords: u16, unit: u32| {
            vec![(uop.dst, first * unit, dwords), (uop.dst + dwords, second * unit, dwords)]
        };
        let elements = match inst.op {
            Op::ds_read_b32 => one(1),
            Op::ds_read_b64 => one(2),
            Op::ds_read_b96 => one(3),
            Op::ds_read_b128 => one(4),
            Op::ds_read2_b32 => two(1, 4),
            Op::ds_read2_b64 => two(2, 8),
            Op::ds_read2st64_b32 => two(1, 256),
            Op::ds_read2st64_b64 => two(2, 512),
            _ => return None,
        };
        (!inst.memory.gds).then_some(Read { address: uop.src[0].index, elements })
    }

    fn writes(&self, vector: u16) -> bool {
        self.elements.iter().any(|(dst, _, dwords)| (*dst..dst + dwords).contains(&vector))
    }

    fn dwords(&self) -> usize {
        self.elements.iter().map(|(_, _, dwords)| usize::from(*dwords)).sum()
    }
}

/// Registers that a group may fill, at most: all are in use at once.
const LARGEST: usize = 20;

/// Bytes from the first to the last lane of a row of dwords.
const ROW: u32 = 60;

/// Whether the read at `at` can join a group: the same address, untouched by those before it.
pub fn joins(group: &[usize], at: usize, uops: &[Uop], insts: &[Inst]) -> bool {
    let read = |at: usize| Read::of(&insts[uops[at].inst as usize], &uops[at]);
    let Some(new) = read(at) else { return false };
    let mut dwords = new.dwords();
    for other in group.iter().filter_map(|at| read(*at)) {
        dwords += other.dwords();
        // A register that is read twice over would need its values in order.
        let overlaps = new
            .elements
            .iter()
            .any(|(dst, _, dwords)| (*dst..dst + dwords).any(|vector| other.writes(vector)));
        if other.address != new.address || other.writes(new.address) || overlaps {
            return false;
        }
    }
    dwords <= LARGEST
}

/// Lowers a group of reads.
pub fn emit(e: &mut Emit<'_>, reads: &[Read]) {
    let Some(first) = reads.first() else { return };
    let address = e.vector(first.address);
    // Every dword with its element's size, and where it goes.
    let mut dwords: Vec<(u32, u32, u32, u8, u16)> = Vec::new();
    for (dst, offset, count) in reads.iter().flat_map(|read| read.elements.iter().copied()) {
        for part in 0..count {
            let to = e.fresh();
            dwords.push((offset, 4 * u32::from(part), 4 * u32::from(count), to, dst + part));
        }
    }
    let (same, shifted) = (e.fresh(), e.fresh());
    let (differs, inside) = (e.fresh_mask(), e.fresh_mask());
    let (not_same, anything, done) = (e.asm.label(), e.asm.label(), e.asm.label());
    let end = dwords.iter().map(|(offset, _, bytes, ..)| offset + bytes).max().unwrap_or(0);

    // The first lane's address, in all lanes. It may be inactive: it is used only if the active ones agree with it.
    let asm = &mut e.asm;
    asm.push(Instruction::with2(Code::EVEX_Vmovd_rm32_xmm, Register::EAX, xmm(address)));
    asm.push(Instruction::with2(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, zmm(same), xmm(address)));
    asm.compare(Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8, differs, ACTIVE, address, Arg::Zmm(same), 4);
    asm.push(Instruction::with2(Code::VEX_Kortestw_kr_kr, k(differs), k(differs)));
    asm.jump(Code::Jne_rel32_64, not_same);
    within(e, end, anything);
    for (offset, part, _, to, _) in &dwords {
        let from = in_local(end - offset - part);
        e.asm.op2(Code::EVEX_Vpbroadcastd_zmm_k1z_xmmm32, *to, Arg::Memory(from));
    }
    e.asm.jump(Code::Jmp_rel32_64, done);

    // In a row.
    e.asm.place(not_same);
    let row = dwords.iter().all(|(_, _, bytes, ..)| *bytes == 4);
    if row {
        let steps = e.asm.constants(std::array::from_fn(|lane| 4 * lane as u32));
        e.asm.op3(Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, shifted, same, Arg::Memory(steps));
        let code = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
        e.asm.compare(code, differs, ACTIVE, address, Arg::Zmm(shifted), 4);
        e.asm.push(Instruction::with2(Code::VEX_Kortestw_kr_kr, k(differs), k(differs)));
        e.asm.jump(Code::Jne_rel32_64, anything);
        within(e, end + ROW, anything);
        for (offset, _, _, to, _) in &dwords {
            let load = Instruction::with2(
                Code::EVEX_Vmovdqu32_zmm_k1z_zmmm512,
                zmm(*to),
                in_local(end + ROW - offset),
            );
            e.asm.push_masked(ACTIVE, true, load);
        }
        e.asm.jump(Code::Jmp_rel32_64, done);
    }

    // Anything: only what lies within local memory is touched, the rest is zero.
    e.asm.place(anything);
    e.asm.push(Instruction::with2(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, zmm(same), Register::R8D));
    let mut last = None;
    for (offset, part, bytes, to, _) in &dwords {
        if last != Some((*offset, *bytes)) {
            last = Some((*offset, *bytes));
            let offset = e.asm.constant(*offset);
            e.asm.op3(Code::EVEX_Vpaddd_zmm_k1z_zmm_zmmm512b32, shifted, address, Arg::Memory(offset));
            // Room for the element: local memory is larger than any, or the run is not entered.
            let size = e.asm.constant(*bytes);
            e.asm.op3(Code::EVEX_Vpsubd_zmm_k1z_zmm_zmmm512b32, *to, same, Arg::Memory(size));
            let code = Code::EVEX_Vpcmpud_kr_k1_zmm_zmmm512b32_imm8;
            e.asm.compare(code, inside, ACTIVE, shifted, Arg::Zmm(*to), 2);
        }
        e.asm.push(Instruction::with2(Code::VEX_Kmovw_kr_km16, k(differs), k(inside)));
        e.asm.op3(Code::EVEX_Vpxord_zmm_k1z_zmm_zmmm512b32, *to, *to, Arg::Zmm(*to));
        let from = MemoryOperand::new(LDS, zmm(shifted), 1, i64::from(*part), 1, false, Register::None);
        let gather = Instruction::with2(Code::EVEX_Vpgatherdd_zmm_k1_vm32z, zmm(*to), from);
        e.asm.push_masked(differs, false, gather);
    }
    e.asm.place(done);
    for (.., to, vector) in dwords {
        e.set_vector(vector, to);
    }
}

/// Local memory `distance` before the end of the group in RAX.
fn in_local(distance: u32) -> MemoryOperand {
    MemoryOperand::new(LDS, Register::RAX, 1, -i64::from(distance), 1, false, Register::None)
}

/// Adds `end` to the address in RAX. Goes to `otherwise` unless that is within local memory.
fn within(e: &mut Emit<'_>, end: u32, otherwise: Label) {
    // Both are below 2^33, so nothing wraps.
    let past = MemoryOperand::new(Register::RAX, Register::None, 1, i64::from(end), 1, false, Register::None);
    e.asm.push(Instruction::with2(Code::Lea_r64_m, Register::RAX, past));
    e.asm.push(Instruction::with2(Code::Cmp_r64_rm64, Register::RAX, LDS_SIZE));
    e.asm.jump(Code::Ja_rel32_64, otherwise);
}
