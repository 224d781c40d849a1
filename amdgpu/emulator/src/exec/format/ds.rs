//! DS instructions: LDS (local memory) reads, writes and atomics, and dispatch of the cross-lane moves that share the format.
//!
//! Out-of-range reads return zero and out-of-range writes are dropped, as on the hardware. Of global wave sync (GWS) only the
//! barrier is implemented; global data share (GDS) is not.

use isa::{Inst, Op, Operand};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::access::addresses::*;
use crate::exec::access::atomic::*;
use crate::exec::access::checked::*;
use crate::exec::access::element::*;
use crate::exec::lane::permute::{Bpermute, Permute, Swizzle, swizzled};
use crate::level::ActiveBody;
use crate::wave::sreg;
use crate::{Body, Flow, Level, SrcKind, Uop, Wave, handler};

/// Host addresses of the LDS offsets `vaddr + offset`, and the active lanes that are within LDS.
#[inline(always)]
fn addresses(wave: &Wave, vaddr: u16, offset: u32, bytes: u32, exec: u64) -> (Addresses, u64) {
    // SAFETY: address registers were checked at compile time.
    let vaddr = unsafe { &(*vector(wave, vaddr)).0 };
    let base = wave.lds as u64;
    let mut out = Addresses([0; 64]);
    let mut highest = 0;
    if exec == !0 {
        for lane in 0..64 {
            let at = vaddr[lane].wrapping_add(offset);
            highest = highest.max(at);
            out.0[lane] = base.wrapping_add(u64::from(at));
        }
    } else {
        let first = vaddr[exec.trailing_zeros() as usize & 63];
        for lane in 0..64 {
            let at = if exec >> lane & 1 != 0 { vaddr[lane] } else { first }.wrapping_add(offset);
            highest = highest.max(at);
            out.0[lane] = base.wrapping_add(u64::from(at));
        }
    }
    if u64::from(highest) + u64::from(bytes) <= u64::from(wave.lds_size) {
        return (out, exec);
    }
    let within = within(wave, &out, bytes, exec);
    out.fill_inactive(if within == 0 { !0 } else { within });
    (out, within)
}

#[cold]
#[inline(never)]
fn within(wave: &Wave, addresses: &Addresses, bytes: u32, exec: u64) -> u64 {
    let base = wave.lds as u64;
    let mut within = 0;
    for lane in 0..64 {
        let offset = addresses.0[lane].wrapping_sub(base);
        within |= u64::from(offset + u64::from(bytes) <= u64::from(wave.lds_size)) << lane;
    }
    within & exec
}

/// [`addresses`] of a one-address form.
#[inline(always)]
fn place(wave: &Wave, uop: &Uop, bytes: u32, exec: u64) -> (Addresses, u64) {
    addresses(wave, uop.src[0].index, offset(uop) as u32, bytes, exec)
}

struct Read;
impl ActiveBody for Read {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = loads(uop);
        let (addresses, within) = place(wave, uop, element.bytes as u32, exec);
        load_local(wave, element, uop.dst, &addresses, exec, within);
        Flow::Next
    }
}

struct Write;
impl ActiveBody for Write {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = stores(uop);
        let (addresses, within) = place(wave, uop, element.bytes as u32, exec);
        store_local(wave, element, uop.src[1].index, &addresses, within);
        Flow::Next
    }
}

/// The two byte offsets of a two-address form, encoded in units of `1 << scale` bytes.
#[inline(always)]
fn two_offsets(uop: &Uop) -> [u32; 2] {
    let raw = offset(uop) as u32;
    let scale = uop.flags & SCALE;
    [(raw & 0xff) << scale, (raw >> 8 & 0xff) << scale]
}

/// Fields of `Uop::flags`: log2 of the offset unit of the two-address forms; whether an atomic returns the old value.
const SCALE: u32 = 15;
const RETURNS: u32 = 16;

/// Two reads at two offsets.
struct Read2;
impl ActiveBody for Read2 {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = loads(uop);
        // No closures here: they would not be compiled with the target features of the handler's CPU level.
        let [first, second] = two_offsets(uop);
        let (vaddr, bytes) = (uop.src[0].index, element.bytes as u32);
        let (first, first_within) = addresses(wave, vaddr, first, bytes, exec);
        let (second, second_within) = addresses(wave, vaddr, second, bytes, exec);
        load_local(wave, element, uop.dst, &first, exec, first_within);
        load_local(wave, element, uop.dst + element.registers as u16, &second, exec, second_within);
        Flow::Next
    }
}

