//! Atomic read-modify-write operations: the arithmetic, and its lane-by-lane application to host memory or LDS.
//!
//! Lanes are processed in ascending order. Host memory is updated with the CPU's atomic instructions, sequentially consistent,
//! which is stronger than any scope bit requires. LDS is accessed by only one thread and needs no atomic instructions.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use half::{bf16, f16};

use crate::exec::access::addresses::Addresses;
use crate::exec::access::checked::{vector, vector_mut};
use crate::exec::access::element::blend;
use crate::fault::FaultKind;
use crate::{Flow, Uop, Wave};

/// The integer type that an atomic updates.
pub(crate) trait Word: Copy + PartialEq + 'static {
    const REGISTERS: usize;
    fn from_registers(low: u32, high: u32) -> Self;
    fn registers(self) -> [u32; 2];
    /// # Safety
    /// `at` must be aligned and valid for reads and writes.
    unsafe fn update(at: *mut u8, change: impl Fn(Self) -> Self) -> Self;
}

impl Word for u32 {
    const REGISTERS: usize = 1;
    #[inline(always)]
    fn from_registers(low: u32, _high: u32) -> u32 {
        low
    }
    #[inline(always)]
    fn registers(self) -> [u32; 2] {
        [self, 0]
    }
    #[inline(always)]
    unsafe fn update(at: *mut u8, change: impl Fn(u32) -> u32) -> u32 {
        // SAFETY: guaranteed by the caller.
        let cell = unsafe { AtomicU32::from_ptr(at.cast()) };
        let mut old = cell.load(Ordering::SeqCst);
        loop {
            match cell.compare_exchange_weak(old, change(old), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }
}

impl Word for u64 {
    const REGISTERS: usize = 2;
    #[inline(always)]
    fn from_registers(low: u32, high: u32) -> u64 {
        u64::from(low) | u64::from(high) << 32
    }
    #[inline(always)]
    fn registers(self) -> [u32; 2] {
        [self as u32, (self >> 32) as u32]
    }
    #[inline(always)]
    unsafe fn update(at: *mut u8, change: impl Fn(u64) -> u64) -> u64 {
        // SAFETY: guaranteed by the caller.
        let cell = unsafe { AtomicU64::from_ptr(at.cast()) };
        let mut old = cell.load(Ordering::SeqCst);
        loop {
            match cell.compare_exchange_weak(old, change(old), Ordering::SeqCst, Ordering::SeqCst) {
                Ok(old) => return old,
                Err(now) => old = now,
            }
        }
    }
}

/// An atomic operation. `data` is the operand, `extra` the second operand of compare-and-swap (the compare value) and masked or.
pub(crate) trait Operation: 'static {
    type Word: Word;
    /// The operation has a second operand.
    const PAIR: bool = false;
    fn apply(old: Self::Word, data: Self::Word, extra: Self::Word) -> Self::Word;
}

macro_rules! operations {
    ($($name:ident $word:ident |$old:ident, $data:ident| $new:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(crate) struct $name;
            impl Operation for $name {
                type Word = $word;
                #[inline(always)]
                fn apply($old: $word, $data: $word, _: $word) -> $word {
                    $new
                }
            }
        )*
    };
}

macro_rules! pair_operations {
    ($($name:ident $word:ident |$old:ident, $data:ident, $extra:ident| $new:expr;)*) => {
        $(
            #[derive(Debug)]
            pub(crate) struct $name;
            impl Operation for $name {
                type Word = $word;
                const PAIR: bool = true;
                #[inline(always)]
                fn apply($old: $word, $data: $word, $extra: $word) -> $word {
                    $new
                }
            }
        )*
    };
}

fn f(bits: u32) -> f32 {
    f32::from_bits(bits)
}

fn d(bits: u64) -> f64 {
    f64::from_bits(bits)
}

/// Minimum or maximum; a number is preferred over a NaN.
macro_rules! choose {
    ($old:ident, $data:ident, $as:ident, $cmp:tt) => {
        if $as($data) $cmp $as($old) || $as($old).is_nan() { $data } else { $old }
    };
}

fn pack_f16(old: u32, data: u32) -> u32 {
    let half = |shift: u32| {
        let sum =
            f16::from_bits((old >> shift) as u16).to_f32() + f16::from_bits((data >> shift) as u16).to_f32();
        u32::from(f16::from_f32(sum).to_bits()) << shift
    };
    half(0) | half(16)
}

fn pack_bf16(old: u32, data: u32) -> u32 {
    let half = |shift: u32| {
        let sum = bf16::from_bits((old >> shift) as u16).to_f32()
            + bf16::from_bits((data >> shift) as u16).to_f32();
        u32::from(bf16::from_f32(sum).to_bits()) << shift
    };
    half(0) | half(16)
}

operations! {
    Swap u32 |_old, data| data;
    Add u32 |old, data| old.wrapping_add(data);
    Sub u32 |old, data| old.wrapping_sub(data);
    ReverseSub u32 |old, data| data.wrapping_sub(old);
    SignedMin u32 |old, data| (old as i32).min(data as i32) as u32;
    UnsignedMin u32 |old, data| old.min(data);
    SignedMax u32 |old, data| (old as i32).max(data as i32) as u32;
    UnsignedMax u32 |old, data| old.max(data);
    And u32 |old, data| old & data;
    Or u32 |old, data| old | data;
    Xor u32 |old, data| old ^ data;
    Inc u32 |old, data| if old >= data { 0 } else { old + 1 };
    Dec u32 |old, data| if old == 0 || old > data { data } else { old - 1 };
    AddF32 u32 |old, data| (f(old) + f(data)).to_bits();
    MinF32 u32 |old, data| choose!(old, data, f, <);
    MaxF32 u32 |old, data| choose!(old, data, f, >);
    PackedAddF16 u32 |old, data| pack_f16(old, data);
    PackedAddBf16 u32 |old, data| pack_bf16(old, data);
    SwapX2 u64 |_old, data| data;
    AddX2 u64 |old, data| old.wrapping_add(data);
    SubX2 u64 |old, data| old.wrapping_sub(data);
    ReverseSubX2 u64 |old, data| data.wrapping_sub(old);
    SignedMinX2 u64 |old, data| (old as i64).min(data as i64) as u64;
    UnsignedMinX2 u64 |old, data| old.min(data);
    SignedMaxX2 u64 |old, data| (old as i64).max(data as i64) as u64;
    UnsignedMaxX2 u64 |old, data| old.max(data);
    AndX2 u64 |old, data| old & data;
    OrX2 u64 |old, data| old | data;
    XorX2 u64 |old, data| old ^ data;
    IncX2 u64 |old, data| if old >= data { 0 } else { old + 1 };
    DecX2 u64 |old, data| if old == 0 || old > data { data } else { old - 1 };
    AddF64 u64 |old, data| (d(old) + d(data)).to_bits();
    MinF64 u64 |old, data| choose!(old, data, d, <);
    MaxF64 u64 |old, data| choose!(old, data, d, >);
    // Exchanges each dword separately, only if its bit 31 is set in the data; stores the lower 31 bits.
    ConditionalExchange32 u64 |old, data| {
        let low = if data >> 31 & 1 != 0 { data & 0x7fff_ffff } else { old & 0xffff_ffff };
        let high = if data >> 63 & 1 != 0 { data >> 32 & 0x7fff_ffff } else { old >> 32 };
        low | high << 32
    };
}

pair_operations! {
    CompareSwap u32 |old, data, extra| if old == extra { data } else { old };
    CompareSwapX2 u64 |old, data, extra| if old == extra { data } else { old };
    CompareSwapF32 u32 |old, data, extra| if f(old) == f(extra) { data } else { old };
    CompareSwapF64 u64 |old, data, extra| if d(old) == d(extra) { data } else { old };
    // `extra` is the mask of bits to clear.
    MaskedOr u32 |old, data, extra| old & !extra | data;
    MaskedOrX2 u64 |old, data, extra| old & !extra | data;
    Wrap u32 |old, data, extra| if old >= data { old - data } else { old.wrapping_add(extra) };
}

/// Operand registers of an atomic. The second operand directly follows the data (memory) or is a separate operand (DS).
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operands {
    pub data: u16,
    pub extra: u16,
    /// Destination of the old values, if the instruction returns them.
    pub result: Option<u16>,
}

#[inline(always)]
unsafe fn word<W: Word>(wave: &Wave, register: u16, lane: usize) -> W {
    // SAFETY: registers were checked at compile time.
    unsafe {
        let low = (*vector(wave, register)).0[lane];
        let high = if W::REGISTERS == 2 { (*vector(wave, register + 1)).0[lane] } else { 0 };
        W::from_registers(low, high)
    }
}

#[inline(always)]
unsafe fn put<W: Word>(wave: &mut Wave, register: u16, lane: usize, value: W) {
    let dwords = value.registers();
    // SAFETY: registers were checked at compile time.
    unsafe {
        (*vector_mut(wave, register)).0[lane] = dwords[0];
        if W::REGISTERS == 2 {
            (*vector_mut(wave, register + 1)).0[lane] = dwords[1];
        }
    }
}

/// Applies an operation to host memory whose addresses were checked for writing.
///
/// # Safety
/// Every active lane's address must be valid for reads and writes of the operation's word.
unsafe fn apply_global<O: Operation>(
    wave: &mut Wave,
    addresses: &Addresses,
    exec: u64,
    operands: Operands,
) -> Flow {
    let size = 4 * O::Word::REGISTERS as u64;
    let mut lanes = exec;
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        let address = addresses.0[lane];
        if !address.is_multiple_of(size) {
            wave.fault = Some((FaultKind::Misaligned { address }, Some(lane as u8)));
            return Flow::Fault;
        }
        // SAFETY: the address is aligned, and valid by the caller's guarantee; registers were checked at compile time.
        unsafe {
            let data: O::Word = word(wave, operands.data, lane);
            let extra: O::Word = if O::PAIR { word(wave, operands.extra, lane) } else { data };
            let old = O::Word::update(address as *mut u8, |old| O::apply(old, data, extra));
            if let Some(result) = operands.result {
                put(wave, result, lane, old);
            }
        }
    }
    Flow::Next
}

