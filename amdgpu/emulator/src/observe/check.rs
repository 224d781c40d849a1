//! Memory check: data races, out-of-bounds accesses and reads of uninitialised LDS, each reported once with its location.
//!
//! Accesses are compared in two shadow memories, one for LDS and one for global memory. Both are bounded; accesses beyond the
//! bounds are only counted.

use std::collections::HashMap;
use std::sync::Arc;

use isa::{AccessKind, Op};
use parking_lot::Mutex;
use serde::Serialize;

use super::accesses::{Access, Space};
use super::conflict::{AccessSite, Conflict, Problem};
use super::listing::Listing;
use super::local_shadow::LocalShadow;
use super::{ObservedLaunch, Step};
use crate::memory::Range;
use crate::{Fault, FaultKind, Flow, Memory, Wave};

/// Maximum number of distinct findings reported in full.
const MAX_FINDINGS: usize = 200;

/// An instruction and the work-item that executed it.
#[derive(Clone, Debug, Serialize)]
pub struct Accessor {
    /// Name of the function.
    pub function: String,
    /// Offset of the instruction in its function.
    pub offset: u64,
    /// Disassembly of the instruction.
    pub instruction: String,
    /// `FILE:LINE`, if the kernel was built with debug information.
    pub source: Option<String>,
    /// `reads`, `writes` or `updates`.
    pub verb: &'static str,
    /// Index of the workgroup.
    pub workgroup: [u32; 3],
    /// Index of the wave in the workgroup.
    pub wave: u32,
    /// Within the workgroup; `None` for a scalar instruction.
    pub work_item: Option<[u32; 3]>,
}

/// A problem and its first occurrence.
#[derive(Clone, Debug, Serialize)]
pub struct Finding {
    /// Kind of the problem.
    pub problem: Problem,
    /// Name of the kernel.
    pub kernel: String,
    /// Number of the launch, starting at 1.
    pub launch: u64,
    /// `local` or `global`.
    pub memory: &'static str,
    /// Address, or offset in local memory.
    pub address: u64,
    /// Size of the access in bytes.
    pub bytes: u32,
    /// The access that was found.
    pub access: Option<Accessor>,
    /// The conflicting access.
    pub other: Option<Accessor>,
    /// Additional information.
    pub detail: Option<String>,
    /// Number of executions in which it occurred.
    pub times: u64,
}

/// Result of a check.
#[derive(Clone, Debug, Default, Serialize)]
pub struct CheckReport {
    /// Distinct findings, in the order in which they were found.
    pub findings: Vec<Finding>,
    /// Number of distinct problems that are not listed.
    pub more: u64,
    /// Accesses to global memory that were not checked, because the shadow memory was full.
    pub unchecked: u64,
}

impl CheckReport {
    /// Number of problems, without notes.
    pub fn problems(&self) -> u64 {
        self.findings.iter().filter(|finding| !finding.problem.is_note()).count() as u64 + self.more
    }
}

#[derive(Debug, Default)]
pub(crate) struct Check {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    report: CheckReport,
    /// By kernel, problem and instructions involved: index of the finding, and the step in which it last occurred.
    known: HashMap<(usize, Problem, u64, u64), (usize, u64)>,
    steps: u64,
}

impl Check {
    pub fn report(&self) -> CheckReport {
        let mut report = self.state.lock().report.clone();
        report.findings.sort_by_key(|finding| finding.problem);
        report
    }

