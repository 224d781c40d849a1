//! Address checks shared by all memory instructions: one host address per lane, verified against the wave's accessible ranges.
//!
//! Inactive lanes repeat the first active lane's address, so checks and loads need no mask; only register writes and stores do.

use crate::exec::access::addresses::Addresses;
use crate::exec::access::element::{LoadElement, StoreElement};
use crate::fault::FaultKind;
use crate::memory::{Range, RangeCache};
use crate::{Flow, Lanes, Uop, Wave};

/// Pointer to vector register `index`, which the compiler bounds-checked.
#[inline(always)]
pub(crate) fn vector(wave: &Wave, index: u16) -> *const Lanes {
    debug_assert!(usize::from(index) < wave.vgprs.len());
    wave.vgprs.as_ptr().wrapping_add(usize::from(index))
}

#[inline(always)]
pub(crate) fn vector_mut(wave: &mut Wave, index: u16) -> *mut Lanes {
    debug_assert!(usize::from(index) < wave.vgprs.len());
    wave.vgprs.as_mut_ptr().wrapping_add(usize::from(index))
}

/// Returns true if the wave may access `low..high + bytes` according to the range in this instruction's range-cache slot.
#[inline(always)]
pub(crate) fn cached(wave: &Wave, uop: &Uop, low: u64, high: u64, bytes: u64, write: bool) -> bool {
    let entry = &wave.ranges.entries[RangeCache::slot(uop.inst)];
    // In a covered range `high` is far below `u64::MAX`, so the addition cannot wrap into the range.
    entry.covers(low, high.wrapping_add(bytes), write) && low <= high.wrapping_add(bytes)
}

/// Checks access to `bytes` at each active lane's address; on failure sets the wave's fault.
#[inline(always)]
pub(crate) fn check(
    wave: &mut Wave,
    uop: &Uop,
    addresses: &Addresses,
    exec: u64,
    bytes: u64,
    write: bool,
) -> bool {
    let (low, high) = addresses.bounds();
    cached(wave, uop, low, high, bytes, write) || check_lanes(wave, uop, addresses, exec, bytes, write)
}

/// The range that contains `address`: from the range table, the wave's private memory, or the dispatch's internal buffers.
fn find(wave: &Wave, address: u64) -> Option<Range> {
    if let Some(range) = wave.ranges.find(address) {
        return Some(range);
    }
    let private = wave.private as u64;
    let private_bytes = u64::from(wave.private_size) * 64;
    if address.wrapping_sub(private) < private_bytes {
        return Some(Range {
            start: private,
            end: private + private_bytes,
            access: crate::memory::Access::ReadWrite,
        });
    }
    wave.context()?.find(address)
}

#[cold]
#[inline(never)]
fn check_lanes(
    wave: &mut Wave,
    uop: &Uop,
    addresses: &Addresses,
    exec: u64,
    bytes: u64,
    write: bool,
) -> bool {
    let (low, high) = addresses.bounds();
    let slot = RangeCache::slot(uop.inst);
    if let Some(range) = find(wave, low) {
        wave.ranges.entries[slot] = range;
        if high.checked_add(bytes).is_some_and(|end| range.covers(low, end, write)) {
            return true;
        }
    }
    let mut last = Range::EMPTY;
    let mut lanes = exec;
    while lanes != 0 {
        let lane = lanes.trailing_zeros();
        lanes &= lanes - 1;
        let address = addresses.0[lane as usize];
        let Some(end) = address.checked_add(bytes) else {
            wave.fault = Some((FaultKind::IllegalAddress { address, write }, Some(lane as u8)));
            return false;
        };
        if last.covers(address, end, write) {
            continue;
        }
        match find(wave, address) {
            Some(range) if range.covers(address, end, write) => last = range,
            found => {
                // An access may span two adjacent allocations if both permit it.
                if let Some(range) = found
                    && (!write || range.access == crate::memory::Access::ReadWrite)
                    && range.end < end
                    && find(wave, range.end).is_some_and(|next| next.covers(range.end, end, write))
                {
                    continue;
                }
                let address = match found {
                    Some(range) if range.end < end && range.covers(address, range.end, write) => range.end,
                    _ => address,
                };
                wave.fault = Some((FaultKind::IllegalAddress { address, write }, Some(lane as u8)));
                return false;
            }
        }
    }
    true
}

/// Checks a scalar access; on failure sets the wave's fault.
#[inline(always)]
pub(crate) fn check_scalar(wave: &mut Wave, uop: &Uop, address: u64, bytes: u64, write: bool) -> bool {
    cached(wave, uop, address, address, bytes, write) || check_scalar_slow(wave, uop, address, bytes, write)
}

