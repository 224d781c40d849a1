//! Handlers of vector ALU operations: read the sources, run the operation's lane loop ([`LaneLoop`]), store the results under EXEC.
//!
//! [`assemble`] chooses the handler: `Narrow` (32-bit, no modifiers), `Compare` (32-bit, mask result), `General` (any shape),
//! `WithModifiers` (modifiers or unusual MODE), or a specialised one from `hot.rs`. The micro-op's `imm` is the [`LaneLoop`]; its
//! `flags` are the packed [`Shape`] and the bits below.

mod half_rounding;
mod mode;

use std::marker::PhantomData;

use isa::{Format, Inst, Op, Operand};

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::lane::mask::Cpu;
use crate::exec::lane::op::{Kind, LaneLoop, Operation, Shape};
use crate::exec::lane::source::{RESULTS, Results, SPARE, Sources, lanes};
use crate::exec::lane::{dpp, modifier, sdwa};
use crate::wave::sreg;
use crate::{Body, Flow, Lanes, Src, SrcKind, Uop, Wave};

/// `v_cmpx`: the mask is also written to EXEC.
pub const WRITES_EXEC: u32 = 1 << 17;
/// A 16-bit result preserves the other half of the register.
const PRESERVES: u32 = 1 << 18;
/// The 16-bit result goes to the high half.
const HIGH: u32 = 1 << 19;
/// The result is one byte; the two bits at `BYTE_SHIFT` select which byte of the register.
const BYTE: u32 = 1 << 20;
const BYTE_SHIFT: u32 = 21;
/// Subnormals are kept or flushed according to MODE.
const FLUSHABLE: u32 = 1 << 23;
/// The result is rounded according to MODE.
const ROUNDABLE: u32 = 1 << 24;

/// Instantiates the handler of a body that is generic over [`Cpu`] for a CPU level.
macro_rules! per_level {
    ($level:expr, $body:ident $(, $arg:tt)*) => {
        match $level {
            #[cfg(target_arch = "x86_64")]
            $crate::Level::V4 => {
                $crate::handler::<$body<$crate::exec::lane::mask::Avx512 $(, $arg)*>>($crate::Level::V4)
            }
            #[cfg(target_arch = "x86_64")]
            $crate::Level::V3 => {
                $crate::handler::<$body<$crate::exec::lane::mask::Avx2 $(, $arg)*>>($crate::Level::V3)
            }
            level => $crate::handler::<$body<$crate::exec::lane::mask::Portable $(, $arg)*>>(level),
        }
    };
}
pub(crate) use per_level;

