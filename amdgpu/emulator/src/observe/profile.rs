//! Profile of a kernel: which instructions its waves executed, how often, with how many lanes, and the cost of memory accesses.
//!
//! Counting is per micro-op and exact: the sum of all counts is [`LaunchStats::instructions`]. The cost of memory accesses is a
//! model, described at [`conflicts`] and [`Traffic`].

use std::collections::HashMap;
use std::sync::Arc;

use isa::{AccessKind, Flags, Format, Inst, Op, Operand};
use parking_lot::Mutex;
use serde::Serialize;

use super::accesses::{Access, Space};
use super::block::{self, Block};
use super::count::Count;
use super::line::{LineProfile, Lines};
use super::listing::Listing;
use super::{MAX_KERNELS, Step};
use crate::exec::format::sopp;
use crate::program::Program;
use crate::{Flow, LaunchStats, Level, Wave};

/// Number of LDS banks, each four bytes wide.
const BANKS: usize = 32;
/// Maximum rows in the tables of a report.
const TOP_OPCODES: usize = 10;
const TOP_BLOCKS: usize = 5;
const TOP_PLACES: usize = 3;

/// Global memory accesses of one or more micro-ops.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Traffic {
    /// Executions, counted once per wave.
    pub instructions: u64,
    /// Requested bytes: lanes times access size.
    pub bytes: u64,
    /// Distinct bytes among them, summed over executions.
    pub distinct_bytes: u64,
    /// Cache lines of 64 and of 128 bytes accessed, summed over executions.
    pub lines_64: u64,
    /// Distinct 128-byte lines.
    pub lines_128: u64,
}

impl Traffic {
    pub(crate) fn add(&mut self, other: &Traffic) {
        self.instructions += other.instructions;
        self.bytes += other.bytes;
        self.distinct_bytes += other.distinct_bytes;
        self.lines_64 += other.lines_64;
        self.lines_128 += other.lines_128;
    }

    /// Fraction of the lines' bytes that were requested.
    pub fn used_64(&self) -> f64 {
        ratio(self.distinct_bytes, 64 * self.lines_64)
    }

    /// Used part of the 128-byte lines, 0 to 1.
    pub fn used_128(&self) -> f64 {
        ratio(self.distinct_bytes, 128 * self.lines_128)
    }
}

/// LDS accesses.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct LocalTraffic {
    /// Executed instructions.
    pub instructions: u64,
    /// Bytes moved.
    pub bytes: u64,
    /// Cycles that the accesses take, and how many of them are caused by bank conflicts.
    pub cycles: u64,
    /// Cycles lost to bank conflicts.
    pub conflicts: u64,
}

impl LocalTraffic {
    pub(crate) fn add(&mut self, other: &LocalTraffic) {
        self.instructions += other.instructions;
        self.bytes += other.bytes;
        self.cycles += other.cycles;
        self.conflicts += other.conflicts;
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct MemoryCount {
    pub global: Traffic,
    pub local: LocalTraffic,
}

/// Counts of the micro-ops of one program.
#[derive(Debug)]
pub(crate) struct ProgramCounts {
    pub base: u64,
    pub counts: Box<[Count]>,
    memory: HashMap<u32, MemoryCount>,
}

/// Counts of one or more workgroups.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    pub programs: Vec<ProgramCounts>,
    /// Index of the program that ran last.
    last: usize,
}

impl Counts {
    fn of(&mut self, program: &Program) -> &mut ProgramCounts {
        let base = program.base();
        if self.programs.get(self.last).is_none_or(|counts| counts.base != base) {
            let found = self.programs.iter().position(|counts| counts.base == base);
            self.last = found.unwrap_or_else(|| {
                let counts = vec![Count::default(); program.uops.len()].into();
                self.programs.push(ProgramCounts { base, counts, memory: HashMap::new() });
                self.programs.len() - 1
            });
        }
        &mut self.programs[self.last]
    }

