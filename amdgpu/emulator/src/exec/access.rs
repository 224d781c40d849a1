//! What all memory instructions share: range checks, and moving values between lanes and host memory.
//!
//! An instruction first computes one host address per lane. Lanes that are not active repeat the first active lane's address, so
//! that checks and loads need no mask; only results do. Then whole waves, rows of 16 lanes and uniform addresses take fast paths.

use crate::fault::FaultKind;
use crate::memory::{Range, RangeCache};
use crate::{Flow, Lanes, Uop, Wave};

/// One host address per lane.
#[derive(Clone, Copy)]
#[repr(C, align(64))]
pub(super) struct Addresses(pub [u64; 64]);

impl Addresses {
    /// Gives inactive lanes the address of the first active one. `exec` must not be zero.
    #[inline(always)]
    pub fn fill_inactive(&mut self, exec: u64) {
        if exec != !0 {
            let first = self.0[exec.trailing_zeros() as usize & 63];
            for (lane, address) in self.0.iter_mut().enumerate() {
                *address = if exec >> lane & 1 != 0 { *address } else { first };
            }
        }
    }

    #[inline(always)]
    pub fn bounds(&self) -> (u64, u64) {
        let (mut low, mut high) = (u64::MAX, 0);
        for address in &self.0 {
            low = low.min(*address);
            high = high.max(*address);
        }
        (low, high)
    }

    /// Whether lane `i` is `step * i` past lane 0, for all lanes.
    #[inline(always)]
    fn is_unit(&self, step: u64) -> bool {
        let first = self.0[0];
        let mut off = 0;
        for (lane, address) in self.0.iter().enumerate() {
            off |= *address ^ first.wrapping_add(step * lane as u64);
        }
        off == 0
    }
}

/// Pointer to vector register `index`, which the compiler bounds-checked.
#[inline(always)]
pub(super) fn vector(wave: &Wave, index: u16) -> *const Lanes {
    debug_assert!(usize::from(index) < wave.vgprs.len());
    wave.vgprs.as_ptr().wrapping_add(usize::from(index))
}

#[inline(always)]
pub(super) fn vector_mut(wave: &mut Wave, index: u16) -> *mut Lanes {
    debug_assert!(usize::from(index) < wave.vgprs.len());
    wave.vgprs.as_mut_ptr().wrapping_add(usize::from(index))
}

/// Whether the wave may touch every address from `low` to `high + bytes`, going by the range its last access here hit.
#[inline(always)]
pub(super) fn cached(wave: &Wave, uop: &Uop, low: u64, high: u64, bytes: u64, write: bool) -> bool {
    let entry = &wave.ranges.entries[uop.inst as usize % RangeCache::SIZE];
    // `high` of a cached hit is far below the top, so this cannot wrap into the range.
    entry.covers(low, high.wrapping_add(bytes), write) && low <= high.wrapping_add(bytes)
}

/// Checks `bytes` at each active lane's address; on failure sets the wave's fault.
#[inline(always)]
pub(super) fn check(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64, bytes: u64, write: bool) -> bool {
    let (low, high) = addresses.bounds();
    cached(wave, uop, low, high, bytes, write) || check_lanes(wave, uop, addresses, exec, bytes, write)
}

/// The range that contains `address` for this wave: private memory, the dispatch's own buffers, or the table.
fn find(wave: &Wave, address: u64) -> Option<Range> {
    let private = wave.private as u64;
    let private_bytes = u64::from(wave.private_size) * 64;
    if address.wrapping_sub(private) < private_bytes {
        return Some(Range {
            start: private,
            end: private + private_bytes,
            access: crate::memory::Access::ReadWrite,
        });
    }
    // SAFETY: surroundings are null or those of the running workgroup.
    unsafe { wave.surroundings.as_ref() }?.find(address)
}

