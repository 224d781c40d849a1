//! A workgroup in flight: its waves, LDS and barrier, and the loop that runs it for a time slice.

use std::ptr::NonNull;

use crate::buffer::Buffer;
use crate::context::WaveContext;
use crate::fault::{Fault, FaultKind};
use crate::grid::Grid;
use crate::hostcall::Hostcall;
use crate::memory::Range;
use crate::observe::{self, WorkgroupObserver};
use crate::program::Program;
use crate::run_loop::run_wave;
use crate::wave::{Scalars, sreg};
use crate::{Flow, Lanes, Wave};

/// Micro-ops a wave may run before other waves get their turn. Checked only at jumps.
const QUANTUM: u32 = 8192;

/// Dispatch number that belongs to no dispatch.
const NONE: u64 = u64::MAX;

/// The context of a workgroup's waves.
#[derive(Debug)]
struct WorkgroupContext {
    grid: *const Grid,
    workgroup: [u32; 3],
    /// Work-items per dimension; smaller than the launch's workgroup size in a partial workgroup.
    size: [u32; 3],
    linear_workgroup: u64,
    /// The dispatch for which the waves' range caches are valid.
    dispatch: u64,
}

impl WorkgroupContext {
    #[inline]
    fn grid(&self) -> &Grid {
        // SAFETY: a grid outlives its workgroups.
        unsafe { &*self.grid }
    }
}

impl WaveContext for WorkgroupContext {
    fn find(&self, address: u64) -> Option<Range> {
        let own = self.grid().own.iter().find(|range| address >= range.start && address < range.end);
        own.copied().or_else(|| self.grid().memory.find(address))
    }

    fn linear_workgroup(&self) -> u64 {
        self.linear_workgroup
    }

    fn initial(&self, index: u32) -> (&Scalars, &Lanes) {
        let grid = self.grid();
        (grid.initial.sgprs(), &grid.work_items[index as usize])
    }

    fn arrive(&self, waiting: &mut Option<u64>, members: u32) -> bool {
        self.grid().arrive(waiting, members)
    }

    fn serve_hostcalls(&self) -> Result<(), FaultKind> {
        self.grid().hostcall.as_ref().map_or(Ok(()), Hostcall::serve)
    }

    fn enter(&self, wave: &mut Wave, address: u64) -> bool {
        let grid = self.grid();
        let program = grid.kernel.program_at(grid.level, address);
        let found = program.and_then(|program| Some((program, program.index_of(address)?)));
        found.inspect(|(program, at)| program.enter(wave, *at)).is_some()
    }
}

/// Scheduling state of a wave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Ready,
    AtBarrier,
    Ended,
}

#[derive(Debug)]
struct Slot {
    wave: Box<Wave>,
    private: Buffer,
    state: State,
    /// Number of turns that ended because the quantum was used up.
    expired: u32,
    /// Position and register hash at which the wave was found spinning.
    spin: Option<Mark>,
}

/// Position and register hash of a wave. A wave that returns to the same mark is spinning until memory changes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Mark {
    program: *const (),
    pc: usize,
    registers: u64,
}

impl Mark {
    fn of(wave: &Wave) -> Mark {
        // Four independent sums, so that the loop is not one long dependency chain of multiplications.
        let mut sums = [u64::from(wave.scc), 1, 2, 3];
        let mut add = |values: &[u32]| {
            for four in values.chunks_exact(4) {
                for (sum, value) in sums.iter_mut().zip(four) {
                    *sum = (*sum ^ u64::from(*value)).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23);
                }
            }
        };
        add(&wave.sgprs.0);
        wave.vgprs.iter().for_each(|lanes| add(&lanes.0));
        let registers = sums.iter().fold(0u64, |all, sum| all.rotate_left(17) ^ sum);
        Mark { program: wave.program, pc: wave.pc, registers }
    }
}