    /// Counts a micro-op that has run; `exec` is the mask from before.
    pub fn count(&mut self, step: &Step, exec: u64, wave: &Wave, flow: Flow) {
        let counts = self.of(step.program);
        let count = &mut counts.counts[step.at];
        count.executions += 1;
        count.lanes += u64::from(exec.count_ones());
        if takes_lanes(step.inst) {
            let left = wave.exec() & exec;
            count.taken += u64::from(left != 0 && left != exec);
        } else {
            count.taken += u64::from(flow == Flow::Jump);
        }
        // An instruction that will be retried has not accessed memory yet.
        if step.accesses.is_empty() || flow == Flow::Retry {
            return;
        }
        let memory = counts.memory.entry(step.at as u32).or_default();
        let (mut global, mut local) = (false, false);
        for access in step.accesses {
            match access.space {
                Space::Global => {
                    memory.global.add(&traffic(access));
                    global = true;
                }
                Space::Local => {
                    memory.local.add(&conflicts(access));
                    local = true;
                }
                Space::Private => {}
            }
        }
        memory.global.instructions += u64::from(global);
        memory.local.instructions += u64::from(local);
    }

    fn add(&mut self, other: Counts) {
        for from in other.programs {
            let Some(to) = self.programs.iter_mut().find(|to| to.base == from.base) else {
                self.programs.push(from);
                continue;
            };
            for (to, from) in to.counts.iter_mut().zip(&from.counts) {
                to.executions += from.executions;
                to.lanes += from.lanes;
                to.taken += from.taken;
            }
            for (at, from) in &from.memory {
                let to = to.memory.entry(*at).or_default();
                to.global.add(&from.global);
                to.local.add(&from.local);
            }
        }
    }
}

/// Whether an instruction masks lanes off by condition, which is how compilers implement divergent branches.
fn takes_lanes(inst: &Inst) -> bool {
    let name = inst.op.name();
    let masks =
        inst.dst == Operand::ExecLo && matches!(inst.op, Op::s_and_b64 | Op::s_andn2_b64 | Op::s_xor_b64);
    masks
        || name.starts_with("s_and_saveexec")
        || name.starts_with("s_andn2_saveexec")
        || name.starts_with("v_cmpx")
}

/// Traffic of an access to global memory: the distinct lines that the wave's lanes access, counted once per execution.
fn traffic(access: &Access) -> Traffic {
    let bytes = u64::from(access.bytes);
    let mut ranges: Vec<(u64, u64)> =
        access.iter().map(|(_, address)| (address, address.saturating_add(bytes))).collect();
    let mut traffic = Traffic { bytes: bytes * ranges.len() as u64, ..Traffic::default() };
    ranges.sort_unstable();
    // First byte, 64-byte line and 128-byte line that have not been counted yet.
    let (mut byte, mut line_64, mut line_128) = (0, 0, 0);
    for (start, end) in ranges {
        traffic.distinct_bytes += end.saturating_sub(start.max(byte));
        byte = byte.max(end);
        let last = end.saturating_sub(1);
        traffic.lines_64 += (last / 64 + 1).saturating_sub((start / 64).max(line_64));
        line_64 = line_64.max(last / 64 + 1);
        traffic.lines_128 += (last / 128 + 1).saturating_sub((start / 128).max(line_128));
        line_128 = line_128.max(last / 128 + 1);
    }
    traffic
}

/// Cost of an LDS access, by this model: lanes are served in groups of consecutive lanes that together request at most 32 dwords
/// (32 lanes of up to 4 bytes, 16 lanes of 8, 8 lanes of 12 or 16). A group takes as many cycles as its busiest bank has distinct
/// dwords to deliver, one if there is no conflict. Lanes that access the same dword share it, except that atomics on one dword
/// are serialised. Every cycle after the first is a conflict. The two halves of two-address instructions are served separately.
pub(crate) fn conflicts(access: &Access) -> LocalTraffic {
    let lanes = match access.bytes {
        0..=4 => 32,
        5..=8 => 16,
        _ => 8,
    };
    let mut traffic = LocalTraffic {
        bytes: u64::from(access.bytes) * u64::from(access.lanes.count_ones()),
        ..Default::default()
    };
    for first in (0..64).step_by(lanes) {
        let mut dwords = [(0u64, 0u32); 32 + 8];
        let mut count = 0;
        for lane in first..first + lanes {
            if let Some(address) = access.address_of(lane as u32) {
                let last = address.saturating_add(u64::from(access.bytes) - 1);
                for dword in address / 4..=last / 4 {
                    // Only atomics of different lanes are kept distinct.
                    let key = if access.kind == AccessKind::Atomic { lane as u32 } else { 0 };
                    if count < dwords.len() {
                        dwords[count] = (dword, key);
                        count += 1;
                    }
                }
            }
        }
        let dwords = &mut dwords[..count];
        dwords.sort_unstable();
        let mut banks = [0u64; BANKS];
        let mut before = None;
        for dword in dwords {
            if before.replace(*dword) != Some(*dword) {
                banks[dword.0 as usize % BANKS] += 1;
            }
        }
        let cycles = banks.iter().copied().max().unwrap_or(0);
        traffic.cycles += cycles;
        traffic.conflicts += cycles.saturating_sub(1);
    }
    traffic
}

/// Profiles of all kernels so far.
#[derive(Debug, Default)]
pub(crate) struct Profile {
    kernels: Mutex<Vec<Entry>>,
}

#[derive(Debug)]
struct Entry {
    listing: Arc<Listing>,
    level: Level,
    launches: u64,
    stats: LaunchStats,
    counts: Counts,
}

impl Profile {
    /// Adds a finished launch.
    pub fn add(
        &self,
        listing: &Arc<Listing>,
        level: Level,
        stats: Option<&LaunchStats>,
        counts: Vec<Counts>,
    ) {
        let mut kernels = self.kernels.lock();
        let at =
            kernels.iter().position(|entry| Arc::ptr_eq(&entry.listing, listing) && entry.level == level);
        let at = match at {
            Some(at) => at,
            None if kernels.len() >= MAX_KERNELS => return,
            None => {
                kernels.push(Entry {
                    listing: Arc::clone(listing),
                    level,
                    launches: 0,
                    stats: LaunchStats::default(),
                    counts: Counts::default(),
                });
                kernels.len() - 1
            }
        };
        let entry = &mut kernels[at];
        entry.launches += 1;
        if let Some(stats) = stats {
            entry.stats.workgroups += stats.workgroups;
            entry.stats.waves += stats.waves;
        }
        counts.into_iter().for_each(|counts| entry.counts.add(counts));
    }

