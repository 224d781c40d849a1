//! Registers at the start of a kernel: user SGPRs, workgroup and work-item numbers, EXEC and scratch.

use code_object::Kernel;
use isa::Arch;

use crate::Assumptions;
use crate::builder::Builder;
use crate::form::{Access, Binary, Function, Input, Kind, MemoryScope, Operation, Shape, Space, Value};
use crate::graph::Constants;
use crate::register::{EXEC, FLAT_SCRATCH, Registers, Start};

/// Bits of the scratch buffer resource: dwords are interleaved over 64 lanes by lane number.
const SWIZZLE_ENABLE: u32 = 1 << 31;
const INDEX_STRIDE_64: u32 = 3 << 21;
const ADD_TID_ENABLE: u32 = 1 << 23;

/// Scalar registers after the user's that the hardware may set.
const SYSTEM_REGISTERS: u8 = 6;

/// Defines the registers that the hardware sets.
pub fn define(
    b: &mut Builder<'_>,
    registers: &mut Registers,
    arch: Arch,
    kernel: &Kernel,
    assumptions: &Assumptions,
) -> Result<(), String> {
    let descriptor = &kernel.descriptor;
    if descriptor.wave32 {
        return Err("waves of 32 lanes".to_owned());
    }
    let mut next = 0;
    let mut take = |count: u32| {
        let at = next;
        next += count;
        if at + count > 102 { Err("too many user registers".to_owned()) } else { Ok(at as u8) }
    };
    if descriptor.private_segment_buffer {
        // Scratch starts at offset 0 of its own space; the resource is recognised by its other words.
        let at = take(4)?;
        for (n, word) in
            [0, SWIZZLE_ENABLE, u32::MAX, INDEX_STRIDE_64 | ADD_TID_ENABLE].into_iter().enumerate()
        {
            let word = b.word(word);
            registers.set_scalar(b, at + n as u8, word);
        }
    }
    for (wanted, input) in [
        (descriptor.dispatch_ptr, Input::DispatchPointer),
        (descriptor.queue_ptr, Input::QueuePointer),
        (descriptor.kernarg_ptr, Input::KernargPointer),
        (descriptor.dispatch_id, Input::DispatchId),
    ] {
        if wanted {
            let at = take(2)?;
            let pointer = b.input(input);
            set_pair(b, registers, at, pointer);
        }
    }
    if descriptor.flat_scratch_init {
        let at = take(2)?;
        let zero = b.double(0);
        set_pair(b, registers, at, zero);
    }
    if descriptor.private_segment_size_sgpr {
        let at = take(1)?;
        let size = b.word(private_bytes(kernel, assumptions));
        registers.set_scalar(b, at, size);
    }
    for n in 0..descriptor.kernarg_preload_length {
        let at = take(1)?;
        let offset = (descriptor.kernarg_preload_offset + n) * 4;
        let word = argument(b, offset);
        registers.set_scalar(b, at, word);
    }
    let mut at = descriptor.user_sgpr_count as u8;
    let enabled = [descriptor.workgroup_id_x, descriptor.workgroup_id_y, descriptor.workgroup_id_z];
    for (dimension, wanted) in enabled.into_iter().enumerate() {
        if wanted {
            let id = b.input(Input::WorkgroupId(dimension as u8));
            registers.set_scalar(b, at, id);
            at += 1;
        }
    }
    if arch == Arch::Gfx942 {
        let zero = b.double(0);
        set_pair(b, registers, FLAT_SCRATCH, zero);
    }
    let exec = if assumptions.full_waves { b.bit(true) } else { b.input(Input::HasWorkitem) };
    registers.set_mask(b, EXEC, exec);
    let ids = work_item_ids(b, descriptor.workitem_id_dims, assumptions);
    registers.set_vector(b, 0, ids);
    Ok(())
}

/// Bytes of scratch of a lane.
pub fn private_bytes(kernel: &Kernel, assumptions: &Assumptions) -> u32 {
    let least = kernel.private_size.max(kernel.descriptor.private_segment_size);
    if kernel.uses_dynamic_stack { least.max(assumptions.stack_bytes) } else { least }
}

/// The scalar registers whose contents at the start are known: the resource of scratch, and registers that are not set.
pub fn constants(arch: Arch, kernel: &Kernel, assumptions: &Assumptions) -> Result<Constants, String> {
    let mut function = Function::default();
    let block = function.add_block(0);
    let mut registers = Registers::new(1, Start::Zero);
    registers.seal(&mut function, block);
    let mut b = Builder { function: &mut function, block, address: 0 };
    define(&mut b, &mut registers, arch, kernel, assumptions)?;
    let mut known = Constants::default();
    for register in 0..(kernel.descriptor.user_sgpr_count as u8).saturating_add(SYSTEM_REGISTERS).min(102) {
        let value = registers.scalar(&mut b, register);
        if let Some(word) = b.function.constant(value) {
            known.insert(register, word as u32);
        }
    }
    Ok(known)
}

/// The packed numbers of a work-item: 10 bits for each dimension.
fn work_item_ids(b: &mut Builder<'_>, dimensions: u8, assumptions: &Assumptions) -> Value {
    let mut packed = b.word(0);
    for dimension in 0..dimensions.clamp(1, 3) {
        // A dimension with one work-item has only the number 0.
        if assumptions.block.is_some_and(|block| block[usize::from(dimension)] == 1) {
            continue;
        }
        let id = b.input(Input::WorkitemId(dimension));
        let amount = b.word(10 * u32::from(dimension));
        let shifted = b.binary(Binary::ShiftLeft, id, amount);
        packed = b.or(packed, shifted);
    }
    packed
}

/// A word of the kernel argument block.
fn argument(b: &mut Builder<'_>, offset: u32) -> Value {
    let access = Access {
        space: Space::Kernarg,
        bytes: 4,
        signed: false,
        offset: 0,
        scope: MemoryScope::Wave,
        align: 2,
    };
    let mask = b.bit(true);
    let offset = b.double(offset.into());
    b.append(Operation::Load(access), &[mask, offset], &[(Kind::Word, Shape::Uniform)])[0]
}

fn set_pair(b: &mut Builder<'_>, registers: &mut Registers, at: u8, value: Value) {
    let (low, high) = (b.low(value), b.high(value));
    registers.set_scalar(b, at, low);
    registers.set_scalar(b, at + 1, high);
}