/// Result of watching a wave for one loop iteration.
enum Watched {
    Spins,
    Moves,
    /// It reached something other than a jump.
    Left(Flow),
}

impl Slot {
    /// Runs the wave until it is back at the mark's position, for at most a few jumps.
    fn watch(&mut self, mark: Mark, mut observer: Option<&mut WorkgroupObserver>) -> Watched {
        const JUMPS: u32 = 32;
        let wave = &mut *self.wave;
        for _ in 0..JUMPS {
            wave.budget = 1;
            let flow = advance(wave, observer.as_deref_mut());
            if flow != Flow::Jump {
                return Watched::Left(flow);
            }
            if wave.pc == mark.pc && std::ptr::eq(wave.program, mark.program) {
                return if Mark::of(wave) == mark { Watched::Spins } else { Watched::Moves };
            }
        }
        Watched::Moves
    }

    /// Runs one turn of the wave. Returns how the turn ended, and whether the wave only waited.
    fn turn(&mut self, mut observer: Option<&mut WorkgroupObserver>) -> (Flow, bool) {
        if let Some(mark) = self.spin {
            match self.watch(mark, observer.as_deref_mut()) {
                Watched::Spins => return (Flow::Jump, true),
                Watched::Moves => self.spin = None,
                Watched::Left(flow) => {
                    self.spin = None;
                    return (flow, matches!(flow, Flow::Yield | Flow::Retry));
                }
            }
        }
        self.wave.budget = QUANTUM;
        let flow = advance(&mut self.wave, observer.as_deref_mut());
        if flow != Flow::Jump {
            return (flow, matches!(flow, Flow::Yield | Flow::Retry));
        }
        self.expired += 1;
        // Taking a mark costs a few microseconds, so do it only every fourth time.
        if self.expired % 4 != 1 {
            return (flow, false);
        }
        let mark = Mark::of(&self.wave);
        match self.watch(mark, observer) {
            Watched::Spins => {
                self.spin = Some(mark);
                (Flow::Jump, true)
            }
            Watched::Moves => (Flow::Jump, false),
            Watched::Left(flow) => (flow, matches!(flow, Flow::Yield | Flow::Retry)),
        }
    }
}

/// How a time slice ended.
#[derive(Debug)]
pub(crate) enum Outcome {
    /// All waves ended.
    Done,
    /// Not finished yet. `idle` means that all waves only waited: they sleep, or spin on memory.
    Parked {
        idle: bool,
    },
    Fault(Box<Fault>),
}

/// A workgroup in flight. Its storage is reused for the next one.
#[derive(Debug)]
pub(crate) struct Workgroup {
    slots: Vec<Slot>,
    live: usize,
    lds: Buffer,
    context: Box<WorkgroupContext>,
    /// Observer state of this workgroup, if the dispatch is observed.
    observer: Option<Box<WorkgroupObserver>>,
}

// SAFETY: only one thread at a time runs a workgroup. The targets of its pointers outlive it and may be used from any thread.
unsafe impl Send for Workgroup {}

impl Workgroup {
    /// Creates storage for workgroups of `grid`.
    pub fn new(grid: &Grid) -> Workgroup {
        Workgroup {
            slots: Vec::new(),
            live: 0,
            lds: Buffer::zeroed(0),
            context: Box::new(WorkgroupContext {
                grid,
                workgroup: [0; 3],
                size: [1; 3],
                linear_workgroup: 0,
                dispatch: NONE,
            }),
            observer: None,
        }
    }