    /// Returns the profiles, sorted by executed instructions, most first.
    pub fn report(&self) -> Vec<KernelProfile> {
        let mut profiles: Vec<KernelProfile> = self.kernels.lock().iter().map(Entry::report).collect();
        profiles.sort_by_key(|profile| std::cmp::Reverse(profile.instructions));
        profiles
    }
}

/// Execution count of an opcode or a class.
#[derive(Clone, Debug, Serialize)]
pub struct Executed {
    /// Name of the class or mnemonic.
    pub name: String,
    /// Executions, counted once per wave.
    pub instructions: u64,
    /// Active lanes, summed over executions.
    pub lanes: u64,
}

impl Executed {
    /// Mean number of active lanes per execution.
    pub fn mean_lanes(&self) -> f64 {
        ratio(self.lanes, self.instructions)
    }
}

/// An instruction with a high cost.
#[derive(Clone, Debug, Serialize)]
pub struct Place {
    /// Name of the function.
    pub function: String,
    /// Offset from the start of the function in bytes.
    pub offset: u64,
    /// Disassembly.
    pub text: String,
    /// `FILE:LINE`, if the kernel was built with debug information.
    pub source: Option<String>,
    /// Cycles lost to bank conflicts, or 64-byte lines accessed in excess of what the bytes need.
    pub cost: u64,
}

/// Profile of a kernel over all its launches.
#[derive(Clone, Debug, Serialize)]
pub struct KernelProfile {
    /// Name of the kernel.
    pub kernel: String,
    /// Number of launches.
    pub launches: u64,
    /// Number of workgroups.
    pub workgroups: u64,
    /// Number of waves.
    pub waves: u64,
    /// Instructions executed by waves, including the emulator's helper micro-ops. Equals the sum over `classes`.
    pub instructions: u64,
    /// Executions by class of instruction.
    pub classes: Vec<Executed>,
    /// All opcodes, most executed first.
    pub opcodes: Vec<Executed>,
    /// The blocks with the most executed instructions.
    pub blocks: Vec<Block>,
    /// Mean number of active lanes in a vector instruction.
    pub mean_active_lanes: f64,
    /// Scalar conditional branches, and how many of them were taken.
    pub branches: u64,
    /// Conditional branches that were taken.
    pub branches_taken: u64,
    /// Instructions that mask lanes off by condition, and how many of them made the wave diverge.
    pub masks: u64,
    /// Of `masks`, those that left some lanes active and some not.
    pub masks_split: u64,
    /// Executed barriers.
    pub barriers: u64,
    /// Loads from global memory.
    pub global_loads: Traffic,
    /// Stores to global memory.
    pub global_stores: Traffic,
    /// Atomics in global memory.
    pub global_atomics: Traffic,
    /// Scalar loads.
    pub scalar_loads: Traffic,
    /// Loads from LDS.
    pub local_loads: LocalTraffic,
    /// Stores to LDS.
    pub local_stores: LocalTraffic,
    /// Atomics in LDS.
    pub local_atomics: LocalTraffic,
    /// Instructions that lose the most cycles to bank conflicts.
    pub worst_conflicts: Vec<Place>,
    /// Instructions that access the most excess cache lines.
    pub worst_lines: Vec<Place>,
    /// Source lines, those with the most executed instructions first. Without the emulator's helper micro-ops.
    pub lines: Vec<LineProfile>,
}

impl Entry {
    fn report(&self) -> KernelProfile {
        let mut profile = KernelProfile {
            kernel: self.listing.name(),
            launches: self.launches,
            workgroups: self.stats.workgroups,
            waves: self.stats.waves,
            instructions: 0,
            classes: Vec::new(),
            opcodes: Vec::new(),
            blocks: Vec::new(),
            mean_active_lanes: 0.0,
            branches: 0,
            branches_taken: 0,
            masks: 0,
            masks_split: 0,
            barriers: 0,
            global_loads: Traffic::default(),
            global_stores: Traffic::default(),
            global_atomics: Traffic::default(),
            scalar_loads: Traffic::default(),
            local_loads: LocalTraffic::default(),
            local_stores: LocalTraffic::default(),
            local_atomics: LocalTraffic::default(),
            worst_conflicts: Vec::new(),
            worst_lines: Vec::new(),
            lines: Vec::new(),
        };
        let mut lines = Lines::default();
        let mut classes: HashMap<Class, Executed> = HashMap::new();
        let mut opcodes: HashMap<&str, Executed> = HashMap::new();
        for counts in &self.counts.programs {
            let Some(program) = self.listing.kernel.program_at(self.level, counts.base) else { continue };
            for (at, count) in counts.counts.iter().enumerate().filter(|(_, count)| count.executions > 0) {
                let Some(inst) = program.inst_of(at) else { continue };
                profile.instructions += count.executions;
                let class = if program.is_whole(at) { Class::of(inst) } else { Class::Helper };
                tally(classes.entry(class).or_insert_with(|| executed(class.name())), count);
                if class == Class::Helper {
                    continue;
                }
                let name = inst.op.name();
                tally(opcodes.entry(name).or_insert_with(|| executed(name)), count);
                profile.control(inst, class, count);
                let memory = counts.memory.get(&(at as u32));
                lines.add(self.listing.source(program.address_of(at)), count, memory);
                if let Some(memory) = memory {
                    profile.memory(inst, memory);
                    self.places(&mut profile, program, at, memory);
                }
            }
            profile.blocks.extend(block::hot(&self.listing, program, &counts.counts));
        }
        let vector = classes.iter().filter(|(class, _)| class.is_vector()).map(|(_, executed)| executed);
        let (lanes, executions) =
            vector.fold((0, 0), |sum, class| (sum.0 + class.lanes, sum.1 + class.instructions));
        profile.mean_active_lanes = ratio(lanes, executions);
        profile.lines = lines.report();
        profile.classes = ranked(classes.into_values());
        profile.opcodes = ranked(opcodes.into_values());
        profile.blocks.sort_by_key(|block| (std::cmp::Reverse(block.instructions), block.offset));
        profile.blocks.truncate(TOP_BLOCKS);
        for places in [&mut profile.worst_conflicts, &mut profile.worst_lines] {
            places.sort_by_key(|place| (std::cmp::Reverse(place.cost), place.offset));
            places.truncate(TOP_PLACES);
        }
        profile
    }

