//! Native code of LDS reads: one group at a time, classified by its addresses.

use iced_x86::{Code, Instruction, MemoryOperand, Register};

use super::assembler::{Arg, Label, k, xmm};
use super::emit::{ACTIVE_LANES, Emit, LDS, LDS_SIZE};
use super::local_read::Read;
use super::mask::{Comparison, Mask, Order};
use super::target::{ADD_I32, AND, BROADCAST_32, COPY, LOAD, SUB_I32, Target, XOR};

/// Lowers a group of reads.
pub fn emit(e: &mut Emit<'_>, reads: &[Read]) {
    let Some(first) = reads.first() else { return };
    let address = e.vector(first.address);
    // For every dword: offset of its element, offset within it, element size in bytes, host register, destination register.
    let mut dwords: Vec<(u32, u32, u32, u8, u16)> = Vec::new();
    for (dst, offset, count) in reads.iter().flat_map(|read| read.elements.iter().copied()) {
        for part in 0..count {
            let to = e.fresh();
            dwords.push((offset, 4 * u32::from(part), 4 * u32::from(count), to, dst + part));
        }
    }
    let (same, shifted) = (e.fresh(), e.fresh());
    // Parts of the following code are jumped over, so no value may be spilled there.
    e.reserve(3);
    e.branching = true;
    let (not_same, anything, done) = (e.asm.label(), e.asm.label(), e.asm.label());
    let end = dwords.iter().map(|(offset, _, bytes, ..)| offset + bytes).max().unwrap_or(0);

    // Uniform: broadcast the first lane's address. That lane may be inactive; its address is used only if all active lanes match.
    e.asm.spread(BROADCAST_32, same, Arg::Register(address));
    unless_equal(e, address, same, not_same);
    first_lane(e, address);
    within(e, end, anything);
    for (offset, part, _, to, _) in &dwords {
        let from = in_local(end - offset - part);
        e.asm.spread(BROADCAST_32, *to, Arg::Memory(from));
    }
    e.asm.jump(Code::Jmp_rel32_64, done);

    // Contiguous.
    e.asm.place(not_same);
    let row = dwords.iter().all(|(_, _, bytes, ..)| *bytes == 4);
    if row {
        let lanes = e.target.lanes() as u32;
        // Bytes from the first to the last lane's address.
        let length = 4 * (lanes - 1);
        let steps: Vec<u32> = (0..lanes).map(|lane| 4 * lane).collect();
        let steps = e.asm.constants(&steps);
        e.asm.op3(ADD_I32, shifted, same, Arg::Memory(steps));
        unless_equal(e, address, shifted, anything);
        first_lane(e, address);
        within(e, end + length, anything);
        for (offset, _, _, to, _) in &dwords {
            e.asm.op2(LOAD, *to, Arg::Memory(in_local(end + length - offset)));
        }
        e.asm.jump(Code::Jmp_rel32_64, done);
    }

    // Arbitrary: gathers the elements within LDS, the rest is zero.
    e.asm.place(anything);
    match e.target {
        Target::Avx512 => {
            e.push2(Code::EVEX_Vpbroadcastd_zmm_k1z_r32, e.target.whole(same), LDS_SIZE_32);
        }
        Target::Avx2 => {
            e.push2(Code::VEX_Vmovd_xmm_rm32, xmm(same), LDS_SIZE_32);
            e.asm.spread(BROADCAST_32, same, Arg::Register(same));
        }
    }
    let before = e.registers.pinned();
    let (mut inside, mut left) = (Mask(0), Mask(0));
    let mut last = None;
    for (offset, part, bytes, to, _) in &dwords {
        if last != Some((*offset, *bytes)) {
            last = Some((*offset, *bytes));
            e.registers.release_since(before, &[]);
            e.masks.release();
            left = e.fresh_mask();
            let offset = e.asm.constant(*offset);
            e.asm.op3(ADD_I32, shifted, address, Arg::Memory(offset));
            // Cannot underflow: a run is entered only if LDS is at least as large as the largest element.
            let size = e.asm.constant(*bytes);
            e.asm.op3(SUB_I32, *to, same, Arg::Memory(size));
            inside = e.compare(Comparison::Unsigned(Order::LessEqual), shifted, Arg::Register(*to));
        }
        gather(e, *to, (shifted, *part), inside, left);
    }
    e.asm.place(done);
    e.branching = false;
    for (.., to, vector) in dwords {
        e.set_vector(vector, to);
    }
}

