//! Workgroup scheduler: the thread pool, and the order in which the workgroups of a grid run.
//!
//! A workgroup runs on one thread for one time slice at a time. Normally each workgroup runs to completion before the next one
//! starts. Workgroups that make no progress are parked, and progressively more of the grid is started, so that a workgroup may
//! wait for a later one. Memory limits how many workgroups are in flight.
//!
//! A thread takes several short workgroups at a time, since taking each one under the lock would make all threads wait for the
//! lock. When it parks one of them, it hands back those that it has not started, because others may wait for them.
//!
//! Waking a thread takes longer than a short grid. The number of threads that a launch wakes therefore follows from the
//! instructions of the kernel's last launch. If the grid turns out to be longer, the launching thread wakes the others later.
//! Threads wake each other as a tree, so that the launching thread can begin at once.

use std::collections::VecDeque;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::thread::JoinHandle;
use std::time::Duration;

use crossbeam_utils::CachePadded;
use parking_lot::{Condvar, Mutex};

use crate::fault::{Fault, FaultKind};
use crate::grid::Grid;
use crate::guard::Entered;
use crate::launch_stats::LaunchStats;
use crate::workgroup::{Outcome, Workgroup};

/// Minimum number of waves for which other threads are woken; for fewer, waking costs more than running them.
const WORTH_WAKING: u64 = 12;
/// Number of instructions for which one more thread is woken: they take about as long as waking it.
const HELPER_OPS: u64 = 2048;
/// Number of threads that a thread wakes before it starts to work.
const FAN_OUT: u64 = 2;
/// Number of busy turns that count as much as one idle turn, when deciding whether to start more workgroups.
const BUSY_TURNS: u64 = 64;
/// Micro-ops for which a thread takes workgroups at a time; about as many as one wave runs in one turn.
const BATCH_OPS: u64 = 8192;
/// Micro-ops for which it takes workgroups at least, so that threads do not queue up for the lock at the end of a grid.
const LEAST_OPS: u64 = 1024;
/// Maximum number of workgroups that a thread takes at a time.
const BATCH: u64 = 64;
/// Number of batches per thread into which the workgroups not yet taken are divided at least, so that all threads end together.
const SHARES: u64 = 4;
/// Maximum number of workgroup storages kept for the next launch.
const SPARES: usize = 64;

/// Storage of finished workgroups, for reuse. Boxed, so that handing a workgroup over moves only a pointer.
type Spares = Mutex<Vec<Box<Workgroup>>>;

/// Scheduling state of one grid's workgroups.
#[derive(Debug)]
pub(crate) struct Schedule {
    total: u64,
    waves: u64,
    resident: u64,
    /// Threads of the device.
    threads: u64,
    /// On cache lines of its own: all threads write it, and read what lies around it.
    state: CachePadded<Mutex<State>>,
    ended: Condvar,
}

#[derive(Debug)]
struct State {
    /// First workgroup that no thread has taken.
    next: u64,
    /// Workgroups that were taken and handed back.
    returned: Vec<Range<u64>>,
    /// Workgroups taken and not finished, including parked ones.
    in_flight: u64,
    parked: VecDeque<Box<Workgroup>>,
    /// Number of workgroups to have in flight even while some are parked.
    target: u64,
    /// Weighted turns since the last workgroup finished or `target` grew.
    stalls: u64,
    /// Threads that are running workgroups of this grid.
    active: usize,
}

impl Schedule {
    /// Schedules `total` workgroups of `waves` waves on a device with `threads` threads. At most `resident` workgroups are in
    /// flight while some are parked.
    pub fn new(total: u64, waves: u64, resident: u64, cooperative: bool, threads: usize) -> Schedule {
        Schedule {
            total,
            waves,
            resident,
            threads: threads.max(1) as u64,
            state: CachePadded::new(Mutex::new(State {
                next: 0,
                returned: Vec::new(),
                in_flight: 0,
                parked: VecDeque::new(),
                target: if cooperative { total } else { 0 },
                stalls: 0,
                active: 0,
            })),
            ended: Condvar::new(),
        }
    }
}

impl State {
    fn has_unstarted(&self, total: u64) -> bool {
        self.next < total || !self.returned.is_empty()
    }

    /// Counts workgroups that have finished.
    fn finish(&mut self, finished: u64) {
        if finished > 0 {
            self.in_flight -= finished;
            self.stalls = 0;
        }
    }

