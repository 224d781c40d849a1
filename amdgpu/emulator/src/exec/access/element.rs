//! Element types of memory instructions (byte, dword, four dwords, half a register, ...): loads and stores of one element per
//! lane.
//!
//! Copies between registers and host addresses that the caller has already checked, compiled once per element type and CPU level.
//! Whole waves, rows of 16 lanes and uniform addresses take fast paths.

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::__m128i;

use crate::exec::access::addresses::Addresses;
use crate::{Lanes, Level};

/// Load of one element into registers.
pub(crate) trait Load: 'static {
    const BYTES: u64;
    /// Registers written.
    const REGISTERS: usize;
    /// The element consists of whole dwords, copied unchanged.
    const WHOLE: bool = false;
    /// # Safety
    /// `BYTES`, but at most 4, must be readable at `from`.
    unsafe fn fetch(from: *const u8) -> u32;
    /// Combines the register's old value with the loaded one.
    #[inline(always)]
    fn merge(_old: u32, new: u32) -> u32 {
        new
    }
}

/// Store of one element from registers.
pub(crate) trait Store: 'static {
    const BYTES: u64;
    const REGISTERS: usize;
    const WHOLE: bool = false;
    /// # Safety
    /// `BYTES`, but at most 4, must be writable at `to`.
    unsafe fn put(to: *mut u8, value: u32);
}

