//! Every vector operation against the software GPU, and against the reference where it has one.

use emulator::compile::Compiler;
use emulator::{Lanes, Level, Wave, exec};
use isa::{
    Arch, DataType, ENCODINGS, Element, Encoding, Flags, Format, Inst, MemoryBits, Mode, Modifiers, Operand,
};
use isa_reference::exact::{F16, F32, F64, Format as Float};
use isa_reference::random::Random;

use super::*;
use crate::evaluate::evaluate_pure;
use crate::form::{Input, Operation, Shape};
use crate::{Block, Function};

const VCC: usize = 106;
const EXEC: usize = 126;
const CARRY: usize = 20;
const MASK: usize = 30;
const FIRST: [u8; 3] = [0, 2, 4];
const RESULT: u8 = 8;

/// Operations that [`lift`] refuses, and why.
const REFUSED: &[(&str, &str)] = &[
    ("v_nop", "does nothing"),
    ("v_clrexcp", "clears flags that nothing reads"),
    ("v_readfirstlane_b32", "crosses lanes"),
    ("v_readlane_b32", "crosses lanes"),
    ("v_writelane_b32", "crosses lanes"),
    ("v_swap_b32", "writes both operands"),
    ("v_pk_mov_b32", "op_sel chooses registers, not halves of values"),
    ("v_mqsad_u32_u8", "the result has four words; v_msad_u8 makes each"),
    ("v_screen_partition_4se_b32", "graphics, which the software GPU does not execute either"),
    ("v_mfma_", "matrices"),
    ("v_smfmac_", "matrices"),
];

fn refused(name: &str) -> bool {
    REFUSED.iter().any(|(start, _)| name.starts_with(start))
}

fn vector_rows() -> impl Iterator<Item = &'static Encoding> {
    ENCODINGS.iter().filter(|row| {
        matches!(row.format, Format::Vop1 | Format::Vop2 | Format::Vopc | Format::Vop3 | Format::Vop3p)
    })
}

/// A lifted instruction whose sources are parameters, or constants.
struct Lifted {
    function: Function,
    sources: Vec<Value>,
    carry: Value,
    outcome: Outcome,
}

fn lifted(op: Op, mode: &Mode, clamp: bool, omod: u8, constants: [Option<u64>; 3]) -> Option<Lifted> {
    let mut function = Function::default();
    let block = function.add_block(0);
    let mut b = Builder { function: &mut function, block, address: 0 };
    // A phi without predecessors stands for a value from elsewhere.
    let parameter = |b: &mut Builder<'_>, kind| b.append(Operation::Phi, &[], &[(kind, Shape::Lane)])[0];
    let sources: Vec<Value> = source_kinds(op)?
        .iter()
        .zip(constants)
        .map(|(kind, constant)| match constant {
            Some(bits) => b.constant(*kind, bits),
            None => parameter(&mut b, *kind),
        })
        .collect();
    let carry = parameter(&mut b, Kind::Bit);
    let mut outcome = lift(&mut b, op, &sources, Some(carry), mode, clamp)?;
    outcome.value = outcome.value.map(|value| finish(&mut b, op, value, omod, clamp, mode));
    Some(Lifted { function, sources, carry, outcome })
}

impl Lifted {
    /// Results of one lane.
    fn run(&self, sources: [u64; 3], carry: bool, lane: u32) -> (Option<u64>, Option<bool>) {
        let function = &self.function;
        let mut values = vec![0_u64; function.values.len()];
        for (value, bits) in self.sources.iter().zip(sources) {
            values[value.0 as usize] = bits;
        }
        values[self.carry.0 as usize] = carry.into();
        for index in &function.blocks[Block(0).0 as usize].instructions {
            let instruction = &function.instructions[*index as usize];
            let result = instruction.results[0];
            let operands: Vec<u64> =
                instruction.operands.iter().map(|operand| values[operand.0 as usize]).collect();
            let kind = function.kind(*instruction.operands.first().unwrap_or(&result));
            values[result.0 as usize] = match instruction.operation {
                Operation::Phi => continue,
                Operation::Input(Input::LanesBelow) => (1 << lane) - 1,
                ref operation => evaluate_pure(operation, kind, &operands)
                    .unwrap_or_else(|| panic!("{operation:?} is not pure")),
            };
        }
        let get = |value: Option<Value>| value.map(|value| values[value.0 as usize]);
        (get(self.outcome.value), get(self.outcome.mask).map(|bit| bit == 1))
    }
}

