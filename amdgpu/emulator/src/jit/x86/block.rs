//! Finds the micro-ops to compile: runs of lane-local operations in straight-line code.
//!
//! A run contains vector operations that have a template, groups of LDS reads, and interspersed scalar operations that can be
//! moved before or after all of them. Everything else ends the run: anything that may fault, jump, wait, change EXEC or move
//! values between lanes. A jump into the middle of a run is harmless, because all its micro-ops are still in place.

use isa::{Format, Inst, Op, Operand};

use super::run::{Item, Run};
use super::target::Target;
use super::{local_read, template_table};
use crate::compile::scalar_index;
use crate::exec::lane::op::{Kind, Shape};
use crate::wave::sreg;
use crate::{SrcKind, Uop};

/// Maximum number of vector operations in a run; limits its code size.
const LONGEST: usize = 512;
/// Minimum estimated saving for a run to be worth compiling, in units of one 32-bit operation.
const WORTHWHILE: u32 = 4;

/// A set of scalar registers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Scalars([u64; 3]);

impl Scalars {
    fn add(&mut self, first: u16, count: u16) {
        for index in first..first + count {
            self.0[usize::from(index / 64)] |= 1 << (index % 64);
        }
    }

    fn meets(&self, other: &Scalars) -> bool {
        self.0.iter().zip(other.0).any(|(a, b)| a & b != 0)
    }

    fn join(&mut self, other: &Scalars) {
        self.0.iter_mut().zip(other.0).for_each(|(a, b)| *a |= b);
    }
}

/// Effects of a micro-op on scalar registers.
#[derive(Clone, Copy, Debug, Default)]
struct Effects {
    /// Read as a uniform value.
    uniform: Scalars,
    /// Read and written as lane masks.
    mask_in: Scalars,
    mask_out: Scalars,
    /// Written by a scalar operation.
    out: Scalars,
}

/// Finds the runs of a program. `plain` marks micro-ops that implement exactly their instruction; `targets` marks jump targets.
pub fn discover(target: Target, uops: &[Uop], insts: &[Inst], plain: &[bool], targets: &[bool]) -> Vec<Run> {
    let mut runs = Vec::new();
    let mut open = Open::new(target);
    for (at, uop) in uops.iter().enumerate() {
        if targets[at] {
            open.close(&mut runs);
        }
        let inst = &insts[uop.inst as usize];
        if !plain[at] || !open.add(at, uop, inst, uops, insts) {
            open.close(&mut runs);
            if plain[at] {
                // It may start the next run.
                open.add(at, uop, inst, uops, insts);
            }
        }
    }
    open.close(&mut runs);
    runs
}

/// A run under construction.
#[derive(Debug)]
struct Open {
    target: Target,
    run: Run,
    worth: u32,
    vectors: usize,
    uniform: Scalars,
    mask_in: Scalars,
    mask_out: Scalars,
    /// Scalar registers read and written by the operations in `run.after`.
    late_in: Scalars,
    late_out: Scalars,
}

impl Open {
    fn new(target: Target) -> Open {
        Open {
            target,
            run: Run::default(),
            worth: 0,
            vectors: 0,
            uniform: Scalars::default(),
            mask_in: Scalars::default(),
            mask_out: Scalars::default(),
            late_in: Scalars::default(),
            late_out: Scalars::default(),
        }
    }

    /// Adds a micro-op if it fits; returns false otherwise. A micro-op that does not fit an empty run fits no run.
    fn add(&mut self, at: usize, uop: &Uop, inst: &Inst, uops: &[Uop], insts: &[Inst]) -> bool {
        if is_scalar(inst) {
            return !self.run.items.is_empty() && self.add_scalar(at, inst);
        }
        let read = local_read::Read::of(inst, uop).is_some();
        if !read && !template_table::accepts(inst, uop) || self.vectors >= LONGEST {
            return false;
        }
        let effects = if read { Effects::default() } else { vector_effects(uop) };
        // A mask is written slice by slice, so nothing in the run may read it as a uniform value.
        let split = effects.mask_out.meets(&self.uniform)
            || effects.mask_out.meets(&effects.uniform)
            || effects.uniform.meets(&self.mask_out);
        let late = effects.uniform.meets(&self.late_out)
            || effects.mask_in.meets(&self.late_out)
            || effects.mask_out.meets(&self.late_out)
            || effects.mask_out.meets(&self.late_in);
        // Register pairs that overlap partially are not tracked.
        let skewed = skewed(&effects.mask_in, &self.mask_out)
            || skewed(&effects.mask_out, &self.mask_in)
            || skewed(&effects.mask_out, &self.mask_out)
            || skewed(&effects.mask_out, &effects.mask_in);
        if split || late || skewed {
            return false;
        }
        if self.run.items.is_empty() {
            self.run.start = at;
        }
        self.uniform.join(&effects.uniform);
        self.mask_in.join(&effects.mask_in);
        self.mask_out.join(&effects.mask_out);
        self.run.writes_masks |= effects.mask_out != Scalars::default();
        self.vectors += 1;
        self.run.end = at + 1;
        if read {
            self.run.reads_local = true;
            self.worth += 4;
            if let Some(Item::Reads(group)) = self.run.items.last_mut()
                && local_read::joins(self.target, group, at, uops, insts)
            {
                group.push(at);
                return true;
            }
            self.run.items.push(Item::Reads(vec![at]));
            return true;
        }
        let shape = Shape::unpack(uop.flags);
        let wide = shape.dst.wide() || shape.src.iter().any(|kind| kind.wide());
        self.worth += if wide { 4 } else { 1 };
        self.run.float |= shape.dst.float() || shape.src.iter().any(|kind| kind.float());
        self.run.items.push(Item::Lanes(at));
        true
    }