struct Write2;
impl ActiveBody for Write2 {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = stores(uop);
        let at = two_offsets(uop);
        for k in 0..2 {
            let (addresses, within) = addresses(wave, uop.src[0].index, at[k], element.bytes as u32, exec);
            store_local(wave, element, uop.src[1 + k].index, &addresses, within);
        }
        Flow::Next
    }
}

struct Atomic;
impl ActiveBody for Atomic {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let element = atomics(uop);
        let bytes = 4 * element.registers as u32;
        let (addresses, within) = place(wave, uop, bytes, exec);
        let operands = Operands {
            data: uop.src[1].index,
            extra: uop.src[2].index,
            result: (uop.flags & RETURNS != 0).then_some(uop.dst),
        };
        zero_results(wave, element, operands, exec & !within);
        // SAFETY: the lanes are within LDS, which no other thread accesses.
        unsafe { (element.local)(wave, &addresses, within, operands) };
        Flow::Next
    }
}

/// Two exchanges at two offsets; both old values are returned.
struct Exchange2;
impl ActiveBody for Exchange2 {
    #[inline(always)]
    fn run_active(wave: &mut Wave, uop: &Uop, exec: u64) -> Flow {
        let registers = atomics(uop).registers;
        let placed =
            two_offsets(uop).map(|at| addresses(wave, uop.src[0].index, at, 4 * registers as u32, exec));
        let data = [uop.src[1].index, uop.src[2].index];
        // Collect the old values first: the destination may overlap the address and data registers.
        let mut old = [[0u32; 64]; 4];
        for (k, (addresses, within)) in placed.iter().enumerate() {
            for lane in (0..64).filter(|lane| within >> lane & 1 != 0) {
                for register in 0..registers {
                    // SAFETY: the lane is within LDS; registers were checked at compile time.
                    unsafe {
                        let at = (addresses.0[lane] as *mut u32).add(register);
                        old[k * registers + register][lane] = at.read_unaligned();
                        at.write_unaligned((*vector(wave, data[k] + register as u16)).0[lane]);
                    }
                }
            }
        }
        for (register, old) in old.iter().enumerate().take(2 * registers) {
            // SAFETY: destination registers were checked at compile time.
            blend(exec, old, unsafe { &mut (*vector_mut(wave, uop.dst + register as u16)).0 });
        }
        Flow::Next
    }
}

/// Adds (append) or subtracts (consume) the number of active lanes at M0 + offset; every active lane gets the old value.
struct Count<const CONSUME: bool>;
impl<const CONSUME: bool> Body for Count<CONSUME> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let at = u64::from(wave.sgprs[sreg::M0] & 0xffff) + uop.imm as u64;
        let mut old = 0;
        if at + 4 <= u64::from(wave.lds_size) {
            // SAFETY: the dword is within LDS.
            unsafe {
                let at = wave.lds.add(at as usize).cast::<u32>();
                old = at.read_unaligned();
                let count = exec.count_ones();
                at.write_unaligned(if CONSUME { old.wrapping_sub(count) } else { old.wrapping_add(count) });
            }
        }
        // SAFETY: the destination register was checked at compile time.
        blend(exec, &[old; 64], unsafe { &mut (*vector_mut(wave, uop.dst)).0 });
        Flow::Next
    }
}

/// Read or write at M0 + offset + 4 * lane.
struct AddTid<const WRITE: bool>;
impl<const WRITE: bool> Body for AddTid<WRITE> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let base = u64::from(wave.sgprs[sreg::M0] & 0xffff) + uop.imm as u64;
        for lane in (0..64).filter(|lane| exec >> lane & 1 != 0) {
            let at = base + 4 * lane as u64;
            let fits = at + 4 <= u64::from(wave.lds_size);
            let at = wave.lds.wrapping_add(at as usize).cast::<u32>();
            // SAFETY: LDS is accessed only if `fits`; registers were checked at compile time.
            unsafe {
                if WRITE {
                    if fits {
                        at.write_unaligned((*vector(wave, uop.src[1].index)).0[lane]);
                    }
                } else {
                    let value = if fits { at.read_unaligned() } else { 0 };
                    (*vector_mut(wave, uop.dst)).0[lane] = value;
                }
            }
        }
        Flow::Next
    }
}

/// `ds_gws_barrier`: a barrier across the workgroups of a grid. The first active lane's data is the number of arrivals minus one.
struct GridBarrier;
impl Body for GridBarrier {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let first = wave.exec().trailing_zeros() as usize & 63;
        // SAFETY: the data register was checked at compile time.
        let last = unsafe { (*vector(wave, uop.src[1].index)).0[first] };
        let Some(context) = wave.context() else { return Flow::Next };
        if context.arrive(&mut wave.arrived, last.saturating_add(1)) { Flow::Next } else { Flow::Retry }
    }
}

