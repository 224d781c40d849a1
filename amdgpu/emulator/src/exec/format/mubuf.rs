//! MUBUF: vector memory through buffer resources, with swizzled addressing and per-dword range checks.
//!
//! Out-of-range elements read as zero and their writes are dropped; in-range addresses are checked like any other memory access.
//! Typed (format) accesses are in `typed_buffer.rs`.

use std::ops::Range;

use isa::Inst;

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::access::addresses::*;
use crate::exec::access::atomic::*;
use crate::exec::access::checked::*;
use crate::exec::access::element::*;
use crate::exec::access::operand::{put_atomic, put_load, put_store};
use crate::exec::access::to_local::to_local;
use crate::level::ActiveBody;
use crate::wave::sreg;
use crate::{Flow, Level, Src, SrcKind, Uop, Wave, handler};

/// Bits of `Uop::flags`.
const OFFEN: u32 = 1;
const IDXEN: u32 = 2;
const RETURNS: u32 = 4;

/// A decoded buffer resource descriptor.
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
            // With ADD_TID_ENABLE, the data format field holds the stride's upper bits.
            stride: (words[1] >> 16 & 0x3fff) | if add_tid { (words[3] >> 15 & 15) << 14 } else { 0 },
            records: words[2],
            swizzle: words[1] >> 31 != 0,
            index_stride: 8 << (words[3] >> 21 & 3),
            add_tid,
        }
    }
}

/// Resolved addresses of a buffer access: each lane's element and which of its dwords are in range.
pub(crate) struct BufferAccess {
    pub addresses: Addresses,
    /// Active lanes whose dword `k` is in range; `within[0]` also covers elements smaller than a dword.
    pub within: [u64; 4],
    /// Distance in bytes between an element's dwords.
    pub stride: usize,
    /// Active lanes whose unaligned element crosses into the next dword of a swizzled buffer, which is not adjacent.
    across: u64,
    /// Base address; an address minus `base` gives the byte within its dword at which an element starts.
    base: u64,
}

impl BufferAccess {
    /// Address of byte `k` of a lane's element. Elements may be unaligned, because private memory accessed through a buffer has
    /// no alignment requirement.
    pub fn byte(&self, lane: usize, k: usize) -> u64 {
        let skew = (self.addresses.0[lane].wrapping_sub(self.base) & 3) as usize;
        let dword = self.addresses.0[lane].wrapping_sub(skew as u64);
        dword.wrapping_add(((skew + k) / 4 * self.stride + (skew + k) % 4) as u64)
    }

    /// # Safety
    /// The bytes `bytes` of the lane's element must be readable.
    unsafe fn gather(&self, lane: usize, bytes: Range<usize>, to: &mut [u8]) {
        for (to, k) in to.iter_mut().zip(bytes) {
            // SAFETY: guaranteed by the caller.
            *to = unsafe { *(self.byte(lane, k) as *const u8) };
        }
    }

    /// # Safety
    /// `from.len()` bytes of the lane's element, starting at byte `first`, must be writable.
    unsafe fn scatter(&self, lane: usize, first: usize, from: &[u8]) {
        for (k, from) in from.iter().enumerate() {
            // SAFETY: guaranteed by the caller.
            unsafe { *(self.byte(lane, first + k) as *mut u8) = *from };
        }
    }

    /// The addresses of byte `k` of each lane's element; `lanes` are the lanes in range.
    fn bytes(&self, k: usize, lanes: u64) -> Addresses {
        let mut addresses = Addresses(std::array::from_fn(|lane| self.byte(lane, k)));
        addresses.fill_inactive(lanes);
        addresses
    }
}