    /// Records the conflicts that one execution of an instruction caused.
    pub fn found(&self, launch: &ObservedLaunch, bytes: u32, conflicts: &[Conflict]) {
        let mut state = self.state.lock();
        state.steps += 1;
        let step = state.steps;
        for conflict in conflicts {
            // The same two instructions are one problem, in either order.
            let with = conflict.with.map_or(0, |site| site.instruction);
            let pair = (conflict.by.instruction.min(with), conflict.by.instruction.max(with));
            let key = (Arc::as_ptr(&launch.listing) as usize, conflict.problem, pair.0, pair.1);
            if let Some((at, last)) = state.known.get_mut(&key) {
                let (at, fresh) = (*at, *last != step);
                *last = step;
                if let Some(finding) = state.report.findings.get_mut(at) {
                    finding.times += u64::from(fresh);
                }
                continue;
            }
            if state.report.findings.len() >= MAX_FINDINGS {
                if state.known.len() < 16 * MAX_FINDINGS {
                    state.known.insert(key, (usize::MAX, step));
                    state.report.more += 1;
                }
                continue;
            }
            let at = state.report.findings.len();
            state.known.insert(key, (at, step));
            let memory = match conflict.problem {
                Problem::GlobalRace => "global",
                Problem::SameInstruction if conflict.address > u64::from(u32::MAX) => "global",
                _ => "local",
            };
            state.report.findings.push(Finding {
                problem: conflict.problem,
                kernel: launch.listing.name(),
                launch: launch.number,
                memory,
                address: conflict.address,
                bytes,
                access: Some(launch.accessor(&conflict.by)),
                other: conflict.with.as_ref().map(|site| launch.accessor(site)),
                detail: match conflict.problem {
                    Problem::LocalOutOfBounds => {
                        Some(format!("the workgroup has {} bytes of local memory", launch.lds_bytes))
                    }
                    _ => None,
                },
                times: 1,
            });
        }
    }

    /// Records a fault that ended a launch.
    pub fn fault(&self, launch: &ObservedLaunch, fault: &Fault, memory: &Memory) {
        let (address, write) = match fault.kind {
            FaultKind::IllegalAddress { address, write } => (address, write),
            FaultKind::Misaligned { address } => (address, true),
            _ => (0, false),
        };
        let detail = match fault.kind {
            FaultKind::IllegalAddress { address, .. } => {
                format!("{}; {}", fault.kind, nearest(memory, address))
            }
            _ => fault.kind.to_string(),
        };
        let listing = &launch.listing;
        let program = listing.kernel.program_at(launch.level, fault.pc);
        let access = program.filter(|_| fault.pc != 0).map(|program| Accessor {
            function: listing.function(program),
            offset: fault.pc.wrapping_sub(program.base()),
            instruction: fault.instruction.to_string(),
            source: listing.source(fault.pc),
            verb: match (address, write) {
                (0, _) => "faults",
                (_, true) => "writes",
                (_, false) => "reads",
            },
            workgroup: fault.workgroup,
            wave: fault.work_item.map_or(0, |item| launch.wave_of(item)),
            work_item: fault.work_item,
        });
        let finding = Finding {
            problem: Problem::Fault,
            kernel: listing.name(),
            launch: launch.number,
            memory: "global",
            address,
            bytes: 0,
            access,
            other: None,
            detail: Some(detail),
            times: 1,
        };
        self.state.lock().report.findings.push(finding);
    }

    pub fn unchecked(&self, accesses: u64) {
        self.state.lock().report.unchecked += accesses;
    }
}

/// Describes the position of `address` relative to the nearest allocation.
fn nearest(memory: &Memory, address: u64) -> String {
    let (below, above) = memory.neighbours(address);
    let past = below.map(|range| (address - range.end, range, "past the end of"));
    let before = above.map(|range| (range.start - address, range, "before the start of"));
    let describe = |(distance, range, side): (u64, Range, &str)| {
        let size = range.end - range.start;
        match distance {
            0 => format!("right behind the {size} bytes at {:#x}", range.start),
            1 => format!("1 byte {side} the {size} bytes at {:#x}", range.start),
            _ => format!("{distance} bytes {side} the {size} bytes at {:#x}", range.start),
        }
    };
    let nearest = [past, before].into_iter().flatten().min_by_key(|(distance, ..)| *distance);
    nearest.map_or("no memory is allocated".to_owned(), describe)
}