/// Operands of 64 lanes.
struct Operands {
    sources: [[u64; 64]; 3],
    carry: u64,
}

fn draw(random: &mut Random, op: Op, constants: [Option<u64>; 3]) -> Operands {
    let row = op.encoding();
    let mut types = row.src;
    if accumulates(op) {
        types[row.source_count()] = row.dst;
    }
    let mix = row.flags.has(Flags::MIX);
    let mut sources = [[0; 64]; 3];
    #[expect(clippy::needless_range_loop, reason = "a lane of all sources at once")]
    for lane in 0..64 {
        // Operands that are equal or related are edge cases of divisions and comparisons.
        let twin = random.chance(6);
        for n in 0..3 {
            let data_type = if mix { DataType::F32 } else { types[n] };
            let bits = value(random, data_type);
            let bits = if twin && n > 0 && types[n] == types[n - 1] { sources[n - 1][lane] } else { bits };
            sources[n][lane] = constants[n].unwrap_or(bits);
        }
    }
    Operands { sources, carry: random.bits() }
}

fn value(random: &mut Random, data_type: DataType) -> u64 {
    let floats = data_type.element() == Element::Float;
    match (data_type.element_bits(), data_type.dwords()) {
        (64, _) if floats && !random.chance(5) => random.float(F64),
        (_, 2) if data_type == DataType::F32x2 => random.float(F32) | random.float(F32) << 32,
        (_, 2) => random.qword(),
        (32, _) if floats && !random.chance(5) => random.float(F32),
        (16, _) if !random.chance(3) => random.float(F16) | random.float(F16) << 16,
        _ => random.dword().into(),
    }
}

fn mode(random: &mut Random) -> Mode {
    let mut mode = Mode::default();
    if random.chance(3) {
        return mode;
    }
    if random.chance(2) {
        (mode.round_f32, mode.round_f64) = (random.below(4) as u8, random.below(4) as u8);
    }
    if random.chance(2) {
        (mode.denorm_f32, mode.denorm_f64) = (random.below(4) as u8, random.below(4) as u8);
    }
    mode.dx10_clamp = random.chance(2);
    mode.ieee = random.chance(2);
    mode.fp16_ovfl = random.chance(3);
    mode
}

fn instruction(op: Op, clamp: bool, omod: u8) -> Inst {
    let row = op.encoding();
    let mut src = [Operand::None; 4];
    for (n, register) in FIRST.into_iter().enumerate().take(row.source_count()) {
        src[n] = Operand::Vgpr(register);
    }
    if row.flags.has(Flags::CARRY_IN) {
        src[2] = Operand::Sgpr(CARRY as u8);
    }
    Inst {
        op,
        format: if row.format == Format::Vop3p { Format::Vop3p } else { Format::Vop3 },
        size: 8,
        dst: Operand::Vgpr(RESULT),
        sdst: Operand::Sgpr(MASK as u8),
        src,
        imm: 0,
        modifiers: Modifiers {
            op_sel_hi: if row.format == Format::Vop3p && !row.flags.has(Flags::MIX) { 7 } else { 0 },
            clamp,
            omod,
            ..Modifiers::default()
        },
        memory: MemoryBits::default(),
        dpp: None,
        sdwa: None,
    }
}

/// Results of 64 lanes on the software GPU.
fn emulate(arch: Arch, inst: &Inst, mode: Mode, operands: &Operands) -> Result<([u64; 64], u64), String> {
    let mut compiler = Compiler::new(arch, Level::detect(), 32, 64, 0x1000);
    compiler.insts.push(*inst);
    let uop = exec::compile(&mut compiler, inst, 0).map_err(|error| error.to_string())?;
    let mut wave = Wave::new(64);
    let mut place = |register: u8, lanes: &[u64; 64]| {
        wave.vgprs[usize::from(register)] = Lanes(lanes.map(|bits| bits as u32));
        wave.vgprs[usize::from(register) + 1] = Lanes(lanes.map(|bits| (bits >> 32) as u32));
    };
    for (register, lanes) in FIRST.into_iter().zip(&operands.sources) {
        place(register, lanes);
    }
    if accumulates(inst.op) {
        place(RESULT, &operands.sources[2]);
    }
    for (at, bits) in [(VCC, operands.carry), (CARRY, operands.carry), (EXEC, !0)] {
        wave.sgprs[at] = bits as u32;
        wave.sgprs[at + 1] = (bits >> 32) as u32;
    }
    wave.mode = mode;
    wave.constants = compiler.constants.as_ptr();
    wave.insts = compiler.insts.as_ptr();
    for uop in compiler.before.iter().chain([&uop]) {
        // SAFETY: this machine has the level that it detected. The micro-op was compiled for a wave with these registers, and its
        // constants and instructions live until the end of this function.
        unsafe { (uop.run)(&mut wave, uop) };
    }
    let at = usize::from(RESULT);
    let lane = |n: usize| u64::from(wave.vgprs[at].0[n]) | u64::from(wave.vgprs[at + 1].0[n]) << 32;
    let mask = u64::from(wave.sgprs[MASK]) | u64::from(wave.sgprs[MASK + 1]) << 32;
    Ok((std::array::from_fn(lane), mask))
}

