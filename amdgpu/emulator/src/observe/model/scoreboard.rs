//! Scoreboard: the time that one wave takes alone on its SIMD, with modelled latencies, and what it waits for.

use std::collections::{BTreeMap, VecDeque};

use isa::{Format, Inst, Op};
use serde::Serialize;

use super::gpu::{GpuTiming, ISSUE, TAKEN_BRANCH};
use super::site::Site;
use super::unit::{REGISTERS, Registers, Timed, Unit};

/// What a wave waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// Vector loads, stores or atomics that an `s_waitcnt vmcnt` names.
    VectorMemory,
    /// LDS.
    Lds,
    /// Scalar loads.
    ScalarMemory,
    /// Other waves of the workgroup, at a barrier.
    Barrier,
    /// The result of a vector or scalar instruction.
    Alu,
    /// The result of a matrix instruction, or the matrix core itself.
    Matrix,
    /// A taken branch, or `s_nop` and `s_sleep`.
    Control,
}

impl Wait {
    /// Words for reports.
    pub fn name(self) -> &'static str {
        match self {
            Wait::VectorMemory => "vector memory",
            Wait::Lds => "LDS",
            Wait::ScalarMemory => "scalar memory",
            Wait::Barrier => "barrier",
            Wait::Alu => "ALU result",
            Wait::Matrix => "matrix result",
            Wait::Control => "branch",
        }
    }
}

/// An instruction as the scoreboard sees it.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Event {
    Run(Timed),
    Memory {
        timed: Timed,
        /// Cycles until its result arrives.
        latency: u64,
        counters: Counters,
    },
    Barrier,
    Branch,
    /// Waits until at most this many operations are outstanding.
    WaitCount {
        vector: usize,
        scalar: usize,
    },
    Nop(u64),
    Nothing,
}

/// Counters that a memory operation increments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Counters {
    Vector,
    Lgkm,
    /// FLAT, which may access LDS.
    Both,
}

impl Event {
    /// The event of an executed instruction. `latency` is its mean memory latency.
    pub fn of(gpu: &GpuTiming, inst: &Inst, latency: impl FnOnce() -> u64) -> Event {
        let timed = Timed::of(gpu.arch, inst);
        let memory = |counters| Event::Memory { timed, latency: latency(), counters };
        match timed.unit {
            _ if inst.op == Op::s_barrier => Event::Barrier,
            Unit::Branch if inst.op == Op::s_sleep => Event::Nop(64 * (inst.imm as u64 & 0x7f)),
            Unit::Branch => Event::Branch,
            Unit::VectorMemory if inst.format == Format::Flat => memory(Counters::Both),
            Unit::VectorMemory => memory(Counters::Vector),
            Unit::Lds | Unit::ScalarMemory => memory(Counters::Lgkm),
            _ => Event::Run(timed),
        }
    }

    /// The event of an instruction that the emulator drops.
    pub fn of_dropped(inst: &Inst) -> Event {
        let imm = inst.imm as u32;
        match inst.op {
            Op::s_waitcnt => Event::WaitCount {
                vector: (imm & 0xf | imm >> 14 << 4 & 0x30) as usize,
                scalar: (imm >> 8 & 0xf) as usize,
            },
            Op::s_nop => Event::Nop(ISSUE * (u64::from(imm & 0xf) + 1)),
            _ => Event::Nothing,
        }
    }
}

/// Time of one path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct PathTime {
    /// Cycles between barriers; one segment without any.
    pub segments: Vec<u64>,
    /// The site of the barrier that ends each segment but the last.
    pub barriers: Vec<Site>,
    /// Cycles lost by site and cause.
    pub stalls: BTreeMap<(Site, Wait), u64>,
}

impl PathTime {
    /// Cycles without waits for other waves.
    pub fn cycles(&self) -> u64 {
        self.segments.iter().sum()
    }
}

/// An operation in flight.
#[derive(Clone, Copy, Debug)]
struct InFlight {
    done: u64,
    cause: Wait,
}

/// State of one wave.
#[derive(Debug)]
pub(crate) struct Scoreboard {
    clock: u64,
    ready: Box<[u64; REGISTERS]>,
    /// When a matrix operation can accumulate onto the register.
    ready_to_accumulate: Box<[u64; REGISTERS]>,
    /// Last writers that were matrix operations.
    by_matrix: Box<[bool; REGISTERS]>,
    matrix_free: u64,
    vector: VecDeque<InFlight>,
    lgkm: VecDeque<InFlight>,
    segment_start: u64,
    time: PathTime,
}

