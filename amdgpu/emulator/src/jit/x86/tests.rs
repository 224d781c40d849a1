//! Compares native code with the micro-ops it replaces: each operation alone on edge cases of its type, and random runs of many.
//!
//! All registers must have the same bits afterwards, except that all NaNs are equal. Every test runs at every level that has
//! native code and that this machine supports.

use fastrand::Rng;
use isa::{Arch, Format, Inst, Modifiers, Op, Operand};

use super::template_table;
use crate::exec::format::{vop1, vop2, vop3, vop3p, vopc};
use crate::exec::lane::body::tests::operands::edges;
use crate::exec::lane::op::{Kind, Operation};
use crate::program::{Options, Program};
use crate::run_loop::run_wave;
use crate::wave::sreg;
use crate::{Flow, Level, Wave};

const VECTORS: u16 = 80;
const ACCUMULATION: u16 = 64;
const LDS: usize = 1024;
/// Scalar registers with random values.
const SCALARS: std::ops::Range<usize> = 0..16;

fn options(level: Level) -> Options {
    Options { arch: Arch::Gfx942, level, accum_offset: ACCUMULATION, vgpr_count: VECTORS }
}

fn inst(op: Op, format: Format, dst: Operand, src: &[Operand]) -> Inst {
    let mut all = [Operand::None; 4];
    all[..src.len()].copy_from_slice(src);
    Inst {
        op,
        format,
        size: 8,
        dst,
        sdst: Operand::None,
        src: all,
        imm: 0,
        modifiers: Modifiers {
            op_sel_hi: if format == Format::Vop3p { 7 } else { 0 },
            ..Modifiers::default()
        },
        memory: isa::MemoryBits::default(),
        dpp: None,
        sdwa: None,
    }
}

fn operation(op: Op) -> Option<(Operation, Format)> {
    let level = Level::Base;
    if op == Op::v_pk_mov_b32 {
        // It has no `Operation`; `v_pk_mul_f32` has the same operands, two dwords per source.
        return vop3p::operation(Op::v_pk_mul_f32, level, false).map(|operation| (operation, Format::Vop3p));
    }
    None.or_else(|| vop1::operation(op, level).map(|operation| (operation, Format::Vop3)))
        .or_else(|| vop2::operation(op, level, false).map(|operation| (operation, Format::Vop3)))
        .or_else(|| vopc::operation(op, level).map(|operation| (operation, Format::Vop3)))
        .or_else(|| vop3::operation(op, level, false).map(|operation| (operation, Format::Vop3)))
        .or_else(|| vop3p::operation(op, level, false).map(|operation| (operation, Format::Vop3p)))
}

/// Every operation with a template.
fn lowered() -> Vec<(Op, Operation, Format)> {
    let mut all: Vec<(Op, Operation, Format)> = Vec::new();
    for row in isa::ENCODINGS {
        let known = all.iter().any(|(op, ..)| *op == row.op);
        if !known && template_table::of(row.op).is_some() {
            let (operation, format) = operation(row.op).unwrap();
            all.push((row.op, operation, format));
        }
    }
    all
}

