//! MUBUF: vector memory through buffer resources, with swizzled addressing and per-dword range checks.
//!
//! Elements out of the buffer's range read as zero and are not written; within it, addresses are checked like any other. Typed
//! (format) accesses are not executed.

use std::marker::PhantomData;

use isa::{Inst, Operand};

use super::access::{self, *};
use super::atomic::{self, *};
use super::flat::to_local;
use super::scalar;
use crate::compile::{Compiler, Type, Unsupported};
use crate::{Body, Flow, Handler, Level, Src, SrcKind, Uop, Wave, handler};

/// `Uop::flags`.
const OFFEN: u32 = 1;
const IDXEN: u32 = 2;
const RETURNS: u32 = 4;

/// A decoded buffer resource.
struct Resource {
    base: u64,
    stride: u32,
    records: u32,
    swizzle: bool,
    index_stride: u32,
    add_tid: bool,
}

impl Resource {
    #[inline(always)]
    fn read(wave: &Wave, index: u16) -> Resource {
        let words = &wave.sgprs[usize::from(index)..usize::from(index) + 4];
        let add_tid = words[3] >> 23 & 1 != 0;
        Resource {
            base: u64::from(words[0]) | u64::from(words[1] & 0xffff) << 32,
            // With thread ids added, the data format holds the stride's upper bits.
            stride: (words[1] >> 16 & 0x3fff) | if add_tid { (words[3] >> 15 & 15) << 14 } else { 0 },
            records: words[2],
            swizzle: words[1] >> 31 != 0,
            index_stride: 8 << (words[3] >> 21 & 3),
            add_tid,
        }
    }
}

/// Where each lane's element is, and which lanes' dwords are in range.
struct Placed {
    addresses: Addresses,
    /// Active lanes whose first dword (or smaller element) is in range; `within[k]` for the dwords after it.
    within: [u64; 4],
    /// Distance of an element's dwords in memory.
    stride: usize,
}

#[inline(always)]
fn place(wave: &Wave, uop: &Uop, exec: u64, bytes: u32) -> Placed {
    const ELEMENT: u32 = 4;
    let resource = Resource::read(wave, uop.src[2].index);
    let soffset = scalar::dword(wave, &uop.src[3], 0);
    let mut vaddr = uop.src[0].index;
    let mut indices = [0u32; 64];
    let mut offsets = [uop.imm as u32; 64];
    // SAFETY: address registers were checked at compile time.
    unsafe {
        if uop.flags & IDXEN != 0 {
            indices = (*vector(wave, vaddr)).0;
            vaddr += 1;
        }
        if uop.flags & OFFEN != 0 {
            for lane in 0..64 {
                offsets[lane] = offsets[lane].wrapping_add((*vector(wave, vaddr)).0[lane]);
            }
        }
    }
    if resource.add_tid {
        for lane in 0..64 {
            indices[lane] = indices[lane].wrapping_add(lane as u32);
        }
    }
    let base = resource.base.wrapping_add(u64::from(soffset));
    let mut addresses = Addresses([0; 64]);
    let mut within = [exec; 4];
    let small = bytes.min(4);
    if resource.swizzle {
        for lane in 0..64 {
            let (index, offset) = (indices[lane], offsets[lane]);
            let (index_high, index_low) = (index / resource.index_stride, index % resource.index_stride);
            let at = (u64::from(index_high) * u64::from(resource.stride)
                + u64::from(offset / ELEMENT) * u64::from(ELEMENT))
                * u64::from(resource.index_stride)
                + u64::from(index_low * ELEMENT)
                + u64::from(offset % ELEMENT);
            addresses.0[lane] = base.wrapping_add(at);
        }
        if resource.stride != 0 {
            // A structured buffer is checked by index.
            let mut inside = 0;
            for lane in 0..64 {
                inside |= u64::from(indices[lane] < resource.records) << lane;
            }
            within = within.map(|lanes| lanes & inside);
        }
        let stride = (ELEMENT * resource.index_stride) as usize;
        return Placed { addresses, within, stride };
    }
    let structured = resource.stride != 0 && (uop.flags & IDXEN != 0 || resource.add_tid);
    let mut highest = 0u64;
    for lane in 0..64 {
        let at = u64::from(offsets[lane]) + u64::from(indices[lane]) * u64::from(resource.stride);
        addresses.0[lane] = base.wrapping_add(at);
        // What the range check looks at: the index of a structured buffer, the byte of a raw one.
        let checked = if structured { u64::from(indices[lane]) } else { at + u64::from(soffset) };
        highest = highest.max(if exec >> lane & 1 != 0 { checked } else { 0 });
    }
    let records = u64::from(resource.records);
    let past = if structured { 1 } else { u64::from(bytes) };
    if highest + past > records {
        for (k, within) in within.iter_mut().enumerate() {
            let mut inside = 0;
            for lane in 0..64 {
                let fits = if structured {
                    u64::from(indices[lane]) < records
                } else {
                    addresses.0[lane].wrapping_sub(resource.base) + 4 * k as u64 + u64::from(small) <= records
                };
                inside |= u64::from(fits) << lane;
            }
            *within &= inside;
        }
    }
    Placed { addresses, within, stride: 4 }
}

