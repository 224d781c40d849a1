//! FLAT, GLOBAL and SCRATCH: vector memory through 64-bit addresses, and private memory.
//!
//! Private memory is interleaved: dword `k` of lane `i` lies at `256 * k + 4 * i`, as the hardware swizzles it.

use std::marker::PhantomData;

use isa::{Arch, Format, Inst, Operand};

use super::access::{self, *};
use super::atomic::{self, *};
use super::scalar;
use crate::compile::{Compiler, PRIVATE_APERTURE, SHARED_APERTURE, Type, Unsupported};
use crate::fault::FaultKind;
use crate::wave::sreg;
use crate::{Body, Flow, Handler, Level, Src, SrcKind, Uop, Wave, handler};

/// `Uop::flags`.
const SADDR: u32 = 1;
const RETURNS: u32 = 2;
/// SCRATCH: there is a vector address.
const VADDR: u32 = 4;

/// Addresses of a GLOBAL or FLAT instruction.
#[inline(always)]
fn addresses(wave: &Wave, uop: &Uop) -> Addresses {
    let mut out = Addresses([0; 64]);
    let low = vector(wave, uop.src[0].index);
    // SAFETY: address registers were checked at compile time.
    unsafe {
        if uop.flags & SADDR != 0 {
            let base = wave.sgpr64(usize::from(uop.src[2].index)).wrapping_add_signed(uop.imm);
            for lane in 0..64 {
                out.0[lane] = base.wrapping_add(u64::from((*low).0[lane]));
            }
        } else {
            let high = low.add(1);
            for lane in 0..64 {
                let address = u64::from((*low).0[lane]) | u64::from((*high).0[lane]) << 32;
                out.0[lane] = address.wrapping_add_signed(uop.imm);
            }
        }
    }
    out
}

struct GlobalLoad<K>(PhantomData<K>);
impl<K: Load> Body for GlobalLoad<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        load_global::<K>(wave, uop, &mut addresses(wave, uop), exec)
    }
}

struct GlobalStore<K>(PhantomData<K>);
impl<K: Store> Body for GlobalStore<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        store_global::<K>(wave, uop, &mut addresses(wave, uop), exec)
    }
}

struct GlobalAtomic<O>(PhantomData<O>);
impl<O: Operation> Body for GlobalAtomic<O> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut addresses = addresses(wave, uop);
        addresses.fill_inactive(exec);
        if !check(wave, uop, &addresses, exec, 4 * O::Word::REGISTERS as u64, true) {
            return Flow::Fault;
        }
        let operands = memory_operands::<O>(uop, uop.flags & RETURNS != 0);
        // SAFETY: the addresses were checked for writing.
        unsafe { apply_global::<O>(wave, &addresses, exec, operands) }
    }
}

/// The lanes whose FLAT address lies in an aperture: local, private.
#[inline(always)]
fn segments(addresses: &Addresses, exec: u64) -> (u64, u64) {
    let (mut local, mut private) = (0, 0);
    for lane in 0..64 {
        let high = (addresses.0[lane] >> 32) as u32;
        local |= u64::from(high == SHARED_APERTURE) << lane;
        private |= u64::from(high == PRIVATE_APERTURE) << lane;
    }
    (local & exec, private & exec)
}

/// Splits local lanes into those within local memory, with host addresses, and the rest.
#[inline(always)]
fn localise(wave: &Wave, addresses: &Addresses, lanes: u64, bytes: u64) -> (Addresses, u64) {
    let mut out = Addresses([wave.lds as u64; 64]);
    let mut within = 0;
    let size = u64::from(wave.lds_size);
    for lane in 0..64 {
        let offset = addresses.0[lane] & 0xffff_ffff;
        if lanes >> lane & 1 != 0 && offset + bytes <= size {
            within |= 1 << lane;
            out.0[lane] = wave.lds as u64 + offset;
        }
    }
    out.fill_inactive(if within == 0 { !0 } else { within });
    (out, within)
}