/// A random form of an operation on registers from `0..spread`.
fn random_form(random: &mut Rng, (op, operation, format): (Op, Operation, Format), spread: u64) -> Inst {
    let mut pick = |count: u64| random.u64(..count);
    let shape = operation.shape;
    let even = |kind: Kind, register: u64| if kind.wide() { register & !1 } else { register };
    let vector = |pick: &mut dyn FnMut(u64) -> u64, kind: Kind| match pick(8) {
        0 => Operand::Agpr(even(kind, pick(14)) as u8),
        _ => Operand::Vgpr(even(kind, pick(spread)) as u8),
    };
    let mut src = Vec::new();
    for kind in shape.src {
        src.push(match (kind, pick(8)) {
            (Kind::None, _) => break,
            (Kind::Mask, choice) => {
                [Operand::VccLo, Operand::Sgpr(20), Operand::Sgpr(22)][choice as usize % 3]
            }
            (_, 0) => Operand::Sgpr((pick(7) * 2) as u8),
            (_, 1) => Operand::Int((pick(81) as i64 - 16) as i8),
            (_, 2) => {
                Operand::Float([0x3f00_0000_u32, 0xbf80_0000, 0x4080_0000, 0x3e22_f983][pick(4) as usize])
            }
            (_, 3) if !kind.wide() => Operand::Literal(edges(pick(1000))),
            _ => vector(&mut pick, kind),
        });
    }
    // These have templates only for constant operands.
    let known: &[usize] = match op {
        Op::v_bfe_u32 | Op::v_bfe_i32 => &[1, 2],
        Op::v_alignbit_b32 | Op::v_alignbyte_b32 => &[2],
        Op::v_perm_b32 => &[2],
        _ => &[],
    };
    for n in known {
        src[*n] = match op {
            Op::v_perm_b32 => Operand::Literal(pick(1 << 32) as u32 & 0x0f0f_0f0f),
            _ => Operand::Int(pick(34) as i8),
        };
    }
    if operation.accumulates {
        src.truncate(2);
    }
    let dst = if shape.dst == Kind::None { Operand::None } else { vector(&mut pick, shape.dst) };
    let mut inst = inst(op, format, dst, &src);
    if shape.mask_out {
        inst.sdst = [Operand::VccLo, Operand::Sgpr(20), Operand::Sgpr(22)][pick(3) as usize];
    }
    let halves = shape.src.contains(&Kind::F16);
    if shape.dst == Kind::PkF32 {
        let m = &mut inst.modifiers;
        (m.neg, m.neg_hi, m.op_sel_hi) = (pick(8) as u8, pick(8) as u8, pick(8) as u8);
        m.op_sel = pick(8) as u8;
    } else if !halves && pick(2) == 0 {
        // An accumulator has no modifiers.
        let signs = if operation.accumulates { 4 } else { 8 };
        (inst.modifiers.neg, inst.modifiers.abs) = (pick(signs) as u8, pick(signs) as u8);
    }
    inst
}

/// A wave with random registers, including edge cases of all types.
fn wave(random: &mut Rng, exec: u64, lds: &mut [u8]) -> Wave {
    let mut wave = Wave::new(usize::from(VECTORS));
    for lanes in &mut wave.vgprs {
        for value in &mut lanes.0 {
            *value = match random.u64(..4) {
                0 => edges(random.u64(..)),
                1 => (random.u32(..) >> 9 | 0x3f80_0000) ^ (random.u32(..) & 0x8080_0000),
                _ => random.u32(..),
            };
        }
    }
    for scalar in &mut wave.sgprs[..106] {
        *scalar = if random.bool() { edges(random.u64(..)) } else { random.u32(..) };
    }
    wave.set_sgpr64(sreg::VCC, random.u64(..));
    wave.set_sgpr64(sreg::EXEC, exec);
    lds.iter_mut().for_each(|byte| *byte = random.u8(..));
    wave.lds = lds.as_mut_ptr();
    wave.lds_size = lds.len() as u32;
    wave
}

fn copy(wave: &Wave) -> Wave {
    let mut copy = Wave::new(wave.vgprs.len());
    copy.vgprs.copy_from_slice(&wave.vgprs);
    copy.sgprs = wave.sgprs;
    copy.lds = wave.lds;
    copy.lds_size = wave.lds_size;
    copy.scc = wave.scc;
    copy
}

fn same_f32(a: u32, b: u32) -> bool {
    a == b || f32::from_bits(a).is_nan() && f32::from_bits(b).is_nan()
}

fn same_f64(a: u64, b: u64) -> bool {
    a == b || f64::from_bits(a).is_nan() && f64::from_bits(b).is_nan()
}

fn shown(inst: &Inst) -> String {
    let Inst { op, dst, sdst, src, modifiers: m, .. } = inst;
    let signs = (m.neg, m.abs, m.neg_hi, m.op_sel, m.op_sel_hi);
    format!("  {} {dst:?} {sdst:?} {src:?} {signs:?} {}\n", op.name(), inst.imm)
}

/// How registers are compared; the float kinds treat all NaNs as equal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    Bits,
    Floats,
    Doubles,
    Halves,
}