macro_rules! small_loads {
    ($($name:ident $bytes:literal |$p:ident| $fetch:expr, |$old:ident, $new:ident| $merge:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(crate) struct $name;
            impl Load for $name {
                const BYTES: u64 = $bytes;
                const REGISTERS: usize = 1;
                #[inline(always)]
                unsafe fn fetch($p: *const u8) -> u32 {
                    // SAFETY: guaranteed by the caller.
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

// These devices have SRAM ECC (`sramecc+`), so a D16 load writes the whole register and zeroes the other half. Tensile's
// kernels combine two such loads with an `or`.
small_loads! {
    U8 1 |p| u32::from(*p), |_old, new| new;
    I8 1 |p| *p as i8 as u32, |_old, new| new;
    U16 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |_old, new| new;
    I16 2 |p| p.cast::<i16>().read_unaligned() as u32, |_old, new| new;
    U8D16 1 |p| u32::from(*p), |_old, new| new;
    I8D16 1 |p| u32::from(*p as i8 as u16), |_old, new| new;
    B16D16 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |_old, new| new;
    U8D16Hi 1 |p| u32::from(*p), |_old, new| new << 16;
    I8D16Hi 1 |p| u32::from(*p as i8 as u16), |_old, new| new << 16;
    B16D16Hi 2 |p| u32::from(p.cast::<u16>().read_unaligned()), |_old, new| new << 16;
}

macro_rules! small_stores {
    ($($name:ident $bytes:literal |$p:ident, $v:ident| $put:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(crate) struct $name;
            impl Store for $name {
                const BYTES: u64 = $bytes;
                const REGISTERS: usize = 1;
                #[inline(always)]
                unsafe fn put($p: *mut u8, $v: u32) {
                    // SAFETY: guaranteed by the caller.
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
            pub(crate) struct $name;
            impl Load for $name {
                const BYTES: u64 = 4 * $registers;
                const REGISTERS: usize = $registers;
                const WHOLE: bool = true;
                #[inline(always)]
                unsafe fn fetch(from: *const u8) -> u32 {
                    // SAFETY: guaranteed by the caller.
                    unsafe { from.cast::<u32>().read_unaligned() }
                }
            }
            impl Store for $name {
                const BYTES: u64 = 4 * $registers;
                const REGISTERS: usize = $registers;
                const WHOLE: bool = true;
                #[inline(always)]
                unsafe fn put(to: *mut u8, value: u32) {
                    // SAFETY: guaranteed by the caller.
                    unsafe { to.cast::<u32>().write_unaligned(value) }
                }
            }
        )*
    };
}

whole! { B32 1 B64 2 B96 3 B128 4 }

/// Copies the active lanes of `from`.
#[inline(always)]
pub(crate) fn blend(exec: u64, from: &[u32; 64], to: &mut [u32; 64]) {
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

/// Reads a contiguous element of whole dwords. Aligned elements of 8 and 16 bytes are read in one access: a wave on another
/// thread may be writing them, and look-back scans require flag and value of one store to be seen together. The read is volatile
/// because the compiler otherwise splits it into single dwords.
///
/// # Safety
/// `K::BYTES` must be readable at `from`.
#[inline(always)]
unsafe fn read_piece<K: Load>(from: *const u8) -> [u32; 4] {
    // SAFETY: guaranteed by the caller; alignment is checked before each aligned access.
    unsafe {
        if K::REGISTERS == 2 && from.cast::<u64>().is_aligned() {
            let pair = from.cast::<u64>().read_volatile();
            return [pair as u32, (pair >> 32) as u32, 0, 0];
        }
        #[cfg(target_arch = "x86_64")]
        if K::REGISTERS == 4 && from.cast::<__m128i>().is_aligned() {
            return std::mem::transmute::<__m128i, [u32; 4]>(from.cast::<__m128i>().read_volatile());
        }
        std::array::from_fn(|register| match register < K::REGISTERS {
            true => K::fetch(from.add(4 * register)),
            false => 0,
        })
    }
}

/// Writes a contiguous element of whole dwords; like [`read_piece`], in one access if 8 or 16 bytes and aligned.
///
/// # Safety
/// `K::BYTES` must be writable at `to`.
#[inline(always)]
unsafe fn write_piece<K: Store>(to: *mut u8, value: [u32; 4]) {
    // SAFETY: guaranteed by the caller; alignment is checked before each aligned access.
    unsafe {
        if K::REGISTERS == 2 && to.cast::<u64>().is_aligned() {
            return to.cast::<u64>().write_volatile(u64::from(value[0]) | u64::from(value[1]) << 32);
        }
        #[cfg(target_arch = "x86_64")]
        if K::REGISTERS == 4 && to.cast::<__m128i>().is_aligned() {
            return to.cast::<__m128i>().write_volatile(std::mem::transmute::<[u32; 4], __m128i>(value));
        }
        (0..K::REGISTERS).for_each(|register| K::put(to.add(4 * register), value[register]));
    }
}

/// Buffer for 64 elements of up to four dwords.
#[repr(C, align(64))]
struct Row([u32; 256]);

/// Copies a row of elements without tearing aligned ones, like [`read_piece`] and [`write_piece`] for single elements.
///
/// # Safety
/// `bytes`, a multiple of 16, must be readable at `from` and writable at `to`.
#[inline(always)]
unsafe fn copy_pieces(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: guaranteed by the caller; alignment is checked before each aligned access.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        if (from as usize | to as usize) & 15 == 0 {
            for at in (0..bytes).step_by(16) {
                to.add(at).cast::<__m128i>().write_volatile(from.add(at).cast::<__m128i>().read_volatile());
            }
            return;
        }
        if (from as usize | to as usize) & 7 == 0 {
            for at in (0..bytes).step_by(8) {
                to.add(at).cast::<u64>().write_volatile(from.add(at).cast::<u64>().read_volatile());
            }
            return;
        }
        from.copy_to_nonoverlapping(to, bytes);
    }
}

/// Reads one lane's element into its registers.
///
/// # Safety
/// The element must be readable at `from`, its dwords `stride` apart; `to` must name `K::REGISTERS` registers.
#[inline(always)]
unsafe fn load_lane<K: Load>(to: *mut Lanes, lane: usize, from: *const u8, stride: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if K::WHOLE && K::REGISTERS > 1 && stride == 4 {
            let piece = read_piece::<K>(from);
            (0..K::REGISTERS).for_each(|register| (*to.add(register)).0[lane] = piece[register]);
        } else {
            for register in 0..K::REGISTERS {
                (*to.add(register)).0[lane] = K::fetch(from.add(register * stride));
            }
        }
    }
}

/// Writes one lane's element from its registers.
///
/// # Safety
/// The element must be writable at `to`, its dwords `stride` apart; `src` must name `K::REGISTERS` registers.
#[inline(always)]
unsafe fn store_lane<K: Store>(src: *const Lanes, lane: usize, to: *mut u8, stride: usize) {
    // SAFETY: guaranteed by the caller.
    unsafe {
        if K::WHOLE && K::REGISTERS > 1 && stride == 4 {
            let piece = std::array::from_fn(|register| match register < K::REGISTERS {
                true => (*src.add(register)).0[lane],
                false => 0,
            });
            write_piece::<K>(to, piece);
        } else {
            for register in 0..K::REGISTERS {
                K::put(to.add(register * stride), (*src.add(register)).0[lane]);
            }
        }
    }
}

/// Loads into the active lanes of `dst` and the registers after it. `stride` is the distance in bytes between an element's
/// dwords.
///
/// # Safety
/// Every address (also of inactive lanes) must be readable for `K::BYTES`; `dst` must name `K::REGISTERS` registers that are not
/// borrowed elsewhere.
#[inline(always)]
unsafe fn load<K: Load>(dst: *mut Lanes, addresses: &Addresses, exec: u64, stride: usize) {
    let lane_step = if stride == 4 { K::BYTES } else { 4 };
    // SAFETY: guaranteed by the caller; every access lies within the elements at the lanes' addresses, which are contiguous where
    // several lanes are copied at once.
    unsafe {
        if K::WHOLE && exec == !0 && addresses.is_unit(lane_step) {
            let from = addresses.0[0] as *const u8;
            if K::REGISTERS == 1 {
                (*dst).0.copy_from_slice(&from.cast::<[u32; 64]>().read_unaligned());
            } else if stride != 4 {
                for register in 0..K::REGISTERS {
                    let from = from.add(register * stride).cast::<[u32; 64]>();
                    (*dst.add(register)).0 = from.read_unaligned();
                }
            } else {
                let mut row = Row([0; 256]);
                copy_pieces(from, row.0.as_mut_ptr().cast(), 256 * K::REGISTERS);
                for register in 0..K::REGISTERS {
                    let to = &mut (*dst.add(register)).0;
                    for lane in 0..64 {
                        to[lane] = row.0[lane * K::REGISTERS + register];
                    }
                }
            }
            return;
        }
        // Whole dwords of a full wave are loaded directly into the registers; everything else is gathered first, then merged.
        let direct = K::WHOLE && exec == !0;
        let mut room = [Lanes::ZERO; 4];
        let to = if direct { dst } else { room.as_mut_ptr() };
        for row in 0..4 {
            let first = 16 * row;
            let base = addresses.0[first];
            let (mut unit, mut same) = (0, 0);
            for lane in 0..16 {
                let address = addresses.0[first + lane];
                unit |= address ^ base.wrapping_add(lane_step * lane as u64);
                same |= address ^ base;
            }
            if same == 0 {
                load_lane::<K>(to, first, base as *const u8, stride);
                for register in 0..K::REGISTERS {
                    let to = &mut (*to.add(register)).0;
                    let value = to[first];
                    to[first..first + 16].fill(value);
                }
            } else if K::WHOLE && unit == 0 && (K::REGISTERS == 1 || stride != 4) {
                for register in 0..K::REGISTERS {
                    let to = &mut (&mut (*to.add(register)).0)[first..first + 16];
                    for (lane, to) in to.iter_mut().enumerate() {
                        let at = lane * lane_step as usize + register * stride;
                        *to = (base as *const u8).add(at).cast::<u32>().read_unaligned();
                    }
                }
            } else {
                for lane in first..first + 16 {
                    load_lane::<K>(to, lane, addresses.0[lane] as *const u8, stride);
                }
            }
        }
        if !direct {
            for register in 0..K::REGISTERS {
                let to = &mut (*dst.add(register)).0;
                let fetched = &mut room[register].0;
                if !K::WHOLE {
                    for lane in 0..64 {
                        fetched[lane] = K::merge(to[lane], fetched[lane]);
                    }
                }
                blend(exec, fetched, to);
            }
        }
    }
}

/// Stores the active lanes of `src` and the registers after it, in ascending lane order.
///
/// # Safety
/// Every active lane's address must be writable for `K::BYTES`; `src` must name `K::REGISTERS` registers.
#[inline(always)]
unsafe fn store<K: Store>(src: *const Lanes, addresses: &Addresses, exec: u64, stride: usize) {
    let lane_step = if stride == 4 { K::BYTES } else { 4 };
    // SAFETY: guaranteed by the caller; every access lies within the elements at the lanes' addresses, which are contiguous where
    // several lanes are copied at once.
    unsafe {
        if K::WHOLE && exec == !0 && addresses.is_unit(lane_step) {
            let to = addresses.0[0] as *mut u8;
            if K::REGISTERS == 1 {
                to.cast::<[u32; 64]>().write_unaligned((*src).0);
            } else if stride != 4 {
                for register in 0..K::REGISTERS {
                    let to = to.add(register * stride).cast::<[u32; 64]>();
                    to.write_unaligned((*src.add(register)).0);
                }
            } else {
                let mut row = Row([0; 256]);
                for lane in 0..64 {
                    for register in 0..K::REGISTERS {
                        row.0[lane * K::REGISTERS + register] = (*src.add(register)).0[lane];
                    }
                }
                copy_pieces(row.0.as_ptr().cast(), to, 256 * K::REGISTERS);
            }
            return;
        }
        if exec == !0 {
            for lane in 0..64 {
                store_lane::<K>(src, lane, addresses.0[lane] as *mut u8, stride);
            }
            return;
        }
        let mut lanes = exec;
        while lanes != 0 {
            let lane = lanes.trailing_zeros() as usize;
            lanes &= lanes - 1;
            store_lane::<K>(src, lane, addresses.0[lane] as *mut u8, stride);
        }
    }
}

/// Copies one element per lane between registers and the given addresses, under EXEC. The last argument is the distance in bytes
/// between an element's dwords: 4, or 256 in private memory.
type Loader = unsafe fn(*mut Lanes, &Addresses, u64, usize);
type Storer = unsafe fn(*const Lanes, &Addresses, u64, usize);

/// Descriptor of a load, used once its addresses are known. There is one per element type and CPU level; the micro-op's `imm`
/// points to it.
#[derive(Debug)]
pub(crate) struct LoadElement {
    pub bytes: u64,
    pub registers: usize,
    /// The element consists of whole dwords, which may be copied one by one.
    pub whole: bool,
    /// Call only on a CPU that has the element's level, with readable addresses.
    pub run: Loader,
    /// Computes a register's new value from its old value and up to one dword of memory.
    pub one: unsafe fn(old: u32, from: *const u8) -> u32,
}

/// Descriptor of a store, used once its addresses are known.
#[derive(Debug)]
pub(crate) struct StoreElement {
    pub bytes: u64,
    pub registers: usize,
    pub whole: bool,
    pub run: Storer,
    pub one: unsafe fn(to: *mut u8, value: u32),
}

/// Wraps an `#[inline(always)]` function in one function per CPU level.
macro_rules! leveled {
    ($base:ident $v3:ident $v4:ident = $inner:ident <$bound:ident> ($registers:ty)) => {
        unsafe fn $base<K: $bound>(registers: $registers, addresses: &Addresses, exec: u64, stride: usize) {
            // SAFETY: same contract as the wrapped function.
            unsafe { $inner::<K>(registers, addresses, exec, stride) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(enable = "avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt")]
        unsafe fn $v3<K: $bound>(registers: $registers, addresses: &Addresses, exec: u64, stride: usize) {
            // SAFETY: same contract as the wrapped function.
            unsafe { $inner::<K>(registers, addresses, exec, stride) }
        }

        #[cfg(target_arch = "x86_64")]
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,f16c,bmi1,bmi2,lzcnt,popcnt"
        )]
        unsafe fn $v4<K: $bound>(registers: $registers, addresses: &Addresses, exec: u64, stride: usize) {
            // SAFETY: same contract as the wrapped function.
            unsafe { $inner::<K>(registers, addresses, exec, stride) }
        }
    };
}

leveled!(load_base load_v3 load_v4 = load <Load> (*mut Lanes));
leveled!(store_base store_v3 store_v4 = store <Store> (*const Lanes));

unsafe fn load_one<K: Load>(old: u32, from: *const u8) -> u32 {
    // SAFETY: guaranteed by the caller.
    K::merge(old, unsafe { K::fetch(from) })
}

struct Elements<K>(std::marker::PhantomData<K>);

impl<K: Load> Elements<K> {
    const fn load(run: Loader) -> LoadElement {
        let registers = K::REGISTERS;
        LoadElement { bytes: K::BYTES, registers, whole: K::WHOLE, run, one: load_one::<K> }
    }
    const LOAD_BASE: LoadElement = Self::load(load_base::<K>);
    #[cfg(target_arch = "x86_64")]
    const LOAD_V3: LoadElement = Self::load(load_v3::<K>);
    #[cfg(target_arch = "x86_64")]
    const LOAD_V4: LoadElement = Self::load(load_v4::<K>);
}

impl<K: Store> Elements<K> {
    const fn store(run: Storer) -> StoreElement {
        let registers = K::REGISTERS;
        StoreElement { bytes: K::BYTES, registers, whole: K::WHOLE, run, one: K::put }
    }
    const STORE_BASE: StoreElement = Self::store(store_base::<K>);
    #[cfg(target_arch = "x86_64")]
    const STORE_V3: StoreElement = Self::store(store_v3::<K>);
    #[cfg(target_arch = "x86_64")]
    const STORE_V4: StoreElement = Self::store(store_v4::<K>);
}

/// The load descriptor of element type `K` at a CPU level.
pub(crate) fn load_element<K: Load>(level: Level) -> &'static LoadElement {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V4 => &Elements::<K>::LOAD_V4,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => &Elements::<K>::LOAD_V3,
        _ => &Elements::<K>::LOAD_BASE,
    }
}

/// The store descriptor of element type `K` at a CPU level.
pub(crate) fn store_element<K: Store>(level: Level) -> &'static StoreElement {
    match level {
        #[cfg(target_arch = "x86_64")]
        Level::V4 => &Elements::<K>::STORE_V4,
        #[cfg(target_arch = "x86_64")]
        Level::V3 => &Elements::<K>::STORE_V3,
        _ => &Elements::<K>::STORE_BASE,
    }
}

/// The load descriptor for a mnemonic suffix such as `dwordx2` or `ubyte_d16_hi`.
pub(crate) fn load_by_suffix(suffix: &str, level: Level) -> Option<&'static LoadElement> {
    Some(match suffix {
        "ubyte" | "u8" => load_element::<U8>(level),
        "sbyte" | "i8" => load_element::<I8>(level),
        "ushort" | "u16" => load_element::<U16>(level),
        "sshort" | "i16" => load_element::<I16>(level),
        "dword" | "b32" => load_element::<B32>(level),
        "dwordx2" | "b64" => load_element::<B64>(level),
        "dwordx3" | "b96" => load_element::<B96>(level),
        "dwordx4" | "b128" => load_element::<B128>(level),
        "ubyte_d16" | "u8_d16" => load_element::<U8D16>(level),
        "ubyte_d16_hi" | "u8_d16_hi" => load_element::<U8D16Hi>(level),
        "sbyte_d16" | "i8_d16" => load_element::<I8D16>(level),
        "sbyte_d16_hi" | "i8_d16_hi" => load_element::<I8D16Hi>(level),
        "short_d16" | "u16_d16" => load_element::<B16D16>(level),
        "short_d16_hi" | "u16_d16_hi" => load_element::<B16D16Hi>(level),
        _ => return None,
    })
}

/// The store descriptor for a mnemonic suffix.
pub(crate) fn store_by_suffix(suffix: &str, level: Level) -> Option<&'static StoreElement> {
    Some(match suffix {
        "byte" | "b8" => store_element::<Byte>(level),
        "byte_d16_hi" | "b8_d16_hi" => store_element::<ByteHi>(level),
        "short" | "b16" => store_element::<Short>(level),
        "short_d16_hi" | "b16_d16_hi" => store_element::<ShortHi>(level),
        "dword" | "b32" => store_element::<B32>(level),
        "dwordx2" | "b64" => store_element::<B64>(level),
        "dwordx3" | "b96" => store_element::<B96>(level),
        "dwordx4" | "b128" => store_element::<B128>(level),
        _ => return None,
    })
}