#[cold]
#[inline(never)]
fn check_lanes(wave: &mut Wave, uop: &Uop, addresses: &Addresses, exec: u64, bytes: u64, write: bool) -> bool {
    let (low, high) = addresses.bounds();
    let slot = uop.inst as usize % RangeCache::SIZE;
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
                // Two allocations may touch; an access across the seam is as good as one within.
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
pub(super) fn check_scalar(wave: &mut Wave, uop: &Uop, address: u64, bytes: u64, write: bool) -> bool {
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
            wave.ranges.entries[uop.inst as usize % RangeCache::SIZE] = range;
            true
        }
        _ => {
            wave.fault = Some((FaultKind::IllegalAddress { address, write }, None));
            false
        }
    }
}

/// A load: how one element becomes register values.
pub(super) trait Load: 'static {
    const BYTES: u64;
    /// Registers written.
    const REGISTERS: usize;
    /// Whether the element is whole dwords, copied as they are.
    const WHOLE: bool = false;
    /// # Safety
    /// `BYTES` must be readable at `from` (for elements under a dword).
    unsafe fn fetch(from: *const u8) -> u32;
    /// The register's new value.
    #[inline(always)]
    fn merge(_old: u32, new: u32) -> u32 {
        new
    }
}

/// A store: how a register value becomes an element.
pub(super) trait Store: 'static {
    const BYTES: u64;
    const REGISTERS: usize;
    const WHOLE: bool = false;
    /// # Safety
    /// `BYTES` must be writable at `to` (for elements under a dword).
    unsafe fn put(to: *mut u8, value: u32);
}

macro_rules! small_loads {
    ($($name:ident $bytes:literal |$p:ident| $fetch:expr, |$old:ident, $new:ident| $merge:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(super) struct $name;
            impl Load for $name {
                const BYTES: u64 = $bytes;
                const REGISTERS: usize = 1;
                #[inline(always)]
                unsafe fn fetch($p: *const u8) -> u32 {
                    // SAFETY: promised by the caller.
                    unsafe { $fetch }
                }
                #[inline(always)]
                fn merge($old: u32, $new: u32) -> u32 {
                    $merge
                }
            }
        )*
    };
}

small_loads! {
    U8 1 |p| u32::from(*p), |_old, new| new;
    I8 1 |p| *p as i8 as u32, |_old, new| new;
    U16 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |_old, new| new;
    I16 2 |p| p.cast::<i16>().read_unaligned() as u32, |_old, new| new;
    U8D16 1 |p| u32::from(*p), |old, new| old & 0xffff_0000 | new;
    I8D16 1 |p| u32::from(*p as i8 as u16), |old, new| old & 0xffff_0000 | new;
    B16D16 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |old, new| old & 0xffff_0000 | new;
    U8D16Hi 1 |p| u32::from(*p), |old, new| old & 0xffff | new << 16;
    I8D16Hi 1 |p| u32::from(*p as i8 as u16), |old, new| old & 0xffff | new << 16;
    B16D16Hi 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |old, new| old & 0xffff | new << 16;
}

macro_rules! small_stores {
    ($($name:ident $bytes:literal |$p:ident, $v:ident| $put:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(super) struct $name;
            impl Store for $name {
                const BYTES: u64 = $bytes;
                const REGISTERS: usize = 1;
                #[inline(always)]
                unsafe fn put($p: *mut u8, $v: u32) {
                    // SAFETY: promised by the caller.
                    unsafe { $put }
                }
            }
        )*
    };
}

small_stores! {
    Byte 1 |p, v| *p = v as u8;
    ByteHi 1 |p, v| *p = (v >> 16) as u8;
    Short 2 |p, v| p.cast::<u16>().write_unaligned(v as u16);
    ShortHi 2 |p, v| p.cast::<u16>().write_unaligned((v >> 16) as u16);
}

macro_rules! whole {
    ($($name:ident $registers:literal)*) => {
        $(
            #[derive(Debug)]
            pub(super) struct $name;
            impl Load for $name {
                const BYTES: u64 = 4 * $registers;
                const REGISTERS: usize = $registers;
                const WHOLE: bool = true;
                #[inline(always)]
                unsafe fn fetch(from: *const u8) -> u32 {
                    // SAFETY: promised by the caller.
                    unsafe { from.cast::<u32>().read_unaligned() }
                }
            }
            impl Store for $name {
                const BYTES: u64 = 4 * $registers;
                const REGISTERS: usize = $registers;
                const WHOLE: bool = true;
                #[inline(always)]
                unsafe fn put(to: *mut u8, value: u32) {
                    // SAFETY: promised by the caller.
                    unsafe { to.cast::<u32>().write_unaligned(value) }
                }
            }
        )*
    };
}