impl Scoreboard {
    pub fn new() -> Scoreboard {
        Scoreboard {
            clock: 0,
            ready: Box::new([0; REGISTERS]),
            ready_to_accumulate: Box::new([0; REGISTERS]),
            by_matrix: Box::new([false; REGISTERS]),
            matrix_free: 0,
            vector: VecDeque::new(),
            lgkm: VecDeque::new(),
            segment_start: 0,
            time: PathTime::default(),
        }
    }

    /// Executes one instruction. `jumps` tells whether the instruction after it is not the next one in the code.
    pub fn step(&mut self, site: Site, event: &Event, jumps: bool) {
        match event {
            Event::Run(timed) => self.execute(site, timed),
            Event::Memory { timed, latency, counters } => {
                self.await_operands(site, timed);
                self.clock += ISSUE;
                let cause = match timed.unit {
                    Unit::Lds => Wait::Lds,
                    Unit::ScalarMemory => Wait::ScalarMemory,
                    _ => Wait::VectorMemory,
                };
                let done = self.clock + latency;
                if *counters != Counters::Lgkm {
                    push(&mut self.vector, done, cause);
                }
                if *counters != Counters::Vector {
                    push(&mut self.lgkm, done, cause);
                }
            }
            Event::WaitCount { vector, scalar } => {
                self.drain(site, *vector, true);
                self.drain(site, *scalar, false);
            }
            Event::Barrier => {
                self.clock += ISSUE;
                self.time.segments.push(self.clock - self.segment_start);
                self.time.barriers.push(site);
                self.segment_start = self.clock;
            }
            Event::Branch => {
                self.clock += ISSUE;
                if jumps {
                    self.stall(site, Wait::Control, self.clock + TAKEN_BRANCH - ISSUE);
                }
            }
            Event::Nop(cycles) => self.stall(site, Wait::Control, self.clock + cycles),
            Event::Nothing => {}
        }
    }

    /// The time of the path that was executed.
    pub fn finish(mut self) -> PathTime {
        self.time.segments.push(self.clock - self.segment_start);
        self.time
    }

    fn execute(&mut self, site: Site, timed: &Timed) {
        self.await_operands(site, timed);
        if timed.unit == Unit::Matrix {
            self.stall(site, Wait::Matrix, self.matrix_free);
            self.matrix_free = self.clock + timed.busy;
        }
        let issued = self.clock;
        // A matrix operation runs on while the wave issues to other units.
        self.clock += if timed.unit == Unit::Matrix { ISSUE } else { timed.busy };
        for registers in timed.writes {
            for register in range(registers) {
                self.ready[register] = issued + timed.result;
                self.ready_to_accumulate[register] = issued + timed.accumulate;
                self.by_matrix[register] = timed.unit == Unit::Matrix;
            }
        }
    }

    fn await_operands(&mut self, site: Site, timed: &Timed) {
        let (mut until, mut cause) = (self.clock, Wait::Alu);
        for (index, registers) in timed.reads.iter().enumerate() {
            for register in range(*registers) {
                let ready = if timed.accumulator == Some(index) {
                    self.ready_to_accumulate[register]
                } else {
                    self.ready[register]
                };
                if ready > until {
                    until = ready;
                    cause = if self.by_matrix[register] { Wait::Matrix } else { Wait::Alu };
                }
            }
        }
        self.stall(site, cause, until);
    }

    fn drain(&mut self, site: Site, left: usize, vector: bool) {
        let queue = if vector { &mut self.vector } else { &mut self.lgkm };
        // The largest count that the instruction can name stands for no wait.
        if vector && left >= 63 || !vector && left >= 15 {
            return;
        }
        let mut last = None;
        while queue.len() > left {
            last = queue.pop_front();
        }
        if let Some(InFlight { done, cause }) = last {
            self.stall(site, cause, done);
        }
    }

    fn stall(&mut self, site: Site, cause: Wait, until: u64) {
        if until > self.clock {
            *self.time.stalls.entry((site, cause)).or_default() += until - self.clock;
            self.clock = until;
        }
    }
}

fn range(registers: Registers) -> std::ops::Range<usize> {
    usize::from(registers.first)..usize::from(registers.first) + usize::from(registers.count)
}

