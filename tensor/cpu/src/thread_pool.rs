//! A thread pool for one job at a time. The calling thread works on its job too, so only the helpers have to be woken. Helpers
//! spin for a moment before they sleep, because steps of one evaluation follow one another closely.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use smallvec::SmallVec;

/// How long a helper spins for the next job, and the caller for the last helper, before it sleeps.
const PATIENCE: Duration = Duration::from_micros(50);

/// A thread pool.
#[derive(Debug)]
pub struct ThreadPool {
    queue: Arc<JobQueue>,
    helpers: Vec<JoinHandle<()>>,
    /// Held by the thread that runs a job.
    turn: Mutex<()>,
}

/// The queue of one job at a time, through which helpers get jobs.
#[derive(Debug, Default)]
struct JobQueue {
    /// A copy of `JobState::number`, for helpers that spin without the lock.
    number: AtomicUsize,
    state: Mutex<JobState>,
    begun: Condvar,
    left: Condvar,
}

/// What helpers wait for.
#[derive(Debug, Default)]
struct JobState {
    /// The number of jobs so far.
    number: usize,
    job: Option<Reference>,
    asleep: usize,
    over: bool,
}

/// A pointer to a job. The calling thread keeps the job alive until all helpers have left it.
#[derive(Clone, Copy, Debug)]
struct Reference(*const Job<'static>);

// SAFETY: only helpers that are counted in `Job::helpers` dereference it, and the calling thread waits for those.
unsafe impl Send for Reference {}

struct Job<'a> {
    task: &'a (dyn Fn(usize) + Sync),
    /// Task ranges, one for the calling thread and one for each helper. A thread gets the same range of every job, so that it
    /// finds the data in its own CPU cache.
    parts: SmallVec<[Part; 8]>,
    helpers: AtomicUsize,
    /// The first panic of a task.
    failure: Mutex<Option<Box<dyn Any + Send>>>,
}

/// A range of tasks, on its own cache line to avoid false sharing.
#[repr(align(64))]
struct Part {
    next: AtomicUsize,
    end: usize,
}

impl<'a> Job<'a> {
    fn new(task: &'a (dyn Fn(usize) + Sync), count: usize, workers: usize) -> Job<'a> {
        let part = |number: usize| Part {
            next: AtomicUsize::new(count * number / workers),
            end: count * (number + 1) / workers,
        };
        Job {
            task,
            parts: (0..workers).map(part).collect(),
            helpers: AtomicUsize::new(0),
            failure: Mutex::default(),
        }
    }

    /// Runs tasks until none is left: first those of the worker's own part, then remaining tasks of the other parts.
    fn work(&self, worker: usize) {
        let done = catch_unwind(AssertUnwindSafe(|| {
            let (others, own) = self.parts.split_at(worker);
            for part in own.iter().chain(others) {
                loop {
                    let number = part.next.fetch_add(1, Ordering::Relaxed);
                    if number >= part.end {
                        break;
                    }
                    (self.task)(number);
                }
            }
        }));
        if let Err(failure) = done {
            self.parts.iter().for_each(|part| part.next.store(part.end, Ordering::Relaxed));
            self.failure.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(failure);
        }
    }
}

impl ThreadPool {
    /// Starts `helpers` threads; `None` if the system cannot create them.
    pub fn new(helpers: usize) -> Option<ThreadPool> {
        let queue = Arc::new(JobQueue::default());
        let helpers = (0..helpers)
            .map(|number| {
                let queue = queue.clone();
                std::thread::Builder::new()
                    .name(format!("tensor-cpu-{number}"))
                    .spawn(move || queue.help(number + 1))
                    .ok()
            })
            .collect::<Option<Vec<_>>>();
        match helpers {
            Some(helpers) => Some(ThreadPool { queue, helpers, turn: Mutex::default() }),
            None => {
                queue.end();
                None
            }
        }
    }