/// Looks up an atomic by its mnemonic without `ds_` and `_rtn`.
fn atomic(bare: &str) -> Option<&'static AtomicElement> {
    Some(match bare {
        "add_u32" => atomic_element::<Add>(),
        "sub_u32" => atomic_element::<Sub>(),
        "rsub_u32" => atomic_element::<ReverseSub>(),
        "inc_u32" => atomic_element::<Inc>(),
        "dec_u32" => atomic_element::<Dec>(),
        "min_i32" => atomic_element::<SignedMin>(),
        "max_i32" => atomic_element::<SignedMax>(),
        "min_u32" => atomic_element::<UnsignedMin>(),
        "max_u32" => atomic_element::<UnsignedMax>(),
        "and_b32" => atomic_element::<And>(),
        "or_b32" => atomic_element::<Or>(),
        "xor_b32" => atomic_element::<Xor>(),
        "mskor_b32" => atomic_element::<MaskedOr>(),
        "wrxchg_b32" => atomic_element::<Swap>(),
        "cmpst_b32" => atomic_element::<CompareSwap>(),
        "cmpst_f32" => atomic_element::<CompareSwapF32>(),
        "min_f32" => atomic_element::<MinF32>(),
        "max_f32" => atomic_element::<MaxF32>(),
        "add_f32" => atomic_element::<AddF32>(),
        "pk_add_f16" => atomic_element::<PackedAddF16>(),
        "pk_add_bf16" => atomic_element::<PackedAddBf16>(),
        "add_u64" => atomic_element::<AddX2>(),
        "sub_u64" => atomic_element::<SubX2>(),
        "rsub_u64" => atomic_element::<ReverseSubX2>(),
        "inc_u64" => atomic_element::<IncX2>(),
        "dec_u64" => atomic_element::<DecX2>(),
        "min_i64" => atomic_element::<SignedMinX2>(),
        "max_i64" => atomic_element::<SignedMaxX2>(),
        "min_u64" => atomic_element::<UnsignedMinX2>(),
        "max_u64" => atomic_element::<UnsignedMaxX2>(),
        "and_b64" => atomic_element::<AndX2>(),
        "or_b64" => atomic_element::<OrX2>(),
        "xor_b64" => atomic_element::<XorX2>(),
        "mskor_b64" => atomic_element::<MaskedOrX2>(),
        "wrxchg_b64" => atomic_element::<SwapX2>(),
        "cmpst_b64" => atomic_element::<CompareSwapX2>(),
        "cmpst_f64" => atomic_element::<CompareSwapF64>(),
        "min_f64" => atomic_element::<MinF64>(),
        "max_f64" => atomic_element::<MaxF64>(),
        "add_f64" => atomic_element::<AddF64>(),
        "condxchg32_b64" => atomic_element::<ConditionalExchange32>(),
        "wrap_b32" => atomic_element::<Wrap>(),
        _ => return None,
    })
}