#[cold]
#[inline(never)]
fn check_scalar_slow(wave: &mut Wave, uop: &Uop, address: u64, bytes: u64, write: bool) -> bool {
    let Some(end) = address.checked_add(bytes) else {
        wave.fault = Some((FaultKind::IllegalAddress { address, write }, None));
        return false;
    };
    match find(wave, address) {
        Some(range) if range.covers(address, end, write) => {
            wave.ranges.entries[RangeCache::slot(uop.inst)] = range;
            true
        }
        _ => {
            wave.fault = Some((FaultKind::IllegalAddress { address, write }, None));
            false
        }
    }
}

/// Byte offset of a memory micro-op, stored in the upper 24 bits of `flags`. The low 8 bits of `flags` belong to the instruction
/// format, and `imm` points to the element descriptor.
#[inline(always)]
pub(crate) fn offset(uop: &Uop) -> i64 {
    i64::from(uop.flags as i32 >> 8)
}

/// Stores an element descriptor and an offset (at most 24 bits) in a micro-op.
pub(crate) fn put_element<T>(uop: &mut Uop, element: &'static T, offset: i32) {
    uop.imm = std::ptr::from_ref(element) as i64;
    uop.flags = uop.flags & 0xff | (offset << 8) as u32;
}

/// The element descriptor of a load micro-op.
#[inline(always)]
pub(crate) fn loads(uop: &Uop) -> &'static LoadElement {
    // SAFETY: the format's `compile` stored a pointer to a static descriptor of this type in `imm`.
    unsafe { &*(uop.imm as *const LoadElement) }
}

/// The element descriptor of a store micro-op.
#[inline(always)]
pub(crate) fn stores(uop: &Uop) -> &'static StoreElement {
    // SAFETY: the format's `compile` stored a pointer to a static descriptor of this type in `imm`.
    unsafe { &*(uop.imm as *const StoreElement) }
}

/// Checked load from host memory.
#[inline(always)]
pub(crate) fn load_global(wave: &mut Wave, uop: &Uop, addresses: &mut Addresses, exec: u64) -> Flow {
    addresses.fill_inactive(exec);
    let element = loads(uop);
    if !check(wave, uop, addresses, exec, element.bytes, false) {
        return Flow::Fault;
    }
    // SAFETY: all addresses were checked; destination registers were checked at compile time.
    unsafe { (element.run)(vector_mut(wave, uop.dst), addresses, exec, 4) };
    Flow::Next
}

/// Checked store to host memory.
#[inline(always)]
pub(crate) fn store_global(wave: &mut Wave, uop: &Uop, addresses: &mut Addresses, exec: u64) -> Flow {
    addresses.fill_inactive(exec);
    let element = stores(uop);
    if !check(wave, uop, addresses, exec, element.bytes, true) {
        return Flow::Fault;
    }
    // SAFETY: all addresses were checked; source registers were checked at compile time.
    unsafe { (element.run)(vector(wave, uop.src[1].index), addresses, exec, 4) };
    Flow::Next
}

/// Sets the destination of the out-of-range lanes in `outside` as if zeros had been loaded.
#[cold]
#[inline(never)]
pub(crate) fn load_zero(wave: &mut Wave, element: &LoadElement, dst: u16, outside: u64) {
    let zero = [0u8; 4];
    for register in 0..element.registers {
        // SAFETY: destination registers were checked at compile time.
        let to = unsafe { &mut (*vector_mut(wave, dst + register as u16)).0 };
        for (_, to) in to.iter_mut().enumerate().filter(|(lane, _)| outside >> lane & 1 != 0) {
            // SAFETY: `zero` has four readable bytes.
            *to = unsafe { (element.one)(*to, zero.as_ptr()) };
        }
    }
}

/// Loads from LDS; the lanes of `wanted` that are not in `within` read zero.
#[inline(always)]
pub(crate) fn load_local(
    wave: &mut Wave,
    element: &LoadElement,
    dst: u16,
    addresses: &Addresses,
    wanted: u64,
    within: u64,
) {
    if wanted != within {
        load_zero(wave, element, dst, wanted & !within);
    }
    if within != 0 {
        // SAFETY: destination registers were checked at compile time; the caller checked the addresses of the `within` lanes.
        unsafe { (element.run)(vector_mut(wave, dst), addresses, within, 4) };
    }
}

/// Stores to LDS from `src`; lanes that are not in `within` are dropped.
#[inline(always)]
pub(crate) fn store_local(wave: &Wave, element: &StoreElement, src: u16, addresses: &Addresses, within: u64) {
    if within != 0 {
        // SAFETY: the lanes are within LDS; registers were checked at compile time.
        unsafe { (element.run)(vector(wave, src), addresses, within, 4) };
    }
}
