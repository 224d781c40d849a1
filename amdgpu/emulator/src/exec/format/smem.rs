//! SMEM: scalar loads, stores and atomics, and clock reads.

use isa::{Inst, Op, Operand};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::access::atomic::{atomic_by_suffix, atomics};
use crate::exec::access::checked::{self, check_scalar};
use crate::fault::FaultKind;
use crate::{Body, Flow, Handler, Level, Src, SrcKind, Uop, Wave, handler};

/// Bits of `Uop::flags`.
const SOFFSET: u32 = 1;
const RETURNS: u32 = 2;

/// Offset from the base: immediate, scalar register, or both.
#[inline(always)]
fn offset(wave: &Wave, uop: &Uop) -> i64 {
    let register = if uop.flags & SOFFSET != 0 { i64::from(uop.src[1].dword(wave, 0)) } else { 0 };
    uop.imm + register
}

/// Address of a non-buffer access; the hardware ignores the two low bits.
#[inline(always)]
fn address(wave: &Wave, uop: &Uop) -> u64 {
    wave.sgpr64(usize::from(uop.src[0].index)).wrapping_add_signed(offset(wave, uop)) & !3
}

/// Base address and size in bytes of a buffer resource.
#[inline(always)]
fn buffer(wave: &Wave, uop: &Uop) -> (u64, u64) {
    let resource = usize::from(uop.src[0].index);
    let base = wave.sgpr64(resource) & 0xffff_ffff_ffff;
    let stride = u64::from(wave.sgprs[resource + 1] >> 16 & 0x3fff);
    let records = u64::from(wave.sgprs[resource + 2]);
    (base, if stride == 0 { records } else { records * stride })
}

/// Address that an instruction is about to access, for observers; `None` if it is beyond its buffer.
pub(crate) fn observed_address(
    wave: &Wave,
    uop: &Uop,
    inst: &Inst,
    bytes: u32,
    buffered: bool,
) -> Option<u64> {
    let register = if uop.flags & SOFFSET != 0 { i64::from(uop.src[1].dword(wave, 0)) } else { 0 };
    let offset = i64::from(inst.imm) + register;
    if !buffered {
        return Some(wave.sgpr64(usize::from(uop.src[0].index)).wrapping_add_signed(offset) & !3);
    }
    let (base, size) = buffer(wave, uop);
    let offset = offset as u64 & !3;
    (offset.saturating_add(u64::from(bytes)) <= size).then(|| base.wrapping_add(offset))
}

struct ScalarLoad<const N: usize>;
impl<const N: usize> Body for ScalarLoad<N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let address = address(wave, uop);
        if !check_scalar(wave, uop, address, 4 * N as u64, false) {
            return Flow::Fault;
        }
        // SAFETY: the range was checked.
        let value = unsafe { (address as *const [u32; N]).read_unaligned() };
        let dst = usize::from(uop.dst);
        wave.sgprs[dst..dst + N].copy_from_slice(&value);
        Flow::Next
    }
}

/// Address of a scratch access. The scalar offset is per lane, so it is multiplied by the 64 interleaved lanes.
#[inline(always)]
fn scratch_address(wave: &Wave, uop: &Uop) -> u64 {
    let register = if uop.flags & SOFFSET != 0 { u64::from(uop.src[1].dword(wave, 0)) } else { 0 };
    let base = wave.sgpr64(usize::from(uop.src[0].index));
    base.wrapping_add_signed(uop.imm).wrapping_add(register.wrapping_mul(64)) & !3
}

/// `s_scratch_load`: reads scratch memory linearly, across the lanes that its dwords belong to.
struct ScratchLoad<const N: usize>;
impl<const N: usize> Body for ScratchLoad<N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let address = scratch_address(wave, uop);
        if !check_scalar(wave, uop, address, 4 * N as u64, false) {
            return Flow::Fault;
        }
        // SAFETY: the range was checked.
        let value = unsafe { (address as *const [u32; N]).read_unaligned() };
        let dst = usize::from(uop.dst);
        wave.sgprs[dst..dst + N].copy_from_slice(&value);
        Flow::Next
    }
}

struct ScratchStore<const N: usize>;
impl<const N: usize> Body for ScratchStore<N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let address = scratch_address(wave, uop);
        if !check_scalar(wave, uop, address, 4 * N as u64, true) {
            return Flow::Fault;
        }
        let dst = usize::from(uop.dst);
        for k in 0..N {
            // SAFETY: the range was checked for writing.
            unsafe { (address as *mut u32).add(k).write_unaligned(wave.sgprs[dst + k]) };
        }
        Flow::Next
    }
}

