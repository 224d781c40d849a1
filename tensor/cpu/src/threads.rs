//! The device's own threads: made when first needed, and made again in a process that was forked, where the parent's do not exist.

use std::sync::{Arc, Mutex};

use rayon::ThreadPool;
use rayon::iter::{IntoParallelIterator, ParallelIterator};

/// Below this many nanoseconds of work, roughly, waking threads costs more than they save.
const WORTH: usize = 40_000;

#[derive(Debug, Default)]
pub struct Threads {
    pool: Mutex<Option<(u32, Arc<ThreadPool>)>>,
}

impl Threads {
    /// Does `task` for every number below `count`, in any order, on several threads if the whole work is worth it. `cost` is a guess in
    /// nanoseconds.
    pub fn each(&self, count: usize, cost: usize, task: impl Fn(usize) + Sync) {
        self.spread(count, cost, &task);
    }

    /// Once for all tasks: what rayon makes of each closure is long.
    fn spread(&self, count: usize, cost: usize, task: &(dyn Fn(usize) + Sync)) {
        if count > 1
            && cost >= WORTH
            && let Some(pool) = self.pool()
            && pool.current_num_threads() > 1
        {
            pool.install(|| (0..count).into_par_iter().for_each(task));
        } else {
            (0..count).for_each(task);
        }
    }

    /// How many of `all` a task should have, at most `most`: all of them if they are not worth several threads.
    pub fn share(&self, all: usize, cost: usize, most: usize) -> usize {
        let count = if cost < WORTH { 1 } else { self.count() };
        if count == 1 { all } else { all.div_ceil(count * 4).min(most) }.max(1)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.pool().map_or(1, |pool| pool.current_num_threads())
    }

    fn pool(&self) -> Option<Arc<ThreadPool>> {
        let process = std::process::id();
        let mut held = self.pool.lock().ok()?;
        match &*held {
            Some((owner, pool)) if *owner == process => return Some(pool.clone()),
            _ => {}
        }
        let named = |number| format!("tensor-cpu-{number}");
        let pool = Arc::new(rayon::ThreadPoolBuilder::new().thread_name(named).build().ok()?);
        // The parent's pool has no threads here that could end it.
        std::mem::forget(held.replace((process, pool.clone())));
        Some(pool)
    }
}

/// A pointer that tasks share; each writes a part of its own.
#[derive(Clone, Copy, Debug)]
pub struct Shared<T>(*mut T);

// SAFETY: it is only an address; every use is argued where it is dereferenced.
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
        let threads = Threads::default();
        for cost in [0, usize::MAX] {
            let seen: Vec<_> = (0..100).map(|_| AtomicUsize::new(0)).collect();
            threads.each(100, cost, |n| {
                seen[n].fetch_add(1, Ordering::Relaxed);
            });
            assert!(seen.iter().all(|count| count.load(Ordering::Relaxed) == 1));
        }
    }
}
