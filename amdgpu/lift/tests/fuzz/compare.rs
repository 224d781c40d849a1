//! One comparison: the same code from the same state on the software GPU and in the evaluator.

use isa::{Arch, Format, Inst, disassemble};
use isa_reference::exact::{F16, F32, F64, Format as Float};
use isa_reference::random::Random;
use lift::evaluate::{Fault, Fragment, Memory, run_fragment};
use lift::form::Register;
use lift::{Assumptions, Code, Function};

use super::access;
use super::machine::{ACCUMULATORS, Machine, REGISTERS};
use super::memory::Memory as Machinery;
use super::run;

/// Instructions of the form that a case may run.
const STEPS: u64 = 1_000_000;

/// Outcome of a comparison without a difference.
pub enum Came {
    /// Both ended in the same state.
    Equal {
        /// Lanes that took part, summed over instructions.
        lanes: u64,
    },
    /// Both stopped with a fault.
    Fault,
    /// The software GPU refused the code.
    Skipped,
    /// The lifter refused the code.
    Refused(String),
}

/// Global memory of a state.
struct Global<'a> {
    base: u64,
    bytes: &'a mut [u8],
    /// Bytes that were written, and whether one was written twice.
    written: Vec<bool>,
    raced: bool,
}

impl Global<'_> {
    fn find(&mut self, address: u64, count: usize) -> Option<&mut [u8]> {
        let at = usize::try_from(address.checked_sub(self.base)?).ok()?;
        self.bytes.get_mut(at..at.checked_add(count)?)
    }
}

impl Memory for Global<'_> {
    fn read(&mut self, address: u64, to: &mut [u8]) -> bool {
        self.find(address, to.len()).map(|from| to.copy_from_slice(from)).is_some()
    }

    fn write(&mut self, address: u64, from: &[u8]) -> bool {
        let Some(to) = self.find(address, from.len()) else { return false };
        to.copy_from_slice(from);
        let at = (address - self.base) as usize;
        self.written.resize(self.bytes.len(), false);
        for written in &mut self.written[at..at + from.len()] {
            self.raced |= std::mem::replace(written, true);
        }
        true
    }
}

/// Index of a register of the form in the machine's file.
fn place(register: u16) -> usize {
    if register < 256 { register.into() } else { ACCUMULATORS + usize::from(register) - 256 }
}

/// Runs a function from a state. Registers that it does not observe keep their values.
pub fn evaluate(function: &Function, start: &Machine, memory: &mut Machinery) -> Result<Machine, Fault> {
    run_from(function, start, memory).map(|(end, _)| end)
}

/// Runs a function from a state. The result also tells whether a byte of global memory was written more than once: which lane
/// writes last is not defined.
fn run_from(function: &Function, start: &Machine, memory: &mut Machinery) -> Result<(Machine, bool), Fault> {
    let register = |register: Register, lane: usize| match register {
        Register::Scalar(n) => start.s.get(usize::from(n)).copied().unwrap_or(0).into(),
        Register::Vector(n) => start.v.get(place(n)).map_or(0, |lanes| lanes[lane]).into(),
        Register::Scc => start.scc.into(),
    };
    let mut global =
        Global { base: memory.base, bytes: &mut memory.global, written: Vec::new(), raced: false };
    let fragment = Fragment {
        register: &register,
        local: &mut memory.local,
        private: &mut memory.private,
        memory: &mut global,
    };
    let (observed, _) = run_fragment(function, fragment, STEPS)?;
    let raced = global.raced;
    let mut end = start.clone();
    for (register, values) in observed {
        let value = |lane: usize| values.get(lane).copied().unwrap_or(values[0]);
        match register {
            Register::Scalar(n) => end.s[usize::from(n)] = value(0) as u32,
            Register::Vector(n) => {
                let lanes = &mut end.v[place(n)];
                lanes.iter_mut().enumerate().for_each(|(lane, word)| *word = value(lane) as u32);
            }
            Register::Scc => end.scc = value(0) & 1 == 1,
        }
    }
    Ok((end, raced))
}