    fn places(&self, profile: &mut KernelProfile, program: &Program, at: usize, memory: &MemoryCount) {
        let place = |cost: u64| Place {
            function: self.listing.function(program),
            offset: program.address_of(at).wrapping_sub(program.base()),
            text: self.listing.text(program, at),
            source: self.listing.source(program.address_of(at)),
            cost,
        };
        if memory.local.conflicts > 0 {
            profile.worst_conflicts.push(place(memory.local.conflicts));
        }
        let needed = memory.global.distinct_bytes.div_ceil(64);
        let scalar = program.inst_of(at).is_some_and(|inst| inst.format == Format::Smem);
        if !scalar && memory.global.lines_64 > needed + memory.global.lines_64 / 4 {
            profile.worst_lines.push(place(memory.global.lines_64 - needed));
        }
    }
}

impl KernelProfile {
    /// The ten most executed opcodes.
    pub fn top_opcodes(&self) -> &[Executed] {
        &self.opcodes[..self.opcodes.len().min(TOP_OPCODES)]
    }

    fn control(&mut self, inst: &Inst, class: Class, count: &Count) {
        if sopp::is_branch(inst.op) && inst.op != Op::s_branch {
            self.branches += count.executions;
            self.branches_taken += count.taken;
        }
        if takes_lanes(inst) {
            self.masks += count.executions;
            self.masks_split += count.taken;
        }
        if class == Class::Barrier {
            self.barriers += count.executions;
        }
    }

