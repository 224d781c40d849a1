//! Random sequences of instructions that use each other's results, with forward branches and loops.
//!
//! Float results are left out: the payload of a NaN is unspecified, and integer instructions would spread it.

use emulator::FaultKind;
use isa::{Arch, ENCODINGS, Encoding, Flags, Format, Inst, Op, decode, disassemble};
use isa_reference::random::Random;

use super::compare::{self, Came, Tolerance};
use super::machine::{Machine, VCC};
use super::memory::Memory;
use super::words::{self, FORMS, Form};
use super::{LEFT_OUT, run};

/// Instructions that the software GPU may run, so that a loop whose counter was overwritten ends.
const LIMIT: usize = 500;

/// The counter of loops.
const COUNTER: u32 = 99;

/// One instruction, with the index of its target if it is a branch.
struct Step {
    inst: Inst,
    bytes: Vec<u8>,
    target: Option<usize>,
}

/// Operations that sequences are made of, in the forms that they have.
pub fn choices(arch: Arch) -> Vec<(&'static Encoding, Form)> {
    let formats = [
        Format::Sop1,
        Format::Sop2,
        Format::Sopc,
        Format::Sopk,
        Format::Vop1,
        Format::Vop2,
        Format::Vopc,
        Format::Vop3,
        Format::Vop3p,
        Format::Ds,
    ];
    ENCODINGS
        .iter()
        .filter(|row| row.opcode(arch).is_some() && formats.contains(&row.format))
        .filter(|row| !LEFT_OUT.iter().any(|(start, _)| row.op.name().starts_with(start)))
        // Bits may be floats: packed conversions, and atomics on floats.
        .filter(|row| {
            !row.dst.is_float() && !row.src.iter().any(|source| source.is_float() && row.format == Format::Ds)
        })
        .filter(|row| !row.op.name().contains("_pk") || !row.op.name().contains("f16"))
        .filter(|row| !row.op.name().starts_with("v_cvt_") || row.op.name().contains("_i32_"))
        .filter(|row| !row.flags.has(Flags::GDS_ONLY))
        .flat_map(|row| FORMS.into_iter().map(move |form| (row, form)))
        .filter(|(row, form)| words::has(row, *form))
        .collect()
}

fn step(arch: Arch, word: u32, target: Option<usize>) -> Option<Step> {
    let bytes = word.to_le_bytes().to_vec();
    let inst = decode(arch, &bytes).ok()?;
    Some(Step { inst, bytes, target })
}

/// A branch without its distance.
fn branch(arch: Arch, op: Op, target: usize) -> Option<Step> {
    let opcode = u32::from(op.encoding().opcode(arch)?);
    step(arch, 0xbf80_0000 | opcode << 16, Some(target))
}