/// A FLAT access: mostly global, so the apertures are looked for only when the last hit range does not match.
struct FlatLoad<K>(PhantomData<K>);
impl<K: Load> Body for FlatLoad<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut addresses = addresses(wave, uop);
        addresses.fill_inactive(exec);
        let (low, high) = addresses.bounds();
        if cached(wave, uop, low, high, K::BYTES, false) {
            // SAFETY: all addresses are in a range the wave may read.
            unsafe { access::load::<K, 4>(vector_mut(wave, uop.dst), &addresses, exec) };
            return Flow::Next;
        }
        flat_load::<K>(wave, uop, &addresses, exec)
    }
}

#[inline(never)]
fn flat_load<K: Load>(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64) -> Flow {
    let (local, private) = segments(addresses, exec);
    let global = exec & !local & !private;
    if global != 0 {
        let mut addresses = *addresses;
        if load_global::<K>(wave, uop, &mut addresses, global) != Flow::Next {
            return Flow::Fault;
        }
    }
    if local != 0 {
        let (addresses, within) = localise(wave, addresses, local, K::BYTES);
        local_load::<K>(wave, uop.dst, &addresses, local, within);
    }
    if private != 0 {
        return private_load::<K>(wave, uop.dst, &offsets(addresses), private);
    }
    Flow::Next
}

/// Loads from local memory: lanes of `wanted` that are not `within` it read zero.
#[inline(always)]
pub(super) fn local_load<K: Load>(wave: &mut Wave, dst: u16, addresses: &Addresses, wanted: u64, within: u64) {
    let dst = vector_mut(wave, dst);
    let outside = wanted & !within;
    // SAFETY: destination registers were checked at compile time, and addresses of `within` lanes by the caller.
    unsafe {
        if outside != 0 {
            for register in 0..K::REGISTERS {
                let to = &mut (*dst.add(register)).0;
                for lane in 0..64 {
                    if outside >> lane & 1 != 0 {
                        to[lane] = K::merge(to[lane], 0);
                    }
                }
            }
        }
        if within != 0 {
            access::load::<K, 4>(dst, addresses, within);
        }
    }
}

struct FlatStore<K>(PhantomData<K>);
impl<K: Store> Body for FlatStore<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut addresses = addresses(wave, uop);
        addresses.fill_inactive(exec);
        let (low, high) = addresses.bounds();
        if cached(wave, uop, low, high, K::BYTES, true) {
            // SAFETY: all addresses are in a range the wave may write.
            unsafe { access::store::<K, 4>(vector(wave, uop.src[1].index), &addresses, exec) };
            return Flow::Next;
        }
        flat_store::<K>(wave, uop, &addresses, exec)
    }
}

#[inline(never)]
fn flat_store<K: Store>(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64) -> Flow {
    let (local, private) = segments(addresses, exec);
    let global = exec & !local & !private;
    if global != 0 {
        let mut addresses = *addresses;
        if store_global::<K>(wave, uop, &mut addresses, global) != Flow::Next {
            return Flow::Fault;
        }
    }
    if local != 0 {
        let (addresses, within) = localise(wave, addresses, local, K::BYTES);
        if within != 0 {
            // SAFETY: the lanes are within local memory.
            unsafe { access::store::<K, 4>(vector(wave, uop.src[1].index), &addresses, within) };
        }
    }
    if private != 0 {
        return private_store::<K>(wave, uop.src[1].index, &offsets(addresses), private);
    }
    Flow::Next
}

struct FlatAtomic<O>(PhantomData<O>);
impl<O: Operation> Body for FlatAtomic<O> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut addresses = addresses(wave, uop);
        addresses.fill_inactive(exec);
        let (local, private) = segments(&addresses, exec);
        let operands = memory_operands::<O>(uop, uop.flags & RETURNS != 0);
        let bytes = 4 * O::Word::REGISTERS as u64;
        let global = exec & !local & !private;
        if local != 0 {
            let (addresses, within) = localise(wave, &addresses, local, bytes);
            // SAFETY: the lanes are within local memory.
            unsafe { atomic::apply_local::<O>(wave, &addresses, within, operands) };
        }
        if private != 0 {
            if let Some(fault) = private_fault(wave, &offsets(&addresses), private, bytes as u32) {
                wave.fault = Some(fault);
                return Flow::Fault;
            }
            return private_atomic::<O>(wave, &offsets(&addresses), private, operands);
        }
        if global == 0 {
            return Flow::Next;
        }
        addresses.fill_inactive(global);
        if !check(wave, uop, &addresses, global, bytes, true) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked for writing.
        unsafe { atomic::apply_global::<O>(wave, &addresses, global, operands) }
    }
}

