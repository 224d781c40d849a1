//! Compares every vector operation with the reference implementation (`amdgpu/reference`): all levels, EXEC patterns, source
//! kinds, forms.

mod forms;
pub mod operands;
mod sequences;

use isa::{Arch, Format, Inst, Mode, Modifiers, Op, Operand};
use isa_reference::{Lane, Outcome};

use crate::compile::{Compiler, Unsupported};
use crate::exec::format::{vop1, vop2, vop3, vop3p, vopc};
use crate::exec::lane::op::{Kind, Operation};
use crate::wave::sreg;
use crate::{Level, Uop, Wave};
use operands::Operands;

/// Expected destination and mask of a lane; `None` for operations without a reference.
fn reference(op: Op, lane: &Lane) -> Option<(Option<u64>, Option<bool>)> {
    Some(match isa_reference::evaluate(op, lane)? {
        Outcome::Value(value) => (Some(value), None),
        Outcome::Mask(mask) => (None, Some(mask)),
        Outcome::Both(value, mask) => (Some(value), Some(mask)),
    })
}

/// Permitted error of a result, in ULP.
fn tolerance(name: &str) -> i64 {
    match name {
        "v_exp_f32" | "v_exp_legacy_f32" | "v_log_f32" | "v_log_legacy_f32" | "v_rsq_f32" => 1,
        "v_sin_f32" | "v_cos_f32" | "v_rsq_f64" => 1,
        "v_exp_f16" | "v_log_f16" | "v_sin_f16" | "v_cos_f16" | "v_rsq_f16" => 1,
        _ => 0,
    }
}

/// The CPU levels of this machine.
pub fn levels() -> impl Iterator<Item = Level> {
    [Level::Base, Level::V3, Level::V4].into_iter().filter(|level| level.available())
}

