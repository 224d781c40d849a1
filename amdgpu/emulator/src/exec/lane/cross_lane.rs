//! Cross-lane vector instructions: moves between one lane and a scalar register, and register swaps.

use std::marker::PhantomData;

use isa::Inst;

use crate::compile::{Compiler, Type, Unsupported};
use crate::exec::lane::body::per_level;
use crate::exec::lane::mask::Cpu;
use crate::exec::lane::source::uniform;
use crate::{Body, Flow, SrcKind, Uop, Wave, handler};

/// `v_nop`.
pub fn nothing(c: &Compiler, index: u32) -> Uop {
    c.uop(handler::<Nothing>(c.level), index)
}

pub fn readfirstlane(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let mut uop = c.uop(handler::<ReadFirstLane>(c.level), index);
    uop.dst = c.scalar(inst, &inst.dst, 1)?;
    uop.src[0] = c.source(inst, &inst.src[0], 1, Type::B32)?;
    Ok(uop)
}

pub fn readlane(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let mut uop = c.uop(handler::<ReadLane>(c.level), index);
    uop.dst = c.scalar(inst, &inst.dst, 1)?;
    uop.src[0] = c.source(inst, &inst.src[0], 1, Type::B32)?;
    uop.src[1] = c.source(inst, &inst.src[1], 1, Type::B32)?;
    Ok(uop)
}

pub fn writelane(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let mut uop = c.uop(handler::<WriteLane>(c.level), index);
    uop.dst = c.vector(inst, &inst.dst, 1)?;
    uop.src[0] = c.source(inst, &inst.src[0], 1, Type::B32)?;
    uop.src[1] = c.source(inst, &inst.src[1], 1, Type::B32)?;
    Ok(uop)
}

pub fn swap(c: &mut Compiler, inst: &Inst, index: u32) -> Result<Uop, Unsupported> {
    let mut uop = c.uop(per_level!(c.level, Swap), index);
    uop.dst = c.vector(inst, &inst.dst, 1)?;
    uop.src[0] = c.source(inst, &inst.src[0], 1, Type::B32)?;
    if uop.src[0].kind != SrcKind::Vector {
        return Err(Unsupported::Form { mnemonic: inst.op.name(), what: "operand is not a vector register" });
    }
    Ok(uop)
}

struct Nothing;

impl Body for Nothing {
    #[inline(always)]
    fn run(_: &mut Wave, _: &Uop) -> Flow {
        Flow::Next
    }
}

/// Value of source 0 in `lane`.
///
/// # Safety
/// As for [`uniform`].
#[inline(always)]
unsafe fn lane_of(wave: &Wave, uop: &Uop, lane: usize) -> u32 {
    // SAFETY: the index was checked when the source was compiled.
    unsafe {
        match uop.src[0].kind {
            SrcKind::Vector => wave.vgprs.get_unchecked(usize::from(uop.src[0].index)).0[lane & 63],
            _ => uniform(wave, uop.src[0]),
        }
    }
}

/// Reads the lowest active lane, or lane 0 if none is active.
struct ReadFirstLane;

impl Body for ReadFirstLane {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let lane = if exec == 0 { 0 } else { exec.trailing_zeros() as usize };
        // SAFETY: indices were checked when the micro-op was compiled.
        let value = unsafe { lane_of(wave, uop, lane) };
        wave.sgprs[usize::from(uop.dst)] = value;
        Flow::Next
    }
}

/// Reads any lane, active or not.
struct ReadLane;

impl Body for ReadLane {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: indices were checked when the micro-op was compiled.
        let value = unsafe {
            let lane = uniform(wave, uop.src[1]) as usize;
            lane_of(wave, uop, lane)
        };
        wave.sgprs[usize::from(uop.dst)] = value;
        Flow::Next
    }
}

/// Writes any lane, active or not.
struct WriteLane;

impl Body for WriteLane {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        // SAFETY: indices were checked when the micro-op was compiled.
        let (value, lane) = unsafe { (uniform(wave, uop.src[0]), uniform(wave, uop.src[1])) };
        wave.vgprs[usize::from(uop.dst)].0[lane as usize & 63] = value;
        Flow::Next
    }
}

struct Swap<C>(PhantomData<C>);

impl<C: Cpu> Body for Swap<C> {
    #[inline(always)]
    fn run(wave: &mut Wave, uop: &Uop) -> Flow {
        let exec = wave.exec();
        let (a, b) = (usize::from(uop.dst), usize::from(uop.src[0].index));
        let (old_a, old_b) = (wave.vgprs[a], wave.vgprs[b]);
        // SAFETY: handlers are called only on machines of their level.
        unsafe {
            C::blend(exec, &old_b, &mut wave.vgprs[a]);
            C::blend(exec, &old_a, &mut wave.vgprs[b]);
        }
        Flow::Next
    }
}