/// Runs instructions natively and as micro-ops, and compares all registers.
fn compare(level: Level, insts: &[Inst], start: &Wave, values: Values) {
    let mut insts = insts.to_vec();
    insts.push(inst(Op::s_endpgm, Format::Sopp, Operand::None, &[]));
    let program = Program::from_insts(options(level), &insts);
    let [native, plain] = [0, u32::MAX].map(|threshold| {
        let mut wave = copy(start);
        wave.native = threshold;
        wave.budget = u32::MAX;
        program.enter(&mut wave, 0);
        assert_eq!(run_wave(&mut wave), Flow::End);
        wave
    });
    let context = || {
        let text: String = insts.iter().map(shown).collect();
        format!("{text}runs {:?}, exec {:#x}", program.native.runs(), start.exec())
    };
    assert_eq!(native.executed, plain.executed);
    assert_eq!(program.native.compiled(), program.native.runs().len(), "{}", context());
    assert_eq!((native.scc, native.pc), (plain.scc, plain.pc), "{}", context());
    assert_eq!(native.sgprs, plain.sgprs, "{}", context());
    for register in 0..plain.vgprs.len() {
        for lane in 0..64 {
            let read = |wave: &Wave, register: usize| wave.vgprs[register].0[lane];
            let (a, b) = (read(&native, register), read(&plain, register));
            let wide = |wave: &Wave| {
                let low = register & !1;
                u64::from(read(wave, low)) | u64::from(read(wave, low + 1)) << 32
            };
            let half = |shift: u32| {
                let value = |bits: u32| half::f16::from_bits((bits >> shift) as u16);
                value(a) == value(b) || value(a).is_nan() && value(b).is_nan()
            };
            let same = match values {
                Values::Bits => a == b,
                Values::Floats => same_f32(a, b),
                Values::Doubles => same_f64(wide(&native), wide(&plain)),
                Values::Halves => a == b || half(0) && half(16),
            };
            let was = start.vgprs[register].0[lane];
            assert!(
                same,
                "v{register} lane {lane}: {a:#x}, not {b:#x} (was {was:#x}, {:#x}, {:#x})\n{}",
                wide(&native),
                wide(&plain),
                context()
            );
        }
    }
}

const EXECS: [u64; 5] = [!0, 0, 0x0000_ffff_0f0f_0001, 0x8000_0000_0000_0000, 0x5555_aaaa_3333_0000];

/// Instantiates the tests for every level with native code.
macro_rules! at_every_level {
    ($($test:ident)*) => {
        at_every_level! { v3 Level::V3, $($test)* }
        at_every_level! { v4 Level::V4, $($test)* }
    };
    ($name:ident $level:expr, $($test:ident)*) => {
        mod $name {
            use super::Level;
            $(
                #[test]
                fn $test() {
                    if $level.available() {
                        super::$test($level);
                    }
                }
            )*
        }
    };
}

at_every_level! {
    every_lowered_operation_gives_the_bits_of_its_micro_op
    random_runs_of_integer_operations_and_local_reads_give_the_same_bits
    random_runs_of_float_operations_give_the_same_numbers
    random_runs_of_double_operations_give_the_same_numbers
    a_mask_stays_while_others_are_computed_beside_it
    a_run_is_compiled_only_after_the_entries_asked_for
    an_unusual_mode_stays_with_micro_ops
}

/// Filler operations that make a run of one operation worth compiling, on registers that it does not use.
fn padding() -> Vec<Inst> {
    let register = |n| Operand::Vgpr(n);
    (0..4)
        .map(|n| inst(Op::v_xor_b32, Format::Vop2, register(60 + n), &[register(61), register(62)]))
        .collect()
}

fn every_lowered_operation_gives_the_bits_of_its_micro_op(level: Level) {
    let mut random = Rng::with_seed(7);
    let mut lds = [0; LDS];
    let all = lowered();
    assert!(all.len() > 100, "{} operations", all.len());
    for (op, operation, format) in all {
        let shape = operation.shape;
        let kinds = || shape.src.into_iter().chain([shape.dst]);
        let values = if matches!(op, Op::v_cvt_f16_f32 | Op::v_cvt_pkrtz_f16_f32) {
            Values::Halves
        } else if kinds().any(|kind| kind == Kind::F64) && shape.dst != Kind::F32 {
            Values::Doubles
        } else if kinds().any(|kind| kind.float()) {
            Values::Floats
        } else {
            Values::Bits
        };
        for round in 0..60 {
            let form = random_form(&mut random, (op, operation, format), 24);
            let start = wave(&mut random, EXECS[round % EXECS.len()], &mut lds);
            let mut insts = padding();
            insts.push(form);
            compare(level, &insts, &start, values);
        }
    }
}