    /// Initialises the waves for workgroup `linear` of `grid`.
    pub fn start(&mut self, grid: &Grid, linear: u64) {
        let workgroup = grid.workgroup_of(linear);
        let mut size = grid.workgroup_size;
        for k in 0..3 {
            size[k] = size[k].min(grid.grid_size[k] - workgroup[k] * grid.workgroup_size[k]);
        }
        let items = size.iter().product::<u32>();
        self.live = items.div_ceil(64) as usize;
        if self.context.dispatch != grid.id {
            self.prepare(grid);
        }
        let context = &mut *self.context;
        context.workgroup = workgroup;
        context.size = size;
        context.linear_workgroup = linear;
        for slot in &mut self.slots[..self.live] {
            slot.state = State::Ready;
            slot.expired = 0;
            slot.spin = None;
            let wave = &mut *slot.wave;
            wave.executed = 0;
            wave.gpr_index_mode = 0;
            wave.vskip = false;
            wave.fork_depth = 0;
            wave.arrived = None;
            wave.scc = false;
            wave.mode = grid.mode;
            // SAFETY: the wave is prepared for the grid, and this machine supports the grid's CPU level.
            unsafe { (grid.wave_init.run)(wave, &grid.wave_init) };
            grid.initial.apply(wave, workgroup);
            grid.entry().enter(wave, grid.entry_index);
        }
        if items % 64 != 0 {
            self.slots[self.live - 1].wave.set_sgpr64(sreg::EXEC, u64::MAX >> (64 - items % 64));
        }
        if size != grid.workgroup_size {
            for (index, slot) in self.slots[..self.live].iter_mut().enumerate() {
                slot.wave.vgprs[0] =
                    crate::initial_registers::work_item_ids(size, grid.id_dims, 64 * index as u32);
            }
        }
        let observed = grid.observed.as_ref();
        self.observer = observed.map(|launch| Box::new(launch.workgroup(workgroup, linear, self.live)));
    }

    /// Prepares storage, which may come from another dispatch, for `grid`: sets everything that is equal for all its workgroups.
    #[cold]
    fn prepare(&mut self, grid: &Grid) {
        let context = &mut *self.context;
        context.grid = grid;
        context.dispatch = grid.id;
        if self.lds.len() < grid.lds_size as usize {
            self.lds = Buffer::zeroed(grid.lds_size as usize);
        }
        while self.slots.len() < grid.work_items.len() {
            self.slots.push(Slot {
                wave: Box::new(Wave::new(grid.vgpr_count)),
                private: Buffer::zeroed(0),
                state: State::Ended,
                expired: 0,
                spin: None,
            });
        }
        let generation = grid.memory.generation();
        let private_bytes = grid.private_size as usize * 64;
        for (index, slot) in self.slots.iter_mut().enumerate() {
            if slot.private.len() < private_bytes {
                slot.private = Buffer::zeroed(private_bytes);
            }
            if slot.wave.vgprs.len() < grid.vgpr_count {
                *slot.wave = Wave::new(grid.vgpr_count);
            }
            let wave = &mut *slot.wave;
            wave.index = index as u32;
            wave.lds = self.lds.as_mut_ptr();
            wave.lds_size = grid.lds_size;
            wave.private = slot.private.as_mut_ptr();
            wave.private_size = grid.private_size;
            wave.context = Some(NonNull::from(&mut *context));
            wave.fault = None;
            wave.native = grid.native;
            // The cached ranges belong to the previous dispatch, which may have had access to other memory.
            wave.ranges.clear(generation);
        }
    }

    /// Clears range caches that are older than the last change of the memory table.
    fn refresh(&mut self) {
        let generation = self.context.grid().memory.generation();
        for slot in &mut self.slots[..self.live] {
            if slot.wave.ranges.generation != generation {
                slot.wave.ranges.clear(generation);
            }
        }
    }