const LDS_SIZE_32: Register = Register::R8D;

/// Jumps to `otherwise` unless `a` and `b` are equal in all active lanes.
fn unless_equal(e: &mut Emit<'_>, a: u8, b: u8, otherwise: Label) {
    if e.target == Target::Avx512 {
        let Mask(differs) = e.compare(Comparison::Unsigned(Order::NotEqual), a, Arg::Register(b));
        e.push2(Code::VEX_Kortestw_kr_kr, k(differs), k(differs));
        return e.asm.jump(Code::Jne_rel32_64, otherwise);
    }
    e.scope(|e| {
        let equal = e.vex(Code::VEX_Vpcmpeqd_ymm_ymm_ymmm256, a, Arg::Register(b));
        let equal = e.target.whole(equal);
        if e.all_active {
            e.push2(Code::VEX_Vmovmskps_r32_ymm, Register::EAX, equal);
            e.asm.push(Instruction::with2(Code::Cmp_rm32_imm32, Register::EAX, 0xff));
            e.asm.jump(Code::Jne_rel32_64, otherwise);
        } else {
            // Sets the carry flag if `equal` has the top bit set in every active lane.
            e.push2(Code::VEX_Vtestps_ymm_ymmm256, equal, e.target.whole(ACTIVE_LANES));
            e.asm.jump(Code::Jae_rel32_64, otherwise);
        }
        []
    });
}

/// Moves the first lane's address to RAX.
fn first_lane(e: &mut Emit<'_>, address: u8) {
    let code = match e.target {
        Target::Avx512 => Code::EVEX_Vmovd_rm32_xmm,
        Target::Avx2 => Code::VEX_Vmovd_rm32_xmm,
    };
    e.push2(code, Register::EAX, xmm(address));
}

/// Gathers dwords from LDS at a vector of addresses plus an offset where `inside` is set, zero elsewhere. Overwrites `left`.
fn gather(e: &mut Emit<'_>, to: u8, (address, offset): (u8, u32), Mask(inside): Mask, Mask(left): Mask) {
    e.asm.op3(XOR, to, to, Arg::Register(to));
    let whole = |n| e.target.whole(n);
    let from = MemoryOperand::new(LDS, whole(address), 1, i64::from(offset), 1, false, Register::None);
    match e.target {
        Target::Avx512 => {
            e.push2(Code::VEX_Kmovw_kr_km16, k(left), k(inside));
            let gather = Instruction::with2(Code::EVEX_Vpgatherdd_zmm_k1_vm32z, e.target.whole(to), from);
            e.asm.push_masked(left, false, gather);
        }
        Target::Avx2 => {
            match e.all_active {
                true => e.asm.op2(COPY, left, Arg::Register(inside)),
                false => e.asm.op3(AND, left, inside, Arg::Register(ACTIVE_LANES)),
            }
            let (to, left) = (e.target.whole(to), e.target.whole(left));
            e.asm.push(Instruction::with3(Code::VEX_Vpgatherdd_ymm_vm32y_ymm, to, from, left));
        }
    }
}

/// LDS operand `distance` bytes before the end of the group, which is in RAX.
fn in_local(distance: u32) -> MemoryOperand {
    MemoryOperand::new(LDS, Register::RAX, 1, -i64::from(distance), 1, false, Register::None)
}

/// Adds `end` to the address in RAX. Jumps to `otherwise` if the sum is beyond the end of LDS.
fn within(e: &mut Emit<'_>, end: u32, otherwise: Label) {
    // Both are below 2^33, so the addition cannot wrap.
    let past = MemoryOperand::new(Register::RAX, Register::None, 1, i64::from(end), 1, false, Register::None);
    e.asm.push(Instruction::with2(Code::Lea_r64_m, Register::RAX, past));
    e.asm.push(Instruction::with2(Code::Cmp_r64_rm64, Register::RAX, LDS_SIZE));
    e.asm.jump(Code::Ja_rel32_64, otherwise);
}