#[inline(always)]
pub(crate) fn place(wave: &Wave, uop: &Uop, exec: u64, bytes: u32) -> BufferAccess {
    const ELEMENT: u32 = 4;
    let resource = Resource::read(wave, uop.src[2].index);
    let soffset = uop.src[3].dword(wave, 0);
    let mut vaddr = uop.src[0].index;
    let mut indices = [0u32; 64];
    let mut offsets = [offset(uop) as u32; 64];
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
        let mut across = 0;
        for lane in 0..64 {
            across |= u64::from(offsets[lane] % ELEMENT + small > ELEMENT) << lane;
        }
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
            // Structured buffers are range-checked by index.
            let mut inside = 0;
            for lane in 0..64 {
                inside |= u64::from(indices[lane] < resource.records) << lane;
            }
            within = within.map(|lanes| lanes & inside);
        } else {
            // Raw buffers are range-checked by byte offset, before swizzling.
            for (k, within) in within.iter_mut().enumerate() {
                let mut inside = 0;
                for lane in 0..64 {
                    let end = u64::from(offsets[lane]) + 4 * k as u64 + u64::from(small) + u64::from(soffset);
                    inside |= u64::from(end <= u64::from(resource.records)) << lane;
                }
                *within &= inside;
            }
        }
        let stride = (ELEMENT * resource.index_stride) as usize;
        return BufferAccess { addresses, within, stride, across: across & exec, base };
    }
    let structured = resource.stride != 0 && (uop.flags & IDXEN != 0 || resource.add_tid);
    let mut highest = 0u64;
    for lane in 0..64 {
        let at = u64::from(offsets[lane]) + u64::from(indices[lane]) * u64::from(resource.stride);
        addresses.0[lane] = base.wrapping_add(at);
        // Range-checked value: the index for a structured buffer, the byte offset for a raw one.
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
    BufferAccess { addresses, within, stride: 4, across: 0, base }
}

/// Resolves a buffer access for observers: the address of each lane, the in-range lanes of each dword, and the distance in bytes
/// between dwords.
pub(crate) fn observed_access(wave: &Wave, uop: &Uop, exec: u64, bytes: u32) -> ([u64; 64], [u64; 4], usize) {
    let access = place(wave, uop, exec, bytes);
    (access.addresses.0, access.within, access.stride)
}

struct BufferLoad;
impl ActiveBody for BufferLoad {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = loads(uop);
        let mut access = place(wave, uop, exec, element.bytes as u32);
        if access.stride == 4 && access.within[element.registers - 1] == exec {
            return load_global(wave, uop, &mut access.addresses, exec);
        }
        partial_load(wave, uop, &access, exec)
    }
}

/// The addresses of dword `register` of each lane's element.
fn dword_addresses(access: &BufferAccess, register: usize, lanes: u64) -> Addresses {
    let mut addresses = access.addresses;
    for address in &mut addresses.0 {
        *address = address.wrapping_add((register * access.stride) as u64);
    }
    addresses.fill_inactive(lanes);
    addresses
}

/// Loads dword by dword, for swizzled elements and buffers that end inside an element.
#[inline(never)]
fn partial_load(wave: &mut Wave, uop: &Uop, access: &BufferAccess, exec: u64) -> Flow {
    let whole = loads(uop);
    let dword = if whole.whole { load_element::<B32>(Level::Base) } else { whole };
    for register in 0..whole.registers {
        let within = access.within[register];
        let dst = uop.dst + register as u16;
        if within != exec {
            load_zero(wave, dword, dst, exec & !within);
        }
        if within == 0 {
            continue;
        }
        if !check_dword(wave, uop, access, register, dword.bytes, within, false) {
            return Flow::Fault;
        }
        if access.across & within != 0 {
            let bytes = 4 * register..4 * register + dword.bytes as usize;
            for lane in (0..64).filter(|lane| within >> lane & 1 != 0) {
                let mut copy = [0u8; 4];
                // SAFETY: both dwords that an element can span were checked; registers were checked at compile time.
                unsafe {
                    access.gather(lane, bytes.clone(), &mut copy);
                    let to = &mut (*vector_mut(wave, dst)).0[lane];
                    *to = (dword.one)(*to, copy.as_ptr());
                }
            }
            continue;
        }
        let addresses = dword_addresses(access, register, within);
        // SAFETY: the addresses were checked.
        unsafe { (dword.run)(vector_mut(wave, dst), &addresses, within, 4) };
    }
    Flow::Next
}