struct BufferLoad<K>(PhantomData<K>);
impl<K: Load> Body for BufferLoad<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut placed = place(wave, uop, exec, K::BYTES as u32);
        let last = placed.within[K::REGISTERS - 1];
        if placed.stride == 4 && last == exec {
            return load_global::<K>(wave, uop, &mut placed.addresses, exec);
        }
        partial_load::<K>(wave, uop, &placed, exec)
    }
}

/// Dword by dword: swizzled elements, and buffers that end inside an element.
#[inline(never)]
fn partial_load<K: Load>(wave: &mut Wave, uop: &Uop, placed: &Placed, exec: u64) -> Flow {
    for register in 0..K::REGISTERS {
        let within = placed.within[register];
        let dst = vector_mut(wave, uop.dst + register as u16);
        if within != exec {
            let outside = exec & !within;
            // SAFETY: destination registers were checked at compile time.
            let to = unsafe { &mut (*dst).0 };
            for (lane, to) in to.iter_mut().enumerate() {
                *to = if outside >> lane & 1 != 0 { K::merge(*to, 0) } else { *to };
            }
        }
        if within == 0 {
            continue;
        }
        let mut addresses = placed.addresses;
        for address in &mut addresses.0 {
            *address = address.wrapping_add((register * placed.stride) as u64);
        }
        addresses.fill_inactive(within);
        let small = K::BYTES.min(4);
        if !check(wave, uop, &addresses, within, small, false) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked.
        unsafe {
            if K::WHOLE {
                access::load::<B32, 4>(dst, &addresses, within);
            } else {
                access::load::<K, 4>(dst, &addresses, within);
            }
        }
    }
    Flow::Next
}

struct BufferStore<K>(PhantomData<K>);
impl<K: Store> Body for BufferStore<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut placed = place(wave, uop, exec, K::BYTES as u32);
        let last = placed.within[K::REGISTERS - 1];
        if placed.stride == 4 && last == exec {
            return store_global::<K>(wave, uop, &mut placed.addresses, exec);
        }
        partial_store::<K>(wave, uop, &placed)
    }
}

#[inline(never)]
fn partial_store<K: Store>(wave: &mut Wave, uop: &Uop, placed: &Placed) -> Flow {
    for register in 0..K::REGISTERS {
        let within = placed.within[register];
        if within == 0 {
            continue;
        }
        let mut addresses = placed.addresses;
        for address in &mut addresses.0 {
            *address = address.wrapping_add((register * placed.stride) as u64);
        }
        addresses.fill_inactive(within);
        if !check(wave, uop, &addresses, within, K::BYTES.min(4), true) {
            return Flow::Fault;
        }
        let src = vector(wave, uop.src[1].index + register as u16);
        // SAFETY: the addresses were checked for writing.
        unsafe {
            if K::WHOLE {
                access::store::<B32, 4>(src, &addresses, within);
            } else {
                access::store::<K, 4>(src, &addresses, within);
            }
        }
    }
    Flow::Next
}

struct BufferAtomic<O>(PhantomData<O>);
impl<O: Operation> Body for BufferAtomic<O> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let bytes = 4 * O::Word::REGISTERS as u32;
        let mut placed = place(wave, uop, exec, bytes);
        let within = placed.within[O::Word::REGISTERS - 1];
        let operands = memory_operands::<O>(uop, uop.flags & RETURNS != 0);
        if let Some(result) = operands.result
            && within != exec
        {
            for register in 0..O::Word::REGISTERS as u16 {
                // SAFETY: destination registers were checked at compile time.
                blend(exec & !within, &[0; 64], unsafe { &mut (*vector_mut(wave, result + register)).0 });
            }
        }
        if within == 0 {
            return Flow::Next;
        }
        placed.addresses.fill_inactive(within);
        if !check(wave, uop, &placed.addresses, within, u64::from(bytes), true) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked for writing.
        unsafe { atomic::apply_global::<O>(wave, &placed.addresses, within, operands) }
    }
}