/// Operations complete in order. Later ones are not done before earlier ones.
fn push(queue: &mut VecDeque<InFlight>, done: u64, cause: Wait) {
    let before = queue.back().copied();
    queue.push_back(match before {
        Some(before) if before.done > done => before,
        _ => InFlight { done, cause },
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn timed(unit: Unit, busy: u64, result: u64, reads: &[u16], write: u16) -> Timed {
        let register = |first| Registers { first, count: 1 };
        let mut all = [Registers::default(); 4];
        all.iter_mut().zip(reads).for_each(|(to, from)| *to = register(*from));
        Timed {
            unit,
            busy,
            result,
            accumulate: busy,
            reads: all,
            writes: [register(write), Registers::default()],
            accumulator: None,
        }
    }

    fn load(latency: u64) -> Event {
        let timed = timed(Unit::VectorMemory, 4, 4, &[], 0);
        Event::Memory { timed, latency, counters: Counters::Vector }
    }

    fn run(events: &[Event]) -> PathTime {
        let mut scoreboard = Scoreboard::new();
        for (index, event) in events.iter().enumerate() {
            scoreboard.step(Site::uop(0, index), event, false);
        }
        scoreboard.finish()
    }

    const WAIT_ALL: Event = Event::WaitCount { vector: 0, scalar: 15 };

    #[test]
    fn independent_loads_overlap_and_dependent_ones_do_not() {
        let together = run(&[load(500), load(500), WAIT_ALL]);
        assert_eq!(together.cycles(), 508);
        let chained = run(&[load(500), WAIT_ALL, load(500), WAIT_ALL]);
        assert_eq!(chained.cycles(), 1008);
        assert_eq!(chained.stalls[&(Site::uop(0, 1), Wait::VectorMemory)], 500);
    }

    #[test]
    fn a_wait_for_the_older_load_leaves_the_younger_one_in_flight() {
        let one = Event::WaitCount { vector: 1, scalar: 15 };
        assert_eq!(run(&[load(100), load(900), one]).cycles(), 104);
        assert_eq!(run(&[load(900), load(100), one]).cycles(), 904, "loads return in order");
    }

    #[test]
    fn work_between_a_load_and_its_wait_hides_latency() {
        let add = Event::Run(timed(Unit::Valu, 4, 4, &[], 300));
        let mut events = vec![load(100)];
        events.extend([add; 20]);
        events.push(WAIT_ALL);
        let time = run(&events);
        assert_eq!((time.cycles(), time.stalls[&(Site::uop(0, 21), Wait::VectorMemory)]), (104, 20));
    }

    #[test]
    fn vector_results_are_ready_for_the_next_instruction_and_matrix_results_are_not() {
        let vector = Event::Run(timed(Unit::Valu, 4, 4, &[256], 256));
        assert_eq!(run(&[vector, vector]).stalls.len(), 0);
        let matrix = Event::Run(timed(Unit::Matrix, 64, 72, &[300], 512));
        let reader = Event::Run(timed(Unit::Valu, 4, 4, &[512], 256));
        let time = run(&[matrix, reader]);
        assert_eq!(time.stalls[&(Site::uop(0, 1), Wait::Matrix)], 68);
        assert_eq!(run(&[matrix, vector]).cycles(), 8, "other work goes on");
        assert_eq!(run(&[matrix, matrix]).cycles(), 68, "the core is busy");
    }

    #[test]
    fn barriers_split_the_time_into_segments() {
        let time = run(&[load(96), WAIT_ALL, Event::Barrier, load(10), WAIT_ALL]);
        assert_eq!(time.segments, [104, 14]);
        assert_eq!(time.barriers, [Site::uop(0, 2)]);
    }

    #[test]
    fn waits_are_decoded_as_the_instruction_set_says() {
        let wait = |imm: i32| {
            let mut inst = isa::decode(isa::Arch::Gfx942, &0xbf8c_0000u32.to_le_bytes()).unwrap();
            inst.imm = imm;
            match Event::of_dropped(&inst) {
                Event::WaitCount { vector, scalar } => (vector, scalar),
                other => panic!("{other:?}"),
            }
        };
        assert_eq!(wait(0x0f70), (0, 15));
        assert_eq!(wait(0xc07f), (63, 0));
        assert_eq!(wait(0x4f71), (17, 15));
    }
}