/// Checks up to one dword of each lane's element; for an element that spans two dwords, checks its first and last byte.
pub(crate) fn check_dword(
    wave: &mut Wave,
    uop: &Uop,
    access: &BufferAccess,
    register: usize,
    bytes: u64,
    lanes: u64,
    write: bool,
) -> bool {
    if access.across & lanes == 0 {
        return check(wave, uop, &dword_addresses(access, register, lanes), lanes, bytes, write);
    }
    let (first, last) = (4 * register, 4 * register + bytes as usize - 1);
    check(wave, uop, &access.bytes(first, lanes), lanes, 1, write)
        && check(wave, uop, &access.bytes(last, lanes), lanes, 1, write)
}

struct BufferStore;
impl ActiveBody for BufferStore {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = stores(uop);
        let mut access = place(wave, uop, exec, element.bytes as u32);
        if access.stride == 4 && access.within[element.registers - 1] == exec {
            return store_global(wave, uop, &mut access.addresses, exec);
        }
        partial_store(wave, uop, &access)
    }
}

#[inline(never)]
fn partial_store(wave: &mut Wave, uop: &Uop, access: &BufferAccess) -> Flow {
    let whole = stores(uop);
    let dword = if whole.whole { store_element::<B32>(Level::Base) } else { whole };
    for register in 0..whole.registers {
        let within = access.within[register];
        if within == 0 {
            continue;
        }
        if !check_dword(wave, uop, access, register, dword.bytes, within, true) {
            return Flow::Fault;
        }
    }
    // Lane by lane, like all stores, so that the highest lane wins where elements overlap.
    for lane in 0..64 {
        for register in (0..whole.registers).filter(|register| access.within[*register] >> lane & 1 != 0) {
            let to = access.addresses.0[lane].wrapping_add((register * access.stride) as u64);
            // SAFETY: the address was checked for writing; registers were checked at compile time.
            unsafe {
                let value = (*vector(wave, uop.src[1].index + register as u16)).0[lane];
                if access.across >> lane & 1 != 0 {
                    let mut copy = [0u8; 4];
                    (dword.one)(copy.as_mut_ptr(), value);
                    access.scatter(lane, 4 * register, &copy[..dword.bytes as usize]);
                } else {
                    (dword.one)(to as *mut u8, value);
                }
            }
        }
    }
    Flow::Next
}

struct BufferAtomic;
impl ActiveBody for BufferAtomic {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = atomics(uop);
        let bytes = 4 * element.registers as u32;
        let mut access = place(wave, uop, exec, bytes);
        let within = access.within[element.registers - 1];
        let operands = memory_operands(uop, uop.flags & RETURNS != 0);
        zero_results(wave, element, operands, exec & !within);
        if within == 0 {
            return Flow::Next;
        }
        access.addresses.fill_inactive(within);
        if !check(wave, uop, &access.addresses, within, u64::from(bytes), true) {
            return Flow::Fault;
        }
        // SAFETY: the addresses were checked for writing.
        unsafe { (element.global)(wave, &access.addresses, within, operands) }
    }
}

/// Loads with the `lds` bit: writes each active lane's element to LDS; see [`to_local`] for the destination address.
struct BufferToLocal;
impl ActiveBody for BufferToLocal {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = loads(uop);
        let mut access = place(wave, uop, exec, element.bytes as u32);
        let within = access.within[element.registers - 1];
        if access.across & within != 0 {
            return across_to_local(wave, uop, &access, exec);
        }
        if within != 0 {
            access.addresses.fill_inactive(within);
            if !check(wave, uop, &access.addresses, within, element.bytes, false) {
                return Flow::Fault;
            }
        }
        // SAFETY: the addresses of the in-range lanes were checked.
        unsafe { to_local(wave, element, &access.addresses, exec, within, offset(uop)) };
        Flow::Next
    }
}