/// Where a NaN may have any payload.
#[derive(Clone, Copy, Default)]
pub struct Tolerance {
    /// Format of the floats in memory and, from the first register on, in the registers.
    floats: Option<Float>,
    /// First register and number of registers of floats that an instruction writes.
    written: Option<(usize, usize)>,
    /// Lanes in which a part of a NaN was written.
    parts: u64,
}

impl Tolerance {
    /// What an instruction leaves open.
    fn of(inst: &Inst, start: &Machine) -> Tolerance {
        let (row, mut out) = (inst.encoding(), Tolerance::default());
        let (Some(at), true) = (Machine::vector_index(inst.dst), row.dst.is_float()) else { return out };
        out.floats = Some(match row.dst.element_bits() {
            16 => F16,
            32 => F32,
            _ => F64,
        });
        out.written = Some((at, row.dst.dwords() as usize));
        if inst.sdwa.is_some_and(|sdwa| sdwa.dst_sel != 6) {
            let mut reference = start.clone();
            out.parts = if reference.vector(inst) { reference.nans } else { 0 };
        }
        out
    }
}

/// The first difference between two states.
pub fn difference(got: &Machine, want: &Machine, start: &Machine, tolerance: Tolerance) -> Option<String> {
    for lane in 0..64 {
        // Several registers together: a double that is a NaN spans two of them.
        let row = |machine: &Machine, from: usize, count: usize| -> Vec<u8> {
            machine.v[from..from + count].iter().flat_map(|lanes| lanes[lane].to_le_bytes()).collect()
        };
        let (from, count) = tolerance.written.unwrap_or((0, REGISTERS));
        let alike = tolerance.parts >> lane & 1 == 1
            || access::alike(tolerance.floats, &row(got, from, count), &row(want, from, count));
        let at = (0..REGISTERS)
            .filter(|at| !alike || !(from..from + count).contains(at))
            .find(|at| got.v[*at][lane] != want.v[*at][lane]);
        if let Some(at) = at {
            return Some(format!(
                "v{at}[{lane}] is {:#x}, should be {:#x}, was {:#x}",
                got.v[at][lane], want.v[at][lane], start.v[at][lane]
            ));
        }
    }
    if let Some(at) = (0..128).find(|at| got.s[*at] != want.s[*at]) {
        return Some(format!(
            "s{at} is {:#x}, should be {:#x}, was {:#x}",
            got.s[at], want.s[at], start.s[at]
        ));
    }
    (got.scc != want.scc).then(|| format!("SCC is {}", got.scc))
}

/// The first difference between two memories.
fn memory_difference(got: &Machinery, want: &Machinery, floats: Option<Float>) -> Option<String> {
    for (what, got, want) in [("global", &got.global, &want.global), ("local", &got.local, &want.local)] {
        if !access::alike(floats, got, want) {
            let at = (0..got.len()).find(|at| got[*at] != want[*at]).unwrap_or(0) & !3;
            return Some(format!(
                "{what} memory at {at:#x}: {:02x?}, should be {:02x?}",
                &got[at..(at + 4).min(got.len())],
                &want[at..(at + 4).min(want.len())]
            ));
        }
    }
    let lane = (0..64).find(|lane| !access::alike(floats, &got.private[*lane], &want.private[*lane]))?;
    Some(format!("private memory of lane {lane}"))
}

/// A memory that no instruction accesses.
fn nothing() -> Machinery {
    Machinery { base: 0, global: Vec::new(), local: Vec::new(), private: vec![Vec::new(); 64] }
}

/// Lifts code, and checks the function's shape.
pub fn lifted(arch: Arch, code: &[u8], start: &Machine) -> Result<Function, String> {
    let code = Code { address: 0, bytes: code, pointers: &[] };
    lift::lift_fragment(arch, &code, start.mode, 0x1000).map_err(|refusal| refusal.reason)
}

