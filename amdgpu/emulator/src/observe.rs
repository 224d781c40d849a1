//! Observation of kernels: instruction trace, profile, performance model, and a check for races and out-of-bounds accesses.
//!
//! A dispatch with an [`Observer`] runs its waves in a separate loop that inspects the wave before and after every micro-op.
//! Handlers are unaware of it, and a dispatch without an observer has no overhead. Observing does not change results. Data is
//! collected per workgroup ([`WorkgroupObserver`]), merged per launch ([`ObservedLaunch`]), and reported by the observer on request.

mod accesses;
mod block;
mod check;
mod check_text;
mod conflict;
mod count;
mod global_shadow;
mod kernel_name;
mod line;
mod listing;
mod local_shadow;
pub mod model;
mod profile;
mod profile_text;
mod trace;

use std::collections::HashMap;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

pub use block::{Block, BlockLine};
pub use check::{Accessor, CheckReport, Finding};
pub use check_text::check_text;
pub use conflict::Problem;
pub use line::LineProfile;
pub use profile::{Executed, KernelProfile, LocalTraffic, Place, Traffic};
pub use profile_text::profile_text;
pub use trace::TraceOptions;

use crate::memory::Range;
use crate::module::LoadedKernel;
use crate::program::Program;
use crate::run_loop::far;
use crate::{Fault, FaultKind, Flow, LaunchStats, Level, Memory, Wave};
use accesses::{Accesses, Shape};
use check::{Check, Checker};
use global_shadow::GlobalShadow;
use listing::Listing;
use local_shadow::LocalShadow;
use model::{GpuTiming, KernelEstimate, Model, ModelLaunch, PeerMemory, Recorder};
use profile::{Counts, Profile};
use trace::{Trace, Tracer};

/// Maximum number of kernels remembered. Further kernels get a new listing for every launch.
const MAX_KERNELS: usize = 4096;

/// Options of an observer.
#[derive(Clone, Debug, Default)]
pub struct ObserveOptions {
    /// Only kernels whose mangled or demangled name contains this.
    pub kernel: Option<String>,
    /// Only this launch among those of matching kernels, counted from 0.
    pub launch: Option<u64>,
    /// Trace one wave.
    pub trace: Option<TraceOptions>,
    /// Count executions and memory traffic.
    pub profile: bool,
    /// Estimate the time that launches take on a real GPU.
    pub model: bool,
    /// Check memory accesses.
    pub check: bool,
}

/// Observes launches and reports the results.
#[derive(Debug)]
pub struct Observer {
    options: ObserveOptions,
    /// Number of launches, of launches of matching kernels, and of observed launches.
    launches: AtomicU64,
    matching: AtomicU64,
    looked_at: AtomicU64,
    trace: Option<Trace>,
    profile: Option<Profile>,
    model: Option<Model>,
    check: Option<Check>,
    /// By kernel. A listing keeps its kernel alive, because reports need the kernel's code.
    listings: Mutex<HashMap<usize, Arc<Listing>>>,
}

impl Observer {
    /// Creates an observer, which writes its trace (if enabled) to `trace`.
    pub fn new(options: ObserveOptions, trace: Option<Box<dyn Write + Send>>) -> Observer {
        let trace = options.trace.clone().zip(trace).map(|(options, out)| Trace::new(options, out));
        Observer {
            profile: options.profile.then(Profile::default),
            model: options.model.then(Model::default),
            check: options.check.then(Check::default),
            options,
            launches: AtomicU64::new(0),
            matching: AtomicU64::new(0),
            looked_at: AtomicU64::new(0),
            trace,
            listings: Mutex::default(),
        }
    }

    /// Number of launches so far, observed or not.
    pub fn launches(&self) -> u64 {
        self.launches.load(Ordering::Relaxed)
    }

    /// Number of observed launches.
    pub fn looked_at(&self) -> u64 {
        self.looked_at.load(Ordering::Relaxed)
    }

    /// Number of waves traced so far.
    pub fn traced(&self) -> u64 {
        self.trace.as_ref().map_or(0, Trace::waves)
    }

    /// Profiles of the kernels, if profiling is enabled.
    pub fn profile(&self) -> Option<Vec<KernelProfile>> {
        self.profile.as_ref().map(Profile::report)
    }

    /// Estimates of the kernels, if the performance model is enabled.
    pub fn model(&self) -> Option<Vec<KernelEstimate>> {
        self.model.as_ref().map(Model::report)
    }

    /// Findings of the check, if it is enabled.
    pub fn check(&self) -> Option<CheckReport> {
        self.check.as_ref().map(Check::report)
    }

    /// Flushes buffered output.
    pub fn flush(&self) {
        if let Some(trace) = &self.trace {
            trace.flush();
        }
    }