/// `s_buffer_load`: dwords beyond the buffer read as zero.
struct ScalarBufferLoad<const N: usize>;
impl<const N: usize> Body for ScalarBufferLoad<N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let (base, size) = buffer(wave, uop);
        let offset = offset(wave, uop) as u64 & !3;
        let mut value = [0u32; N];
        for (k, value) in value.iter_mut().enumerate() {
            let at = offset.wrapping_add(4 * k as u64);
            if at.saturating_add(4) > size {
                continue;
            }
            let address = base.wrapping_add(at);
            if !check_scalar(wave, uop, address, 4, false) {
                return Flow::Fault;
            }
            // SAFETY: the range was checked.
            *value = unsafe { (address as *const u32).read_unaligned() };
        }
        let dst = usize::from(uop.dst);
        wave.sgprs[dst..dst + N].copy_from_slice(&value);
        Flow::Next
    }
}

struct ScalarStore<const N: usize, const BUFFER: bool>;
impl<const N: usize, const BUFFER: bool> Body for ScalarStore<N, BUFFER> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        for k in 0..N {
            let address = if BUFFER {
                let (base, size) = buffer(wave, uop);
                let at = (offset(wave, uop) as u64 & !3).wrapping_add(4 * k as u64);
                if at.saturating_add(4) > size {
                    continue;
                }
                base.wrapping_add(at)
            } else {
                address(wave, uop).wrapping_add(4 * k as u64)
            };
            if !check_scalar(wave, uop, address, 4, true) {
                return Flow::Fault;
            }
            // SAFETY: the range was checked for writing.
            unsafe { (address as *mut u32).write_unaligned(wave.sgprs[usize::from(uop.dst) + k]) };
        }
        Flow::Next
    }
}

/// Scalar atomic. `imm` points to the operation's descriptor, so the offset is in `flags`.
struct ScalarAtomic<const BUFFER: bool>;
impl<const BUFFER: bool> Body for ScalarAtomic<BUFFER> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let element = atomics(uop);
        let size = 4 * element.registers as u64;
        let register = if uop.flags & SOFFSET != 0 { uop.src[1].dword(wave, 0) } else { 0 };
        let at = checked::offset(uop) + i64::from(register);
        let address = if BUFFER {
            let (base, records) = buffer(wave, uop);
            let at = at as u64 & !3;
            if at.saturating_add(size) > records {
                if uop.flags & RETURNS != 0 {
                    let dst = usize::from(uop.dst);
                    wave.sgprs[dst..dst + element.registers].fill(0);
                }
                return Flow::Next;
            }
            base.wrapping_add(at)
        } else {
            wave.sgpr64(usize::from(uop.src[0].index)).wrapping_add_signed(at) & !3
        };
        if address % size != 0 {
            wave.fault = Some((FaultKind::Misaligned { address }, None));
            return Flow::Fault;
        }
        if !check_scalar(wave, uop, address, size, true) {
            return Flow::Fault;
        }
        let dst = usize::from(uop.dst);
        let read = |k: usize| {
            let at = dst + k * element.registers;
            let high = if element.registers == 2 { wave.sgprs[at + 1] } else { 0 };
            u64::from(wave.sgprs[at]) | u64::from(high) << 32
        };
        let data = read(0);
        let extra = if element.pair { read(1) } else { data };
        // SAFETY: the address is aligned and was checked for writing.
        let old = unsafe { (element.one)(address as *mut u8, data, extra) };
        if uop.flags & RETURNS != 0 {
            for k in 0..element.registers {
                wave.sgprs[dst + k] = (old >> (32 * k)) as u32;
            }
        }
        Flow::Next
    }
}

/// Nanoseconds since an arbitrary time before the first call.
pub(crate) fn nanoseconds() -> u64 {
    use std::sync::LazyLock;
    use std::time::Instant;
    static START: LazyLock<Instant> = LazyLock::new(Instant::now);
    // The clocks start at one second, so that no program mistakes an early reading for an unset timestamp.
    START.elapsed().as_nanos() as u64 + 1_000_000_000
}

/// `s_memtime`: the shader clock, one tick per nanosecond.
struct MemTime;
impl Body for MemTime {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        wave.set_sgpr64(usize::from(uop.dst), nanoseconds());
        Flow::Next
    }
}