/// Bits of the result that the operation writes.
fn written(op: Op) -> u64 {
    let row = op.encoding();
    match op {
        Op::v_cvt_sr_fp8_f32 | Op::v_cvt_sr_bf8_f32 => 0xff,
        Op::v_cvt_pk_fp8_f32 | Op::v_cvt_pk_bf8_f32 => 0xffff,
        _ if row.dst.element_bits() == 16 && row.dst.count() == 1 => 0xffff,
        _ if row.dst.dwords() == 2 => u64::MAX,
        _ => 0xffff_ffff,
    }
}

/// Whether two results are equal; NaNs are, whatever their payload.
fn same(data_type: DataType, got: u64, want: u64, ulps: u64) -> bool {
    if got == want {
        return true;
    }
    let format = match (data_type.element(), data_type.element_bits()) {
        (Element::Float, 16) => F16,
        (Element::Float, 32) => F32,
        (Element::Float, 64) => F64,
        _ => return false,
    };
    let near = |format: Float, got: u64, want: u64| {
        if format.is_nan(got) || format.is_nan(want) {
            return format.is_nan(got) && format.is_nan(want);
        }
        let magnitude = |bits: u64| bits & (format.sign() - 1);
        got == want
            || ulps > 0
                && magnitude(got).abs_diff(magnitude(want)) <= ulps
                && ((got ^ want) & format.sign() == 0 || magnitude(got | want) == 0)
    };
    (0..data_type.count()).all(|n| {
        let part = |bits: u64| bits >> (n * format.bits) & (u64::MAX >> (64 - format.bits));
        near(format, part(got), part(want))
    })
}

/// Permitted difference from the reference, whose approximations are others than those of the software GPU.
fn tolerance(name: &str) -> u64 {
    let approximate = ["v_exp", "v_log", "v_sin", "v_cos", "v_rcp", "v_rsq", "v_sqrt"];
    u64::from(approximate.iter().any(|start| name.starts_with(start)))
}

fn reference(
    op: Op,
    mode: &Mode,
    clamp: bool,
    s: [u64; 3],
    carry: bool,
    number: usize,
) -> Option<isa_reference::Outcome> {
    let row = op.encoding();
    let mut exact = s;
    for (n, source) in exact.iter_mut().enumerate() {
        let data_type = if n == row.source_count() && accumulates(op) { row.dst } else { row.src[n] };
        if data_type.element_bits() == 16 && data_type.count() == 1 && !row.flags.has(Flags::MIX) {
            *source &= 0xffff;
        }
    }
    isa_reference::evaluate(op, &isa_reference::Lane { mode, s: exact, carry, number, clamp })
}