/// A random scalar operation to mix with vector operations.
fn random_scalar(random: &mut Rng) -> Inst {
    let mut pick = |count: u64| random.u64(..count);
    let register = |n: u64| Operand::Sgpr(n as u8);
    match pick(6) {
        0 => inst(Op::s_add_i32, Format::Sop2, register(pick(16)), &[register(pick(24)), Operand::Int(3)]),
        1 => inst(Op::s_cmp_lg_u32, Format::Sopc, Operand::None, &[register(pick(24)), Operand::Int(1)]),
        2 => inst(Op::s_mov_b32, Format::Sop1, register(pick(24)), &[register(pick(24))]),
        3 => inst(Op::s_and_b64, Format::Sop2, Operand::VccLo, &[Operand::VccLo, register(20)]),
        4 => inst(Op::s_addc_u32, Format::Sop2, register(pick(16)), &[register(pick(16)), Operand::VccLo]),
        _ => inst(Op::s_andn2_b64, Format::Sop2, register(22), &[Operand::ExecLo, register(20)]),
    }
}

/// A random LDS read with one of four address registers.
fn random_read(random: &mut Rng, spread: u64) -> Inst {
    let mut pick = |count: u64| random.u64(..count);
    let op = [
        Op::ds_read_b32,
        Op::ds_read_b64,
        Op::ds_read_b96,
        Op::ds_read_b128,
        Op::ds_read2_b32,
        Op::ds_read2_b64,
        Op::ds_read2st64_b32,
        Op::ds_read2st64_b64,
    ][pick(8) as usize];
    let dst = Operand::Vgpr(pick(spread.min(56)) as u8);
    let mut read = inst(op, Format::Ds, dst, &[Operand::Vgpr(56 + pick(4) as u8)]);
    read.imm = match pick(4) {
        0 => 0,
        1 => pick(1 << 16) as i32,
        _ => pick(256) as i32 * 4,
    };
    read
}

/// Sets address registers as kernels do: uniform, contiguous, partly random, and uniform per row of 16 lanes.
fn place_addresses(random: &mut Rng, wave: &mut Wave) {
    let base = random.u32(..LDS as u32);
    for lane in 0..64 {
        let number = lane as u32;
        wave.vgprs[56].0[lane] = base & !3;
        wave.vgprs[57].0[lane] = 4 * number + (base & 0xfc);
        wave.vgprs[58].0[lane] = if random.u8(..4) == 0 { random.u32(..) } else { base ^ (8 * number) };
        wave.vgprs[59].0[lane] = 64 * (number / 16) + (base & 0x1fc);
    }
}

fn random_runs(level: Level, seed: u64, values: Values, fits: fn(&Operation) -> bool) {
    let mut random = Rng::with_seed(seed);
    let mut lds = [0; LDS];
    let all: Vec<_> = lowered()
        .into_iter()
        .filter(|(op, operation, _)| {
            // Conversions between f16 and f32 expose NaN payloads, which may differ.
            let halves = matches!(op, Op::v_cvt_f16_f32 | Op::v_cvt_pkrtz_f16_f32 | Op::v_cvt_f32_f16);
            !halves && fits(operation)
        })
        .collect();
    for round in 0..150 {
        let spread = [8, 24, 56][round % 3];
        let insts: Vec<Inst> = (0..10 + random.u64(..50))
            .map(|_| match random.u64(..8) {
                0 => random_scalar(&mut random),
                1 if values == Values::Bits => random_read(&mut random, spread),
                _ => {
                    let choice = all[random.usize(..all.len())];
                    random_form(&mut random, choice, spread)
                }
            })
            .collect();
        let mut start = wave(&mut random, EXECS[round % EXECS.len()], &mut lds);
        if values != Values::Bits {
            // NaN payloads may differ from the micro-ops', so all NaNs start as the same quiet NaN.
            for value in
                start.vgprs.iter_mut().flat_map(|lanes| &mut lanes.0).chain(&mut start.sgprs[SCALARS])
            {
                if f32::from_bits(*value).is_nan() {
                    *value = 0x7fc0_0000;
                }
            }
        }
        place_addresses(&mut random, &mut start);
        compare(level, &insts, &start, values);
    }
}