/// Builds the micro-op for `operation` with the operands and modifiers of `inst`.
pub fn assemble(c: &mut Compiler, inst: &Inst, index: u32, operation: Operation) -> Result<Uop, Unsupported> {
    let shape = operation.shape;
    let modifiers = &inst.modifiers;
    let mut flags = shape.pack();
    let mut src = [Src::default(); 4];
    let mut modified =
        inst.dpp.is_some() || inst.sdwa.is_some() || operation.preserves || modifiers.omod != 0;
    modified |= modifiers.clamp && shape.dst.float();
    for (n, &kind) in shape.src.iter().enumerate() {
        if n == 2 && operation.accumulates {
            let dst = c.vector(inst, &inst.dst, if kind.wide() { 2 } else { 1 })?;
            src[n] = Src { kind: SrcKind::Vector, index: dst };
            continue;
        }
        src[n] = match kind {
            Kind::None => continue,
            Kind::Mask => Src { kind: SrcKind::Scalar, index: c.scalar(inst, &inst.src[n], 2)? },
            _ => {
                c.source(inst, &inst.src[n], if kind.wide() { 2 } else { 1 }, constant_type(kind, n, inst))?
            }
        };
        // Only VOP3P has fields that select halves of packed sources.
        let packed = matches!(kind, Kind::Pk16 | Kind::PkF16 | Kind::PkF32);
        modified |= modifier::modifies(kind, n, modifiers) && (!packed || inst.format == Format::Vop3p);
    }
    if let Some(dpp) = &inst.dpp
        && (!dpp::known(dpp.ctrl) || src[0].kind != SrcKind::Vector)
    {
        return Err(Unsupported::Form { mnemonic: inst.op.name(), what: "unsupported DPP control/source" });
    }
    if operation.preserves {
        flags |= PRESERVES | if modifiers.op_sel >> 3 & 1 == 1 { HIGH } else { 0 };
    }
    if operation.flushable {
        flags |= FLUSHABLE;
    }
    if inst.op.rounds() {
        flags |= ROUNDABLE;
    }
    let mut uop = c.uop(per_level!(c.level, General), index);
    let narrow = |kind: Kind| !kind.wide() && kind != Kind::Mask;
    let plain = shape.src.iter().all(|&kind| narrow(kind));
    let count = shape.source_count();
    if modified {
        uop.run = per_level!(c.level, WithModifiers);
    } else if let Some(run) = operation.hot.filter(|_| inst.op.is_hot() && !modifiers.clamp) {
        uop.run = run;
    } else if plain && shape.dst == Kind::None && shape.mask_out {
        uop.run = per_level!(c.level, Compare);
    } else if plain && !shape.mask_out && narrow(shape.dst) {
        uop.run = match count {
            1 => per_level!(c.level, Narrow, 1),
            2 => per_level!(c.level, Narrow, 2),
            _ => per_level!(c.level, Narrow, 3),
        };
    }
    if shape.dst != Kind::None {
        uop.dst = c.vector(inst, &inst.dst, if shape.dst.wide() { 2 } else { 1 })?;
    }
    if shape.mask_out {
        uop.sdst = c.scalar(inst, &inst.sdst, 2)?;
    }
    uop.src = src;
    uop.flags = flags;
    uop.imm = operation.lane_loop as usize as i64;
    Ok(uop)
}

/// Like [`assemble`], but the result always goes to the half given by `high`, regardless of `op_sel`.
pub fn assemble_half(
    c: &mut Compiler,
    inst: &Inst,
    index: u32,
    operation: Operation,
    high: bool,
) -> Result<Uop, Unsupported> {
    let mut uop = assemble(c, inst, index, operation.preserving())?;
    uop.flags = uop.flags & !HIGH | if high { HIGH } else { 0 };
    Ok(uop)
}

/// Like [`assemble`], for one-byte results; the upper bits of `op_sel` select the destination byte.
pub fn assemble_byte(
    c: &mut Compiler,
    inst: &Inst,
    index: u32,
    operation: Operation,
) -> Result<Uop, Unsupported> {
    let mut uop = assemble(c, inst, index, operation.preserving())?;
    uop.flags = uop.flags & !HIGH | BYTE | u32::from(inst.modifiers.op_sel >> 2 & 3) << BYTE_SHIFT;
    Ok(uop)
}

/// Whether the instruction is the saturating form of an integer operation.
pub fn saturates(inst: &Inst) -> bool {
    inst.modifiers.clamp && inst.op.saturates()
}

/// Returns true if MODE affects this operation and differs from the default: round to nearest even, keep subnormals, f16
/// overflows to infinity.
#[inline(always)]
pub(super) fn unusual(wave: &Wave, uop: &Uop) -> bool {
    let mode = &wave.mode;
    let usual = mode.round_f32 | mode.round_f64 | u8::from(mode.fp16_ovfl) == 0
        && mode.denorm_f32 & mode.denorm_f64 == 3;
    uop.flags & (FLUSHABLE | ROUNDABLE) != 0 && !usual
}

/// Runs a micro-op without modifiers under a non-default MODE, through `WithModifiers`, the only handler that honours MODE.
///
/// # Safety
/// As for [`crate::Handler`].
#[cold]
#[inline(never)]
pub(super) unsafe fn run_unusual<C: Cpu>(wave: &mut Wave, uop: &Uop) -> Flow {
    WithModifiers::<C>::run(wave, uop)
}