/// Evaluates a function before and after its optimisation; both must give the same.
pub fn both(
    function: &mut Function,
    start: &Machine,
    memory: &mut Machinery,
    tolerance: Tolerance,
) -> Result<Result<Machine, Fault>, String> {
    let mut other = memory.clone();
    lift::verify(function)?;
    let plain = evaluate(function, start, memory);
    lift::optimize(function, &Assumptions::default());
    lift::verify(function).map_err(|what| format!("optimised: {what}"))?;
    let optimised = evaluate(function, start, &mut other);
    match (&plain, &optimised) {
        (Ok(plain), Ok(optimised)) => {
            if let Some(what) = difference(optimised, plain, start, tolerance)
                .or_else(|| memory_difference(&other, memory, tolerance.floats))
            {
                return Err(format!("optimised: {what}"));
            }
        }
        (Err(Fault::Malformed(what)), _) | (_, Err(Fault::Malformed(what))) => return Err(what.clone()),
        (Err(_), Err(_)) => {}
        (plain, optimised) => {
            return Err(format!(
                "before optimisation {:?}, after {:?}",
                plain.as_ref().err(),
                optimised.as_ref().err()
            ));
        }
    }
    Ok(plain)
}

/// Whether all vector registers exist. The file of the reference's machine has accumulation registers where v48 would be.
pub fn fits(inst: &Inst) -> bool {
    let inside = |operand: isa::Operand, count: u32| match operand {
        isa::Operand::Vgpr(n) | isa::Operand::Agpr(n) => u32::from(n) + count <= ACCUMULATORS as u32,
        _ => true,
    };
    inside(inst.dst, inst.dst_width().max(1)) && (0..4).all(|n| inside(inst.src[n], inst.src_width(n).max(1)))
}

/// One instruction.
pub fn single(random: &mut Random, arch: Arch, inst: &Inst, code: &[u8]) -> Result<Came, String> {
    let code = &code[..inst.size.into()];
    if !fits(inst) {
        return Ok(Came::Skipped);
    }
    let memory = matches!(
        inst.format,
        Format::Ds
            | Format::Flat
            | Format::Global
            | Format::Scratch
            | Format::Mubuf
            | Format::Mtbuf
            | Format::Smem
    );
    let mut start = memory.then(|| access::prepare(random, arch, inst));
    let before = match &start {
        Some(start) => start.machine.clone(),
        None => run::state(random, arch, inst),
    };
    let tolerance = match &start {
        Some(start) => Tolerance { floats: start.floats, ..Tolerance::default() },
        None => Tolerance::of(inst, &before),
    };
    let mut memory = start.as_ref().map_or_else(nothing, |start| start.memory.clone());
    let ran = match &mut start {
        Some(start) => access::emulate(random, start, inst),
        None => run::emulate_in(run::level(random), &before, inst, |_| {}),
    };
    // The machine has fewer registers than instructions can name.
    let Ok((want, fault)) = ran else { return Ok(Came::Skipped) };
    let text = disassemble(arch, inst, 0);
    let mut function = match lifted(arch, code, &before) {
        Ok(function) => function,
        Err(reason) => return Ok(Came::Refused(reason)),
    };
    let plain = function.to_string();
    let context = |what: String| {
        format!(
            "{arch:?} `{text}` {code:02x?}\n   {:?} exec {:#x}: {what}\n{plain}",
            before.mode,
            before.exec()
        )
    };
    let got = both(&mut function, &before, &mut memory, tolerance).map_err(context)?;
    if let Err(Fault::Required { .. }) = got {
        return Ok(Came::Refused("required at run time".to_owned()));
    }
    let got = match (got, fault) {
        (Err(_), Some(_)) => return Ok(Came::Fault),
        (Err(fault), None) => return Err(context(format!("stopped with `{fault}`"))),
        (Ok(_), Some(fault)) => return Err(context(format!("should stop with {fault:?}"))),
        (Ok(got), None) => got,
    };
    if let Some(what) = difference(&got, &want, &before, tolerance) {
        return Err(context(what));
    }
    if let Some(start) = &start
        && let Some(what) = memory_difference(&memory, &start.host.memory(&memory), tolerance.floats)
    {
        return match run_from(&function, &before, &mut start.memory.clone()) {
            Ok((_, true)) => Ok(Came::Skipped),
            _ => Err(context(what)),
        };
    }
    Ok(Came::Equal { lanes: before.exec().count_ones().into() })
}