    /// Takes up to `most` adjacent workgroups that no thread has, in launch order as far as possible.
    fn take(&mut self, total: u64, most: u64) -> Range<u64> {
        let taken = match self.returned.last_mut() {
            Some(range) => {
                let taken = range.start..range.end.min(range.start + most);
                range.start = taken.end;
                if range.is_empty() {
                    self.returned.pop();
                }
                taken
            }
            None => {
                let taken = self.next..total.min(self.next.saturating_add(most));
                self.next = taken.end;
                taken
            }
        };
        self.in_flight += taken.end - taken.start;
        taken
    }
}

/// Next action of a thread.
enum Pick {
    Start(Range<u64>),
    Resume(Box<Workgroup>),
    Nothing,
}

impl Grid {
    /// Picks the next action of a thread, which has completed `finished` workgroups since it last asked. It starts `least` to `most`
    /// workgroups, one after the other.
    fn pick(&self, finished: u64, most: u64, least: u64) -> Pick {
        let schedule = &self.schedule;
        let mut state = schedule.state.lock();
        state.finish(finished);
        if self.is_aborted() {
            return Pick::Nothing;
        }
        if state.has_unstarted(schedule.total) {
            if state.parked.is_empty() {
                let share = (schedule.total - state.next) / (SHARES * schedule.threads);
                return Pick::Start(state.take(schedule.total, most.min(share).max(least)));
            }
            if state.in_flight < state.target {
                return Pick::Start(state.take(schedule.total, 1));
            }
        }
        state.parked.pop_front().map_or(Pick::Nothing, Pick::Resume)
    }

    /// Parks a workgroup and hands back those that the thread has not started. Returns the number of workgroups in flight.
    fn park(&self, workgroup: Box<Workgroup>, idle: bool, finished: u64, unstarted: Range<u64>) -> u64 {
        let schedule = &self.schedule;
        let mut state = schedule.state.lock();
        state.finish(finished);
        if !unstarted.is_empty() {
            state.in_flight -= unstarted.end - unstarted.start;
            state.returned.push(unstarted);
        }
        state.parked.push_back(workgroup);
        // An idle turn counts much more than a busy turn, though a busy turn may be an undetected wait.
        state.stalls += if idle { BUSY_TURNS } else { 1 };
        // All workgroups in flight had two such turns and none finished: perhaps they wait for a workgroup that has not started.
        if state.stalls > 2 * BUSY_TURNS * state.in_flight {
            state.stalls = 0;
            state.target = (state.target.max(state.in_flight) * 2).min(schedule.resident);
        }
        state.in_flight
    }

    fn wants_help(&self) -> bool {
        let state = self.schedule.state.lock();
        !self.is_aborted() && (state.has_unstarted(self.schedule.total) || !state.parked.is_empty())
    }

    /// Runs workgroups until none is left to run. Wakes the `reserve` if the grid is longer than expected.
    fn work(&self, shared: &Shared, reserve: &mut Reserve) {
        self.work_until(shared, reserve, || ());
    }

    /// Like [`Grid::work`], but on a pool thread: adds the thread's CPU time to `helpers_time`.
    fn help(&self, shared: &Shared) {
        let before = self.helpers_time.as_ref().map(|_| thread_time());
        self.work_until(shared, &mut Reserve::none(), || {
            if let (Some(time), Some(before)) = (&self.helpers_time, before) {
                time.fetch_add(thread_time().saturating_sub(before), Ordering::Relaxed);
            }
        });
    }

    /// Runs workgroups, then calls `done` before any other thread can see that this thread has left the grid.
    fn work_until(&self, shared: &Shared, reserve: &mut Reserve, done: impl FnOnce()) {
        self.schedule.state.lock().active += 1;
        let entered = Entered::new(&self.missing);
        let ran = catch_unwind(AssertUnwindSafe(|| self.run_workgroups(shared, reserve)));
        if let Err(panic) = ran {
            let text = panic
                .downcast_ref::<String>()
                .cloned()
                .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                .unwrap_or_else(|| "a thread panicked without a message".to_owned());
            self.abort(self.fault(FaultKind::Internal { text }));
        }
        drop(entered);
        done();
        let mut state = self.schedule.state.lock();
        state.active -= 1;
        if state.active == 0 {
            self.schedule.ended.notify_all();
        }
    }