/// Byte offsets into each lane's private memory.
type Offsets = [u32; 64];

#[inline(always)]
fn offsets(addresses: &Addresses) -> Offsets {
    addresses.0.map(|address| address as u32)
}

#[cold]
#[inline(never)]
fn private_fault(wave: &Wave, offsets: &Offsets, exec: u64, bytes: u32) -> Option<(FaultKind, Option<u8>)> {
    (0..64).find_map(|lane| {
        let offset = u64::from(offsets[lane]);
        (exec >> lane & 1 != 0 && offset + u64::from(bytes) > u64::from(wave.private_size))
            .then_some((FaultKind::PrivateOverflow { offset, size: wave.private_size }, Some(lane as u8)))
    })
}

/// Host addresses of private offsets, and whether every element's dwords are whole (no lane crosses a dword boundary oddly).
/// `None` when a lane is out of its private memory.
#[inline(always)]
fn swizzle(wave: &Wave, offsets: &Offsets, exec: u64, bytes: u32) -> Option<(Addresses, bool)> {
    let first = offsets[exec.trailing_zeros() as usize & 63];
    let base = wave.private as u64;
    let mut out = Addresses([0; 64]);
    let (mut highest, mut odd) = (0u64, 0u32);
    let mask = if bytes >= 4 { 3 } else { bytes - 1 };
    for lane in 0..64 {
        let offset = if exec >> lane & 1 != 0 { offsets[lane] } else { first };
        highest = highest.max(u64::from(offset) + u64::from(bytes));
        odd |= offset & mask;
        out.0[lane] = base + u64::from(offset >> 2) * 256 + 4 * lane as u64 + u64::from(offset & 3);
    }
    (highest <= u64::from(wave.private_size)).then_some((out, odd == 0))
}

/// Host address of one byte of a lane's private memory.
#[inline(always)]
fn private_byte(wave: &Wave, offset: u32, lane: usize) -> *mut u8 {
    wave.private.wrapping_add((offset as usize >> 2) * 256 + 4 * lane + (offset as usize & 3))
}

fn private_load<K: Load>(wave: &mut Wave, dst: u16, offsets: &Offsets, exec: u64) -> Flow {
    let Some((addresses, aligned)) = swizzle(wave, offsets, exec, K::BYTES as u32) else {
        wave.fault = private_fault(wave, offsets, exec, K::BYTES as u32);
        return Flow::Fault;
    };
    if aligned {
        // SAFETY: all offsets are within private memory, also those inactive lanes repeat.
        unsafe { access::load::<K, 256>(vector_mut(wave, dst), &addresses, exec) };
        return Flow::Next;
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let mut bytes = [0u8; 16];
        for (k, byte) in bytes.iter_mut().enumerate().take(K::BYTES as usize) {
            // SAFETY: the offset is within private memory.
            *byte = unsafe { *private_byte(wave, offsets[lane] + k as u32, lane) };
        }
        for register in 0..K::REGISTERS {
            // SAFETY: `bytes` has 16 readable bytes; registers were checked at compile time.
            unsafe {
                let value = K::fetch(bytes.as_ptr().add(4 * register));
                let to = &mut (*vector_mut(wave, dst + register as u16)).0[lane];
                *to = K::merge(*to, value);
            }
        }
    }
    Flow::Next
}

fn private_store<K: Store>(wave: &mut Wave, src: u16, offsets: &Offsets, exec: u64) -> Flow {
    let Some((addresses, aligned)) = swizzle(wave, offsets, exec, K::BYTES as u32) else {
        wave.fault = private_fault(wave, offsets, exec, K::BYTES as u32);
        return Flow::Fault;
    };
    if aligned {
        // SAFETY: all offsets are within private memory.
        unsafe { access::store::<K, 256>(vector(wave, src), &addresses, exec) };
        return Flow::Next;
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let mut bytes = [0u8; 16];
        for register in 0..K::REGISTERS {
            // SAFETY: `bytes` has 16 writable bytes; registers were checked at compile time.
            unsafe { K::put(bytes.as_mut_ptr().add(4 * register), (*vector(wave, src + register as u16)).0[lane]) };
        }
        for (k, byte) in bytes.iter().enumerate().take(K::BYTES as usize) {
            // SAFETY: the offset is within private memory.
            unsafe { *private_byte(wave, offsets[lane] + k as u32, lane) = *byte };
        }
    }
    Flow::Next
}