    fn add_scalar(&mut self, at: usize, inst: &Inst) -> bool {
        let Some(effects) = scalar_effects(inst) else { return false };
        // Scalar operations keep their relative order, which also preserves SCC.
        let early = self.run.after.is_empty()
            && !effects.out.meets(&self.uniform)
            && !effects.out.meets(&self.mask_in)
            && !effects.out.meets(&self.mask_out)
            && !effects.uniform.meets(&self.mask_out);
        if early {
            self.run.before.push(at);
        } else {
            self.run.after.push(at);
            self.late_in.join(&effects.uniform);
            self.late_out.join(&effects.out);
        }
        self.run.end = at + 1;
        true
    }

    fn close(&mut self, runs: &mut Vec<Run>) {
        let open = std::mem::replace(self, Open::new(self.target));
        if open.worth >= WORTHWHILE {
            runs.push(open.run);
        }
    }
}

/// Returns true if a pair of `a` overlaps a pair of `b` in only one register. Pairs start at even registers in compiled code.
fn skewed(a: &Scalars, b: &Scalars) -> bool {
    let half =
        |set: &Scalars| set.0.map(|word| (word & 0x5555_5555_5555_5555, word >> 1 & 0x5555_5555_5555_5555));
    half(a).iter().zip(half(b)).any(|(a, b)| a.0 & b.0 != a.1 & b.1)
}

fn vector_effects(uop: &Uop) -> Effects {
    let shape = Shape::unpack(uop.flags);
    let mut effects = Effects::default();
    for (src, kind) in uop.src.iter().zip(shape.src) {
        match kind {
            Kind::None => {}
            Kind::Mask => effects.mask_in.add(src.index, 2),
            _ if src.kind != SrcKind::Scalar => {}
            kind => effects.uniform.add(src.index, if kind.wide() { 2 } else { 1 }),
        }
    }
    if shape.mask_out {
        effects.mask_out.add(uop.sdst, 2);
    }
    effects
}

/// Returns true for purely computational scalar operations: no memory access, no jump, no MODE change.
fn is_scalar(inst: &Inst) -> bool {
    match inst.format {
        Format::Sop2 => !matches!(inst.op, Op::s_cbranch_g_fork | Op::s_rfe_restore_b64),
        Format::Sopc => !matches!(inst.op, Op::s_setvskip | Op::s_set_gpr_idx_on),
        Format::Sop1 => matches!(
            inst.op,
            Op::s_mov_b32
                | Op::s_mov_b64
                | Op::s_cmov_b32
                | Op::s_cmov_b64
                | Op::s_not_b32
                | Op::s_not_b64
                | Op::s_brev_b32
                | Op::s_bcnt1_i32_b32
                | Op::s_bcnt1_i32_b64
                | Op::s_ff1_i32_b32
                | Op::s_ff1_i32_b64
                | Op::s_flbit_i32_b32
                | Op::s_sext_i32_i8
                | Op::s_sext_i32_i16
                | Op::s_abs_i32
        ),
        Format::Sopk => matches!(
            inst.op,
            Op::s_movk_i32
                | Op::s_addk_i32
                | Op::s_mulk_i32
                | Op::s_cmpk_eq_i32
                | Op::s_cmpk_lg_i32
                | Op::s_cmpk_gt_i32
                | Op::s_cmpk_ge_i32
                | Op::s_cmpk_lt_i32
                | Op::s_cmpk_le_i32
                | Op::s_cmpk_eq_u32
                | Op::s_cmpk_lg_u32
                | Op::s_cmpk_gt_u32
                | Op::s_cmpk_ge_u32
                | Op::s_cmpk_lt_u32
                | Op::s_cmpk_le_u32
        ),
        _ => false,
    }
}

/// Registers that a scalar operation reads and writes; `None` if it writes EXEC or reads a non-register (VCCZ, EXECZ, SCC).
fn scalar_effects(inst: &Inst) -> Option<Effects> {
    let mut effects = Effects::default();
    for (n, operand) in inst.src.iter().enumerate() {
        if matches!(operand, Operand::Vccz | Operand::Execz | Operand::Scc) {
            return None;
        }
        if let Some(index) = scalar_index(operand) {
            effects.uniform.add(index, inst.src_width(n).clamp(1, 2) as u16);
        }
    }
    if let Some(index) = scalar_index(&inst.dst) {
        let width = inst.dst_width().clamp(1, 2) as u16;
        if usize::from(index + width) > sreg::EXEC {
            return None;
        }
        effects.out.add(index, width);
        // Conditional moves and the immediate forms also read the destination.
        effects.uniform.add(index, width);
    }
    Some(effects)
}
