//! Instruction trace: the instructions that one wave executed, with their effects on one of its lanes.
//!
//! One line per instruction: offset in its function, instruction, EXEC before it, then registers written and memory accessed.
//! Instructions without effect in the emulator (waits, nops, cache control) have no micro-op and do not appear.

use std::fmt::Write as _;
use std::io::{BufWriter, Write};
use std::sync::atomic::{AtomicU64, Ordering};

use isa::{AccessKind, DataType, Element, Format, Operand};
use parking_lot::Mutex;

use super::accesses::{Access, Space};
use super::listing::offset;
use super::{ObservedLaunch, Step};
use crate::compile::scalar_index;
use crate::wave::sreg;
use crate::{Flow, Wave};

/// Line width, and width of the instruction column.
const WIDTH: usize = 100;
const INSTRUCTION: usize = 44;
/// Column of the results, after offset, instruction and EXEC.
const RESULTS: usize = 6 + INSTRUCTION + 1 + 16 + 2;

/// Selects the wave to trace.
#[derive(Clone, Debug, Default)]
pub struct TraceOptions {
    /// Index of the workgroup to trace.
    pub workgroup: [u32; 3],
    /// Index of the wave in the workgroup.
    pub wave: u32,
    /// Lane whose registers and addresses are shown; `None` selects the first active one.
    pub lane: Option<u32>,
    /// Maximum number of instructions shown; `None` means no limit.
    pub limit: Option<u64>,
}

/// Trace of an observer: its options and its output.
pub(crate) struct Trace {
    options: TraceOptions,
    out: Mutex<BufWriter<Box<dyn Write + Send>>>,
    waves: AtomicU64,
}

impl std::fmt::Debug for Trace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Trace").field("options", &self.options).finish_non_exhaustive()
    }
}

impl Trace {
    pub fn new(options: TraceOptions, out: Box<dyn Write + Send>) -> Trace {
        Trace { options, out: Mutex::new(BufWriter::new(out)), waves: AtomicU64::new(0) }
    }

    pub fn waves(&self) -> u64 {
        self.waves.load(Ordering::Relaxed)
    }

    pub fn flush(&self) {
        // A closed output (such as a pipe whose reader has exited) must not stop the program.
        let _ = self.out.lock().flush();
    }

    /// Creates a tracer, if the selected wave is in this workgroup.
    pub fn workgroup(&self, launch: &ObservedLaunch, workgroup: [u32; 3], waves: usize) -> Option<Tracer> {
        let options = &self.options;
        if workgroup != options.workgroup || options.wave as usize >= waves {
            return None;
        }
        self.waves.fetch_add(1, Ordering::Relaxed);
        let [x, y, z] = options.workgroup;
        let kernel = &launch.listing.kernel;
        let lane = options.lane.map_or("the first active lane".to_owned(), |lane| format!("lane {lane}"));
        self.write(&format!(
            "== {}\n== launch {}, workgroup {x},{y},{z}, wave {} of {waves}; values of {lane}\n\
             == code at {:#x}; waits, nops and cache control have no effect here and are left out\n\
             {:<6}{:<INSTRUCTION$} {:<16}  results\n",
            launch.listing.name(),
            launch.number,
            options.wave,
            kernel.entry(),
            "at",
            "instruction",
            "exec",
        ));
        Some(Tracer {
            wave: options.wave,
            lane: options.lane,
            left: options.limit.unwrap_or(u64::MAX),
            shown: 0,
            function: None,
            line: None,
            before: None,
        })
    }

    fn write(&self, text: &str) {
        let _ = self.out.lock().write_all(text.as_bytes());
    }
}

/// Traces one wave.
#[derive(Debug)]
pub(crate) struct Tracer {
    wave: u32,
    lane: Option<u32>,
    left: u64,
    shown: u64,
    /// Base address of the last line's program, and its source line.
    function: Option<u64>,
    line: Option<(String, u32)>,
    before: Option<Before>,
}

/// State before an instruction, compared with the state after it.
#[derive(Clone, Copy, Debug)]
struct Before {
    exec: u64,
    scc: bool,
    vcc: u64,
    /// The lane shown, if it is active.
    lane: Option<u32>,
    /// Values that this lane stores.
    stored: [Option<u32>; 4],
}