fn constant_type(kind: Kind, n: usize, inst: &Inst) -> Type {
    match kind {
        Kind::B16 | Kind::Pk16 => Type::I16,
        Kind::F16 | Kind::PkF16 => Type::F16,
        Kind::F32 | Kind::PkF32 => Type::F32,
        Kind::B64 if inst.src_type(n).element() == isa::Element::Signed => Type::I64,
        Kind::B64 => Type::B64,
        Kind::F64 => Type::F64,
        Kind::Mix
            if inst.modifiers.op_sel_hi >> n & 1 == 1 && !matches!(inst.src[n], Operand::Literal(_)) =>
        {
            Type::F16
        }
        Kind::Mix => Type::F32,
        _ => Type::B32,
    }
}

/// The lane loop stored in a micro-op's `imm`.
///
/// # Safety
/// The micro-op must come from [`assemble`].
#[inline(always)]
unsafe fn lane_loop(uop: &Uop) -> LaneLoop {
    // SAFETY: `assemble` stored a function pointer of this type.
    unsafe { std::mem::transmute::<usize, LaneLoop>(uop.imm as usize) }
}

/// Stores result lanes under a mask.
///
/// # Safety
/// As for [`Cpu::blend`].
#[inline(always)]
pub unsafe fn store<C: Cpu>(mask: u64, from: &Lanes, to: &mut Lanes) {
    if mask == !0 {
        *to = *from;
    } else {
        // SAFETY: guaranteed by the caller.
        unsafe { C::blend(mask, from, to) }
    }
}

/// `N` 32-bit sources, a 32-bit destination, no modifiers.
struct Narrow<C, const N: usize>(PhantomData<C>);

impl<C: Cpu, const N: usize> Body for Narrow<C, N> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if exec == 0 {
            return Flow::Next;
        }
        if unusual(wave, uop) {
            // SAFETY: same contract as this handler.
            return unsafe { run_unusual::<C>(wave, uop) };
        }
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: `assemble` checked the indices; the scratch slots do not overlap; the lane loop is built for this level.
        unsafe {
            let a = &*lanes(wave, uop.src[0], 0, scratch);
            let b = if N > 1 { &*lanes(wave, uop.src[1], 0, scratch.add(2)) } else { a };
            let c = if N > 2 { &*lanes(wave, uop.src[2], 0, scratch.add(4)) } else { a };
            let results = &mut *scratch.add(RESULTS).cast::<Results>();
            lane_loop(uop)(
                &Sources { lo: [a, b, c], hi: [a, b, c], mode: &wave.mode, vcc: wave.vcc() },
                results,
            );
            store::<C>(exec, &results.lo, wave.vgprs.get_unchecked_mut(usize::from(uop.dst)));
        }
        Flow::Next
    }
}

/// 32-bit sources; the only result is a mask.
struct Compare<C>(PhantomData<C>);

impl<C: Cpu> Body for Compare<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        if unusual(wave, uop) {
            // SAFETY: same contract as this handler.
            return unsafe { run_unusual::<C>(wave, uop) };
        }
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: as for `Narrow`.
        let mask = unsafe {
            let a = &*lanes(wave, uop.src[0], 0, scratch);
            let b = &*lanes(wave, uop.src[1], 0, scratch.add(2));
            let results = &mut *scratch.add(RESULTS).cast::<Results>();
            lane_loop(uop)(
                &Sources { lo: [a, b, b], hi: [a, b, b], mode: &wave.mode, vcc: wave.vcc() },
                results,
            );
            C::pack(&results.mask) & exec
        };
        write_mask(wave, uop, mask);
        Flow::Next
    }
}

#[inline(always)]
fn write_mask(wave: &mut Wave, uop: &Uop, mask: u64) {
    wave.set_sgpr64(usize::from(uop.sdst), mask);
    if uop.flags & WRITES_EXEC != 0 {
        wave.set_sgpr64(sreg::EXEC, mask);
    }
}