    fn run_workgroups(&self, shared: &Shared, reserve: &mut Reserve) {
        let spares = &shared.spares;
        let mut spare: Option<Box<Workgroup>> = None;
        let mut naps = 0u64;
        let mut done = LaunchStats::default();
        // Workgroups that this thread has taken and not started.
        let mut batch = 0..0;
        let (mut finished, mut most, mut least) = (0, 1, 1);
        loop {
            let next = if self.is_aborted() { None } else { batch.next() };
            let mut workgroup = match next {
                Some(linear) => self.start(linear, spare.take(), spares),
                None => match self.pick(std::mem::take(&mut finished), most, least) {
                    Pick::Nothing => break,
                    Pick::Resume(workgroup) => workgroup,
                    Pick::Start(taken) => {
                        // A grid of short workgroups parks none, so it ends early only here.
                        if let Some(finished) = &mut spare
                            && let Some(kind) = self.expired()
                        {
                            self.abort(finished.place(kind));
                            break;
                        }
                        batch = taken.start + 1..taken.end;
                        self.start(taken.start, spare.take(), spares)
                    }
                },
            };
            match workgroup.run() {
                Outcome::Done => {
                    naps = 0;
                    if let Some(kind) = self.missing_page() {
                        self.abort(workgroup.place(kind));
                    }
                    done.workgroups += 1;
                    done.waves += workgroup.waves();
                    let executed = workgroup.executed();
                    done.instructions += executed;
                    most = (BATCH_OPS / executed.max(1)).clamp(1, BATCH);
                    least = (LEAST_OPS / executed.max(1)).clamp(1, BATCH);
                    finished += 1;
                    if done.instructions > reserve.expected {
                        reserve.wake(shared);
                    }
                    if let Some(spare) = spare.replace(workgroup) {
                        keep(spares, spare);
                    }
                }
                Outcome::Fault(fault) => {
                    self.abort(*fault);
                    keep(spares, workgroup);
                }
                Outcome::Parked { idle } => {
                    if let Some(kind) = self.expired() {
                        let place = workgroup.place(kind);
                        self.abort(place);
                        keep(spares, workgroup);
                        break;
                    }
                    reserve.wake(shared);
                    let unstarted = std::mem::replace(&mut batch, 0..0);
                    let others = !unstarted.is_empty();
                    let in_flight = self.park(workgroup, idle, std::mem::take(&mut finished), unstarted);
                    if others {
                        // A thread that found nothing to do may have work again. With the lock, it has not yet looked, or it waits.
                        drop(shared.state.lock());
                        shared.wake.notify_one();
                    }
                    // All workgroups are waiting, perhaps for another thread or the host: yield, then sleep, instead of
                    // busy-waiting.
                    naps = if idle { naps + 1 } else { 0 };
                    if let Some(tired) = naps.checked_sub(64 + 4 * in_flight) {
                        std::thread::sleep(Duration::from_micros(tired.min(1000)));
                    } else if naps > 4 * in_flight {
                        std::thread::yield_now();
                    }
                }
            }
        }
        self.count(&done);
        if let Some(spare) = spare {
            keep(spares, spare);
        }
    }

    /// Starts workgroup `linear` in `spare` or other storage.
    fn start(&self, linear: u64, spare: Option<Box<Workgroup>>, spares: &Spares) -> Box<Workgroup> {
        let taken = spare.or_else(|| spares.lock().pop());
        let mut workgroup = taken.unwrap_or_else(|| Box::new(Workgroup::new(self)));
        workgroup.start(self, linear);
        workgroup
    }

    fn fault(&self, kind: FaultKind) -> Fault {
        Fault {
            kind,
            kernel: self.kernel.name().into(),
            pc: 0,
            offset: 0,
            instruction: Box::default(),
            workgroup: [0; 3],
            work_item: None,
        }
    }
}

fn keep(spares: &Spares, workgroup: Box<Workgroup>) {
    let mut spares = spares.lock();
    if spares.len() < SPARES && workgroup.bytes() < 8 << 20 {
        spares.push(workgroup);
    }
}