fn private_atomic<O: Operation>(wave: &mut Wave, offsets: &Offsets, exec: u64, operands: Operands) -> Flow {
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let dword = |k: u16| private_byte(wave, offsets[lane] + 4 * u32::from(k), lane).cast::<u32>();
        let count = O::Word::REGISTERS as u16;
        // SAFETY: offsets were checked against private memory, registers at compile time.
        unsafe {
            let read = |register: u16| {
                let high = if count == 2 { (*vector(wave, register + 1)).0[lane] } else { 0 };
                O::Word::from_registers((*vector(wave, register)).0[lane], high)
            };
            let high = if count == 2 { dword(1).read_unaligned() } else { 0 };
            let old = O::Word::from_registers(dword(0).read_unaligned(), high);
            let data = read(operands.data);
            let extra = if O::PAIR { read(operands.extra) } else { data };
            let new = O::apply(old, data, extra).registers();
            for k in 0..count {
                dword(k).write_unaligned(new[usize::from(k)]);
            }
            if let Some(result) = operands.result {
                for k in 0..count {
                    (*vector_mut(wave, result + k)).0[lane] = old.registers()[usize::from(k)];
                }
            }
        }
    }
    Flow::Next
}

/// Offsets of a SCRATCH instruction: vector and scalar addresses are offsets within private memory.
#[inline(always)]
fn scratch_offsets(wave: &Wave, uop: &Uop) -> Offsets {
    let mut base = uop.imm as u32;
    if uop.flags & SADDR != 0 {
        base = base.wrapping_add(scalar::dword(wave, &uop.src[2], 0));
    }
    if uop.flags & VADDR != 0 {
        // SAFETY: address registers were checked at compile time.
        unsafe { (*vector(wave, uop.src[0].index)).0 }.map(|offset| offset.wrapping_add(base))
    } else {
        [base; 64]
    }
}

struct ScratchLoad<K>(PhantomData<K>);
impl<K: Load> Body for ScratchLoad<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        private_load::<K>(wave, uop.dst, &scratch_offsets(wave, uop), exec)
    }
}

struct ScratchStore<K>(PhantomData<K>);
impl<K: Store> Body for ScratchStore<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        private_store::<K>(wave, uop.src[1].index, &scratch_offsets(wave, uop), exec)
    }
}

/// `global_load_lds_*`: each active lane's element goes to local memory at M0 + 4 * lane.
struct LoadToLocal<K>(PhantomData<K>);
impl<K: Load> Body for LoadToLocal<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut addresses = addresses(wave, uop);
        addresses.fill_inactive(exec);
        if !check(wave, uop, &addresses, exec, K::BYTES, false) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked.
        unsafe { to_local::<K>(wave, &addresses, exec, uop.imm as u32) };
        Flow::Next
    }
}

/// Moves elements to local memory at M0 + `offset` + 4 * lane.
///
/// # Safety
/// Every active lane's address must be readable for `K::BYTES`.
pub(super) unsafe fn to_local<K: Load>(wave: &mut Wave, addresses: &Addresses, exec: u64, offset: u32) {
    let base = u64::from(wave.sgprs[sreg::M0] & 0xffff) + u64::from(offset);
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        for register in 0..K::REGISTERS {
            let to = base + 4 * (lane * K::REGISTERS + register) as u64;
            if to + 4 <= u64::from(wave.lds_size) {
                // SAFETY: the source is promised by the caller, the destination is within local memory.
                unsafe {
                    let value = K::fetch((addresses.0[lane] as *const u8).add(4 * register));
                    wave.lds.add(to as usize).cast::<u32>().write_unaligned(value);
                }
            }
        }
    }
}

