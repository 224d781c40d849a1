//! FLAT, GLOBAL and SCRATCH instructions: vector memory through 64-bit addresses, and private memory.

use isa::{Arch, Format, Inst, Operand};

use crate::compile::{Compiler, PRIVATE_APERTURE, SHARED_APERTURE, Unsupported};
use crate::exec::access::addresses::*;
use crate::exec::access::atomic::*;
use crate::exec::access::checked::*;
use crate::exec::access::operand::{put_atomic, put_load, put_store};
use crate::exec::access::private::{
    SADDR, ScratchLoad, ScratchStore, ScratchToLocal, VADDR, offsets, private_atomic, private_load,
    private_store,
};
use crate::exec::access::to_local::to_local;
use crate::level::ActiveBody;
use crate::{Flow, Level, Src, SrcKind, Uop, Wave, handler};

/// Bit of `Uop::flags`: an atomic returns the old value.
const RETURNS: u32 = 2;

/// Lane addresses of a GLOBAL or FLAT instruction.
#[inline(always)]
fn addresses(wave: &Wave, uop: &Uop) -> Addresses {
    let mut out = Addresses([0; 64]);
    let low = vector(wave, uop.src[0].index);
    // SAFETY: address registers were checked at compile time.
    unsafe {
        if uop.flags & SADDR != 0 {
            let base = wave.sgpr64(usize::from(uop.src[2].index)).wrapping_add_signed(offset(uop));
            for lane in 0..64 {
                out.0[lane] = base.wrapping_add(u64::from((*low).0[lane]));
            }
        } else {
            let high = low.add(1);
            for lane in 0..64 {
                let address = u64::from((*low).0[lane]) | u64::from((*high).0[lane]) << 32;
                out.0[lane] = address.wrapping_add_signed(offset(uop));
            }
        }
    }
    out
}

/// Like [`addresses`], with inactive lanes filled in.
#[inline(always)]
fn active_addresses(wave: &Wave, uop: &Uop, exec: u64) -> Addresses {
    let mut out = addresses(wave, uop);
    out.fill_inactive(exec);
    out
}

/// Returns the start address if all 64 lanes access one contiguous row of dwords and the range cache covers it.
#[inline(always)]
fn row(wave: &Wave, uop: &Uop, bytes: u64, write: bool) -> Option<u64> {
    if bytes != 4 || wave.exec() != !0 {
        return None;
    }
    let low = vector(wave, uop.src[0].index);
    // SAFETY: address registers were checked at compile time.
    let start = unsafe {
        if uop.flags & SADDR != 0 {
            row_start_from(wave.sgpr64(usize::from(uop.src[2].index)), &*low)?
        } else {
            row_start(&*low, &*low.add(1))?
        }
    };
    let start = start.wrapping_add_signed(offset(uop));
    cached(wave, uop, start, start.wrapping_add(252), 4, write).then_some(start)
}

/// Prefetches the data that the following waves will load if they continue the row. The CPU's hardware prefetcher does not detect
/// this pattern among the emulator's other accesses.
#[inline(always)]
fn fetch_ahead(start: u64) {
    #[cfg(target_arch = "x86_64")]
    for line in 0..4 {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        const DISTANCE: u64 = 2048;
        let ahead = start.wrapping_add(DISTANCE + 64 * line) as *const i8;
        // SAFETY: prefetching is allowed for any address and has no architecturally visible effect.
        unsafe { _mm_prefetch(ahead, _MM_HINT_T0) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = start;
}

struct GlobalLoad;
impl ActiveBody for GlobalLoad {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        if let Some(start) = row(wave, uop, loads(uop).bytes, false) {
            fetch_ahead(start);
            // SAFETY: `row` checked that 256 bytes from `start` are readable; the destination was checked at compile time.
            unsafe { (*vector_mut(wave, uop.dst)).0 = (start as *const [u32; 64]).read_unaligned() };
            return Flow::Next;
        }
        load_global(wave, uop, &mut addresses(wave, uop), exec)
    }
}

struct GlobalStore;
impl ActiveBody for GlobalStore {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        if let Some(start) = row(wave, uop, stores(uop).bytes, true) {
            // SAFETY: `row` checked that 256 bytes from `start` are writable; the source was checked at compile time.
            unsafe { (start as *mut [u32; 64]).write_unaligned((*vector(wave, uop.src[1].index)).0) };
            return Flow::Next;
        }
        store_global(wave, uop, &mut addresses(wave, uop), exec)
    }
}