whole! { B32 1 B64 2 B96 3 B128 4 }

/// Copies the active lanes of `from`.
#[inline(always)]
pub(super) fn blend(exec: u64, from: &[u32; 64], to: &mut [u32; 64]) {
    if exec == !0 {
        *to = *from;
        return;
    }
    for half in 0..2 {
        let bits = (exec >> (32 * half)) as u32;
        for lane in 0..32 {
            let take = bits >> lane & 1 != 0;
            let lane = 32 * half + lane;
            to[lane] = if take { from[lane] } else { to[lane] };
        }
    }
}

/// Loads into the active lanes of `dst` and the registers after it. `STRIDE` is the distance of an element's dwords in memory.
///
/// # Safety
/// Every address (also of inactive lanes) must be readable for `K::BYTES`; `dst` must name `K::REGISTERS` registers that are not
/// borrowed elsewhere.
#[inline(always)]
pub(super) unsafe fn load<K: Load, const STRIDE: usize>(dst: *mut Lanes, addresses: &Addresses, exec: u64) {
    let lane_step = if STRIDE == 4 { K::BYTES } else { 4 };
    // SAFETY: promised by the caller; all accesses are at the lanes' addresses, or between those of adjacent ones that touch.
    unsafe {
        if K::WHOLE && exec == !0 && addresses.is_unit(lane_step) {
            let from = addresses.0[0] as *const u8;
            if K::REGISTERS == 1 {
                (*dst).0.copy_from_slice(&from.cast::<[u32; 64]>().read_unaligned());
            } else if STRIDE != 4 {
                for register in 0..K::REGISTERS {
                    let from = from.add(register * STRIDE).cast::<[u32; 64]>();
                    (*dst.add(register)).0 = from.read_unaligned();
                }
            } else {
                let from = from.cast::<u32>();
                for register in 0..K::REGISTERS {
                    let to = &mut (*dst.add(register)).0;
                    for lane in 0..64 {
                        to[lane] = from.add(lane * K::REGISTERS + register).read_unaligned();
                    }
                }
            }
            return;
        }
        for register in 0..K::REGISTERS {
            let offset = register * STRIDE;
            let mut fetched = [0u32; 64];
            let first = addresses.0[0];
            let mut different = 0;
            for address in &addresses.0 {
                different |= *address ^ first;
            }
            if different == 0 {
                fetched = [K::fetch((first as *const u8).add(offset)); 64];
            } else if K::WHOLE && K::REGISTERS == 1 {
                for row in 0..4 {
                    let base = addresses.0[16 * row];
                    let (mut unit, mut same) = (0, 0);
                    for lane in 0..16 {
                        unit |= addresses.0[16 * row + lane] ^ base.wrapping_add(4 * lane as u64);
                        same |= addresses.0[16 * row + lane] ^ base;
                    }
                    let to = &mut fetched[16 * row..16 * row + 16];
                    if unit == 0 {
                        to.copy_from_slice(&(base as *const [u32; 16]).read_unaligned());
                    } else if same == 0 {
                        to.fill((base as *const u32).read_unaligned());
                    } else {
                        for lane in 0..16 {
                            to[lane] = (addresses.0[16 * row + lane] as *const u32).read_unaligned();
                        }
                    }
                }
            } else {
                for lane in 0..64 {
                    fetched[lane] = K::fetch((addresses.0[lane] as *const u8).add(offset));
                }
            }
            let to = &mut (*dst.add(register)).0;
            if !K::WHOLE {
                for lane in 0..64 {
                    fetched[lane] = K::merge(to[lane], fetched[lane]);
                }
            }
            blend(exec, &fetched, to);
        }
    }
}