/// `s_memrealtime`: the constant clock, 100 MHz.
struct MemRealTime;
impl Body for MemRealTime {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        wave.set_sgpr64(usize::from(uop.dst), nanoseconds() / 10);
        Flow::Next
    }
}

/// Address probes have no effect without address translation.
struct Probe;
impl Body for Probe {
    #[inline(always)]
    fn run(_: &mut Wave, _: &Uop) -> Flow {
        Flow::Next
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let base = Level::Base;
    let mut atomic = None;
    // Handler, number of data registers, number of base address registers.
    let (run, data, address): (Handler, u16, u16) = match inst.op {
        Op::s_load_dword => (handler::<ScalarLoad<1>>(base), 1, 2),
        Op::s_load_dwordx2 => (handler::<ScalarLoad<2>>(base), 2, 2),
        Op::s_load_dwordx4 => (handler::<ScalarLoad<4>>(base), 4, 2),
        Op::s_load_dwordx8 => (handler::<ScalarLoad<8>>(base), 8, 2),
        Op::s_load_dwordx16 => (handler::<ScalarLoad<16>>(base), 16, 2),
        Op::s_scratch_load_dword => (handler::<ScratchLoad<1>>(base), 1, 2),
        Op::s_scratch_load_dwordx2 => (handler::<ScratchLoad<2>>(base), 2, 2),
        Op::s_scratch_load_dwordx4 => (handler::<ScratchLoad<4>>(base), 4, 2),
        Op::s_scratch_store_dword => (handler::<ScratchStore<1>>(base), 1, 2),
        Op::s_scratch_store_dwordx2 => (handler::<ScratchStore<2>>(base), 2, 2),
        Op::s_scratch_store_dwordx4 => (handler::<ScratchStore<4>>(base), 4, 2),
        Op::s_buffer_load_dword => (handler::<ScalarBufferLoad<1>>(base), 1, 4),
        Op::s_buffer_load_dwordx2 => (handler::<ScalarBufferLoad<2>>(base), 2, 4),
        Op::s_buffer_load_dwordx4 => (handler::<ScalarBufferLoad<4>>(base), 4, 4),
        Op::s_buffer_load_dwordx8 => (handler::<ScalarBufferLoad<8>>(base), 8, 4),
        Op::s_buffer_load_dwordx16 => (handler::<ScalarBufferLoad<16>>(base), 16, 4),
        Op::s_store_dword => (handler::<ScalarStore<1, false>>(base), 1, 2),
        Op::s_store_dwordx2 => (handler::<ScalarStore<2, false>>(base), 2, 2),
        Op::s_store_dwordx4 => (handler::<ScalarStore<4, false>>(base), 4, 2),
        Op::s_buffer_store_dword => (handler::<ScalarStore<1, true>>(base), 1, 4),
        Op::s_buffer_store_dwordx2 => (handler::<ScalarStore<2, true>>(base), 2, 4),
        Op::s_buffer_store_dwordx4 => (handler::<ScalarStore<4, true>>(base), 4, 4),
        Op::s_memtime => (handler::<MemTime>(base), 2, 0),
        Op::s_memrealtime => (handler::<MemRealTime>(base), 2, 0),
        Op::s_atc_probe | Op::s_atc_probe_buffer => (handler::<Probe>(base), 0, 0),
        op => {
            let operation = op.name().split_once("atomic_").and_then(|(_, suffix)| atomic_by_suffix(suffix));
            let element = operation.ok_or(Unsupported::Instruction(op.name()))?;
            atomic = Some(element);
            let data = element.registers as u16 * if element.pair { 2 } else { 1 };
            if op.name().starts_with("s_buffer_") {
                (handler::<ScalarAtomic<true>>(base), data, 4)
            } else {
                (handler::<ScalarAtomic<false>>(base), data, 2)
            }
        }
    };
    let mut uop = compiler.uop(run, inst_index);
    match atomic {
        Some(element) => checked::put_element(&mut uop, element, inst.imm),
        None => uop.imm = i64::from(inst.imm),
    }
    if data > 0 {
        uop.dst = compiler.scalar(inst, &inst.dst, data)?;
    }
    if address > 0 {
        uop.src[0] = Src { kind: SrcKind::Scalar, index: compiler.scalar(inst, &inst.src[0], address)? };
        if !matches!(inst.src[1], Operand::None) {
            uop.flags |= SOFFSET;
            uop.src[1] = compiler.source(inst, &inst.src[1], 1, Type::B32)?;
        }
    }
    if inst.memory.glc {
        uop.flags |= RETURNS;
    }
    Ok(uop)
}