/// Like `BufferToLocal`, for elements that span two dwords: gathers their bytes into contiguous copies first.
#[cold]
fn across_to_local(wave: &mut Wave, uop: &Uop, access: &BufferAccess, exec: u64) -> Flow {
    let element = loads(uop);
    let within = access.within[element.registers - 1];
    let bytes = element.bytes as usize;
    if !check_dword(wave, uop, access, 0, element.bytes, within, false) {
        return Flow::Fault;
    }
    let mut copies = [[0u8; 16]; 64];
    for lane in (0..64).filter(|lane| within >> lane & 1 != 0) {
        // SAFETY: both dwords that an element can span were checked.
        unsafe { access.gather(lane, 0..bytes, &mut copies[lane]) };
    }
    let addresses = Addresses(std::array::from_fn(|lane| copies[lane].as_ptr() as u64));
    // SAFETY: each copy is as long as the longest element.
    unsafe { to_local(wave, element, &addresses, exec, within, offset(uop)) };
    Flow::Next
}

/// `buffer_store_lds_dword`: stores the LDS dword at M0 + immediate offset + 4 * lane to the buffer.
struct LocalToBuffer;
impl ActiveBody for LocalToBuffer {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let access = place(wave, uop, exec, 4);
        let within = access.within[0];
        if within == 0 {
            return Flow::Next;
        }
        if !check_dword(wave, uop, &access, 0, 4, within, true) {
            return Flow::Fault;
        }
        let base = u64::from(wave.sgprs[sreg::M0] & 0xffff) + offset(uop) as u64;
        for lane in (0..64).filter(|lane| within >> lane & 1 != 0) {
            let from = base + 4 * lane as u64;
            let inside = from + 4 <= u64::from(wave.lds_size);
            // SAFETY: the source is read only if within LDS; the destination was checked for writing.
            unsafe {
                let value =
                    if inside { wave.lds.add(from as usize).cast::<u32>().read_unaligned() } else { 0 };
                access.scatter(lane, 0, &value.to_le_bytes());
            }
        }
        Flow::Next
    }
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let name = inst.op.name();
    let level = compiler.level;
    if inst.memory.tfe {
        return Err(Unsupported::Form { mnemonic: name, what: "texture fail enable (TFE) is not supported" });
    }
    let mut uop = compiler.uop(handler::<BufferToLocal>(Level::Base), inst_index);
    // `buffer_load_dword` -> `load`, `dword`.
    let operation = name.strip_prefix("buffer_").and_then(|operation| operation.split_once('_'));
    match operation.ok_or(Unsupported::Instruction(name))? {
        ("load", suffix) => {
            put_load(compiler, inst, &mut uop, suffix, inst.memory.lds)?;
            if !inst.memory.lds {
                uop.run = handler::<BufferLoad>(level);
            }
        }
        ("store", "lds_dword") => {
            uop.run = handler::<LocalToBuffer>(Level::Base);
            uop.flags = (inst.imm << 8) as u32;
        }
        ("store", suffix) => {
            put_store(compiler, inst, &mut uop, suffix)?;
            uop.run = handler::<BufferStore>(level);
        }
        ("atomic", suffix) => {
            put_atomic(compiler, inst, &mut uop, suffix, RETURNS)?;
            uop.run = handler::<BufferAtomic>(level);
        }
        _ => return Err(Unsupported::Instruction(name)),
    }
    put_address(compiler, inst, &mut uop)?;
    Ok(uop)
}

/// Resolves the address operands of a buffer instruction.
pub(crate) fn put_address(compiler: &mut Compiler, inst: &Inst, uop: &mut Uop) -> Result<(), Unsupported> {
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
        uop.src[0] =
            Src { kind: SrcKind::Vector, index: compiler.vector(inst, &inst.src[0], address_registers)? };
    }
    uop.src[2] = Src { kind: SrcKind::Scalar, index: compiler.scalar(inst, &inst.src[2], 4)? };
    uop.src[3] = compiler.source(inst, &inst.src[3], 1, Type::B32)?;
    Ok(())
}