fn select(op: &str, format: Format, level: Level) -> Option<(Handler, u16, bool)> {
    let (_, op) = op.split_once('_')?;
    macro_rules! load {
        ($kind:ident) => {{
            let run = match format {
                Format::Flat => handler::<FlatLoad<$kind>>(level),
                Format::Scratch => handler::<ScratchLoad<$kind>>(level),
                _ => handler::<GlobalLoad<$kind>>(level),
            };
            (run, <$kind as Load>::REGISTERS as u16, true)
        }};
    }
    macro_rules! store {
        ($kind:ident) => {{
            let run = match format {
                Format::Flat => handler::<FlatStore<$kind>>(level),
                Format::Scratch => handler::<ScratchStore<$kind>>(level),
                _ => handler::<GlobalStore<$kind>>(level),
            };
            (run, <$kind as Store>::REGISTERS as u16, false)
        }};
    }
    if let Some(suffix) = op.strip_prefix("load_") {
        return by_suffix!(load suffix, load);
    }
    by_suffix!(store op.strip_prefix("store_")?, store)
}

/// Handler, registers of one operand, and whether there is a second operand.
fn select_atomic(op: &str, format: Format) -> Option<(Handler, u16, bool)> {
    macro_rules! make {
        ($operation:ident) => {{
            let run = match format {
                Format::Flat => handler::<FlatAtomic<$operation>>(Level::Base),
                _ => handler::<GlobalAtomic<$operation>>(Level::Base),
            };
            (run, <$operation as Operation>::Word::REGISTERS as u16, <$operation as Operation>::PAIR)
        }};
    }
    let (_, suffix) = op.split_once("_atomic_")?;
    by_atomic_suffix!(suffix, make)
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let name = inst.op.name();
    let unsupported = Unsupported::Instruction(name);
    let mut uop = compiler.uop(handler::<LoadToLocal<B32>>(Level::Base), inst_index);
    uop.imm = i64::from(inst.imm);
    if let Some(suffix) = name.strip_prefix("global_load_lds_") {
        uop.run = match suffix {
            "dword" => handler::<LoadToLocal<B32>>(Level::Base),
            "ubyte" => handler::<LoadToLocal<U8>>(Level::Base),
            "sbyte" => handler::<LoadToLocal<I8>>(Level::Base),
            "ushort" => handler::<LoadToLocal<U16>>(Level::Base),
            "sshort" => handler::<LoadToLocal<I16>>(Level::Base),
            _ => return Err(unsupported),
        };
    } else if let Some((run, registers, is_load)) = select(name, inst.format, compiler.level) {
        uop.run = run;
        if is_load {
            uop.dst = compiler.vector(inst, &inst.dst, registers)?;
        } else {
            uop.src[1] = compiler.source(inst, &inst.src[1], registers, Type::B32)?;
        }
    } else if inst.format != Format::Scratch
        && let Some((run, registers, pair)) = select_atomic(name, inst.format)
    {
        uop.run = run;
        uop.src[1] = compiler.source(inst, &inst.src[1], if pair { 2 * registers } else { registers }, Type::B32)?;
        if inst.memory.glc && inst.dst != Operand::None {
            uop.flags |= RETURNS;
            uop.dst = compiler.vector(inst, &inst.dst, registers)?;
        }
    } else {
        return Err(unsupported);
    }
    if uop.src[1].kind != SrcKind::Vector && uop.src[1] != Src::default() {
        return Err(Unsupported::Form { mnemonic: name, what: "data operand is not a vector register" });
    }
    if !matches!(inst.src[2], Operand::None) {
        uop.flags |= SADDR;
        let width = if inst.format == Format::Scratch { 1 } else { 2 };
        uop.src[2] = Src { kind: SrcKind::Scalar, index: compiler.scalar(inst, &inst.src[2], width)? };
    }
    if inst.format == Format::Scratch {
        // gfx90a has a vector address unless it has a scalar one; gfx942 says so in a bit of its own.
        let vaddr = match compiler.arch {
            Arch::Gfx90a => uop.flags & SADDR == 0,
            Arch::Gfx942 => inst.memory.sve,
        };
        if vaddr && !matches!(inst.src[0], Operand::None) {
            uop.flags |= VADDR;
            uop.src[0] = compiler.source(inst, &inst.src[0], 1, Type::B32)?;
        }
    } else {
        let width = if uop.flags & SADDR != 0 { 1 } else { 2 };
        uop.src[0] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[0], width)? };
    }
    Ok(uop)
}
