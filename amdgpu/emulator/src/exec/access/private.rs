//! Private (scratch) memory, accessed by SCRATCH instructions and FLAT addresses in the private aperture.
//!
//! Lanes are interleaved like the hardware's swizzle: dword `k` of lane `i` is at `256 * k + 4 * i`.

use crate::exec::access::addresses::*;
use crate::exec::access::atomic::*;
use crate::exec::access::checked::*;
use crate::exec::access::element::*;
use crate::fault::FaultKind;
use crate::level::ActiveBody;
use crate::wave::sreg;
use crate::{Flow, Uop, Wave};

/// Bits of `Uop::flags`: the instruction has a scalar address (`SADDR`), a vector address (`VADDR`, SCRATCH only).
pub(crate) const SADDR: u32 = 1;
pub(crate) const VADDR: u32 = 4;

/// Byte offsets into each lane's private memory.
pub(crate) type Offsets = [u32; 64];

#[inline(always)]
pub(crate) fn offsets(addresses: &Addresses) -> Offsets {
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

/// Host addresses of private offsets, and whether all elements are aligned, so that none is split across interleaved dwords.
/// Returns `None` if a lane exceeds its private memory.
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

/// Like [`swizzle`]; sets the wave's fault if a lane exceeds its private memory.
#[inline(always)]
fn place(wave: &mut Wave, offsets: &Offsets, exec: u64, bytes: u32) -> Option<(Addresses, bool)> {
    let placed = swizzle(wave, offsets, exec, bytes);
    if placed.is_none() {
        wave.fault = private_fault(wave, offsets, exec, bytes);
    }
    placed
}

/// Host address of one byte of a lane's private memory.
#[inline(always)]
fn private_byte(wave: &Wave, offset: u32, lane: usize) -> *mut u8 {
    wave.private.wrapping_add((offset as usize >> 2) * 256 + 4 * lane + (offset as usize & 3))
}

#[inline(always)]
pub(crate) fn private_load(
    wave: &mut Wave,
    element: &LoadElement,
    dst: u16,
    offsets: &Offsets,
    exec: u64,
) -> Flow {
    let bytes = element.bytes as u32;
    let Some((addresses, aligned)) = place(wave, offsets, exec, bytes) else { return Flow::Fault };
    if aligned {
        // SAFETY: all offsets are within private memory, including those repeated for inactive lanes.
        unsafe { (element.run)(vector_mut(wave, dst), &addresses, exec, 256) };
        return Flow::Next;
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let mut copy = [0u8; 16];
        for (k, byte) in copy.iter_mut().enumerate().take(bytes as usize) {
            // SAFETY: the offset is within private memory.
            *byte = unsafe { *private_byte(wave, offsets[lane] + k as u32, lane) };
        }
        for register in 0..element.registers {
            // SAFETY: `copy` has 16 readable bytes; registers were checked at compile time.
            unsafe {
                let to = &mut (*vector_mut(wave, dst + register as u16)).0[lane];
                *to = (element.one)(*to, copy.as_ptr().add(4 * register));
            }
        }
    }
    Flow::Next
}

#[inline(always)]
pub(crate) fn private_store(
    wave: &mut Wave,
    element: &StoreElement,
    src: u16,
    offsets: &Offsets,
    exec: u64,
) -> Flow {
    let bytes = element.bytes as u32;
    let Some((addresses, aligned)) = place(wave, offsets, exec, bytes) else { return Flow::Fault };
    if aligned {
        // SAFETY: all offsets are within private memory.
        unsafe { (element.run)(vector(wave, src), &addresses, exec, 256) };
        return Flow::Next;
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let mut copy = [0u8; 16];
        for register in 0..element.registers {
            // SAFETY: `copy` has 16 writable bytes; registers were checked at compile time.
            unsafe {
                let value = (*vector(wave, src + register as u16)).0[lane];
                (element.one)(copy.as_mut_ptr().add(4 * register), value);
            }
        }
        for (k, byte) in copy.iter().enumerate().take(bytes as usize) {
            // SAFETY: the offset is within private memory.
            unsafe { *private_byte(wave, offsets[lane] + k as u32, lane) = *byte };
        }
    }
    Flow::Next
}

pub(crate) fn private_atomic(
    wave: &mut Wave,
    element: &AtomicElement,
    offsets: &Offsets,
    exec: u64,
    operands: Operands,
) -> Flow {
    if let Some(fault) = private_fault(wave, offsets, exec, 4 * element.registers as u32) {
        wave.fault = Some(fault);
        return Flow::Fault;
    }
    for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
        let dword = |k: usize| private_byte(wave, offsets[lane] + 4 * k as u32, lane).cast::<u32>();
        // SAFETY: offsets were just checked against the size of private memory; registers were checked at compile time.
        unsafe {
            let read = |register: u16| {
                let high = if element.registers == 2 { (*vector(wave, register + 1)).0[lane] } else { 0 };
                u64::from((*vector(wave, register)).0[lane]) | u64::from(high) << 32
            };
            let mut cell = 0u64;
            for k in 0..element.registers {
                cell |= u64::from(dword(k).read_unaligned()) << (32 * k);
            }
            let data = read(operands.data);
            let extra = if element.pair { read(operands.extra) } else { data };
            let old = (element.one)((&raw mut cell).cast(), data, extra);
            for k in 0..element.registers {
                dword(k).write_unaligned((cell >> (32 * k)) as u32);
            }
            if let Some(result) = operands.result {
                for k in 0..element.registers {
                    (*vector_mut(wave, result + k as u16)).0[lane] = (old >> (32 * k)) as u32;
                }
            }
        }
    }
    Flow::Next
}