struct GlobalAtomic;
impl ActiveBody for GlobalAtomic {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let addresses = active_addresses(wave, uop, exec);
        let element = atomics(uop);
        if !check(wave, uop, &addresses, exec, 4 * element.registers as u64, true) {
            return Flow::Fault;
        }
        let operands = memory_operands(uop, uop.flags & RETURNS != 0);
        // SAFETY: the addresses were checked for writing.
        unsafe { (element.global)(wave, &addresses, exec, operands) }
    }
}

/// Active lanes whose FLAT address is in the local (LDS) aperture, and those in the private aperture.
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

/// Translates local-aperture addresses to host addresses; the second result is the subset of `lanes` that is within LDS.
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

/// FLAT load. Most FLAT accesses are global, so the apertures are checked only on a range-cache miss.
struct FlatLoad;
impl ActiveBody for FlatLoad {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let addresses = active_addresses(wave, uop, exec);
        let (low, high) = addresses.bounds();
        let element = loads(uop);
        if cached(wave, uop, low, high, element.bytes, false) {
            // SAFETY: all addresses are in a range the wave may read.
            unsafe { (element.run)(vector_mut(wave, uop.dst), &addresses, exec, 4) };
            return Flow::Next;
        }
        flat_load(wave, uop, &addresses, exec)
    }
}

#[inline(never)]
fn flat_load(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64) -> Flow {
    let element = loads(uop);
    let (local, private) = segments(addresses, exec);
    let global = exec & !local & !private;
    // The destination may also be an address register: `addresses` was read before any lane is written.
    if global != 0 && load_global(wave, uop, &mut { *addresses }, global) != Flow::Next {
        return Flow::Fault;
    }
    if local != 0 {
        let (addresses, within) = localise(wave, addresses, local, element.bytes);
        load_local(wave, element, uop.dst, &addresses, local, within);
    }
    if private != 0 {
        return private_load(wave, element, uop.dst, &offsets(addresses), private);
    }
    Flow::Next
}

struct FlatStore;
impl ActiveBody for FlatStore {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let addresses = active_addresses(wave, uop, exec);
        let (low, high) = addresses.bounds();
        let element = stores(uop);
        if cached(wave, uop, low, high, element.bytes, true) {
            // SAFETY: all addresses are in a range the wave may write.
            unsafe { (element.run)(vector(wave, uop.src[1].index), &addresses, exec, 4) };
            return Flow::Next;
        }
        flat_store(wave, uop, &addresses, exec)
    }
}

#[inline(never)]
fn flat_store(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64) -> Flow {
    let element = stores(uop);
    let (local, private) = segments(addresses, exec);
    let global = exec & !local & !private;
    if global != 0 && store_global(wave, uop, &mut { *addresses }, global) != Flow::Next {
        return Flow::Fault;
    }
    if local != 0 {
        let (addresses, within) = localise(wave, addresses, local, element.bytes);
        store_local(wave, element, uop.src[1].index, &addresses, within);
    }
    if private != 0 {
        return private_store(wave, element, uop.src[1].index, &offsets(addresses), private);
    }
    Flow::Next
}