/// Applies an operation to LDS.
///
/// # Safety
/// Every active lane's address must be valid for reads and writes of the operation's word, and no other thread may access it.
unsafe fn apply_local<O: Operation>(wave: &mut Wave, addresses: &Addresses, exec: u64, operands: Operands) {
    let mut lanes = exec;
    while lanes != 0 {
        let lane = lanes.trailing_zeros() as usize;
        lanes &= lanes - 1;
        let at = addresses.0[lane] as *mut O::Word;
        // SAFETY: guaranteed by the caller; registers were checked at compile time.
        unsafe {
            let data: O::Word = word(wave, operands.data, lane);
            let extra: O::Word = if O::PAIR { word(wave, operands.extra, lane) } else { data };
            let old = at.read_unaligned();
            at.write_unaligned(O::apply(old, data, extra));
            if let Some(result) = operands.result {
                put(wave, result, lane, old);
            }
        }
    }
}

/// Applies an operation to one word and returns the old value.
///
/// # Safety
/// `at` must be aligned and valid for reads and writes of the operation's word.
unsafe fn apply_one<O: Operation>(at: *mut u8, data: u64, extra: u64) -> u64 {
    let word = |value: u64| O::Word::from_registers(value as u32, (value >> 32) as u32);
    let (data, extra) = (word(data), word(extra));
    // SAFETY: guaranteed by the caller.
    let [low, high] = unsafe { O::Word::update(at, |old| O::apply(old, data, extra)) }.registers();
    u64::from(low) | u64::from(high) << 32
}