    /// Starts observing a launch, if it matches the options.
    pub(crate) fn launch(self: &Arc<Observer>, launched: Launched) -> Option<ObservedLaunch> {
        let kernel = launched.kernel;
        self.launches.fetch_add(1, Ordering::Relaxed);
        let plain = kernel_name::plain(kernel.name());
        if let Some(wanted) = &self.options.kernel
            && !kernel.name().contains(wanted.as_str())
            && !plain.contains(wanted.as_str())
        {
            return None;
        }
        let number = self.matching.fetch_add(1, Ordering::Relaxed);
        let wanted = self.options.launch.is_none_or(|wanted| wanted == number);
        // Only one launch is traced: the selected one, or the first.
        let traced = self.trace.is_some() && self.options.launch.unwrap_or(0) == number;
        if !wanted || !(traced || self.profile.is_some() || self.model.is_some() || self.check.is_some()) {
            return None;
        }
        self.looked_at.fetch_add(1, Ordering::Relaxed);
        let listing = self.listing(kernel);
        let model = self.model.is_some().then(|| {
            let groups = launched.workgroups.iter().map(|count| u64::from(*count)).product();
            let block = launched.workgroup_size.iter().product();
            let peers = Arc::clone(launched.peers);
            ModelLaunch::new(launched.timing, &listing, groups, block, launched.lds_bytes, peers)
        });
        Some(ObservedLaunch {
            observer: Arc::clone(self),
            number,
            listing,
            traced,
            level: launched.level,
            workgroups: launched.workgroups,
            workgroup_size: launched.workgroup_size,
            lds_bytes: launched.lds_bytes,
            own: launched.own.to_vec(),
            counts: Mutex::default(),
            model,
            shadows: Mutex::default(),
            global: Mutex::default(),
        })
    }

    fn listing(&self, kernel: &Arc<LoadedKernel>) -> Arc<Listing> {
        let mut listings = self.listings.lock();
        let key = Arc::as_ptr(kernel) as usize;
        if listings.len() >= MAX_KERNELS && !listings.contains_key(&key) {
            return Arc::new(Listing::new(Arc::clone(kernel)));
        }
        let listing = listings.entry(key).or_insert_with(|| Arc::new(Listing::new(Arc::clone(kernel))));
        Arc::clone(listing)
    }
}

/// Parameters of a launch.
pub(crate) struct Launched<'a> {
    pub kernel: &'a Arc<LoadedKernel>,
    pub level: Level,
    pub workgroups: [u32; 3],
    pub workgroup_size: [u32; 3],
    /// LDS bytes as requested, before rounding up.
    pub lds_bytes: u32,
    /// Buffers private to the dispatch.
    pub own: &'a [Range],
    /// Hardware parameters of the device.
    pub timing: &'static GpuTiming,
    /// Memory of other devices.
    pub peers: &'a Arc<PeerMemory>,
}

/// An observed launch.
#[derive(Debug)]
pub(crate) struct ObservedLaunch {
    observer: Arc<Observer>,
    /// Number among the launches of matching kernels.
    number: u64,
    listing: Arc<Listing>,
    traced: bool,
    level: Level,
    workgroups: [u32; 3],
    workgroup_size: [u32; 3],
    lds_bytes: u32,
    own: Vec<Range>,
    /// Counts and shadows that no workgroup uses at the moment.
    counts: Mutex<Vec<Counts>>,
    model: Option<ModelLaunch>,
    shadows: Mutex<Vec<LocalShadow>>,
    global: Mutex<GlobalShadow>,
}

impl ObservedLaunch {
    /// Starts observing a workgroup.
    pub fn workgroup(&self, workgroup: [u32; 3], linear: u64, waves: usize) -> WorkgroupObserver {
        let tracer = self.observer.trace.as_ref().filter(|_| self.traced);
        let observer = &self.observer;
        let counts = observer.profile.is_some().then(|| self.counts.lock().pop().unwrap_or_default());
        let checker = observer.check.is_some().then(|| {
            let mut shadow = self.shadows.lock().pop().unwrap_or_else(LocalShadow::new);
            shadow.start();
            Checker::new(linear, shadow)
        });
        WorkgroupObserver {
            launch: self,
            counts,
            recorder: self.model.as_ref().map(|model| model.workgroup(linear, waves)),
            checker,
            accesses: Accesses::new(),
            code: None,
            tracer: tracer.and_then(|trace| trace.workgroup(self, workgroup, waves)),
        }
    }

    /// Merges the results when the launch has ended.
    pub fn end(&self, outcome: Result<&LaunchStats, &Fault>, memory: &Memory) {
        if let Some(profile) = &self.observer.profile {
            let counts = std::mem::take(&mut *self.counts.lock());
            profile.add(&self.listing, self.level, outcome.ok(), counts);
        }
        if let (Some(model), Some(launch), Ok(_)) = (&self.observer.model, &self.model, outcome) {
            model.add(launch, &self.listing, self.level);
        }
        if let Some(check) = &self.observer.check {
            // A cancelled kernel did nothing wrong.
            if let Err(fault) = outcome
                && fault.kind != FaultKind::Cancelled
            {
                check.fault(self, fault, memory);
            }
            check.unchecked(self.global.lock().unchecked);
        }
        self.observer.flush();
    }
}