    fn memory(&mut self, inst: &Inst, memory: &MemoryCount) {
        let flags = inst.encoding().flags;
        let kind = inst.op.memory_access().map_or(AccessKind::Load, |access| access.kind);
        let (global, local) = match kind {
            _ if inst.format == Format::Smem => (&mut self.scalar_loads, &mut self.local_loads),
            AccessKind::Atomic => (&mut self.global_atomics, &mut self.local_atomics),
            AccessKind::Store => (&mut self.global_stores, &mut self.local_stores),
            AccessKind::Load if flags.has(Flags::LDS_LOAD) || inst.memory.lds => {
                (&mut self.global_loads, &mut self.local_stores)
            }
            AccessKind::Load => (&mut self.global_loads, &mut self.local_loads),
        };
        global.add(&memory.global);
        local.add(&memory.local);
    }
}

/// Class of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Class {
    Scalar,
    Branch,
    Barrier,
    ScalarMemory,
    Vector,
    Matrix,
    Local,
    Global,
    Private,
    /// Helper micro-ops added by the emulator.
    Helper,
}

impl Class {
    fn of(inst: &Inst) -> Class {
        match inst.format {
            Format::Sopp if inst.op == Op::s_barrier => Class::Barrier,
            Format::Sopp if sopp::is_branch(inst.op) => Class::Branch,
            Format::Sop1 | Format::Sop2 | Format::Sopc | Format::Sopk | Format::Sopp => Class::Scalar,
            Format::Smem => Class::ScalarMemory,
            Format::Ds => Class::Local,
            Format::Scratch => Class::Private,
            Format::Flat | Format::Global | Format::Mubuf | Format::Mtbuf | Format::Mimg => Class::Global,
            _ if inst.encoding().flags.has(Flags::MFMA | Flags::SMFMAC) => Class::Matrix,
            _ => Class::Vector,
        }
    }