    /// Runs every wave until it ends, waits at the barrier, or has used up its turn.
    pub fn run(&mut self) -> Outcome {
        self.refresh();
        let mut idle = true;
        loop {
            let mut runnable = false;
            let mut at_barrier = 0;
            let mut ended = 0;
            for at in 0..self.live {
                match self.slots[at].state {
                    State::Ended => ended += 1,
                    State::AtBarrier => at_barrier += 1,
                    State::Ready => {
                        let (flow, waits) = self.slots[at].turn(self.observer.as_deref_mut());
                        idle &= waits;
                        match flow {
                            Flow::End => {
                                self.slots[at].state = State::Ended;
                                ended += 1;
                            }
                            Flow::Barrier => {
                                self.slots[at].state = State::AtBarrier;
                                at_barrier += 1;
                            }
                            Flow::Fault => {
                                self.dismiss();
                                return Outcome::Fault(Box::new(self.describe(at)));
                            }
                            // The wave yielded, or used up its turn.
                            _ => runnable = true,
                        }
                    }
                }
            }
            if ended == self.live {
                self.dismiss();
                return Outcome::Done;
            }
            if at_barrier > 0 && at_barrier + ended == self.live {
                for slot in &mut self.slots[..self.live] {
                    if slot.state == State::AtBarrier {
                        slot.state = State::Ready;
                    }
                }
                if let Some(observer) = &mut self.observer {
                    observer.barrier();
                }
                // All waves are past the barrier: continue at once, unless the dispatch was aborted.
                if self.context.grid().is_aborted() {
                    return Outcome::Parked { idle: false };
                }
                continue;
            }
            debug_assert!(runnable);
            return Outcome::Parked { idle };
        }
    }

    /// Ends the observation of this workgroup.
    fn dismiss(&mut self) {
        if let (Some(observer), Some(launch)) = (self.observer.take(), &self.context.grid().observed) {
            observer.end(launch);
        }
    }

    /// Number of micro-ops that the waves of this workgroup executed.
    pub fn executed(&self) -> u64 {
        self.slots[..self.live].iter().map(|slot| slot.wave.executed).sum()
    }

    pub fn waves(&self) -> u64 {
        self.live as u64
    }

    /// Memory that the workgroup's storage occupies, in bytes.
    pub fn bytes(&self) -> usize {
        self.slots.iter().map(|slot| slot.wave.vgprs.len() * 256 + slot.private.len()).sum::<usize>()
            + self.lds.len()
    }

    /// Creates a fault of the whole dispatch, located at the first wave that is still running.
    pub fn place(&mut self, kind: FaultKind) -> Fault {
        let at = self.slots[..self.live].iter().position(|slot| slot.state != State::Ended).unwrap_or(0);
        self.slots[at].wave.fault = Some((kind, None));
        self.describe(at)
    }

    /// Creates the fault of wave `at`, with its location.
    fn describe(&mut self, at: usize) -> Fault {
        let grid = self.context.grid();
        let wave = &mut *self.slots[at].wave;
        let fault = wave.fault.take();
        let (kind, lane) = fault.unwrap_or((
            FaultKind::Internal { text: "a wave faulted without recording a reason".to_owned() },
            None,
        ));
        // SAFETY: a wave that ran has a program, which outlives the wave.
        let program = unsafe { Program::of(wave) };
        let pc = program.address_of(wave.pc);
        let instruction = match kind {
            FaultKind::IllegalInstruction { .. } => String::new(),
            _ => program
                .inst_of(wave.pc)
                .map_or(String::new(), |inst| isa::disassemble(grid.kernel.arch(), inst, pc)),
        };
        let [x, y, _] = self.context.size;
        let work_item = lane.map(|lane| {
            let item = 64 * wave.index + u32::from(lane);
            [item % x, item / x % y, item / x / y]
        });
        Fault {
            kind,
            kernel: grid.kernel.name().into(),
            pc,
            offset: pc.wrapping_sub(grid.kernel.entry()) as i64,
            instruction: instruction.into(),
            workgroup: self.context.workgroup,
            work_item,
        }
    }
}

/// Runs a wave, observed if it has an observer.
fn advance(wave: &mut Wave, observer: Option<&mut WorkgroupObserver>) -> Flow {
    match observer {
        None => run_wave(wave),
        Some(observer) => observe::run(wave, observer),
    }
}