/// A random sequence, of instructions that the lifter does not refuse.
fn draw(
    random: &mut Random,
    arch: Arch,
    choices: &[(&'static Encoding, Form)],
    mode: isa::Mode,
) -> Option<Vec<Step>> {
    let count = 5 + random.below(26) as usize;
    let mut steps: Vec<Step> = Vec::new();
    let conditional = [
        Op::s_cbranch_scc0,
        Op::s_cbranch_scc1,
        Op::s_cbranch_vccz,
        Op::s_cbranch_vccnz,
        Op::s_cbranch_execz,
        Op::s_cbranch_execnz,
    ];
    let saves = [Op::s_and_saveexec_b64, Op::s_or_saveexec_b64, Op::s_xor_b64, Op::s_andn2_saveexec_b64];
    while steps.len() < count {
        let at = steps.len();
        match random.below(14) {
            0 => {
                let op = if random.chance(8) { Op::s_branch } else { random.pick(&conditional) };
                steps.push(branch(arch, op, at + 1 + random.below(6) as usize)?);
            }
            1 if at > 2 && random.chance(3) => {
                // The counter loses eight bits in every round.
                let opcode = u32::from(Op::s_lshr_b32.encoding().opcode(arch)?);
                steps.push(step(
                    arch,
                    0x8000_0000 | opcode << 23 | COUNTER << 16 | 136 << 8 | COUNTER,
                    None,
                )?);
                steps.push(branch(arch, Op::s_cbranch_scc1, at - 1 - random.below(at as u64 - 1) as usize)?);
            }
            2 | 3 => {
                let row = random.pick(&saves).encoding();
                let (inst, bytes) = words::draw(random, arch, row, Form::Short)?;
                steps.push(Step { bytes: bytes[..inst.size.into()].to_vec(), inst, target: None });
            }
            _ => {
                let (row, form) = random.pick(choices);
                let (inst, bytes) = words::draw(random, arch, row, form)?;
                let bytes = bytes[..inst.size.into()].to_vec();
                let code = lift::Code { address: 0, bytes: &bytes, pointers: &[] };
                if compare::fits(&inst) && lift::lift_fragment(arch, &code, mode, 0x1000).is_ok() {
                    steps.push(Step { inst, bytes, target: None });
                }
            }
        }
    }
    // Distances, now that all sizes are known. A branch beyond the end goes to the end.
    let mut starts = vec![0];
    for step in &steps {
        starts.push(starts[starts.len() - 1] + step.bytes.len());
    }
    let end = steps.len();
    for at in 0..end {
        if let Some(target) = steps[at].target {
            let target = target.min(end);
            let distance = (starts[target] as i64 - starts[at + 1] as i64) / 4;
            let low = (distance as i16).to_le_bytes();
            steps[at].bytes[..2].copy_from_slice(&low);
            steps[at].inst = decode(arch, &steps[at].bytes).ok()?;
            steps[at].target = Some(target);
        }
    }
    Some(steps)
}

/// Whether a branch is taken.
fn taken(op: Op, machine: &Machine) -> bool {
    match op {
        Op::s_cbranch_scc0 => !machine.scc,
        Op::s_cbranch_scc1 => machine.scc,
        Op::s_cbranch_vccz => machine.pair(VCC) == 0,
        Op::s_cbranch_vccnz => machine.pair(VCC) != 0,
        Op::s_cbranch_execz => machine.exec() == 0,
        Op::s_cbranch_execnz => machine.exec() != 0,
        _ => true,
    }
}

/// Runs a sequence on the software GPU; `None` if it takes too long or refuses an instruction.
fn emulate(
    random: &mut Random,
    start: &Machine,
    steps: &[Step],
    local: &mut [u64],
    size: usize,
) -> Option<(Machine, u64)> {
    let mut machine = start.clone();
    let (mut at, mut lanes, level) = (0, 0, run::level(random));
    for _ in 0..LIMIT {
        let Some(step) = steps.get(at) else { return Some((machine, lanes)) };
        at += 1;
        if let Some(target) = step.target {
            if taken(step.inst.op, &machine) {
                at = target;
            }
            continue;
        }
        lanes += u64::from(machine.exec().count_ones());
        let ran = run::emulate_in(level, &machine, &step.inst, |wave| {
            (wave.lds, wave.lds_size) = (local.as_mut_ptr().cast(), size as u32);
        });
        let (after, fault): (Machine, Option<FaultKind>) = ran.ok()?;
        if fault.is_some() {
            return None;
        }
        machine = after;
    }
    None
}

/// Compares one sequence.
pub fn compare(
    random: &mut Random,
    arch: Arch,
    choices: &[(&'static Encoding, Form)],
) -> Result<Came, String> {
    let first = random.pick(choices).0;
    let Some((inst, _)) = words::draw(random, arch, first, Form::Short) else { return Ok(Came::Skipped) };
    let start = run::state(random, arch, &inst);
    let Some(steps) = draw(random, arch, choices, start.mode) else { return Ok(Came::Skipped) };
    let size = 1024;
    let mut local: Vec<u64> = (0..size / 8).map(|_| random.bits()).collect();
    let bytes = |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|word| word.to_le_bytes()).collect() };
    let mut memory =
        Memory { base: 0, global: Vec::new(), local: bytes(&local), private: vec![Vec::new(); 64] };
    let Some((want, lanes)) = emulate(random, &start, &steps, &mut local, size) else {
        return Ok(Came::Skipped);
    };
    let code: Vec<u8> = steps.iter().flat_map(|step| step.bytes.clone()).collect();
    let listing = || -> String {
        let mut at = 0;
        let lines = steps.iter().map(|step| {
            let text = disassemble(arch, &step.inst, at);
            at += step.bytes.len() as u64;
            format!("    {:4x}: {text}\n", at - step.bytes.len() as u64)
        });
        lines.collect()
    };
    let mut function = match compare::lifted(arch, &code, &start) {
        Ok(function) => function,
        Err(reason) => return Ok(Came::Refused(reason)),
    };
    let context =
        |what: String| format!("{arch:?} {:?} exec {:#x}: {what}\n{}", start.mode, start.exec(), listing());
    let none = Tolerance::default();
    let got = compare::both(&mut function, &start, &mut memory, none).map_err(context)?;
    let got = got.map_err(|fault| context(format!("stopped with `{fault}`")))?;
    if let Some(what) = compare::difference(&got, &want, &start, none) {
        return Err(context(what));
    }
    if memory.local != bytes(&local) {
        return Err(context("local memory".to_owned()));
    }
    Ok(Came::Equal { lanes })
}
