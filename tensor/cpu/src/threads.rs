//! The device's thread pool: started on first use, and restarted after a fork, because the parent's threads do not exist in the
//! child.

use std::sync::{Arc, Mutex};

use crate::level::Level;
use crate::thread_pool::ThreadPool;

/// Nanoseconds of work, approximately, below which waking threads costs more than it saves.
const WORTH: usize = 40_000;

/// The maximum number of threads, and the instruction level they use.
#[derive(Debug)]
pub struct Threads {
    pool: Mutex<Option<(u32, Arc<ThreadPool>)>>,
    most: usize,
    level: Level,
}

impl Threads {
    /// Limits the threads to `most`; by default one for each CPU.
    pub fn new(most: Option<usize>, level: Level) -> Threads {
        let processors = std::thread::available_parallelism().map_or(1, usize::from);
        Threads { pool: Mutex::default(), most: most.unwrap_or(processors).max(1), level }
    }

    pub fn level(&self) -> Level {
        self.level
    }

    /// Runs `task` for every number below `count`, in any order, on several threads if the whole work is worth it. `cost` is an
    /// estimate in nanoseconds.
    pub fn each(&self, count: usize, cost: usize, task: impl Fn(usize) + Sync) {
        if count > 1
            && cost >= WORTH
            && self.most > 1
            && let Some(pool) = self.pool()
        {
            pool.each(count, &task);
        } else {
            (0..count).for_each(task);
        }
    }

    /// Returns how many of `all` items a task should have, at most `most`: all of them if several threads are not worthwhile.
    pub fn share(&self, all: usize, cost: usize, most: usize) -> usize {
        let count = if cost < WORTH { 1 } else { self.most };
        if count == 1 { all } else { all.div_ceil(count * 4).min(most) }.max(1)
    }

    /// Returns the number of threads.
    pub fn count(&self) -> usize {
        self.most
    }

    fn pool(&self) -> Option<Arc<ThreadPool>> {
        let process = std::process::id();
        let mut held = self.pool.lock().ok()?;
        match &*held {
            Some((owner, pool)) if *owner == process => return Some(pool.clone()),
            _ => {}
        }
        let pool = Arc::new(ThreadPool::new(self.most - 1)?);
        // Leak the parent's pool: dropping it would join threads that do not exist in this process.
        std::mem::forget(held.replace((process, pool.clone())));
        Some(pool)
    }
}

/// A pointer shared by tasks; each task writes a disjoint part.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T>(*mut T);

// SAFETY: it is only an address; every dereference has its own safety argument.
unsafe impl<T> Send for Shared<T> {}
// SAFETY: as above.
unsafe impl<T> Sync for Shared<T> {}

impl<T> Shared<T> {
    pub fn new(pointer: *mut T) -> Shared<T> {
        Shared(pointer)
    }

    pub fn get(&self) -> *mut T {
        self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn every_task_is_done_once() {
        let threads = Threads::new(Some(3), Level::Plain);
        for cost in [0, usize::MAX] {
            let seen: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            threads.each(100, cost, |n| {
                seen[n].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