fn random_runs_of_integer_operations_and_local_reads_give_the_same_bits(level: Level) {
    random_runs(level, 11, Values::Bits, |operation| {
        let shape = operation.shape;
        shape.src.into_iter().chain([shape.dst]).all(|kind| !kind.float())
    });
}

fn random_runs_of_float_operations_give_the_same_numbers(level: Level) {
    random_runs(level, 12, Values::Floats, |operation| {
        let shape = operation.shape;
        let float = |kind: Kind| matches!(kind, Kind::F32 | Kind::PkF32 | Kind::Mask | Kind::None);
        shape.src.into_iter().chain([shape.dst]).all(float)
    });
}

fn random_runs_of_double_operations_give_the_same_numbers(level: Level) {
    random_runs(level, 13, Values::Doubles, |operation| {
        let shape = operation.shape;
        let double = |kind: Kind| matches!(kind, Kind::F64 | Kind::Mask | Kind::None);
        shape.src.into_iter().chain([shape.dst]).all(double)
    });
}

fn a_mask_stays_while_others_are_computed_beside_it(level: Level) {
    let v = Operand::Vgpr;
    let mut random = Rng::with_seed(21);
    let mut lds = [0; LDS];
    for others in 0..9 {
        let compare_to = |to: Operand, a: u8| {
            let mut compare = inst(Op::v_cmp_lt_u32, Format::Vop3, Operand::None, &[v(a), v(a + 1)]);
            compare.sdst = to;
            compare
        };
        let mut insts = padding();
        insts.push(compare_to(Operand::VccLo, 0));
        insts.extend((0..others).map(|n| compare_to(Operand::Sgpr(20), 2 * n)));
        for (op, to) in [(Op::v_addc_co_u32, 30), (Op::v_subb_co_u32, 31), (Op::v_subbrev_co_u32, 32)] {
            let mut carry = inst(op, Format::Vop3, v(to), &[v(20), v(21), Operand::VccLo]);
            carry.sdst = Operand::Sgpr(22);
            insts.push(carry);
        }
        let mut start = wave(&mut random, !0, &mut lds);
        // Choose operands for which the carry-in determines the carry-out.
        for lane in 0..64 {
            start.vgprs[21].0[lane] = !start.vgprs[20].0[lane];
        }
        compare(level, &insts, &start, Values::Bits);
        start.vgprs[21] = start.vgprs[20];
        compare(level, &insts, &start, Values::Bits);
    }
}

fn a_run_is_compiled_only_after_the_entries_asked_for(level: Level) {
    let mut insts = padding();
    insts.push(inst(Op::s_endpgm, Format::Sopp, Operand::None, &[]));
    let program = Program::from_insts(options(level), &insts);
    let mut lds = [0; LDS];
    let mut random = Rng::with_seed(1);
    for entry in 0..5 {
        assert_eq!(program.native.compiled(), usize::from(entry > 3));
        let mut wave = wave(&mut random, !0, &mut lds);
        wave.native = 3;
        program.enter(&mut wave, 0);
        run_wave(&mut wave);
    }
}

fn an_unusual_mode_stays_with_micro_ops(level: Level) {
    let mut insts = padding();
    let v = Operand::Vgpr;
    insts.push(inst(Op::v_add_f32, Format::Vop2, v(0), &[v(1), v(2)]));
    let mut lds = [0; LDS];
    let mut start = wave(&mut Rng::with_seed(5), !0, &mut lds);
    start.mode.denorm_f32 = 0;
    start.vgprs[1].0.fill(1);
    start.vgprs[2].0.fill(1);
    let program = {
        insts.push(inst(Op::s_endpgm, Format::Sopp, Operand::None, &[]));
        Program::from_insts(options(level), &insts)
    };
    start.native = 0;
    program.enter(&mut start, 0);
    assert_eq!(run_wave(&mut start), Flow::End);
    assert_eq!(start.vgprs[0].0, [0; 64], "subnormals were not flushed");
}