/// Compares `rounds` draws of an operation. Returns the number of lanes.
fn check(random: &mut Random, row: &Encoding, rounds: usize, expands: bool) -> Result<usize, String> {
    let (op, name) = (row.op, row.op.name());
    let mut lanes = 0;
    for _ in 0..rounds {
        let mode = mode(random);
        let clamps = row.flags.has(Flags::CLAMP) || row.format == Format::Vop3p;
        let clamp = clamps && random.chance(3);
        let omod = if row.flags.has(Flags::OMOD) && random.chance(3) { random.below(4) as u8 } else { 0 };
        let mut constants = [None; 3];
        if random.chance(4) {
            let n = random.below(3) as usize;
            let kind = source_kinds(op).and_then(|kinds| kinds.get(n).copied());
            let bits = if random.chance(2) { random.below(1024) } else { value(random, row.src[n]) };
            constants[n] = match kind {
                Some(Kind::Double) => Some(bits),
                Some(_) => Some(bits & 0xffff_ffff),
                None => None,
            };
        }
        let operands = draw(random, op, constants);
        let Some(mut lifted) = lifted(op, &mode, clamp, omod, constants) else {
            return Err(format!("{name}: no decomposition"));
        };
        if expands {
            let replaced = division::expanded(&mut lifted.function);
            let current = |value: Value| replaced.get(&value).copied().unwrap_or(value);
            lifted.outcome.value = lifted.outcome.value.map(current);
            lifted.outcome.mask = lifted.outcome.mask.map(current);
        }
        let inst = instruction(op, clamp, omod);
        let arch = if row.opcode(Arch::Gfx90a).is_some() { Arch::Gfx90a } else { Arch::Gfx942 };
        let (values, mask) =
            emulate(arch, &inst, mode, &operands).map_err(|error| format!("{name}: {error}"))?;
        for lane in 0..64 {
            let s = operands.sources.map(|source| source[lane]);
            let carry = operands.carry >> lane & 1 == 1;
            let (value, bit) = lifted.run(s, carry, lane as u32);
            let context = |what: String| {
                format!(
                    "{name} {s:x?} carry {carry} clamp {clamp} omod {omod} constants {constants:x?} {mode:?}: {what}"
                )
            };
            if let Some(got) = value {
                // This one writes the high half, which the caller does.
                let shift = if op == Op::v_fma_mixhi_f16 { 16 } else { 0 };
                let want = values[lane] >> shift & written(op);
                if !same(row.dst, got & written(op), want, 0) {
                    return Err(context(format!("{got:#x}, but {want:#x} on the software GPU")));
                }
            }
            if let Some(got) = bit
                && got != (mask >> lane & 1 == 1)
            {
                return Err(context(format!("mask {got}")));
            }
            // Where the f32 sum of a mixed FMA overflows, the software GPU and the reference differ in directed rounding.
            let overflow = matches!(op, Op::v_fma_mixlo_f16 | Op::v_fma_mixhi_f16)
                && value.is_some_and(|value| value & 0x7fff == 0x7c00);
            if omod == 0
                && !overflow
                && !(clamp && row.dst.element() == Element::Float)
                && let Some(want) = reference(op, &mode, clamp, s, carry, lane)
            {
                let (want, want_bit) = match want {
                    isa_reference::Outcome::Value(value) => (Some(value), None),
                    isa_reference::Outcome::Mask(bit) => (None, Some(bit)),
                    isa_reference::Outcome::Both(value, bit) => (Some(value), Some(bit)),
                };
                let fits = match (value, want) {
                    (Some(got), Some(want)) => {
                        same(row.dst, got & written(op), want & written(op), tolerance(name))
                    }
                    (got, want) => got == want,
                };
                if !fits || bit != want_bit {
                    return Err(context(format!(
                        "{value:x?} {bit:?}, but the reference says {want:x?} {want_bit:?}"
                    )));
                }
            }
            lanes += 1;
        }
    }
    Ok(lanes)
}

fn rounds() -> usize {
    std::env::var("LIFT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(12)
}

#[test]
fn every_operation_does_what_the_software_gpu_does() {
    let (mut lanes, mut failures) = (0, Vec::new());
    for row in vector_rows().filter(|row| !refused(row.op.name())) {
        let mut random = Random::new(row.op as u64 + 7000 * rounds() as u64);
        match check(&mut random, row, rounds(), false) {
            Ok(count) => lanes += count,
            Err(difference) => failures.push(difference),
        }
    }
    println!("{lanes} lane operations compared");
    assert!(failures.is_empty(), "{} operations differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn expanded_steps_of_a_division_do_what_the_software_gpu_does() {
    let mut failures = Vec::new();
    for row in vector_rows().filter(|row| row.op.name().starts_with("v_div_")) {
        let mut random = Random::new(row.op as u64 + 7000 * rounds() as u64);
        failures.extend(check(&mut random, row, 20 * rounds(), true).err());
    }
    assert!(failures.is_empty(), "{} operations differ:\n{}", failures.len(), failures.join("\n"));
}

#[test]
fn every_vector_operation_has_a_decomposition_or_a_reason() {
    let mode = Mode::default();
    for row in vector_rows() {
        let name = row.op.name();
        let found = lifted(row.op, &mode, false, 0, [None; 3]).is_some();
        assert_eq!(found, !refused(name), "{name}");
    }
}