/// Resolves the sources of any shape into `lo` and `hi`.
///
/// # Safety
/// As for [`lanes`], with scratch slots `0..SPARE` free.
#[inline(always)]
unsafe fn resolve<C: Cpu>(
    wave: &Wave,
    uop: &Uop,
    shape: Shape,
    scratch: *mut Lanes,
) -> ([*const Lanes; 3], [*const Lanes; 3]) {
    let mut lo = [scratch.cast_const(); 3];
    let mut hi = lo;
    for n in 0..3 {
        let src = uop.src[n];
        // SAFETY: guaranteed by the caller.
        unsafe {
            match shape.src[n] {
                Kind::None => {}
                Kind::Mask => {
                    let room = scratch.add(2 * n);
                    C::expand(wave.sgpr64(usize::from(src.index)), &mut *room);
                    lo[n] = room;
                }
                kind => {
                    lo[n] = lanes(wave, src, 0, scratch.add(2 * n));
                    hi[n] = lo[n];
                    if kind.wide() {
                        hi[n] = lanes(wave, src, 1, scratch.add(2 * n + 1));
                    }
                }
            }
        }
    }
    (lo, hi)
}

/// Any shape, no modifiers.
struct General<C>(PhantomData<C>);

impl<C: Cpu> Body for General<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let shape = Shape::unpack(uop.flags);
        if exec == 0 && !shape.mask_out {
            return Flow::Next;
        }
        if unusual(wave, uop) {
            // SAFETY: same contract as this handler.
            return unsafe { run_unusual::<C>(wave, uop) };
        }
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: as for `Narrow`; register pairs were checked as pairs.
        unsafe {
            let (lo, hi) = resolve::<C>(wave, uop, shape, scratch);
            let results = &mut *scratch.add(RESULTS).cast::<Results>();
            let sources =
                Sources { lo: lo.map(|p| &*p), hi: hi.map(|p| &*p), mode: &wave.mode, vcc: wave.vcc() };
            lane_loop(uop)(&sources, results);
            if shape.dst != Kind::None {
                let dst = usize::from(uop.dst);
                store::<C>(exec, &results.lo, wave.vgprs.get_unchecked_mut(dst));
                if shape.dst.wide() {
                    store::<C>(exec, &results.hi, wave.vgprs.get_unchecked_mut(dst + 1));
                }
            }
            if shape.mask_out {
                let mask = C::pack(&results.mask) & exec;
                write_mask(wave, uop, mask);
            }
        }
        Flow::Next
    }
}

/// Any shape, with DPP, SDWA, source and result modifiers.
struct WithModifiers<C>(PhantomData<C>);