/// `lds` loads: elements go to local memory at M0 + immediate offset + 4 * lane.
struct BufferToLocal<K>(PhantomData<K>);
impl<K: Load> Body for BufferToLocal<K> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        let mut placed = place(wave, uop, exec, K::BYTES as u32);
        let within = placed.within[K::REGISTERS - 1];
        if within == 0 {
            return Flow::Next;
        }
        placed.addresses.fill_inactive(within);
        if !check(wave, uop, &placed.addresses, within, K::BYTES, false) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked.
        unsafe { to_local::<K>(wave, &placed.addresses, within, uop.imm as u32) };
        Flow::Next
    }
}

fn select(name: &str, level: Level) -> Option<(Handler, u16, bool)> {
    macro_rules! load {
        ($kind:ident) => {
            (handler::<BufferLoad<$kind>>(level), <$kind as Load>::REGISTERS as u16, true)
        };
    }
    macro_rules! store {
        ($kind:ident) => {
            (handler::<BufferStore<$kind>>(level), <$kind as Store>::REGISTERS as u16, false)
        };
    }
    if let Some(suffix) = name.strip_prefix("buffer_load_") {
        return by_suffix!(load suffix, load);
    }
    by_suffix!(store name.strip_prefix("buffer_store_")?, store)
}

fn select_to_local(name: &str) -> Option<Handler> {
    Some(match name.strip_prefix("buffer_load_")? {
        "dword" => handler::<BufferToLocal<B32>>(Level::Base),
        "ubyte" => handler::<BufferToLocal<U8>>(Level::Base),
        "sbyte" => handler::<BufferToLocal<I8>>(Level::Base),
        "ushort" => handler::<BufferToLocal<U16>>(Level::Base),
        "sshort" => handler::<BufferToLocal<I16>>(Level::Base),
        _ => return None,
    })
}

fn select_atomic(name: &str) -> Option<(Handler, u16, bool)> {
    macro_rules! make {
        ($operation:ident) => {
            (
                handler::<BufferAtomic<$operation>>(Level::Base),
                <$operation as Operation>::Word::REGISTERS as u16,
                <$operation as Operation>::PAIR,
            )
        };
    }
    by_atomic_suffix!(name.strip_prefix("buffer_atomic_")?, make)
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let name = inst.op.name();
    if inst.memory.tfe {
        return Err(Unsupported::Form { mnemonic: name, what: "texture fail enable is not executed" });
    }
    let mut uop = compiler.uop(handler::<BufferLoad<B32>>(compiler.level), inst_index);
    uop.imm = i64::from(inst.imm);
    if inst.memory.lds {
        uop.run = select_to_local(name).ok_or(Unsupported::Instruction(name))?;
    } else if let Some((run, registers, is_load)) = select(name, compiler.level) {
        uop.run = run;
        if is_load {
            uop.dst = compiler.vector(inst, &inst.dst, registers)?;
        } else {
            uop.src[1] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[1], registers)? };
        }
    } else if let Some((run, registers, pair)) = select_atomic(name) {
        uop.run = run;
        let width = if pair { 2 * registers } else { registers };
        uop.src[1] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[1], width)? };
        if inst.memory.glc && inst.dst != Operand::None {
            uop.flags |= RETURNS;
            uop.dst = compiler.vector(inst, &inst.dst, registers)?;
        }
    } else {
        return Err(Unsupported::Instruction(name));
    }
    let mut address_registers = 0;
    if inst.memory.offen {
        uop.flags |= OFFEN;
        address_registers += 1;
    }
    if inst.memory.idxen {
        uop.flags |= IDXEN;
        address_registers += 1;
    }
    if address_registers > 0 {
        uop.src[0] = Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[0], address_registers)? };
    }
    uop.src[2] = Src { kind: SrcKind::Scalar, index: compiler.scalar(inst, &inst.src[2], 4)? };
    uop.src[3] = compiler.source(inst, &inst.src[3], 1, Type::B32)?;
    Ok(uop)
}