impl Tracer {
    pub fn before(&mut self, step: &Step, wave: &Wave) {
        if self.left == 0 || wave.index != self.wave || !step.program.is_whole(step.at) {
            return;
        }
        let exec = wave.exec();
        let lane = self.lane.unwrap_or(exec.trailing_zeros());
        let lane = (lane < 64 && exec >> lane & 1 != 0).then_some(lane);
        let mut stored = [None; 4];
        let store = step.accesses.iter().find(|access| access.kind == AccessKind::Store);
        if let (Some(lane), Some(Access { data: Some(data), bytes, .. })) = (lane, store) {
            for (k, stored) in stored.iter_mut().enumerate().take(bytes.div_ceil(4) as usize) {
                *stored = wave.vgprs.get(usize::from(*data) + k).map(|lanes| lanes.0[lane as usize]);
            }
        }
        self.before = Some(Before { exec, scc: wave.scc, vcc: wave.vcc(), lane, stored });
    }

    pub fn after(&mut self, step: &Step, wave: &Wave, flow: Flow) {
        let Some(before) = self.before.take() else { return };
        // The instruction will run again.
        if flow == Flow::Retry {
            return;
        }
        let Some(trace) = &step.launch.observer.trace else { return };
        self.left -= 1;
        self.shown += 1;
        let mut text = self.heading(step);
        let results = results(step, wave, &before, self.lane.is_some(), flow);
        let address = step.program.address_of(step.at);
        let instruction = step.launch.listing.text(step.program, step.at);
        let mut line = format!(
            "{:<6}{instruction:<INSTRUCTION$} {:016x} ",
            offset(address.wrapping_sub(step.program.base())),
            before.exec,
        );
        for result in results {
            if line.len() > RESULTS && line.len() + 1 + result.len() > WIDTH {
                text.push_str(line.trim_end());
                text.push('\n');
                line = " ".repeat(RESULTS - 1);
            }
            line.push(' ');
            line.push_str(&result);
        }
        text.push_str(line.trim_end());
        text.push('\n');
        match flow {
            Flow::End => {
                let _ = writeln!(text, "== the wave has ended after {} instructions", self.shown);
            }
            Flow::Fault => text.push_str("== this instruction faulted\n"),
            _ if self.left == 0 => {
                let _ = writeln!(text, "== the first {} instructions; a higher limit shows more", self.shown);
            }
            _ => {}
        }
        trace.write(&text);
        if matches!(flow, Flow::End | Flow::Fault) || self.left == 0 {
            trace.flush();
        }
    }

    /// Lines before an instruction: its function and source line, where they change.
    fn heading(&mut self, step: &Step) -> String {
        let listing = &step.launch.listing;
        let mut text = String::new();
        let before = self.function.replace(step.program.base());
        if before.is_some_and(|before| before != step.program.base()) {
            let _ = writeln!(text, "-- {}", listing.function(step.program));
        }
        if let Some(line) = listing.line(step.program.address_of(step.at)) {
            let same =
                self.line.as_ref().is_some_and(|(file, number)| *number == line.line && **file == *line.file);
            if !same {
                let _ = writeln!(text, "; {}:{}", line.file_name(), line.line);
                self.line = Some((line.file.to_string(), line.line));
            }
        }
        text
    }
}

/// Effects of an instruction, in this order: registers, masks and flags, memory, control flow.
fn results(step: &Step, wave: &Wave, before: &Before, lane_is_chosen: bool, flow: Flow) -> Vec<String> {
    let inst = step.inst;
    let mut results = Vec::new();
    let mut written = None;
    let store = step.accesses.iter().any(|access| access.kind == AccessKind::Store);
    if !store || inst.format != Format::Smem {
        written = register(step, wave, before.lane, &inst.dst, inst.dst_type(), &mut results);
    }
    let mask = register(step, wave, before.lane, &inst.sdst, DataType::B64, &mut results);
    let shown = |register: usize| [written, mask].contains(&Some(register));
    if wave.vcc() != before.vcc && !shown(sreg::VCC) && !shown(sreg::VCC + 1) {
        results.push(format!("vcc={:016x}", wave.vcc()));
    }
    if wave.exec() != before.exec && !shown(sreg::EXEC) {
        results.push(format!("exec={:016x}", wave.exec()));
    }
    if wave.scc != before.scc || inst.format == Format::Sopc {
        results.push(format!("scc={}", u8::from(wave.scc)));
    }
    if let Some(lane) = before.lane.filter(|lane| *lane != 0)
        && !lane_is_chosen
        && (is_vector(&inst.dst) || step.accesses.iter().any(|access| !access.scalar))
    {
        results.insert(0, format!("lane {lane}:"));
    }
    for access in step.accesses {
        let lane = if access.scalar { Some(0) } else { before.lane };
        let Some(address) = lane.and_then(|lane| access.address_of(lane)) else { continue };
        let mut place = match access.space {
            Space::Global => format!("@{address:x}"),
            Space::Local => format!("lds@{address:04x}"),
            Space::Private => format!("private@{address:04x}"),
        };
        if access.kind == AccessKind::Store {
            for (k, value) in before.stored.iter().enumerate() {
                if let Some(value) = value {
                    let digits = (2 * access.bytes as usize).min(8);
                    let value = if digits < 8 { value & ((1 << (4 * digits)) - 1) } else { *value };
                    let _ = write!(place, "{}{value:0digits$x}", if k == 0 { "=" } else { " " });
                }
            }
        }
        results.push(place);
    }
    match flow {
        Flow::Jump => results.push(match step.program.target_of(step.at) {
            Some(_) => "taken".to_owned(),
            None => {
                format!("to {}", offset(step.program.address_of(wave.pc).wrapping_sub(step.program.base())))
            }
        }),
        Flow::Far => results.push(format!("to {:#x}", wave.far)),
        Flow::Barrier => results.push("waits".to_owned()),
        _ => {}
    }
    results
}