/// Descriptor of an atomic operation; the micro-op's `imm` points to it.
#[derive(Debug)]
pub(crate) struct AtomicElement {
    /// Number of registers of one operand.
    pub registers: usize,
    /// The operation has a second operand.
    pub pair: bool,
    /// Applies the operation to host memory whose addresses were checked for writing.
    pub global: unsafe fn(&mut Wave, &Addresses, u64, Operands) -> Flow,
    /// Applies the operation to LDS.
    pub local: unsafe fn(&mut Wave, &Addresses, u64, Operands),
    /// Applies the operation to one aligned word.
    pub one: unsafe fn(*mut u8, u64, u64) -> u64,
}

struct Elements<O>(std::marker::PhantomData<O>);

impl<O: Operation> Elements<O> {
    const ATOMIC: AtomicElement = AtomicElement {
        registers: O::Word::REGISTERS,
        pair: O::PAIR,
        global: apply_global::<O>,
        local: apply_local::<O>,
        one: apply_one::<O>,
    };
}

/// The descriptor of an operation.
pub(crate) fn atomic_element<O: Operation>() -> &'static AtomicElement {
    &Elements::<O>::ATOMIC
}

/// The descriptor of an atomic micro-op.
#[inline(always)]
pub(crate) fn atomics(uop: &Uop) -> &'static AtomicElement {
    // SAFETY: the format's `compile` stored a pointer to a static descriptor of this type in `imm`.
    unsafe { &*(uop.imm as *const AtomicElement) }
}