/// Memory access shapes of a program's instructions.
#[derive(Debug)]
pub(crate) struct Code {
    base: u64,
    shapes: Box<[Shape]>,
}

impl Code {
    fn of(program: &Program) -> Code {
        Code { base: program.base(), shapes: program.insts.iter().map(Shape::of).collect() }
    }
}

/// Observer of one workgroup.
#[derive(Debug)]
pub(crate) struct WorkgroupObserver {
    /// The launch, which outlives its workgroups.
    launch: *const ObservedLaunch,
    accesses: Accesses,
    /// Shapes of the program that ran last.
    code: Option<Arc<Code>>,
    tracer: Option<Tracer>,
    counts: Option<Counts>,
    recorder: Option<Recorder>,
    checker: Option<Checker>,
}

/// A micro-op that is about to run, or has just run.
pub(crate) struct Step<'a> {
    pub program: &'a Program,
    pub at: usize,
    pub inst: &'a isa::Inst,
    pub launch: &'a ObservedLaunch,
    /// Memory accesses of the instruction, computed before it ran.
    pub accesses: &'a [accesses::Access],
}

impl WorkgroupObserver {
    /// Called when all waves have reached a barrier.
    pub fn barrier(&mut self) {
        if let Some(checker) = &mut self.checker {
            checker.barrier();
        }
    }

    /// Called when the workgroup has ended.
    pub fn end(self, launch: &ObservedLaunch) {
        if let Some(counts) = self.counts {
            launch.counts.lock().push(counts);
        }
        if let (Some(recorder), Some(model)) = (self.recorder, &launch.model) {
            model.end(recorder);
        }
        if let Some(checker) = self.checker {
            launch.shadows.lock().push(checker.local);
        }
    }

    fn code(&mut self, launch: &ObservedLaunch, program: &Program) -> Arc<Code> {
        match &self.code {
            Some(code) if code.base == program.base() => Arc::clone(code),
            _ => {
                let code = launch.listing.code(program);
                self.code = Some(Arc::clone(&code));
                code
            }
        }
    }

    /// Runs micro-op `at`, and observes the wave before and after.
    fn step(&mut self, launch: &ObservedLaunch, wave: &mut Wave, program: &Program, at: usize) -> Flow {
        let uop = &program.uops[at];
        let inst = &program.insts[uop.inst as usize];
        let mut accesses = std::mem::take(&mut self.accesses);
        accesses.clear();
        // Preparatory micro-ops have the instruction's operands, but not its effect.
        if program.is_whole(at) {
            let shape = self.code(launch, program).shapes[uop.inst as usize];
            if shape.touches_memory() {
                shape.place(wave, uop, inst, &mut accesses);
            }
        }
        let step = Step { program, at, inst, launch, accesses: &accesses };
        if let Some(tracer) = &mut self.tracer {
            tracer.before(&step, wave);
        }
        if let (Some(checker), Some(check)) = (&mut self.checker, &launch.observer.check)
            && !accesses.is_empty()
        {
            checker.before(&step, wave, check);
        }
        let exec = wave.exec();
        // SAFETY: the micro-op belongs to the program that the wave runs.
        let flow = unsafe { (uop.run)(wave, uop) };
        if let Some(tracer) = &mut self.tracer {
            tracer.after(&step, wave, flow);
        }
        if let Some(counts) = &mut self.counts {
            counts.count(&step, exec, wave, flow);
        }
        if let Some(recorder) = &mut self.recorder {
            recorder.after(&step, exec, wave, flow);
        }
        if let Some(checker) = &mut self.checker {
            checker.after(&step, flow);
        }
        self.accesses = accesses;
        flow
    }
}

/// Like `run_wave`, but observed by `observer`.
pub(crate) fn run(wave: &mut Wave, observer: &mut WorkgroupObserver) -> Flow {
    let mut left = i64::from(wave.budget);
    loop {
        // SAFETY: the wave runs a program of its kernel, and the observer belongs to its launch; both outlive it.
        let (program, launch) = unsafe { (Program::of(wave), &*observer.launch) };
        let pc = wave.pc;
        let flow = observer.step(launch, wave, program, pc);
        wave.executed += 1;
        left -= 1;
        match flow {
            Flow::Next => {
                wave.pc = pc + 1;
                continue;
            }
            Flow::Jump => {}
            Flow::Far => {
                if !far(wave) {
                    wave.pc = pc;
                    return Flow::Fault;
                }
            }
            Flow::Fault | Flow::Retry => {
                wave.pc = pc;
                return flow;
            }
            _ => {
                wave.pc = pc + 1;
                return flow;
            }
        }
        if left <= 0 {
            return Flow::Jump;
        }
    }
}