impl<C: Cpu> Body for WithModifiers<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let shape = Shape::unpack(uop.flags);
        if exec == 0 && !shape.mask_out {
            return Flow::Next;
        }
        let scratch = wave.scratch.as_mut_ptr();
        // SAFETY: as for `General`; the program's instructions outlive the wave.
        unsafe {
            let inst = &*wave.insts.add(uop.inst as usize);
            let (mut lo, mut hi) = resolve::<C>(wave, uop, shape, scratch);
            let mut written = exec;
            let flushes = uop.flags & FLUSHABLE != 0 && unusual(wave, uop);
            for n in 0..3 {
                let kind = shape.src[n];
                let permuted = n == 0 && inst.dpp.is_some();
                let selected = n < 2 && inst.sdwa.is_some();
                if matches!(kind, Kind::None | Kind::Mask)
                    || !(permuted || selected || flushes || modifier::modifies(kind, n, &inst.modifiers))
                {
                    continue;
                }
                let (room_lo, room_hi) = (scratch.add(2 * n), scratch.add(2 * n + 1));
                if !std::ptr::eq(lo[n], room_lo) {
                    *room_lo = *lo[n];
                }
                if kind.wide() && !std::ptr::eq(hi[n], room_hi) {
                    *room_hi = *hi[n];
                }
                let (to_lo, to_hi) = (&mut *room_lo, &mut *room_hi);
                if let (true, Some(dpp)) = (permuted, &inst.dpp) {
                    written = dpp::permute(dpp, exec, to_lo);
                    if kind.wide() {
                        dpp::permute(dpp, exec, to_hi);
                    }
                }
                if let (true, Some(sdwa)) = (selected, &inst.sdwa) {
                    let (sel, sext) = match n {
                        0 => (sdwa.src0_sel, sdwa.src0_sext),
                        _ => (sdwa.src1_sel, sdwa.src1_sext),
                    };
                    sdwa::select(sel, sext, to_lo);
                }
                let packed = matches!(kind, Kind::Pk16 | Kind::PkF16 | Kind::PkF32);
                if !packed || inst.format == Format::Vop3p {
                    modifier::source(kind, n, &inst.modifiers, to_lo, to_hi);
                }
                if flushes {
                    mode::flush_source(kind, &wave.mode, to_lo, to_hi);
                }
                lo[n] = room_lo;
                hi[n] = if kind.wide() { room_hi } else { room_lo };
            }
            let results = &mut *scratch.add(RESULTS).cast::<Results>();
            let sources =
                Sources { lo: lo.map(|p| &*p), hi: hi.map(|p| &*p), mode: &wave.mode, vcc: wave.vcc() };
            let rounding = if uop.flags & ROUNDABLE != 0 { mode::rounding(shape, &wave.mode) } else { 0 };
            if half_rounding::wanted(inst.op, &wave.mode) {
                half_rounding::run(inst.op, &sources, results);
            } else {
                mode::with_rounding(rounding, || lane_loop(uop)(&sources, results));
            }
            if wave.mode.fp16_ovfl {
                half_rounding::saturate(inst.op, shape, &sources, results);
            }
            if rounding != 0 && inst.op == Op::v_cvt_f32_u32 {
                // Without a host instruction the conversion is computed as a sum, which becomes -0 when rounding down.
                results.lo.0.iter_mut().for_each(|value| *value &= !(1 << 31));
            }
            if flushes {
                mode::flush_result(shape.dst, &wave.mode, results);
            }
            mode::with_rounding(mode::scaling(shape.dst, &wave.mode), || {
                modifier::result(shape.dst, &inst.modifiers, &wave.mode, results);
            });
            if shape.dst != Kind::None {
                let dst = usize::from(uop.dst);
                let old = wave.vgprs.get_unchecked(dst);
                if uop.flags & BYTE != 0 {
                    let shift = 8 * (uop.flags >> BYTE_SHIFT & 3);
                    merge(&mut results.lo, old, 0xff, shift);
                } else if uop.flags & PRESERVES != 0 {
                    merge(&mut results.lo, old, 0xffff, if uop.flags & HIGH != 0 { 16 } else { 0 });
                }
                if let Some(sdwa) = &inst.sdwa {
                    sdwa::place(sdwa, old, &mut results.lo);
                }
                store::<C>(written, &results.lo, wave.vgprs.get_unchecked_mut(dst));
                if shape.dst.wide() {
                    store::<C>(written, &results.hi, wave.vgprs.get_unchecked_mut(dst + 1));
                }
            }
            if shape.mask_out {
                let mask = C::pack(&results.mask) & written;
                write_mask(wave, uop, mask);
            }
        }
        Flow::Next
    }
}

/// Inserts the low bits of each result into the old value at `shift`.
#[inline(always)]
fn merge(lanes: &mut Lanes, old: &Lanes, field: u32, shift: u32) {
    for (value, &old) in lanes.0.iter_mut().zip(&old.0) {
        *value = (*value & field) << shift | old & !(field << shift);
    }
}

const _: () = assert!(SPARE <= RESULTS);

#[cfg(test)]
pub(crate) mod tests;