    /// Runs `task` for every number below `count`, in any order. Inside another job, or while another thread runs one, the
    /// calling thread runs all tasks itself.
    pub fn each(&self, count: usize, task: &(dyn Fn(usize) + Sync)) {
        let Ok(turn) = self.turn.try_lock() else {
            return (0..count).for_each(task);
        };
        let job = Job::new(task, count, self.helpers.len() + 1);
        self.queue.begin(&job, count);
        job.work(0);
        self.queue.finish(&job);
        if let Some(failure) = job.failure.into_inner().unwrap_or_else(PoisonError::into_inner) {
            drop(turn);
            resume_unwind(failure);
        }
    }
}

impl Drop for ThreadPool {
    fn drop(&mut self) {
        self.queue.end();
        for helper in self.helpers.drain(..) {
            // Panics of tasks were caught, and helper threads do not panic otherwise.
            let _ = helper.join();
        }
    }
}

impl JobQueue {
    fn state(&self) -> MutexGuard<'_, JobState> {
        // No code panics while it holds this lock.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn begin(&self, job: &Job<'_>, count: usize) {
        let mut state = self.state();
        state.number = state.number.wrapping_add(1);
        state.job = Some(Reference(std::ptr::from_ref(job).cast()));
        self.number.store(state.number, Ordering::Release);
        let asleep = state.asleep;
        drop(state);
        for _ in 0..asleep.min(count.saturating_sub(1)) {
            self.begun.notify_one();
        }
    }

    /// Withdraws the job, and waits until no helper is in it.
    fn finish(&self, job: &Job<'_>) {
        self.state().job = None;
        let since = Instant::now();
        while job.helpers.load(Ordering::Acquire) > 0 {
            if since.elapsed() < PATIENCE {
                std::hint::spin_loop();
                continue;
            }
            let mut state = self.state();
            while job.helpers.load(Ordering::Acquire) > 0 {
                state = self.left.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
        }
    }

    fn end(&self) {
        self.state().over = true;
        self.begun.notify_all();
    }

    /// The main loop of a helper thread.
    fn help(&self, worker: usize) {
        let mut seen = 0;
        while let Some(Reference(job)) = self.next(&mut seen) {
            // SAFETY: this helper is counted in `Job::helpers`, and the calling thread waits until the count is zero.
            let job = unsafe { &*job };
            job.work(worker);
            if job.helpers.fetch_sub(1, Ordering::Release) == 1 {
                // The job may be freed by now, and its caller may be about to sleep. Taking the lock orders this notification
                // after the caller either started to wait or saw the count.
                drop(self.state());
                self.left.notify_one();
            }
        }
    }

    /// Returns the next job that this helper has not seen; `None` when the pool shuts down.
    fn next(&self, seen: &mut usize) -> Option<Reference> {
        let since = Instant::now();
        while self.number.load(Ordering::Acquire) == *seen && since.elapsed() < PATIENCE {
            std::hint::spin_loop();
        }
        let mut state = self.state();
        loop {
            if state.over {
                return None;
            }
            if state.number != *seen {
                *seen = state.number;
                if let Some(job) = state.job {
                    // SAFETY: the calling thread withdraws the job before freeing it, and cannot withdraw it while this lock is
                    // held.
                    unsafe { &*job.0 }.helpers.fetch_add(1, Ordering::Relaxed);
                    return Some(job);
                }
            }
            state.asleep += 1;
            state = self.begun.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.asleep -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_of_many_jobs_is_done_once() {
        let pool = ThreadPool::new(3).unwrap();
        for round in 0..200 {
            let seen: Vec<_> = (0..round % 7 + 2).map(|_| AtomicUsize::new(0)).collect();
            pool.each(seen.len(), &|n| {
                seen[n].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }

    #[test]
    fn a_job_inside_of_a_job_is_done_by_the_one_who_has_it() {
        let pool = ThreadPool::new(2).unwrap();
        let sum = AtomicUsize::new(0);
        pool.each(4, &|_| {
            pool.each(5, &|n| {
                sum.fetch_add(n, Ordering::Relaxed);
            });
        });
        assert_eq!(sum.load(Ordering::Relaxed), 40);
    }

    #[test]
    fn a_panic_reaches_the_owner_and_the_pool_goes_on() {
        let pool = ThreadPool::new(2).unwrap();
        let failed = catch_unwind(AssertUnwindSafe(|| {
            pool.each(50, &|n| assert!(n != 20, "the twentieth fails"));
        }));
        assert!(failed.is_err());
        let count = AtomicUsize::new(0);
        pool.each(50, &|_| {
            count.fetch_add(1, Ordering::Relaxed);
        });
        assert_eq!(count.load(Ordering::Relaxed), 50);
    }
}
