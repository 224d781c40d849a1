//! Runs one instruction on the emulator and on the reference, from the same random state.

use emulator::compile::Compiler;
use emulator::{FaultKind, Lanes, Level, Mode, Uop, Wave, exec};
use isa::{Arch, DataType, Element, Format, Inst, disassemble};

use super::machine::{ACCUMULATORS, EXEC, Machine, REGISTERS};
use isa_reference::exact::{F16, F32, F64, Format as Float};
use isa_reference::random::Random;

/// A state of zeros, all lanes active, in the default MODE.
pub fn blank(arch: Arch) -> Machine {
    let mut s = [0; 128];
    (s[EXEC], s[EXEC + 1]) = (!0, !0);
    Machine { arch, v: vec![[0; 64]; REGISTERS], s, scc: false, mode: Mode::default(), nans: 0 }
}

/// A random state with values that suit the instruction's types.
pub fn state(random: &mut Random, arch: Arch, inst: &Inst) -> Machine {
    let row = inst.encoding();
    let mut types = vec![row.dst];
    types.extend(row.src);
    let wide = types.iter().any(|t| t.element_bits() == 64);
    let halves = types.iter().any(|t| t.element_bits() == 16);
    let value = |random: &mut Random| -> u64 {
        if wide && !random.chance(4) {
            random.qword()
        } else if halves && !random.chance(3) {
            let half = |random: &mut Random| random.float(F16) | random.float(F16) << 16;
            half(random) | half(random) << 32
        } else {
            u64::from(random.dword()) | u64::from(random.dword()) << 32
        }
    };
    let mut v = vec![[0; 64]; REGISTERS];
    for pair in v.chunks_mut(2) {
        let [low, high] = pair else { unreachable!("the number of registers is even") };
        for (low, high) in low.iter_mut().zip(high) {
            let bits = value(random);
            (*low, *high) = (bits as u32, (bits >> 32) as u32);
        }
    }
    let mut s = [0; 128];
    for pair in s.chunks_mut(2) {
        let bits = value(random);
        pair[0] = bits as u32;
        pair[1] = (bits >> 32) as u32;
    }
    let exec = match random.below(6) {
        0 => 0,
        1 => 1 << random.below(64),
        2 | 3 => random.bits(),
        _ => !0,
    };
    s[EXEC] = exec as u32;
    s[EXEC + 1] = (exec >> 32) as u32;
    if random.chance(2) {
        s[super::machine::M0] = random.below(12) as u32;
    }
    Machine { arch, v, s, scc: random.chance(2), mode: mode(random), nans: 0 }
}