/// An instruction without modifiers.
pub fn inst(op: Op, format: Format, dst: Operand, src: &[Operand]) -> Inst {
    let mut all = [Operand::None; 4];
    all[..src.len()].copy_from_slice(src);
    Inst {
        op,
        format,
        size: 8,
        dst,
        sdst: Operand::Sgpr(30),
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

pub fn compile(c: &mut Compiler, inst: &Inst) -> Result<Uop, Unsupported> {
    c.insts.push(*inst);
    let index = c.insts.len() as u32 - 1;
    match inst.format {
        Format::Vop1 => vop1::compile(c, inst, index),
        Format::Vop2 => vop2::compile(c, inst, index),
        Format::Vopc => vopc::compile(c, inst, index),
        Format::Vop3 => vop3::compile(c, inst, index),
        _ => vop3p::compile(c, inst, index),
    }
}

/// Compiles and runs instructions on a wave.
pub fn run(level: Level, arch: Arch, wave: &mut Wave, insts: &[Inst]) {
    let mut c = Compiler::new(arch, level, 128, wave.vgprs.len() as u16, 0);
    let uops: Vec<Uop> = insts.iter().map(|inst| compile(&mut c, inst).unwrap()).collect();
    wave.constants = c.constants.as_ptr();
    wave.insts = c.insts.as_ptr();
    for uop in &uops {
        // SAFETY: this machine has the level, the micro-op was just compiled for this wave, and its constants and instructions
        // live until the end of this function.
        unsafe { (uop.run)(wave, uop) };
    }
}

/// The operation of an opcode and the format of its shortest encoding.
fn operation(op: Op) -> Option<(Operation, Format)> {
    let level = Level::Base;
    None.or_else(|| vop1::operation(op, level).map(|operation| (operation, Format::Vop1)))
        .or_else(|| vop2::operation(op, level, false).map(|operation| (operation, Format::Vop2)))
        .or_else(|| vopc::operation(op, level).map(|operation| (operation, Format::Vopc)))
        .or_else(|| vop3::operation(op, level, false).map(|operation| (operation, Format::Vop3)))
        .or_else(|| vop3p::operation(op, level, false).map(|operation| (operation, Format::Vop3p)))
}

/// Compares a result with the reference; all NaNs are equal.
pub fn same(kind: Kind, got: u64, want: u64, ulps: i64) -> bool {
    /// Compares floats of `bits` bits; `infinity` is the bit pattern of infinity.
    fn near(got: u64, want: u64, bits: u32, infinity: u64, ulps: i64) -> bool {
        let magnitude = |value: u64| value & ((1 << (bits - 1)) - 1);
        let is_nan = |value: u64| magnitude(value) > infinity;
        let order = |value: u64| {
            let magnitude = magnitude(value) as i64;
            if value >> (bits - 1) & 1 == 1 { -magnitude } else { magnitude }
        };
        if is_nan(got) || is_nan(want) {
            return is_nan(got) && is_nan(want);
        }
        got == want || ulps > 0 && (order(got) - order(want)).abs() <= ulps
    }
    let f16 = |shift: u32| near(got >> shift & 0xffff, want >> shift & 0xffff, 16, 0x7c00, ulps);
    let f32 =
        |shift: u32| near(got >> shift & 0xffff_ffff, want >> shift & 0xffff_ffff, 32, 0x7f80_0000, ulps);
    match kind {
        Kind::F16 => f16(0) && got >> 16 == want >> 16,
        Kind::PkF16 => f16(0) && f16(16),
        Kind::F32 => f32(0),
        Kind::PkF32 => f32(0) && f32(32),
        Kind::F64 => near(got, want, 64, 0x7ff << 52, ulps),
        _ => got == want,
    }
}

/// Where the sources of a run are placed.
#[derive(Clone, Copy, Debug)]
enum Placement {
    Vectors,
    ScalarFirst,
    ConstantFirst,
    ScalarLast,
    /// The destination is the first source.
    InPlace,
    /// The destination's low register is the first source's high register.
    Overlapping,
}

const DST: u8 = 40;
const FIRST: [u8; 3] = [4, 10, 16];

fn check(op: Op, form: Format, operation: &Operation, placement: Placement, exec: u64, operands: &Operands) {
    let shape = operation.shape;
    let dst = match placement {
        Placement::InPlace => FIRST[0],
        Placement::Overlapping => FIRST[0] + 1,
        _ => DST,
    };
    let mut src = Vec::new();
    for (n, &kind) in shape.src.iter().enumerate() {
        let last = n + 1 == shape.source_count();
        src.push(match (kind, placement) {
            (Kind::None, _) => break,
            (Kind::Mask, _) if form == Format::Vop2 => Operand::VccLo,
            (Kind::Mask, _) => Operand::Sgpr(20),
            (_, Placement::ScalarFirst) if n == 0 => Operand::Sgpr(2),
            (_, Placement::ScalarLast) if last => Operand::Sgpr(6),
            (_, Placement::ConstantFirst) if n == 0 => operands.constant,
            _ => Operand::Vgpr(FIRST[n]),
        });
    }
    if operation.accumulates {
        src.truncate(2);
    }
    let mut inst =
        inst(op, form, if shape.dst == Kind::None { Operand::None } else { Operand::Vgpr(dst) }, &src);
    if form == Format::Vop2 || form == Format::Vopc {
        inst.sdst = Operand::VccLo;
    }
    if shape.src[0] == Kind::Mix {
        // All sources are f32; f16 sources are tested in `forms.rs`.
        inst.modifiers.op_sel_hi = 0;
    }
    let mask_at = if form == Format::Vop2 || form == Format::Vopc { sreg::VCC } else { 30 };
    let mode = Mode::default();
    let mut first_result: Option<Wave> = None;
    for level in levels() {
        let mut wave = operands.wave(&FIRST, dst, exec);
        let before: Vec<_> = wave.vgprs.to_vec();
        let read = |operand: &Operand, kind: Kind, lane: usize| operands.read(&before, operand, kind, lane);
        run(level, Arch::Gfx90a, &mut wave, &[inst]);
        let name = op.name();
        let context = || format!("{name} {form:?} {placement:?} {level:?} exec {exec:#x}");
        for lane in 0..64 {
            let value = |n: usize| {
                let operand = if n == 2 && operation.accumulates { Operand::Vgpr(dst) } else { inst.src[n] };
                match shape.src[n] {
                    Kind::None | Kind::Mask => 0,
                    // The reference takes sources of their exact size.
                    kind @ (Kind::B16 | Kind::F16) => read(&operand, kind, lane) & 0xffff,
                    kind => read(&operand, kind, lane),
                }
            };
            let seen = Lane {
                mode: &mode,
                s: [0, 1, 2].map(value),
                carry: operands.select >> lane & 1 == 1,
                number: lane,
                clamp: false,
            };
            let (want, want_mask) = reference(op, &seen).unwrap();
            let active = exec >> lane & 1 == 1;
            let got_mask = wave.sgpr64(mask_at) >> lane & 1 == 1;
            if let Some(mask) = want_mask {
                assert_eq!(got_mask, mask && active, "{} lane {lane} {seen:x?}", context());
                if name.starts_with("v_cmpx") {
                    assert_eq!(wave.exec() >> lane & 1 == 1, mask && active, "{} lane {lane}", context());
                }
            }
            for (register, old) in before.iter().enumerate() {
                let offset = register.wrapping_sub(usize::from(dst));
                let written = want.is_some() && offset < if shape.dst.wide() { 2 } else { 1 };
                if !active || !written {
                    let got = wave.vgprs[register].0[lane];
                    assert_eq!(
                        got,
                        old.0[lane],
                        "{} lane {lane} register {register} must not change",
                        context()
                    );
                }
            }
            if let (Some(mut want), true) = (want, active) {
                let at = usize::from(dst);
                let mut got = u64::from(wave.vgprs[at].0[lane]);
                if shape.dst.wide() {
                    got |= u64::from(wave.vgprs[at + 1].0[lane]) << 32;
                }
                if operation.preserves {
                    want |= u64::from(before[at].0[lane] & 0xffff_0000);
                }
                assert!(
                    same(shape.dst, got, want, tolerance(name)),
                    "{} lane {lane} {seen:x?}: got {got:#x}, want {want:#x}",
                    context()
                );
            }
        }
        // All levels give the same bits, except for NaN payloads.
        if let Some(first) = &first_result {
            assert_eq!(first.sgprs, wave.sgprs, "{}", context());
            for lane in 0..64 {
                let at = usize::from(dst);
                let bits = |wave: &Wave| {
                    let high = if shape.dst.wide() { wave.vgprs[at + 1].0[lane] } else { 0 };
                    u64::from(wave.vgprs[at].0[lane]) | u64::from(high) << 32
                };
                assert!(
                    same(shape.dst, bits(&wave), bits(first), 0),
                    "{} differs from the first level",
                    context()
                );
            }
        } else {
            first_result = Some(wave);
        }
    }
}

/// Operations without a per-lane reference, or composed of other operations; each has a separate test.
const TESTED_ELSEWHERE: &[&str] = &[
    "v_div_scale_f32",
    "v_div_scale_f64",
    "v_div_fmas_f32",
    "v_div_fmas_f64",
    "v_div_fixup_f32",
    "v_div_fixup_f64",
    "v_div_fixup_f16",
    "v_div_fixup_legacy_f16",
    "v_trig_preop_f64",
];

/// Checks the operations whose number modulo `parts` is `part`, so that tests run in parallel.
fn check_part(part: usize, parts: usize) {
    let mut seen = 0;
    for (number, &op) in Op::ALL.iter().enumerate() {
        let Some((operation, format)) = operation(op) else { continue };
        if number % parts != part || TESTED_ELSEWHERE.contains(&op.name()) {
            continue;
        }
        seen += 1;
        let probe = Lane { mode: &Mode::default(), s: [0; 3], carry: false, number: 0, clamp: false };
        assert!(reference(op, &probe).is_some(), "{} has no reference", op.name());
        let mut placements =
            vec![Placement::Vectors, Placement::ScalarFirst, Placement::ConstantFirst, Placement::InPlace];
        if operation.shape.src[0].wide() && operation.shape.dst.wide() {
            placements.push(Placement::Overlapping);
        }
        for seed in 0..6 {
            let operands = Operands::new(seed * 1000 + number as u64, operation.shape);
            for &placement in &placements {
                for exec in [!0, operands.random_mask, 0] {
                    check(op, format, &operation, placement, exec, &operands);
                }
            }
            let e64 = matches!(format, Format::Vop1 | Format::Vop2 | Format::Vopc);
            let literal = matches!(op.name(), "v_fmamk_f32" | "v_fmaak_f32" | "v_madmk_f32" | "v_madak_f32")
                || matches!(op.name(), "v_madmk_f16" | "v_madak_f16" | "v_pk_fmac_f16");
            if e64 && !literal {
                check(op, Format::Vop3, &operation, Placement::Vectors, operands.random_mask, &operands);
                check(op, Format::Vop3, &operation, Placement::ScalarLast, !0, &operands);
            }
        }
    }
    assert!(seen > 20, "only {seen} operations were checked");
}

#[test]
fn every_operation_agrees_with_the_reference_part_1() {
    check_part(0, 4);
}

#[test]
fn every_operation_agrees_with_the_reference_part_2() {
    check_part(1, 4);
}

#[test]
fn every_operation_agrees_with_the_reference_part_3() {
    check_part(2, 4);
}

#[test]
fn every_operation_agrees_with_the_reference_part_4() {
    check_part(3, 4);
}

#[test]
fn every_hot_row_has_a_specialised_handler() {
    for &op in Op::ALL.iter().filter(|op| op.is_hot()) {
        assert!(operation(op).is_some_and(|(operation, _)| operation.hot.is_some()), "{}", op.name());
    }
}

/// Vector mnemonics that no compute program uses; all others must compile.
const NOT_EXECUTED: &[&str] = &["v_screen_partition_4se_b32"];

#[test]
fn every_vector_mnemonic_is_executed() {
    let mut refused = Vec::new();
    for &op in Op::ALL {
        if !op.name().starts_with("v_") || NOT_EXECUTED.contains(&op.name()) {
            continue;
        }
        let mut c = Compiler::new(Arch::Gfx942, Level::Base, 128, 256, 0);
        let src = [Operand::Vgpr(2), Operand::Vgpr(8), Operand::Vgpr(16)];
        let done = [Format::Vop1, Format::Vop3, Format::Vop3p].into_iter().any(|format| {
            [Operand::Vgpr(32), Operand::Sgpr(4)].into_iter().any(|dst| {
                let mut src = src;
                // Select masks and carries are scalar.
                (0..2).any(|_| {
                    let done = compile(&mut c, &inst(op, format, dst, &src)).is_ok();
                    src[2] = Operand::VccLo;
                    done
                })
            })
        });
        if !done {
            refused.push(op.name());
        }
    }
    assert!(refused.is_empty(), "not supported: {refused:?}");
}