/// Appends the contents of a destination register. Returns its index if it is scalar.
fn register(
    step: &Step,
    wave: &Wave,
    lane: Option<u32>,
    operand: &Operand,
    ty: DataType,
    results: &mut Vec<String>,
) -> Option<usize> {
    let dwords = ty.dwords().max(1) as usize;
    let vector = |index: usize| -> Option<Vec<u32>> {
        let lane = lane? as usize;
        wave.vgprs.get(index..index + dwords).map(|lanes| lanes.iter().map(|lanes| lanes.0[lane]).collect())
    };
    let accumulators = step.launch.listing.kernel.kernel.descriptor.accum_offset as usize;
    let (name, values, scalar) = match *operand {
        Operand::None => return None,
        Operand::Vgpr(first) => (tuple("v", first, dwords), vector(usize::from(first)), None),
        Operand::Agpr(first) => (tuple("a", first, dwords), vector(accumulators + usize::from(first)), None),
        operand => {
            let index = usize::from(scalar_index(&operand)?);
            let name = match operand {
                Operand::Sgpr(first) => tuple("s", first, dwords),
                Operand::Ttmp(first) => tuple("ttmp", first, dwords),
                Operand::VccLo if dwords == 2 => "vcc".to_owned(),
                Operand::ExecLo if dwords == 2 => "exec".to_owned(),
                Operand::VccLo => "vcc_lo".to_owned(),
                Operand::VccHi => "vcc_hi".to_owned(),
                Operand::ExecLo => "exec_lo".to_owned(),
                Operand::ExecHi => "exec_hi".to_owned(),
                Operand::M0 => "m0".to_owned(),
                _ => format!("scalar {index}"),
            };
            (name, wave.sgprs.get(index..index + dwords).map(<[u32]>::to_vec), Some(index))
        }
    };
    let Some(values) = values else { return scalar };
    // Masks and 64-bit results are shown as one number.
    let one = dwords == 2 && (scalar.is_some() || ty.element_bits() == 64);
    if one {
        let value = u64::from(values[0]) | u64::from(values[1]) << 32;
        results.push(format!("{name}={value:016x}"));
    } else {
        results.push(format!("{name}={:08x}", values[0]));
        results.extend(values[1..].iter().map(|value| format!("{value:08x}")));
    }
    if let Some(number) = float(ty, &values) {
        results.push(number);
    }
    scalar
}

/// Formats a floating-point result as a number.
fn float(ty: DataType, values: &[u32]) -> Option<String> {
    if ty.element() != Element::Float || ty.count() != 1 {
        return None;
    }
    match ty.element_bits() {
        32 => Some(format!("({})", f32::from_bits(values[0]))).filter(|text| text.len() <= 16),
        64 => {
            let bits = u64::from(values[0]) | u64::from(*values.get(1)?) << 32;
            Some(format!("({})", f64::from_bits(bits))).filter(|text| text.len() <= 24)
        }
        _ => None,
    }
}

fn tuple(file: &str, first: u8, dwords: usize) -> String {
    match dwords {
        1 => format!("{file}{first}"),
        _ => format!("{file}[{first}:{}]", usize::from(first) + dwords - 1),
    }
}

fn is_vector(operand: &Operand) -> bool {
    matches!(operand, Operand::Vgpr(_) | Operand::Agpr(_))
}