impl ObservedLaunch {
    fn accessor(&self, site: &AccessSite) -> Accessor {
        let listing: &Listing = &self.listing;
        let program = listing.kernel.program_at(self.level, site.instruction);
        let at = program.and_then(|program| program.index_of(site.instruction));
        let [x, y, _] = self.workgroup_size;
        let groups = self.workgroups.map(u64::from);
        Accessor {
            function: program.map_or(String::new(), |program| listing.function(program)),
            offset: program.map_or(0, |program| site.instruction.wrapping_sub(program.base())),
            instruction: program.zip(at).map_or(String::new(), |(program, at)| listing.text(program, at)),
            source: listing.source(site.instruction),
            verb: match site.kind {
                AccessKind::Load => "reads",
                AccessKind::Store => "writes",
                AccessKind::Atomic => "updates",
            },
            workgroup: [
                (site.group % groups[0]) as u32,
                (site.group / groups[0] % groups[1]) as u32,
                (site.group / groups[0] / groups[1]) as u32,
            ],
            wave: site.wave,
            work_item: site.lane.map(|lane| {
                let item = 64 * site.wave + lane;
                [item % x, item / x % y, item / x / y]
            }),
        }
    }

    fn wave_of(&self, item: [u32; 3]) -> u32 {
        let [x, y, _] = self.workgroup_size;
        (item[0] + x * (item[1] + y * item[2])) / 64
    }
}

/// Checks one workgroup.
#[derive(Debug)]
pub(crate) struct Checker {
    group: u64,
    pub local: LocalShadow,
    /// Time of the workgroup's last operation that may order it with other workgroups, by the global shadow's clock.
    synced: u32,
    conflicts: Vec<Conflict>,
}

impl Checker {
    pub fn new(group: u64, local: LocalShadow) -> Checker {
        Checker { group, local, synced: 0, conflicts: Vec::new() }
    }

    pub fn barrier(&mut self) {
        self.local.barrier();
    }

    /// Checks the accesses that an instruction is about to make.
    pub fn before(&mut self, step: &Step, wave: &Wave, check: &Check) {
        let instruction = step.program.address_of(step.at);
        for access in step.accesses {
            let site = AccessSite {
                instruction,
                group: self.group,
                wave: wave.index,
                lane: None,
                kind: access.kind,
            };
            match access.space {
                Space::Local => {
                    self.local.access(access, &site, step.launch.lds_bytes, &mut self.conflicts);
                }
                Space::Global => self.global(step.launch, access, &site),
                Space::Private => {}
            }
            if access.kind == AccessKind::Store && access.space != Space::Private {
                same_place(access, &site, wave, &mut self.conflicts);
            }
            if !self.conflicts.is_empty() {
                check.found(step.launch, access.bytes, &self.conflicts);
                self.conflicts.clear();
            }
        }
    }

    /// A grid-wide barrier orders all earlier accesses.
    pub fn after(&mut self, step: &Step, flow: Flow) {
        if step.inst.op == Op::ds_gws_barrier && flow == Flow::Next {
            self.synced = step.launch.global.lock().now();
        }
    }

    fn global(&mut self, launch: &ObservedLaunch, access: &Access, site: &AccessSite) {
        let mut shadow = launch.global.lock();
        if access.kind == AccessKind::Atomic || access.coherent {
            self.synced = shadow.now();
            self.local.synchronise(site.wave);
            return;
        }
        shadow.access(access, site, self.synced, &launch.own, &mut self.conflicts);
    }
}

/// Finds lanes that write different values to the same address.
fn same_place(access: &Access, site: &AccessSite, wave: &Wave, conflicts: &mut Vec<Conflict>) {
    let Some(data) = access.data else { return };
    let mut lanes: Vec<(u64, u32)> = access.iter().map(|(lane, address)| (address, lane)).collect();
    lanes.sort_unstable();
    let dwords = usize::from(data)..usize::from(data) + access.bytes.div_ceil(4) as usize;
    let Some(registers) = wave.vgprs.get(dwords) else { return };
    let mask = if access.bytes < 4 { (1u32 << (8 * access.bytes)) - 1 } else { !0 };
    for pair in lanes.windows(2) {
        let (a, b) = (pair[0].1 as usize, pair[1].1 as usize);
        if pair[0].0 == pair[1].0 && registers.iter().any(|lanes| (lanes.0[a] ^ lanes.0[b]) & mask != 0) {
            conflicts.push(Conflict {
                problem: Problem::SameInstruction,
                address: pair[0].0,
                by: AccessSite { lane: Some(b as u32), ..*site },
                with: Some(AccessSite { lane: Some(a as u32), ..*site }),
            });
            return;
        }
    }
}