/// Private-memory offsets of a SCRATCH instruction: the sum of immediate, scalar and vector offsets.
#[inline(always)]
fn scratch_offsets(wave: &Wave, uop: &Uop) -> Offsets {
    let mut base = offset(uop) as u32;
    if uop.flags & SADDR != 0 {
        base = base.wrapping_add(uop.src[2].dword(wave, 0));
    }
    let mut offsets = [base; 64];
    if uop.flags & VADDR != 0 {
        // SAFETY: address registers were checked at compile time.
        let vaddr = unsafe { &(*vector(wave, uop.src[0].index)).0 };
        for lane in 0..64 {
            offsets[lane] = offsets[lane].wrapping_add(vaddr[lane]);
        }
    }
    offsets
}

pub(crate) struct ScratchLoad;
impl ActiveBody for ScratchLoad {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        private_load(wave, loads(uop), uop.dst, &scratch_offsets(wave, uop), exec)
    }
}

/// `scratch_load_lds_*`: writes each active lane's element to LDS at M0 + offset + 4 * lane.
pub(crate) struct ScratchToLocal;
impl ActiveBody for ScratchToLocal {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let (offsets, element) = (scratch_offsets(wave, uop), loads(uop));
        if let Some(fault) = private_fault(wave, &offsets, exec, element.bytes as u32) {
            wave.fault = Some(fault);
            return Flow::Fault;
        }
        let base = u64::from(wave.sgprs[sreg::M0] & 0xffff).wrapping_add_signed(offset(uop));
        for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
            let mut copy = [0u8; 4];
            for (k, byte) in copy.iter_mut().enumerate().take(element.bytes as usize) {
                // SAFETY: the offset is within private memory.
                *byte = unsafe { *private_byte(wave, offsets[lane] + k as u32, lane) };
            }
            let to = base.wrapping_add(4 * lane as u64);
            if to.checked_add(4).is_some_and(|end| end <= u64::from(wave.lds_size)) {
                // SAFETY: `copy` has four readable bytes, and the destination is within LDS.
                unsafe {
                    let value = (element.one)(0, copy.as_ptr());
                    wave.lds.add(to as usize).cast::<u32>().write_unaligned(value);
                }
            }
        }
        Flow::Next
    }
}

pub(crate) struct ScratchStore;
impl ActiveBody for ScratchStore {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        private_store(wave, stores(uop), uop.src[1].index, &scratch_offsets(wave, uop), exec)
    }
}