/// Stores the active lanes of `src` and the registers after it, in ascending lane order.
///
/// # Safety
/// Every active lane's address must be writable for `K::BYTES`; `src` must name `K::REGISTERS` registers.
#[inline(always)]
pub(super) unsafe fn store<K: Store, const STRIDE: usize>(src: *const Lanes, addresses: &Addresses, exec: u64) {
    let lane_step = if STRIDE == 4 { K::BYTES } else { 4 };
    // SAFETY: promised by the caller; all accesses are at the lanes' addresses, or between those of adjacent ones that touch.
    unsafe {
        if K::WHOLE && exec == !0 && addresses.is_unit(lane_step) {
            let to = addresses.0[0] as *mut u8;
            if K::REGISTERS == 1 {
                to.cast::<[u32; 64]>().write_unaligned((*src).0);
            } else if STRIDE != 4 {
                for register in 0..K::REGISTERS {
                    let to = to.add(register * STRIDE).cast::<[u32; 64]>();
                    to.write_unaligned((*src.add(register)).0);
                }
            } else {
                let to = to.cast::<u32>();
                for lane in 0..64 {
                    for register in 0..K::REGISTERS {
                        to.add(lane * K::REGISTERS + register).write_unaligned((*src.add(register)).0[lane]);
                    }
                }
            }
            return;
        }
        if exec == !0 {
            for lane in 0..64 {
                let to = addresses.0[lane] as *mut u8;
                for register in 0..K::REGISTERS {
                    K::put(to.add(register * STRIDE), (*src.add(register)).0[lane]);
                }
            }
            return;
        }
        let mut lanes = exec;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            let to = addresses.0[lane] as *mut u8;
            for register in 0..K::REGISTERS {
                K::put(to.add(register * STRIDE), (*src.add(register)).0[lane]);
            }
        }
    }
}

/// Checked load from host memory.
#[inline(always)]
pub(super) fn load_global<K: Load>(wave: &mut Wave, uop: &Uop, addresses: &mut Addresses, exec: u64) -> Flow {
    addresses.fill_inactive(exec);
    if !check(wave, uop, addresses, exec, K::BYTES, false) {
        return Flow::Fault;
    }
    // SAFETY: all addresses were checked, and destination registers at compile time.
    unsafe { load::<K, 4>(vector_mut(wave, uop.dst), addresses, exec) };
    Flow::Next
}

/// Checked store to host memory.
#[inline(always)]
pub(super) fn store_global<K: Store>(wave: &mut Wave, uop: &Uop, addresses: &mut Addresses, exec: u64) -> Flow {
    addresses.fill_inactive(exec);
    if !check(wave, uop, addresses, exec, K::BYTES, true) {
        return Flow::Fault;
    }
    // SAFETY: all addresses were checked, and source registers at compile time.
    unsafe { store::<K, 4>(vector(wave, uop.src[1].index), addresses, exec) };
    Flow::Next
}

/// Calls a generic selector with the type of a load or store operation's suffix.
macro_rules! by_suffix {
    (load $suffix:expr, $make:ident) => {
        match $suffix {
            "ubyte" => Some($make!(U8)),
            "sbyte" => Some($make!(I8)),
            "ushort" => Some($make!(U16)),
            "sshort" => Some($make!(I16)),
            "dword" => Some($make!(B32)),
            "dwordx2" => Some($make!(B64)),
            "dwordx3" => Some($make!(B96)),
            "dwordx4" => Some($make!(B128)),
            "ubyte_d16" => Some($make!(U8D16)),
            "ubyte_d16_hi" => Some($make!(U8D16Hi)),
            "sbyte_d16" => Some($make!(I8D16)),
            "sbyte_d16_hi" => Some($make!(I8D16Hi)),
            "short_d16" => Some($make!(B16D16)),
            "short_d16_hi" => Some($make!(B16D16Hi)),
            _ => None,
        }
    };
    (store $suffix:expr, $make:ident) => {
        match $suffix {
            "byte" => Some($make!(Byte)),
            "byte_d16_hi" => Some($make!(ByteHi)),
            "short" => Some($make!(Short)),
            "short_d16_hi" => Some($make!(ShortHi)),
            "dword" => Some($make!(B32)),
            "dwordx2" => Some($make!(B64)),
            "dwordx3" => Some($make!(B96)),
            "dwordx4" => Some($make!(B128)),
            _ => None,
        }
    };
}
pub(super) use by_suffix;