    fn name(self) -> &'static str {
        match self {
            Class::Scalar => "scalar",
            Class::Branch => "branch",
            Class::Barrier => "barrier",
            Class::ScalarMemory => "scalar memory",
            Class::Vector => "vector",
            Class::Matrix => "matrix",
            Class::Local => "local memory",
            Class::Global => "vector memory",
            Class::Private => "private memory",
            Class::Helper => "emulator's own",
        }
    }

    fn is_vector(self) -> bool {
        matches!(self, Class::Vector | Class::Matrix | Class::Local | Class::Global | Class::Private)
    }
}

fn executed(name: &str) -> Executed {
    Executed { name: name.to_owned(), instructions: 0, lanes: 0 }
}

fn tally(executed: &mut Executed, count: &Count) {
    executed.instructions += count.executions;
    executed.lanes += count.lanes;
}

fn ranked(executed: impl Iterator<Item = Executed>) -> Vec<Executed> {
    let mut ranked: Vec<Executed> = executed.collect();
    ranked.sort_by(|a, b| b.instructions.cmp(&a.instructions).then_with(|| a.name.cmp(&b.name)));
    ranked
}

pub(crate) fn ratio(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { part as f64 / whole as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn access(kind: AccessKind, bytes: u32, lanes: u64, address: impl Fn(u64) -> u64) -> Access {
        Access {
            space: Space::Local,
            kind,
            bytes,
            lanes,
            scalar: false,
            coherent: false,
            data: None,
            addresses: std::array::from_fn(|lane| address(lane as u64)),
        }
    }

    #[test]
    fn local_accesses_cost_what_the_rule_says() {
        let cost = |kind, bytes, lanes, address: &dyn Fn(u64) -> u64| {
            let traffic = conflicts(&access(kind, bytes, lanes, address));
            (traffic.cycles, traffic.conflicts)
        };
        assert_eq!(cost(AccessKind::Load, 4, !0, &|lane| 4 * lane), (2, 0), "consecutive dwords");
        assert_eq!(cost(AccessKind::Load, 4, !0, &|_| 64), (2, 0), "one dword for all");
        assert_eq!(cost(AccessKind::Load, 4, !0, &|lane| 128 * lane), (64, 62), "one bank for all");
        assert_eq!(cost(AccessKind::Load, 4, !0, &|lane| 132 * lane), (2, 0), "padded rows");
        assert_eq!(cost(AccessKind::Load, 4, !0, &|lane| 8 * lane), (4, 2), "every other bank");
        assert_eq!(cost(AccessKind::Load, 4, 0xff, &|lane| 128 * lane), (8, 7), "eight lanes");
        assert_eq!(cost(AccessKind::Load, 8, !0, &|lane| 8 * lane), (4, 0), "16 lanes of two dwords");
        assert_eq!(cost(AccessKind::Store, 16, !0, &|lane| 16 * lane), (8, 0), "8 lanes of four dwords");
        assert_eq!(cost(AccessKind::Load, 1, !0, &|lane| lane), (2, 0), "bytes of the same dwords");
        assert_eq!(cost(AccessKind::Atomic, 4, 0xf, &|_| 0), (4, 3), "atomics on one dword");
        assert_eq!(cost(AccessKind::Load, 4, 0, &|_| 0), (0, 0), "nobody");
    }

    #[test]
    fn global_accesses_touch_each_line_once() {
        let moved = |bytes, address: &dyn Fn(u64) -> u64| {
            let traffic = traffic(&access(AccessKind::Load, bytes, !0, address));
            (traffic.bytes, traffic.distinct_bytes, traffic.lines_64, traffic.lines_128)
        };
        assert_eq!(moved(4, &|lane| 0x1000 + 4 * lane), (256, 256, 4, 2));
        assert_eq!(moved(4, &|lane| 0x1004 + 4 * lane), (256, 256, 5, 3), "one dword off");
        assert_eq!(moved(4, &|lane| 0x1000 + 256 * lane), (256, 256, 64, 64), "a line each");
        assert_eq!(moved(4, &|_| 0x1000), (256, 4, 1, 1), "the same for all");
        assert_eq!(moved(16, &|lane| 0x1000 + 16 * (63 - lane)), (1024, 1024, 16, 8), "backwards");
        assert_eq!(moved(8, &|_| 0x103c), (512, 8, 2, 1), "across a line");
    }
}