pub fn compile(compiler: &mut Compiler, inst: &Inst, inst_index: u32) -> Result<Uop, Unsupported> {
    let name = inst.op.name();
    let level = compiler.level;
    if inst.op == Op::ds_gws_barrier {
        let mut uop = compiler.uop(handler::<GridBarrier>(Level::Base), inst_index);
        let data = if matches!(inst.src[1], Operand::None) { &inst.src[0] } else { &inst.src[1] };
        uop.src[1].index = compiler.vector(inst, data, 1)?;
        uop.src[1].kind = SrcKind::Vector;
        return Ok(uop);
    }
    if inst.memory.gds {
        return Err(Unsupported::Form { mnemonic: name, what: "global data share (GDS) is not supported" });
    }
    let mut uop = compiler.uop(handler::<Bpermute>(level), inst_index);
    let raw = inst.imm as u16;
    uop.imm = i64::from(raw);
    // Register counts of destination, data0 and data1; whether there is an address operand.
    let (mut dst, mut data0, mut data1, mut address) = (0, 0, 0, true);
    // log2 of the offset unit of a two-address form.
    let scale = inst.op.memory_access().and_then(|access| access.offset_unit).map_or(0, u32::trailing_zeros);
    match inst.op {
        Op::ds_bpermute_b32 => (dst, data0) = (1, 1),
        Op::ds_permute_b32 => {
            uop.run = handler::<Permute>(Level::Base);
            (dst, data0) = (1, 1);
        }
        Op::ds_swizzle_b32 => {
            if swizzled(u32::from(raw), 0).is_none() {
                return Err(Unsupported::Form { mnemonic: name, what: "FFT swizzle is not supported" });
            }
            uop.run = handler::<Swizzle>(Level::Base);
            dst = 1;
        }
        Op::ds_append | Op::ds_consume => {
            uop.run = match inst.op {
                Op::ds_append => handler::<Count<false>>(Level::Base),
                _ => handler::<Count<true>>(Level::Base),
            };
            (dst, address) = (1, false);
        }
        Op::ds_read_addtid_b32 => {
            uop.run = handler::<AddTid<false>>(Level::Base);
            (dst, address) = (1, false);
        }
        Op::ds_write_addtid_b32 => {
            uop.run = handler::<AddTid<true>>(Level::Base);
            (data0, address) = (1, false);
        }
        Op::ds_read2_b32 | Op::ds_read2st64_b32 | Op::ds_read2_b64 | Op::ds_read2st64_b64 => {
            uop.run = handler::<Read2>(level);
            let wide = name.ends_with("b64");
            let element = if wide { load_element::<B64>(level) } else { load_element::<B32>(level) };
            uop.flags = scale;
            put_element(&mut uop, element, i32::from(raw));
            dst = 2 * element.registers as u16;
        }
        Op::ds_write2_b32 | Op::ds_write2st64_b32 | Op::ds_write2_b64 | Op::ds_write2st64_b64 => {
            uop.run = handler::<Write2>(level);
            let wide = name.ends_with("b64");
            let element = if wide { store_element::<B64>(level) } else { store_element::<B32>(level) };
            uop.flags = scale;
            put_element(&mut uop, element, i32::from(raw));
            (data0, data1) = (element.registers as u16, element.registers as u16);
        }
        Op::ds_wrxchg2_rtn_b32
        | Op::ds_wrxchg2st64_rtn_b32
        | Op::ds_wrxchg2_rtn_b64
        | Op::ds_wrxchg2st64_rtn_b64 => {
            uop.run = handler::<Exchange2>(Level::Base);
            let wide = name.ends_with("b64");
            let element = if wide { atomic_element::<SwapX2>() } else { atomic_element::<Swap>() };
            uop.flags = scale;
            put_element(&mut uop, element, i32::from(raw));
            let registers = element.registers as u16;
            (dst, data0, data1) = (2 * registers, registers, registers);
        }
        _ => {
            let bare = name.strip_prefix("ds_").unwrap_or(name);
            if let Some(element) = bare.strip_prefix("read_").and_then(|suffix| load_by_suffix(suffix, level))
            {
                uop.run = handler::<Read>(level);
                put_element(&mut uop, element, i32::from(raw));
                dst = element.registers as u16;
            } else if let Some(element) =
                bare.strip_prefix("write_").and_then(|suffix| store_by_suffix(suffix, level))
            {
                uop.run = handler::<Write>(level);
                put_element(&mut uop, element, i32::from(raw));
                data0 = element.registers as u16;
            } else if let Some(element) = atomic(&bare.replace("_rtn", "")) {
                uop.run = handler::<Atomic>(level);
                put_element(&mut uop, element, i32::from(raw));
                let registers = element.registers as u16;
                if bare.contains("_rtn") {
                    uop.flags |= RETURNS;
                    dst = registers;
                }
                let operand = |compiler: &mut Compiler, k: usize| {
                    compiler.source(inst, &inst.src[k], registers, Type::B32)
                };
                uop.src[1] = operand(compiler, 1)?;
                if element.pair {
                    uop.src[2] = operand(compiler, 2)?;
                    // The first data operand is the compare value or mask, so the two are swapped; only `ds_wrap` has them in
                    // execution order.
                    if inst.op != Op::ds_wrap_rtn_b32 {
                        uop.src.swap(1, 2);
                    }
                }
            } else {
                return Err(Unsupported::Instruction(name));
            }
        }
    }
    if dst > 0 {
        uop.dst = compiler.vector(inst, &inst.dst, dst)?;
    }
    if data0 > 0 {
        uop.src[1] = compiler.source(inst, &inst.src[1], data0, Type::B32)?;
    }
    if data1 > 0 {
        uop.src[2] = compiler.source(inst, &inst.src[2], data1, Type::B32)?;
    }
    if address {
        uop.src[0] = compiler.source(inst, &inst.src[0], 1, Type::B32)?;
    }
    let vector_or_none =
        |operand: &Operand, kind| matches!(operand, Operand::None) || kind == SrcKind::Vector;
    if (0..3).any(|k| uop.src[k].kind != SrcKind::None && !vector_or_none(&inst.src[k], uop.src[k].kind)) {
        return Err(Unsupported::Form { mnemonic: name, what: "operand is not a vector register" });
    }
    Ok(uop)
}