/// CPU time that the calling thread has used, in nanoseconds.
fn thread_time() -> u64 {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: fills the struct passed to it; every Linux has this clock.
    unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Pool of threads that help with the grids in flight.
#[derive(Debug)]
pub(crate) struct Pool {
    shared: Arc<Shared>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<Work>,
    wake: Condvar,
    spares: Spares,
}

#[derive(Debug, Default)]
struct Work {
    grids: Vec<Arc<Grid>>,
    stop: bool,
    /// Index at which the next search for work starts, so that grids take turns.
    turn: usize,
    /// Number of threads to be woken, by those that are awake.
    wanted: u64,
}

impl Work {
    /// Takes the number of threads that one thread is to wake.
    fn take_wanted(&mut self) -> u64 {
        let taken = self.wanted.min(FAN_OUT);
        self.wanted -= taken;
        taken
    }
}

impl Pool {
    /// Creates a pool for `threads` threads in total, one of which is the caller of [`Pool::run`]. If the system refuses a
    /// thread, the pool has fewer; the caller's suffices.
    pub fn new(threads: usize) -> Pool {
        let shared = Arc::new(Shared::default());
        let threads = (1..threads)
            .map_while(|index| {
                let shared = shared.clone();
                std::thread::Builder::new().name(format!("gpu-{index}")).spawn(move || shared.serve()).ok()
            })
            .collect();
        Pool { shared, threads }
    }

    /// Runs a grid to completion on the calling thread and the pool's idle threads.
    pub fn run(&self, grid: &Arc<Grid>) {
        let shared = &self.shared;
        let total = grid.schedule.total;
        let waves = total.saturating_mul(grid.schedule.waves);
        let most = if waves < WORTH_WAKING { 0 } else { (self.threads.len() as u64).min(total - 1) };
        let expected = grid.kernel.expected_instructions(total);
        let now = most.min(expected / HELPER_OPS);
        let mut reserve = Reserve { expected, threads: most - now, grid: None };
        if now > 0 {
            shared.enlist(grid, now);
        } else if most > 0 {
            reserve.grid = Some(grid.clone());
        }
        grid.work(shared, &mut reserve);
        let with_help = most > 0 && reserve.grid.is_none();
        if with_help {
            shared.state.lock().grids.retain(|other| !Arc::ptr_eq(other, grid));
            let mut state = grid.schedule.state.lock();
            while state.active > 0 {
                grid.schedule.ended.wait(&mut state);
            }
        }
        // Workgroups left parked by an abort hold pointers to the grid, so drop them first.
        let left = std::mem::take(&mut grid.schedule.state.lock().parked);
        drop(left);
    }
}

/// Threads that a launch has not woken, because it expects to end before they could help.
struct Reserve {
    /// Instructions that all threads together are expected to execute.
    expected: u64,
    threads: u64,
    /// The grid, while no other thread knows it.
    grid: Option<Arc<Grid>>,
}

impl Reserve {
    fn none() -> Reserve {
        Reserve { expected: u64::MAX, threads: 0, grid: None }
    }

    /// Wakes the threads that are left.
    #[inline]
    fn wake(&mut self, shared: &Shared) {
        let threads = std::mem::take(&mut self.threads);
        if threads == 0 {
            return;
        }
        match self.grid.take() {
            Some(grid) => shared.enlist(&grid, threads),
            None => shared.call(|work| work.wanted += threads),
        }
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        self.shared.state.lock().stop = true;
        self.shared.wake.notify_all();
        for thread in self.threads.drain(..) {
            // A thread that panicked has already reported it as a fault.
            let _ = thread.join();
        }
    }
}

impl Shared {
    /// Offers a grid to the pool, and wakes some of its threads.
    fn enlist(&self, grid: &Arc<Grid>, threads: u64) {
        self.call(|work| {
            work.grids.push(grid.clone());
            work.wanted += threads;
        });
    }

    /// Changes the work, and wakes the first of the threads that are wanted.
    fn call(&self, change: impl FnOnce(&mut Work)) {
        let mut work = self.state.lock();
        change(&mut work);
        let threads = work.take_wanted();
        drop(work);
        self.notify(threads);
    }

    fn notify(&self, threads: u64) {
        for _ in 0..threads {
            self.wake.notify_one();
        }
    }

    fn serve(&self) {
        let mut work = self.state.lock();
        loop {
            if work.stop {
                return;
            }
            let count = work.grids.len();
            let found = (0..count)
                .map(|k| (work.turn + k) % count)
                .find(|at| work.grids[*at].wants_help())
                .map(|at| (at, work.grids[at].clone()));
            match found {
                Some((at, grid)) => {
                    work.turn = at + 1;
                    let others = work.take_wanted();
                    // The launch may end before this thread starts working on it; then `pick` returns nothing.
                    drop(work);
                    self.notify(others);
                    grid.help(self);
                    drop(grid);
                    work = self.state.lock();
                }
                None => {
                    work.wanted = 0;
                    self.wake.wait(&mut work);
                }
            }
        }
    }
}