/// Operands of a memory (not DS) atomic: data, then compare value, in consecutive registers.
#[inline(always)]
pub(crate) fn memory_operands(uop: &Uop, returns: bool) -> Operands {
    let data = uop.src[1].index;
    Operands { data, extra: data + atomics(uop).registers as u16, result: returns.then_some(uop.dst) }
}

/// Writes zero as the old value of the out-of-range lanes in `outside`, which do not update memory.
#[inline(always)]
pub(crate) fn zero_results(wave: &mut Wave, element: &AtomicElement, operands: Operands, outside: u64) {
    if let Some(result) = operands.result
        && outside != 0
    {
        for register in 0..element.registers as u16 {
            // SAFETY: destination registers were checked at compile time.
            blend(outside, &[0; 64], unsafe { &mut (*vector_mut(wave, result + register)).0 });
        }
    }
}

/// Looks up a memory atomic by its mnemonic suffix (`global_atomic_<suffix>`).
pub(crate) fn atomic_by_suffix(suffix: &str) -> Option<&'static AtomicElement> {
    Some(match suffix {
        "swap" => atomic_element::<Swap>(),
        "cmpswap" => atomic_element::<CompareSwap>(),
        "add" => atomic_element::<Add>(),
        "sub" => atomic_element::<Sub>(),
        "smin" => atomic_element::<SignedMin>(),
        "umin" => atomic_element::<UnsignedMin>(),
        "smax" => atomic_element::<SignedMax>(),
        "umax" => atomic_element::<UnsignedMax>(),
        "and" => atomic_element::<And>(),
        "or" => atomic_element::<Or>(),
        "xor" => atomic_element::<Xor>(),
        "inc" => atomic_element::<Inc>(),
        "dec" => atomic_element::<Dec>(),
        "add_f32" => atomic_element::<AddF32>(),
        "pk_add_f16" => atomic_element::<PackedAddF16>(),
        "pk_add_bf16" => atomic_element::<PackedAddBf16>(),
        "swap_x2" => atomic_element::<SwapX2>(),
        "cmpswap_x2" => atomic_element::<CompareSwapX2>(),
        "add_x2" => atomic_element::<AddX2>(),
        "sub_x2" => atomic_element::<SubX2>(),
        "smin_x2" => atomic_element::<SignedMinX2>(),
        "umin_x2" => atomic_element::<UnsignedMinX2>(),
        "smax_x2" => atomic_element::<SignedMaxX2>(),
        "umax_x2" => atomic_element::<UnsignedMaxX2>(),
        "and_x2" => atomic_element::<AndX2>(),
        "or_x2" => atomic_element::<OrX2>(),
        "xor_x2" => atomic_element::<XorX2>(),
        "inc_x2" => atomic_element::<IncX2>(),
        "dec_x2" => atomic_element::<DecX2>(),
        "add_f64" => atomic_element::<AddF64>(),
        "min_f64" => atomic_element::<MinF64>(),
        "max_f64" => atomic_element::<MaxF64>(),
        _ => return None,
    })
}