struct FlatAtomic;
impl ActiveBody for FlatAtomic {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let mut addresses = active_addresses(wave, uop, exec);
        let (local, private) = segments(&addresses, exec);
        let element = atomics(uop);
        let operands = memory_operands(uop, uop.flags & RETURNS != 0);
        let bytes = 4 * element.registers as u64;
        let global = exec & !local & !private;
        if local != 0 {
            let (addresses, within) = localise(wave, &addresses, local, bytes);
            zero_results(wave, element, operands, local & !within);
            // SAFETY: the lanes are within LDS.
            unsafe { (element.local)(wave, &addresses, within, operands) };
        }
        if private != 0
            && private_atomic(wave, element, &offsets(&addresses), private, operands) != Flow::Next
        {
            return Flow::Fault;
        }
        if global == 0 {
            return Flow::Next;
        }
        addresses.fill_inactive(global);
        if !check(wave, uop, &addresses, global, bytes, true) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked for writing.
        unsafe { (element.global)(wave, &addresses, global, operands) }
    }
}

/// `global_load_lds_*`: writes each active lane's element to LDS; see [`to_local`] for the destination address.
struct LoadToLocal;
impl ActiveBody for LoadToLocal {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let addresses = active_addresses(wave, uop, exec);
        let element = loads(uop);
        if !check(wave, uop, &addresses, exec, element.bytes, false) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked.
        unsafe { to_local(wave, element, &addresses, exec, exec, offset(uop)) };
        Flow::Next
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let name = inst.op.name();
    let level = compiler.level;
    // `global_load_dword` -> `load`, `dword`.
    let (kind, suffix) = name
        .split_once('_')
        .and_then(|(_, operation)| operation.split_once('_'))
        .ok_or(Unsupported::Instruction(name))?;
    // LDS is the destination of the separate `lds_` opcodes, and on gfx90a also if the LDS bit is set.
    let to_local = suffix.strip_prefix("lds_").or(inst.memory.lds.then_some(suffix));
    let mut uop = compiler.uop(handler::<LoadToLocal>(Level::Base), inst_index);
    match kind {
        "load" => {
            put_load(compiler, inst, &mut uop, to_local.unwrap_or(suffix), to_local.is_some())?;
            uop.run = match inst.format {
                Format::Scratch if to_local.is_some() => handler::<ScratchToLocal>(Level::Base),
                _ if to_local.is_some() => handler::<LoadToLocal>(Level::Base),
                Format::Flat => handler::<FlatLoad>(level),
                Format::Scratch => handler::<ScratchLoad>(level),
                _ => handler::<GlobalLoad>(level),
            };
        }
        "store" => {
            put_store(compiler, inst, &mut uop, suffix)?;
            uop.run = match inst.format {
                Format::Flat => handler::<FlatStore>(level),
                Format::Scratch => handler::<ScratchStore>(level),
                _ => handler::<GlobalStore>(level),
            };
        }
        "atomic" if inst.format != Format::Scratch => {
            put_atomic(compiler, inst, &mut uop, suffix, RETURNS)?;
            uop.run = match inst.format {
                Format::Flat => handler::<FlatAtomic>(level),
                _ => handler::<GlobalAtomic>(level),
            };
        }
        _ => return Err(Unsupported::Instruction(name)),
    }
    if !matches!(inst.src[2], Operand::None) {
        uop.flags |= SADDR;
        let width = if inst.format == Format::Scratch { 1 } else { 2 };
        uop.src[2] = Src { kind: SrcKind::Scalar, index: compiler.scalar(inst, &inst.src[2], width)? };
    }
    if inst.format == Format::Scratch {
        // gfx90a has a vector address unless it has a scalar one; gfx942 has a separate bit (SVE) for it.
        let vaddr = match compiler.arch {
            Arch::Gfx90a => uop.flags & SADDR == 0,
            Arch::Gfx942 => inst.memory.sve,
        };
        if vaddr && !matches!(inst.src[0], Operand::None) {
            uop.flags |= VADDR;
            uop.src[0] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[0], 1)? };
        }
    } else {
        let width = if uop.flags & SADDR != 0 { 1 } else { 2 };
        uop.src[0] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[0], width)? };
    }
    Ok(uop)
}