/// The default MODE in half of the cases.
fn mode(random: &mut Random) -> Mode {
    let mut mode = Mode::default();
    if random.chance(2) {
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

/// Alternates between the best CPU level and lower ones.
pub fn level(random: &mut Random) -> Level {
    let levels = [Level::detect(), Level::detect(), Level::Base, Level::V3.min(Level::detect())];
    random.pick(&levels)
}

pub fn emulate(level: Level, start: &Machine, inst: &Inst) -> Result<Machine, String> {
    emulate_in(level, start, inst, |_| {}).map(|(machine, _)| machine)
}

/// Like [`emulate`], but lets `place` set up the wave's memory, and also returns the fault if there was one.
pub fn emulate_in(
    level: Level,
    start: &Machine,
    inst: &Inst,
    place: impl FnOnce(&mut Wave),
) -> Result<(Machine, Option<FaultKind>), String> {
    let mut compiler = Compiler::new(start.arch, level, ACCUMULATORS as u16, REGISTERS as u16, 0x1000);
    compiler.insts.push(*inst);
    let uop = exec::compile(&mut compiler, inst, 0).map_err(|error| error.to_string())?;
    let uops: Vec<Uop> = compiler.before.drain(..).chain([uop]).collect();
    let mut wave = Wave::new(REGISTERS);
    for (to, from) in wave.vgprs.iter_mut().zip(&start.v) {
        *to = Lanes(*from);
    }
    wave.sgprs[..128].copy_from_slice(&start.s);
    wave.scc = start.scc;
    wave.mode = start.mode;
    wave.constants = compiler.constants.as_ptr();
    wave.insts = compiler.insts.as_ptr();
    place(&mut wave);
    for uop in &uops {
        // SAFETY: this machine supports the level. The micro-op was just compiled for a wave with these registers, and its
        // constants and instructions live until the end of this function.
        unsafe { (uop.run)(&mut wave, uop) };
    }
    let mut s = [0; 128];
    s.copy_from_slice(&wave.sgprs[..128]);
    let v = wave.vgprs.iter().map(|lanes| lanes.0).collect();
    let machine = Machine { arch: start.arch, v, s, scc: wave.scc, mode: wave.mode, nans: 0 };
    Ok((machine, wave.fault.map(|(kind, _)| kind)))
}

/// Permitted error in units in the last place; the hardware's approximations guarantee one.
fn tolerance(name: &str) -> u64 {
    let approximate = ["exp", "log", "sin", "cos", "rcp", "rsq", "sqrt"];
    let stem = name.trim_start_matches("v_");
    u64::from(approximate.iter().any(|operation| stem.starts_with(operation)))
}

/// Whether two floats are equal, both NaN, or within the tolerance.
fn near(format: Float, got: u64, want: u64, ulps: u64) -> bool {
    if format.is_nan(got) || format.is_nan(want) {
        return format.is_nan(got) && format.is_nan(want);
    }
    let magnitude = |bits: u64| bits & (format.sign() - 1);
    let same_sign = (got ^ want) & format.sign() == 0 || magnitude(got) == 0 && magnitude(want) == 0;
    got == want || ulps > 0 && same_sign && magnitude(got).abs_diff(magnitude(want)) <= ulps
}

/// Whether two register contents are equal when interpreted as the written type.
fn alike(data_type: DataType, got: u64, want: u64, ulps: u64) -> bool {
    if got == want {
        return true;
    }
    let floats = data_type.element() == Element::Float;
    if !floats {
        return false;
    }
    let format = match data_type.element_bits() {
        16 => F16,
        32 => F32,
        _ => F64,
    };
    let mut shift = 0;
    while shift < 64 {
        let mask = u64::MAX >> (64 - format.bits);
        if !near(format, got >> shift & mask, want >> shift & mask, ulps) {
            return false;
        }
        shift += format.bits;
    }
    true
}

/// Runs an instruction on both machines. Returns a description of the difference as the error.
pub fn compare(random: &mut Random, arch: Arch, inst: &Inst, bytes: &[u8]) -> Result<(), String> {
    let start = state(random, arch, inst);
    let mut want = start.clone();
    let text = disassemble(arch, inst, 0);
    let context = |what: String| {
        format!(
            "{arch:?} `{text}` {:02x?}\n   {:?} exec {:#x}: {what}",
            &bytes[..inst.size.into()],
            start.mode,
            start.exec()
        )
    };
    let scalar = matches!(inst.format, Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk);
    let known = if scalar { want.scalar(inst) } else { want.vector(inst) };
    if !known {
        return Err(context("has no reference implementation".to_string()));
    }
    let got = emulate(level(random), &start, inst).map_err(context)?;
    let row = inst.encoding();
    let ulps = tolerance(inst.op.name());
    let dst = Machine::vector_index(inst.dst);
    for lane in 0..64 {
        for register in 0..REGISTERS {
            let (mut g, mut w) = (u64::from(got.v[register][lane]), u64::from(want.v[register][lane]));
            if g == w {
                continue;
            }
            let mut written = DataType::None;
            if let Some(dst) = dst
                && (register == dst || register == dst + 1 && row.dst.dwords() == 2)
            {
                written = row.dst;
                if row.dst.dwords() == 2 {
                    g = u64::from(got.v[dst][lane]) | u64::from(got.v[dst + 1][lane]) << 32;
                    w = u64::from(want.v[dst][lane]) | u64::from(want.v[dst + 1][lane]) << 32;
                }
            }
            // Part of a float is unspecified if the float is a NaN or an approximation.
            let part = inst.sdwa.is_some_and(|sdwa| sdwa.dst_sel != 6);
            if part && written != DataType::None && (want.nans >> lane & 1 == 1 || ulps > 0) {
                continue;
            }
            if written == DataType::None || !alike(written, g, w, ulps) {
                let sources: Vec<String> = inst
                    .src
                    .iter()
                    .filter_map(|operand| Machine::vector_index(*operand))
                    .map(|at| format!("{:08x}:{:08x}", start.v[at + 1][lane], start.v[at][lane]))
                    .collect();
                let old = dst.map(|at| start.v[at][lane]);
                return Err(context(format!(
                    "lane {lane} register {register}: got {g:#x}, want {w:#x}; sources {sources:?}, destination was {old:x?}"
                )));
            }
        }
    }
    for at in 0..128 {
        if got.s[at] != want.s[at] {
            return Err(context(format!(
                "scalar {at}: got {:#x}, want {:#x} (was {:#x})",
                got.s[at], want.s[at], start.s[at]
            )));
        }
    }
    if got.scc != want.scc {
        return Err(context(format!("SCC is {}", got.scc)));
    }
    Ok(())
}
